"""Evaluates conditions over index columns and columns of the layout, and finds the rows that satisfy them."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import io
import itertools
import operator
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.layouts import COLUMN
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.reading.condition_columns import LABELS, SCHEMA, join_labels
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.reading.shard_cache import ShardCache

_EXAMPLE = "label = 'cat' and sharpness < 20"
# A string column compared with one or several unquoted words.
_TEXTS = "|".join(field.name for field in SCHEMA if field.type == pa.string())
_BARE = re.compile(rf"\b({_TEXTS})\s*(==?|!=|<>)\s*(?!(?i:None|null)\b)(\w[^'\",)\]]*?)\s*(?:$|[,)\]]|\b(?i:and|or)\b)")
_BARE_LIST = re.compile(rf"\b({_TEXTS})\s*((?i:(?:not\s+)?in))\b\s*[(\[]?\s*(\w[^'\")\]]*)")

_OPERATORS: Mapping[type[ast.AST], Callable[[Any, Any], pc.Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
# SQL operator -> Python operator that replaces it while a condition is parsed; no condition uses these itself.
_WORDS = {"=": "==", "<>": "!=", "like": "@"}
_CAPITALS = frozenset(("AND", "OR", "NOT", "IN", "IS", "LIKE", "NULL", "NONE"))


class ReadsColumns(Protocol):
    """Reads columns of records that the index lacks."""

    @property
    def schema(self) -> pa.Schema:
        """Columns that a condition may name."""

    def read(self, path: str, shard: Shard, names: Sequence[str]) -> pa.Table:
        """Returns these columns of all records of a shard."""


def make_condition(
    condition: pc.Expression | str | None = None, schema: pa.Schema = SCHEMA, /, **equals: Any
) -> pc.Expression:
    """Parses a condition, and checks it against the available columns.

    Args:
      condition: a pyarrow expression, or text such as "label = 'cat' and sharpness < 20": columns, numbers, strings
        and lists of them, compared by = != < <= > >= in, like, is None, joined by and, or, not, + - *. A column
        of the layout is named `column.NAME`, or `NAME` if the index has no such column.
      schema: from `condition_schema`.
      equals: column -> required value, or list of allowed values.

    Raises:
      RequestError: the text cannot be parsed, or a column is not in the index or has another type.
    """
    language = _Language(schema)
    parsed = language.parse(condition) if isinstance(condition, str) else condition
    try:
        for name, value in equals.items():
            column = language.column(name)
            is_list = isinstance(value, list | tuple | set | frozenset | range)
            one = _is_in(column, list(value)) if is_list else language.compare(ast.Eq, column, _literal(value))
            parsed = one if parsed is None else parsed & one
        if parsed is None:
            return pc.scalar(True)
        kind = language.type_of(parsed)
        if kind != pa.bool_():
            raise TypeError(f"it is a value of type {kind}, not a comparison")
    except (pa.ArrowException, TypeError, OverflowError, _UnreadableError) as error:
        raise _refusal(
            condition if isinstance(condition, str) else str(equals if parsed is None else parsed),
            str(error).partition("\n")[0],
            schema,
        ) from error
    return parsed


def names_in(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """Returns the columns that a condition names; may include columns whose names are part of other text in it."""
    text = str(condition)
    return [name for name in schema.names if name in text]


def split_condition(text: str) -> list[str]:
    """Splits a condition at its top-level `and`s; a row satisfies it if it satisfies each part."""
    try:
        node = ast.parse(_spell(text), mode="eval").body
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, _UnreadableError):
        return [text]  # `make_condition` says why
    return (
        [ast.unparse(one) for one in node.values]
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And)
        else [text]
    )


def find_rows(
    path: str,
    shard: Shard,
    condition: pc.Expression,
    records: ReadsColumns | None = None,
    *,
    cache: ShardCache | None = None,
) -> np.ndarray:
    """Returns the numbers of a shard's records that satisfy a condition; reads records only for unindexed columns.

    Args:
      path: folder of the dataset.
      shard: a shard with an index.
      condition: a condition from `make_condition`.
      records: reads unindexed columns, if the condition may name them.
      cache: keeps the index.

    Raises:
      RequestError: a number in the condition, or one that it computes, is too large.
      BuildError: the index or the shard differs from the manifest, or the index does not have one row per record.
    """
    named = names_in(condition, records.schema if records else SCHEMA)
    unindexed = [name for name in named if name == LABELS or name.startswith(COLUMN)]
    read = records.read(path, shard, unindexed) if records and unindexed else None
    names = [name for name in named if name not in (*unindexed, "split")] or ["offset"]
    found, start = [np.empty(0, np.int64)], 0
    for rows in read_index(path, shard, names, cache=cache):
        columns: dict[str, Any] = (
            {} if read is None else {name: read[name].slice(start, rows.num_rows) for name in unindexed}
        )
        columns |= {name: rows[name] for name in names if name in rows.schema.names}
        columns |= {"split": [shard.split] * rows.num_rows}
        try:
            passes = fulfils(condition, columns, rows.num_rows, schema=records.schema if records else SCHEMA)
        except pa.ArrowInvalid as error:
            # Arrow detects a number that is too large only when it compares the values.
            raise _refusal(str(condition), f"{shard.index}: {error}") from error
        found.append(start + np.flatnonzero(passes))
        start += rows.num_rows
    return np.concatenate(found)


def fulfils(
    condition: pc.Expression, columns: Mapping[str, Any], count: int, *, schema: pa.Schema = SCHEMA
) -> np.ndarray:
    """Returns [count] bool: which rows satisfy a condition.

    Args:
      condition: a condition from `make_condition`.
      columns: name -> values; a missing column is null.
      count: number of rows.
      schema: types of the columns.

    Raises:
      pyarrow.ArrowInvalid: a number is too large.
    """
    # The table needs a column even if the condition names none.
    fields = [schema.field(name) for name in names_in(condition, schema) or ["split"]]
    arrays = [_as_column(columns.get(field.name), field.type, count) for field in fields]
    passes = _evaluate(condition, pa.table(arrays, schema=pa.schema(fields)))
    return passes.fill_null(False).to_numpy()


def _as_column(values: Any, kind: pa.DataType, count: int) -> pa.Array | pa.ChunkedArray:
    if values is None:
        return pa.nulls(count, kind)
    return values.cast(kind) if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, kind)


def _evaluate(condition: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    """Evaluates a condition in this thread; returns a bool or null per row. See `read_columns`."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.Declaration("project", acero.ProjectNodeOptions([condition], ["passes"]), inputs=[source])
    return project.to_table(use_threads=False)["passes"]


