"""Reads the cells of a row as keys, labels and feature values, and fills them into patterns of paths."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.labels import plain_label
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Scalar, Value
from beam_tfrecords.transforms.sources.names import is_utf8
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row

# A list as Python or NumPy prints it, and a quoted string in it.
_LIST = re.compile(r"\s*[\[(](.*)[\])]\s*", re.DOTALL)
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# Bytes that a message shows.
_SHOWN = 12
# The maximum length of a path on Linux.
_MOST_TEXT = 4096
# Floats that are not values, as Python reads and writes them.
_NOT_FINITE = frozenset({"nan", "inf", "infinity"})


def read_cell(feature: tuple[str, list[Any]] | None) -> Value:
    """Converts a feature of an example to a cell; returns None if it has no value."""
    values = feature[1] if feature else []
    return values[0] if len(values) == 1 else values or None


def read_text(row: Mapping[str, Any], column: str, *, required: bool = True) -> str:
    """Reads a key, a split or an image path; returns "" for an empty cell that is not required.

    Raises:
      SampleError: the cell is not a string or an integer, or is too long.
    """
    value = read_value(row, column)
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise invalid_row(f"column {column!r} has bytes that are not valid UTF-8") from error
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        if required:
            raise invalid_row(f"column {column!r} is empty")
        return ""
    if not isinstance(value, str):
        raise invalid_row(f"column {column!r} has {shorten(str(value))}; expected a string")
    if len(value) > _MOST_TEXT:
        raise invalid_row(f"column {column!r} has {len(value):,} characters; expected at most {_MOST_TEXT:,}")
    return value


def is_path_list(cell: Any) -> bool:
    """Whether a cell is a list of strings, or the JSON text of such a list."""
    found = _as_list(cell) or []
    return bool(found) and all(isinstance(one, str) for one in found)


def read_paths(row: Mapping[str, Any], column: str) -> list[str]:
    """Reads the paths of a list of images.

    Raises:
      SampleError: the cell is not a list of strings, or a string is too long.
    """
    found = _as_list(row[column])
    if row[column] in (None, ""):
        raise invalid_row(f"column {column!r} is empty")
    if found is None:
        raise invalid_row(f"column {column!r} has {shorten(str(row[column]))}; expected a list of paths")
    return [read_text({column: one}, column) for one in found]


def read_label(row: Mapping[str, Any], column: str, *, separator: str | None = None) -> Value:
    """Reads a label or a list of labels; returns None for an empty cell, or [] if `separator` is given.

    Strips spaces around a label. Booleans become the names `true` and `false`, and a whole float becomes an integer.

    Args:
      row: column -> cell.
      column: column with the label.
      separator: separator of several labels in one string; None if a string is one label.

    Raises:
      SampleError: the cell is not a valid label.
    """
    if isinstance(row[column], dict):
        raise invalid_row(f"column {column!r} has an object; expected a label")
    value = read_value(row, column)
    if isinstance(value, bytes):
        value = decode_label(value, column)
    if isinstance(value, list):
        value = [decode_label(one, column) if isinstance(one, bytes) else one for one in value]
    if separator and (value is None or value != value):
        return []
    if isinstance(value, str) and separator:
        return [label for label in map(plain_label, _separate(value, separator)) if label is not None]
    return [plain_label(one) for one in value] if isinstance(value, list) else plain_label(value)


def decode_label(value: bytes, column: str) -> str:
    """Returns a label that is stored as the bytes of a text.

    Raises:
      SampleError: the bytes are not text, for example the bytes of a number.
    """
    text = read_text({column: value}, column, required=False)
    if not is_label(value):
        raise invalid_row(f"column {column!r} has the bytes {value[:_SHOWN]!r}; expected a text or a number")
    return text


def name_class(label: Any, class_names: Sequence[str]) -> Any:
    """Returns the class name of an index; other labels unchanged."""
    return class_names[label] if type(label) is int and 0 <= label < len(class_names) else label


def is_label(value: bytes) -> bool:
    """Whether bytes may be the text of a label; the bytes of small numbers have control characters."""
    try:
        return _CONTROL.search(value.decode()) is None
    except UnicodeDecodeError:
        return False


def read_value(row: Mapping[str, Any], column: str) -> Value:
    """Returns a cell as a value for a reference; anything nested deeper than a list becomes JSON text.

    Raises:
      SampleError: a reference cannot store the value.
    """
    value = row[column]
    kind = type(value)
    if value is None or kind is float or (kind is str and value.isascii()) or (kind is int and abs(value) < 2**63):
        return value
    return [_scalar(column, element) for element in value] if kind is list else _scalar(column, value)


def plain_labels(rows: Sequence[Mapping[str, Any]], column: str) -> Sequence[Value] | None:
    """Applies `read_label` to several rows; returns None if a cell is not empty, a string or a number."""
    kinds = {type(row[column]) for row in rows}
    if not kinds <= {str, int, float, NoneType}:
        return None
    values = read_values(rows, column)
    return values if kinds <= {int, NoneType} else [plain_label(value) for value in values]


def read_values(rows: Sequence[Mapping[str, Any]], column: str) -> list[Any]:
    """Applies `read_value` to several rows."""
    values = [row[column] for row in rows]
    found = [value for value in values if value is not None]
    kinds = set(map(type, found))
    is_plain = (
        kinds <= {float}
        or (kinds == {str} and "".join(found).isascii())
        or (kinds == {int} and max(map(abs, found)) < 2**63)
    )
    return values if is_plain else [read_value(row, column) for row in rows]


def is_missing(value: Scalar, words: Collection[str], *, is_number: bool) -> bool:
    """Whether a value is not a label: empty, blank, one of the words for empty cells, or a number that is not finite.

    Args:
      value: the value of a cell, or of an element of its list.
      words: words for an empty cell.
      is_number: whether a text is that of a number.
    """
    if isinstance(value, str | bytes):
        text = (value if isinstance(value, str) else value.decode(errors="replace")).strip()
        return not text or text in words or (is_number and text.lower().lstrip("+-") in _NOT_FINITE)
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def invalid_row(detail: str) -> SampleError:
    """Returns the error for an invalid row."""
    return SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)


def check_columns(needed: Collection[str], columns: Collection[str]) -> None:
    """Raises `SampleError` if a file lacks columns of the first file."""
    missing = {*needed} - {*columns}
    if missing:
        raise invalid_row(f"the file has no column {min(missing)!r}, which the first one has")


def check_end(row: Row) -> None:
    """Raises `SampleError` if a row marks the point where the table becomes unreadable."""
    if isinstance(row, InvalidRow) and row.ends:
        raise SampleError(Stage.LIST, FailureReason.TRUNCATED, row.detail)


def _as_list(cell: Any) -> list[Any] | None:
    if isinstance(cell, str) and cell.startswith("["):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    # A record has a list of one text as this text.
    return [cell] if isinstance(cell, bytes) else cell if isinstance(cell, list) else None


def _separate(text: str, separator: str) -> list[str]:
    """Splits a cell such as `cat|dog` or `['cat', 'dog']` into labels."""
    found = _LIST.fullmatch(text)
    quoted = [single or double for single, double in _QUOTED.findall(found[1])] if found else []
    return quoted or (found[1] if found else text).split(separator)


def _scalar(column: str, value: Any) -> Any:
    if isinstance(value, (list, dict, tuple)):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except RecursionError as error:
            raise invalid_row(f"column {column!r} is nested too deeply") from error
    if isinstance(value, str):
        if not is_utf8(value):
            raise invalid_row(f"column {column!r} has a lone surrogate, which is not a character")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise invalid_row(f"column {column!r} has an integer of more than 64 bits")
    return value


_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# A column, then an index or a slice of its text, and a format of Python such as `04d` or `0>4`.
_PARTS = re.compile(r"(.+?)(?:\[(-?[0-9]*(?::-?[0-9]*)?)\])?(?::((?:.?[<>^])?[0-9]*d?))?")
_NAMED = re.compile(r"\s*([a-z][a-z0-9_]*)=(.*)")


def split_patterns(word: str) -> dict[str, str]:
    """Returns name of an image -> pattern, from one pattern or from several such as `left={a}.jpg,right={b}.jpg`."""
    parts = [_NAMED.fullmatch(part) for part in word.split(",")]
    named = [(part[1], part[2].strip()) for part in parts if part]
    return dict(named) if len(parts) == len(named) > 1 else {IMAGE: word}


def pattern_columns(pattern: str) -> list[str]:
    """Returns the columns that a pattern such as `train/{id[0]}/{id}.jpg` names."""
    return list(dict.fromkeys(_parts(word)[0] for word in _PLACEHOLDER.findall(pattern)))


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """Returns the path that a pattern gives for the cells of a row.

    Raises:
      SampleError: a cell is too short for an index, or not a whole number for a format such as `04d`.
    """
    return _PLACEHOLDER.sub(lambda match: _fill(match[1], cells), pattern)


def is_pattern(pattern: str) -> bool:
    """Whether a text is a path with columns in braces."""
    rest = _PLACEHOLDER.sub("", pattern)
    return rest != pattern and not {*"{}"} & {*rest}


def _parts(word: str) -> tuple[str, str | None, str]:
    """Splits the text between braces into column, index or slice, and format."""
    found = _PARTS.fullmatch(word)
    return (found[1], found[2], found[3] or "") if found else (word, None, "")


def _fill(word: str, cells: Mapping[str, str]) -> str:
    column, index, form = _parts(word)
    text = cells[column]
    if index is not None:
        start, colon, stop = index.partition(":")
        with contextlib.suppress(ValueError, IndexError):
            text = text[slice(*(int(end) if end else None for end in (start, stop)))] if colon else text[int(start)]
            index = None
    if index is None:
        with contextlib.suppress(ValueError):
            # Python pads texts on the right, but numbers on the left.
            form = f"0>{form}" if form.startswith("0") and form.isdecimal() else form
            return format(int(text), form) if form.endswith("d") else format(text, form)
    raise invalid_row(f"column {column!r} has {cells[column]!r}, which does not fit {{{word}}}")
