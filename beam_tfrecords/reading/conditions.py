"""Evaluates conditions over index columns and columns of the layout, and finds the rows that satisfy them.

A text is rewritten from SQL's syntax to Python's, which can parse it.
"""

from __future__ import annotations

import ast
import dataclasses
import io
import itertools
import operator
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.fields import COLUMN
from beam_tfrecords.nearest import did_you_mean
from beam_tfrecords.reading.index_files import ShardCache, read_index
from beam_tfrecords.reading.record_columns import LABELS, SCHEMA, RecordColumns, join_labels

# Operator of SQL -> operator of Python that replaces it while a condition is parsed; no condition uses these itself.
_OF_SQL = {"=": "==", "<>": "!=", "like": "@"}
_NOT_LIKE = "//"
# Function that replaces `between`: `x between 1 and 3` is parsed as `x in between(1, 3)`.
_BETWEEN = "between"
_CAPITALS = frozenset(("AND", "OR", "NOT", "IN", "IS", "LIKE", "BETWEEN"))
_NULLS = frozenset(("NULL", "NONE", "null"))
# A text in quotes; in SQL, a doubled quote stands for one.
_TEXT = re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")

# Kind of a token, and its text.
_Token = tuple[int, str]


class SyntaxProblem(Exception):
    """A part of a condition is not supported."""


def to_python(text: str) -> str:
    """Rewrites a condition in Python's syntax.

    Raises:
      SyntaxProblem: there is no operator between two texts, or the bounds of `between` are incomplete.
      SyntaxError, tokenize.TokenError: it cannot be split into tokens.
    """
    tokens = list(tokenize.generate_tokens(io.StringIO(_TEXT.sub(_undouble, text.strip())).readline))
    if any(one.type == other.type == tokenize.STRING for one, other in itertools.pairwise(tokens)):
        raise SyntaxProblem("there is no operator between two texts")
    words = _lower(tokens)
    # In SQL, ('cat') is a list.
    for index in range(len(words) - 4, -1, -1):
        if [word for _, word in words[index : index + 2]] == ["in", "("] and words[index + 3][1] == ")":
            words.insert(index + 3, (tokenize.OP, ","))
    # The last one first, because its bounds may be within those of another.
    for index in reversed([index for index, word in enumerate(words) if word == (tokenize.NAME, _BETWEEN)]):
        _rewrite_between(words, index)
    # `not like` is one operator.
    negated = {index for index, pair in enumerate(itertools.pairwise(words)) if [w for _, w in pair] == ["not", "@"]}
    return tokenize.untokenize(
        (kind, _NOT_LIKE if index in negated else word)
        for index, (kind, word) in enumerate(words)
        if index - 1 not in negated
    )


def to_sql(text: str) -> str:
    """Returns a part of a condition as a user would write it."""
    text = re.sub(rf"(.+) in {_BETWEEN}\((.+), (.+)\)", r"\1 between \2 and \3", text)
    return text.replace(" @ ", " like ").replace(f" {_NOT_LIKE} ", " not like ")


def _rewrite_between(words: list[_Token], index: int) -> None:
    """Rewrites `between A and B` at an index as `in between(A, B)`."""
    middle = _find_end(words, index + 1, {"and"})
    if middle is None or words[middle][1] != "and":
        raise SyntaxProblem("between has no second bound, as in height between 10 and 20")
    end = _find_end(words, middle + 1, {"and", "or"})
    words.insert(len(words) if end is None else end, (tokenize.OP, ")"))
    words[middle] = tokenize.OP, ","
    words[index : index + 1] = [(tokenize.NAME, "in"), (tokenize.NAME, _BETWEEN), (tokenize.OP, "(")]


def _find_end(words: Sequence[_Token], start: int, ends: set[str]) -> int | None:
    """Returns the index of the first of some words, or of the end of the parentheses that are open at the start."""
    depth = 0
    for index in range(start, len(words)):
        kind, word = words[index]
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0 or (depth == 0 and word in ends) or kind in (tokenize.NEWLINE, tokenize.ENDMARKER):
            return index
    return None


def _undouble(found: re.Match[str]) -> str:
    quote, inside = found[0][0], found[0][1:-1]
    return f"{quote}{inside.replace(2 * quote, chr(92) + quote)}{quote}"