def _spell(text: str) -> str:
    """Rewrites a condition in Python's syntax."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    if any(one.type == other.type == tokenize.STRING for one, other in itertools.pairwise(tokens)):
        # SQL's 'it''s' would be 'its' in Python.
        raise _UnreadableError("two texts have nothing between them; write a text with ' as \"it's\"")
    words = _lower(tokens)
    # In SQL, ('cat') is a list.
    for index in range(len(words) - 4, -1, -1):
        if [word for _, word in words[index : index + 2]] == ["in", "("] and words[index + 3][1] == ")":
            words.insert(index + 3, (tokenize.OP, ","))
    # `not like` is one operator.
    negated = {index for index, pair in enumerate(itertools.pairwise(words)) if [w for _, w in pair] == ["not", "@"]}
    return tokenize.untokenize(
        (kind, "//" if index in negated else word)
        for index, (kind, word) in enumerate(words)
        if index - 1 not in negated
    )


def _lower(tokens: Sequence[tokenize.TokenInfo]) -> list[tuple[int, str]]:
    """Returns the tokens of a condition; converts SQL keywords, which may be in capitals, to Python's."""
    words: list[tuple[int, str]] = []
    for kind, word, *_ in tokens:
        before = words[-1][1] if words else ""
        if (before, word) == ("<", ">"):
            # Before Python 3.12, `<>` is two tokens.
            words[-1] = kind, "!="
            continue
        if word in _CAPITALS and before != ".":
            word = "None" if word in ("NULL", "NONE") else word.lower()
        words.append((kind, _WORDS.get(word, word)))
    return words


class _UnreadableError(Exception):
    """A part of a condition is not supported."""


