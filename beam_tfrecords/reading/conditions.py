"""Conditions over index columns, and the rows that fulfil them; no record is read."""

from __future__ import annotations

import ast
import difflib
import io
import itertools
import operator
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from beam_tfrecords.errors import RequestError
from beam_tfrecords.index import INDEX_SCHEMA
from beam_tfrecords.manifest import Shard
from beam_tfrecords.reading.index_files import read_index

# What a condition may name. The split is that of the file.
_SCHEMA = pa.schema([*INDEX_SCHEMA, pa.field("split", pa.string())])
_EXAMPLE = "label = 'cat' and sharpness < 20"
# A column of texts that is compared with a word, or several, without quotes.
_TEXTS = "|".join(field.name for field in _SCHEMA if field.type == pa.string())
_BARE = re.compile(
    rf"\b({_TEXTS})\s*(==?|!=|(?:not\s+)?in\b)\s*[(\[]?\s*(?!None\b|null\b)(\w[^'\",)\]]*?)\s*(?:$|[,)\]]|\b(?:and|or)\b)"
)

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


def make_condition(condition: pc.Expression | str | None = None, **equals: Any) -> pc.Expression:
    """A condition, checked against the index columns.

    Args:
      condition: an expression of pyarrow, or a text such as "label = 'cat' and sharpness < 20": columns, numbers,
        texts and lists of them, compared by = != < <= > >= in, is None, joined by and, or, not, + - *.
      equals: column -> value, or list of values, that it must have.

    Raises:
      RequestError: the text cannot be read, or a column is not in the index or has another type.
    """
    parsed = _parse(condition) if isinstance(condition, str) else condition
    try:
        for name, value in equals.items():
            column = _column(name)
            is_list = isinstance(value, list | tuple | set | frozenset | range)
            one = _is_in(column, list(value)) if is_list else _compare(ast.Eq, column, _literal(value))
            parsed = one if parsed is None else parsed & one
        if parsed is None:
            return pc.scalar(True)
        kind = _evaluate(parsed, _SCHEMA.empty_table()).type
        if kind != pa.bool_():
            raise TypeError(f"it is a value of type {kind}, not a comparison")
    except (pa.ArrowException, TypeError, OverflowError, _UnreadableError) as error:
        raise _refusal(
            condition if isinstance(condition, str) else str(equals if parsed is None else parsed),
            str(error).partition("\n")[0],
        ) from error
    return parsed


def find_rows(path: str, shard: Shard, condition: pc.Expression) -> np.ndarray:
    """Numbers of a shard's records whose index rows fulfil a condition.

    Args:
      path: the dataset's folder.
      shard: a shard with an index.
      condition: as `make_condition` makes it.

    Raises:
      RequestError: a number of the condition, or one that it computes, is too large.
      BuildError: the index is not that of the manifest, or has not a row for each record.
    """
    # No more than the text of the condition may name; what an earlier version did not write is null.
    named = [field for field in _SCHEMA if field.name in str(condition)]
    names = [field.name for field in named if field.name != "split"] or ["offset"]
    found, start = [np.empty(0, np.int64)], 0
    for rows in read_index(path, shard, names):
        columns = {
            field.name: rows[field.name].cast(field.type)
            if field.name in rows.schema.names
            else pa.repeat(pa.scalar(shard.split if field.name == "split" else None, field.type), rows.num_rows)
            for field in named
        }
        try:
            passes = _evaluate(condition, pa.table(columns) if columns else pa.Table.from_batches([rows]))
        except pa.ArrowInvalid as error:
            # A number that is too large is known only where it meets the values.
            raise _refusal(str(condition), f"{shard.index}: {error}") from error
        found.append(start + np.flatnonzero(passes.fill_null(False).to_numpy()))
        start += rows.num_rows
    return np.concatenate(found)


def _evaluate(condition: pc.Expression, rows: pa.Table) -> pa.ChunkedArray:
    """Whether each row fulfils a condition, or null, found in this thread; see `read_columns`."""
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.Declaration("project", acero.ProjectNodeOptions([condition], ["passes"]), inputs=[source])
    return project.to_table(use_threads=False)["passes"]