def _lower(tokens: Sequence[tokenize.TokenInfo]) -> list[_Token]:
    """Returns the tokens of a condition; converts SQL keywords, which may be in capitals, to Python's."""
    words: list[_Token] = []
    for kind, word, *_ in tokens:
        before = words[-1][1] if words else ""
        if (before, word) == ("<", ">"):
            # Before Python 3.12, `<>` is two tokens.
            words[-1] = kind, "!="
            continue
        if before != ".":
            word = "None" if word in _NULLS else word.lower() if word in _CAPITALS else word
        words.append((kind, _OF_SQL.get(word, word)))
    return words


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


class _UnknownColumnError(SyntaxProblem):
    """A condition names a column that is not there."""


class _UnknownClassError(SyntaxProblem):
    """A condition names a class that is not there."""


def make_condition(
    condition: pc.Expression | str | None = None,
    schema: pa.Schema = SCHEMA,
    class_names: Collection[str] = (),
    /,
    **equals: Any,
) -> pc.Expression:
    """Parses a condition, and checks it against the available columns.

    Args:
      condition: a pyarrow expression, or text such as "label = 'cat' and sharpness < 20": columns, numbers, strings
        and lists of them, compared by = != < <= > >= in, between, like, is None, joined by and, or, not, + - *. As in
        SQL, a comparison with a missing value is neither true nor false. A column of the layout is named `column.NAME`,
        or `NAME` if the index has no such column.
      schema: from `condition_schema`.
      class_names: the classes, of which a condition on the label may name a misspelled one.
      equals: column -> required value, or list of allowed values.

    Raises:
      RequestError: the text cannot be parsed, a column is not in the index or has another type, or a class is
        misspelled.
    """
    if not isinstance(condition, str | pc.Expression | None):
        raise RequestError(
            f"the condition is a value of type {type(condition).__name__}; expected text such as {_EXAMPLE}, "
            "columns such as filter(label='cat'), or truth values such as records[records['label'] == 0]",
            code="invalid_condition",
        )
    language = _Language(schema, class_names)
    parsed = language.parse(condition) if isinstance(condition, str) else condition
    try:
        for name, value in equals.items():
            column = language.column(name)
            value = value.tolist() if isinstance(value, np.ndarray) else value
            is_list = isinstance(value, list | tuple | set | frozenset | range)
            language.check_classes(name, list(value) if is_list else [value])
            one = _is_among(column, list(value)) if is_list else language.compare(ast.Eq, column, _literal(value))
            parsed = one if parsed is None else parsed & one
        if parsed is None:
            return pc.scalar(True)
        kind = language.type_of(parsed)
        if kind != pa.bool_():
            raise TypeError(f"it is a value of type {kind}, not a comparison")
    except (pa.ArrowException, TypeError, OverflowError, SyntaxProblem) as error:
        asked = " and ".join(f"{name} == {value!r}" for name, value in equals.items())
        raise _refusal(
            condition if isinstance(condition, str) else asked if parsed is None else str(parsed), error, schema
        ) from error
    return parsed


def names_in(condition: pc.Expression, schema: pa.Schema) -> list[str]:
    """Returns the columns that a condition names; may include columns whose names are part of other text in it."""
    text = str(condition)
    return [name for name in schema.names if name in text]


def split_condition(text: str) -> list[str]:
    """Splits a condition at its top-level `and`s; a row satisfies it if it satisfies each part."""
    try:
        node = ast.parse(to_python(text), mode="eval").body
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, SyntaxProblem):
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
    records: RecordColumns | None = None,
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
    schema = records.schema if records else SCHEMA
    found, start = [np.empty(0, np.int64)], 0
    for count, columns in _read_columns(path, shard, names_in(condition, schema), records, cache):
        try:
            passes = fulfils(condition, columns, count, schema=schema)
        except pa.ArrowInvalid as error:
            # Arrow detects a number that is too large only when it compares the values.
            raise _refusal(str(condition), ValueError(f"{shard.index}: {error}")) from error
        found.append(start + np.flatnonzero(passes))
        start += count
    return np.concatenate(found)