@dataclasses.dataclass(frozen=True)
class _Language:
    """Parses the text of a condition over columns."""

    schema: pa.Schema

    def parse(self, text: str) -> pc.Expression:
        try:
            return self._read(ast.parse(_spell(text), mode="eval").body)
        except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, _UnreadableError) as error:
            problem = str(error) if isinstance(error, _UnreadableError) else "it cannot be read"
            raise _refusal(text, problem, self.schema) from error
        except (TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
            raise _refusal(text, "it does not compare a column with a value", self.schema) from error

    def column(self, name: str) -> pc.Expression:
        names = self.schema.names
        if name in names and name != LABELS:
            return pc.field(name)
        if COLUMN + name in names:
            return pc.field(COLUMN + name)
        if name == LABELS:
            raise _UnreadableError(
                "the index has no column 'labels'; did you mean label? or 'cat' in labels, of several"
            )
        near = difflib.get_close_matches(name, names, n=1)
        raise _UnreadableError(f"the index has no column {name!r}" + (f"; did you mean {near[0]}?" if near else ""))

    def compare(self, op: type[ast.AST], left: Any, right: Any) -> pc.Expression:
        if left is None:
            left, right = right, left
        if right is None:
            if op not in (ast.Eq, ast.Is, ast.NotEq, ast.IsNot) or left is None:
                raise _UnreadableError(
                    "None is neither less nor greater than a value; write `is None` or `is not None`"
                )
            return left.is_null() if op in (ast.Eq, ast.Is) else left.is_valid()
        return _OPERATORS[op](self._rounded(left, right), self._rounded(right, left))

    def type_of(self, value: pc.Expression) -> pa.DataType:
        return _evaluate(value, self.schema.empty_table()).type

    def _rounded(self, value: pc.Expression, other: pc.Expression) -> pc.Expression:
        """Rounds a number to the precision of the compared column: float32 cannot represent 0.1 exactly."""
        if self.type_of(value) == pa.float64() and self.type_of(other) == pa.float32():
            return value.cast(pa.float32())
        return value

    def _read(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return self.column(name)
            case ast.Attribute(value=ast.Name(id="column"), attr=name):
                return self.column(COLUMN + name)
            case ast.Constant(value=str() | int() | float() as value):
                return _literal(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return pc.scalar(-number)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return ~self._read(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return pc.negate(self._read(operand))
            case ast.BinOp(
                left=left, op=ast.MatMult() | ast.FloorDiv() as op, right=ast.Constant(value=str() as pattern)
            ):
                found = pc.match_like(self._read(left), pattern)
                return found if isinstance(op, ast.MatMult) else ~found
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self._read(left), self._read(right))
            case ast.BoolOp(op=op, values=[first, *others]):
                joined = self._read(first)
                for other in others:
                    joined = _OPERATORS[type(op)](joined, self._read(other))
                return joined
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                return self._read_membership(node)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
                return self.compare(type(op), *(None if _is_null(side) else self._read(side) for side in (left, right)))
        raise _UnreadableError(f"{_show(node)!r} is not understood")

    def _read_membership(self, node: ast.Compare) -> pc.Expression:
        """Reads `label in ('cat', 'dog')`, or `'cat' in labels`."""
        match node:
            case ast.Compare(left=left, comparators=[ast.Tuple() | ast.List() as values]):
                found = _is_in(self._read(left), ast.literal_eval(values))
            case ast.Compare(left=ast.Constant(value=str() as label), comparators=[ast.Name(id="labels")]):
                found = pc.match_substring(pc.field(LABELS), join_labels([label]))
            case _:
                raise _UnreadableError(f"{_show(node)!r} is not understood")
        return found if isinstance(node.ops[0], ast.In) else ~found


def _show(node: ast.expr) -> str:
    return ast.unparse(node).replace(" @ ", " like ").replace(" // ", " not like ")


def _is_null(node: ast.expr) -> bool:
    return ast.unparse(node) in ("None", "null")


def _literal(value: Any) -> Any:
    """Converts a value for a comparison; None stays None."""
    if type(value) is int and value >= 0:
        # Compared with a signed number, Arrow would read phash as signed too, and half of its values would not fit.
        return pc.scalar(pa.scalar(value, pa.uint64()))
    return value if value is None else pc.scalar(value)


def _is_in(column: pc.Expression, values: Sequence[Any]) -> pc.Expression:
    if not values:
        return pc.scalar(False)
    is_unsigned = all(type(value) is int and value >= 0 for value in values)
    return column.isin(pa.array(values, pa.uint64() if is_unsigned else None))


def _refusal(text: str, problem: str, schema: pa.Schema = SCHEMA) -> RequestError:
    if (bare := _BARE.search(text) or _BARE_LIST.search(text)) and bare[3] not in schema.names:
        column, op, value = bare.groups()
        quoted = repr(value)
        if op.lower().endswith("in"):
            quoted = f"({', '.join(repr(one.strip()) for one in value.split(','))})"
        problem = (
            f"a text needs quotes, {column} {op} {quoted}; in a shell, quotes of the other kind around the condition "
            "keep them"
        )
    return RequestError(
        f"the condition {text} cannot be applied: {problem}; expected such as {_EXAMPLE}; the index has: "
        f"{', '.join(schema.names)}",
        code="invalid_condition",
    )