def _parse(text: str) -> pc.Expression:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
        if any(one.type == other.type == tokenize.STRING for one, other in itertools.pairwise(tokens)):
            # SQL's 'it''s' is 'its' in Python.
            raise _UnreadableError("two texts have nothing between them; write a text with ' as \"it's\"")
        # SQL compares with one sign, Python with two.
        spelled = tokenize.untokenize((kind, "==" if word == "=" else word) for kind, word, *_ in tokens)
        return _read(ast.parse(spelled, mode="eval").body)
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, _UnreadableError) as error:
        raise _refusal(text, str(error) if isinstance(error, _UnreadableError) else "it cannot be read") from error
    except (TypeError, ValueError, AttributeError, OverflowError, pa.ArrowException) as error:
        raise _refusal(text, "it does not compare a column with a value") from error


class _UnreadableError(Exception):
    """A part of a condition is not of those that there are."""


def _read(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return _column(name)
        case ast.Constant(value=str() | int() | float() as value):
            return _literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return pc.scalar(-number)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_read(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return pc.negate(_read(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_read(left), _read(right))
        case ast.BoolOp(op=op, values=[first, *others]):
            joined = _read(first)
            for other in others:
                joined = _OPERATORS[type(op)](joined, _read(other))
            return joined
        case ast.Compare(
            left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Tuple() | ast.List() as values]
        ):
            found = _is_in(_read(left), ast.literal_eval(values))
            return found if isinstance(op, ast.In) else ~found
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _compare(type(op), *(None if _is_null(side) else _read(side) for side in (left, right)))
    raise _UnreadableError(f"{ast.unparse(node)!r} is not understood")


def _is_null(node: ast.expr) -> bool:
    return ast.unparse(node) in ("None", "null")


def _literal(value: Any) -> Any:
    """A value for a comparison; None as it is."""
    if type(value) is int and value >= 0:
        # With a signed number, Arrow reads phash as signed as well, and half of its values do not fit.
        return pc.scalar(pa.scalar(value, pa.uint64()))
    return value if value is None else pc.scalar(value)


def _compare(op: type[ast.AST], left: Any, right: Any) -> pc.Expression:
    if left is None:
        left, right = right, left
    if right is None:
        if op not in (ast.Eq, ast.Is, ast.NotEq, ast.IsNot) or left is None:
            raise _UnreadableError("None is neither less nor greater than a value; write `is None` or `is not None`")
        return left.is_null() if op in (ast.Eq, ast.Is) else left.is_valid()
    return _OPERATORS[op](_rounded(left, right), _rounded(right, left))


def _rounded(value: pc.Expression, other: pc.Expression) -> pc.Expression:
    """A number with the digits of what it is compared with: no float32 column has 0.1 itself."""
    if _type(value) == pa.float64() and _type(other) == pa.float32():
        return value.cast(pa.float32())
    return value


def _type(value: pc.Expression) -> pa.DataType:
    return _evaluate(value, _SCHEMA.empty_table()).type


def _is_in(column: pc.Expression, values: Sequence[Any]) -> pc.Expression:
    if not values:
        return pc.scalar(False)
    is_unsigned = all(type(value) is int and value >= 0 for value in values)
    return column.isin(pa.array(values, pa.uint64() if is_unsigned else None))


def _column(name: str) -> pc.Expression:
    if name not in _SCHEMA.names:
        near = difflib.get_close_matches(name, _SCHEMA.names, n=1)
        raise _UnreadableError(f"the index has no column {name!r}" + (f"; did you mean {near[0]}?" if near else ""))
    return pc.field(name)


def _refusal(text: str, problem: str) -> RequestError:
    if (bare := _BARE.search(text)) and bare[3] not in _SCHEMA.names:
        column, op, value = bare.groups()
        quoted = f"({value!r},)" if op.endswith("in") else repr(value)
        problem = (
            f"a text needs quotes, {column} {op} {quoted}; in a shell, quotes of the other kind around the condition "
            "keep them"
        )
    return RequestError(
        f"the condition {text} cannot be applied: {problem}; expected such as {_EXAMPLE}; the index has: "
        f"{', '.join(_SCHEMA.names)}"
    )