def read_rows(
    path: str,
    shard: Shard,
    names: Sequence[str] | None,
    records: RecordColumns,
    *,
    cache: ShardCache | None = None,
) -> pa.Table:
    """Returns columns of all records of a shard; None for the columns of the index.

    Raises:
      RequestError: a column does not exist.
      BuildError: as `find_rows`.
    """
    fields = [field for field in records.schema if _is_indexed(field.name)]
    if names is not None:
        found = [COLUMN + name if COLUMN + name in records.schema.names else name for name in names]
        unknown = next((name for name in found if name not in records.schema.names), None)
        if unknown is not None:
            raise _refusal(unknown, _unknown_column(unknown, records.schema.names), records.schema)
        fields = [records.schema.field(name) for name in found]
    schema = pa.schema([field.with_name(field.name.removeprefix(COLUMN)) for field in fields])
    tables = []
    for count, columns in _read_columns(path, shard, [field.name for field in fields], records, cache):
        arrays = [_as_column(columns.get(field.name), field.type, count) for field in fields]
        tables.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(tables)


def _read_columns(
    path: str, shard: Shard, names: Sequence[str], records: RecordColumns | None, cache: ShardCache | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of rows and the columns of each part of a shard; columns that the shard lacks are left out.

    Reads the records only for columns that the index lacks.
    """
    unindexed = [name for name in names if not _is_indexed(name)]
    read = records.read(path, shard, unindexed) if records and unindexed else None
    indexed = [name for name in names if _is_indexed(name) and name != "split"] or ["offset"]
    start = 0
    for rows in read_index(path, shard, indexed, cache=cache):
        count = rows.num_rows
        columns: dict[str, Any] = {} if read is None else {name: read[name].slice(start, count) for name in unindexed}
        columns |= {name: rows[name] for name in indexed if name in rows.schema.names}
        yield count, columns | {"split": pa.repeat(shard.split, count)}
        start += count


def _is_indexed(name: str) -> bool:
    return name != LABELS and not name.startswith(COLUMN)


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


@dataclasses.dataclass(frozen=True)
class _Language:
    """Parses the text of a condition over columns, and checks the classes that it names."""

    schema: pa.Schema
    class_names: Collection[str]

    def parse(self, text: str) -> pc.Expression:
        try:
            parsed = ast.parse(to_python(text), mode="eval").body
            for node in ast.walk(parsed):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.In):
                    names = [one.id for one in (node.left, *node.comparators) if isinstance(one, ast.Name)]
                    words = [one.value for one in ast.walk(node) if isinstance(one, ast.Constant)]
                    self.check_classes(next(iter(names), ""), words)
            return self._read(parsed)
        except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, SyntaxProblem) as error:
            problem = error if isinstance(error, SyntaxProblem) else SyntaxProblem("it cannot be read")
            raise _refusal(text, problem, self.schema) from error
        except (TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
            problem = SyntaxProblem("it does not compare a column with a value")
            raise _refusal(text, problem, self.schema) from error

    def column(self, name: str) -> pc.Expression:
        names = self.schema.names
        if name in names and name != LABELS:
            return pc.field(name)
        if COLUMN + name in names:
            return pc.field(COLUMN + name)
        if name == LABELS:
            raise _UnknownColumnError(
                "the index has no column 'labels'; expected label = 'cat', or 'cat' in labels for several labels"
            )
        raise _unknown_column(name, names)

    def check_classes(self, column: str, values: Iterable[Any]) -> None:
        """Refuses a text that the label is compared with if it is a misspelled class."""
        for value in values if column in ("label", LABELS) else ():
            is_known = not isinstance(value, str) or value in self.class_names
            if not is_known and (hint := did_you_mean(value, self.class_names)):
                raise _UnknownClassError(f"there is no class {value!r}; {hint}")

    def compare(self, op: type[ast.AST], left: Any, right: Any) -> pc.Expression:
        if left is None:
            left, right = right, left
        if right is None:
            if op not in (ast.Eq, ast.Is, ast.NotEq, ast.IsNot) or left is None:
                raise SyntaxProblem("None cannot be compared by size; write `is None` or `is not None`")
            return left.is_null() if op in (ast.Eq, ast.Is) else left.is_valid()
        if self._is_text(left) != self._is_text(right):
            raise SyntaxProblem(
                "it compares a text with another kind of value; texts have quotes, and numbers have none"
            )
        return _OPERATORS[op](self._rounded(left, right), self._rounded(right, left))

    def _is_text(self, value: pc.Expression) -> bool:
        kind = self.type_of(value)
        return pa.types.is_string(kind) or pa.types.is_large_string(kind)

    def type_of(self, value: pc.Expression) -> pa.DataType:
        return _evaluate(value, self.schema.empty_table()).type

    def _rounded(self, value: pc.Expression, other: pc.Expression) -> pc.Expression:
        """Rounds a number to the precision of the compared column: float32 cannot represent 0.1 exactly."""
        if self.type_of(value) == pa.float64() and self.type_of(other) == pa.float32():
            return value.cast(pa.float32())
        return value

    def _read(self, node: ast.expr) -> Any:
        if (number := _compute(node)) is not None:
            return _literal(number)
        match node:
            case ast.Name(id=name):
                return self.column(name)
            case ast.Attribute(value=ast.Name(id="column"), attr=name):
                return self.column(COLUMN + name)
            case ast.Constant(value=str() | int() | float() as value):
                return _literal(value)
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
                sides = (None if ast.unparse(side) == "None" else self._read(side) for side in (left, right))
                return self.compare(type(op), *sides)
        raise SyntaxProblem(f"{to_sql(ast.unparse(node))!r} is not understood")

    def _read_membership(self, node: ast.Compare) -> pc.Expression:
        """Reads `label in ('cat', 'dog')`, or `'cat' in labels`."""
        match node:
            case ast.Compare(left=left, comparators=[ast.Tuple() | ast.List() as values]):
                found = _is_in(self._read(left), ast.literal_eval(values))
            case ast.Compare(left=left, comparators=[ast.Call(func=ast.Name(id=name), args=[first, last])]) if (
                name == _BETWEEN
            ):
                value, low, high = map(self._read, (left, first, last))
                found = self.compare(ast.GtE, value, low) & self.compare(ast.LtE, value, high)
            case ast.Compare(left=ast.Constant(value=str() as label), comparators=[ast.Name(id="labels")]):
                found = pc.match_substring(pc.field(LABELS), join_labels([label]))
            case _:
                raise SyntaxProblem(f"{to_sql(ast.unparse(node))!r} is not understood")
        return found if isinstance(node.ops[0], ast.In) else ~found


def _unknown_column(name: str, names: Sequence[str]) -> _UnknownColumnError:
    hint = did_you_mean(name, names, otherwise=f"it has: {', '.join(names)}")
    return _UnknownColumnError(f"the index has no column {name!r}; {hint}")


def _compute(node: ast.expr) -> Any:
    """Returns the value of an expression of numbers, with Python's unlimited integers; None for other expressions."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return None if (value := _compute(operand)) is None else -value
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            one, other = _compute(left), _compute(right)
            return None if one is None or other is None else _OPERATORS[type(op)](one, other)
    return None


def _literal(value: Any) -> Any:
    """Converts a value for a comparison; None stays None."""
    if type(value) is int and value >= 0:
        # Compared with a signed number, Arrow would read phash as signed too, and half of its values would not fit.
        return pc.scalar(pa.scalar(value, pa.uint64()))
    return value if value is None else pc.scalar(value)


def _is_in(column: pc.Expression, values: Sequence[Any]) -> pc.Expression:
    """Whether a value is one of several, as in SQL: null if the value is null, or may be the null among them."""
    if not values:
        return pc.scalar(False)
    known = [value for value in values if value is not None]
    found = _is_among(column, known)
    unknown = pc.scalar(pa.scalar(None, pa.bool_()))
    return pc.if_else(column.is_valid(), found if len(known) == len(values) else found | unknown, unknown)


def _is_among(column: pc.Expression, values: Sequence[Any]) -> pc.Expression:
    """Whether a value is one of several, which may include None."""
    if not values:
        return pc.scalar(False)
    is_unsigned = all(type(value) is int and value >= 0 for value in values)
    return column.isin(pa.array(values, pa.uint64() if is_unsigned else None))


def _refusal(text: str, error: Exception, schema: pa.Schema = SCHEMA) -> RequestError:
    problem, advice = str(error).partition("\n")[0], f"; expected a condition such as {_EXAMPLE}"
    if (bare := _BARE.search(text) or _BARE_LIST.search(text)) and bare[3] not in schema.names:
        column, op, value = bare.groups()
        quoted = repr(value)
        if op.lower().endswith("in"):
            quoted = f"({', '.join(repr(one.strip()) for one in value.split(','))})"
        problem, advice = f"a text needs quotes, {column} {op} {quoted}", ""
        problem += "; in a shell, put the other kind of quotes around the condition"
        if column == "label" and value.isdecimal():
            problem += f"; the label is the name of a class, which dataset.int2str({value}) returns for an index"
    elif isinstance(error, _UnknownClassError | _UnknownColumnError):
        advice = ""
    return RequestError(f"the condition {text} cannot be applied: {problem}{advice}", code="invalid_condition")
