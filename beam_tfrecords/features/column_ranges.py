"""Several columns as one feature: `columns.x0..x135`, `columns.x,y,z`. Pure functions.

A range counts if its ends differ only in the number at their end; otherwise it takes the order of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from beam_tfrecords.errors import RequestError

_PREFIX = "columns."
_RANGE = ".."
_NUMBERED = re.compile(r"(.*?)(\d+)", re.DOTALL)
# x0, nose_x, x_left, 12y.
_AXIS = re.compile(r"(?<![a-z])([xy])(?![a-z])")
_MOST = 100_000
_MOST_SHOWN = 5


def range_ends(field: str) -> tuple[str, ...]:
    """Returns the columns that a field such as `columns.x0..x135` names: both ends of a range."""
    return tuple(name.strip() for word in field[len(_PREFIX) :].split(",") for name in word.split(_RANGE, 1))


def expand_columns(field: str, columns: Sequence[str], *, where: str) -> tuple[str, ...]:
    """Returns the columns of a field, in order.

    Args:
      field: such as `columns.x0..x135`.
      columns: the columns of the table in its order; empty if they are unknown.
      where: the feature, for the message.

    Raises:
      RequestError: a column is missing, or the order of the table and the numbers disagree on the columns of a range.
    """
    found: list[str] = []
    for word in field[len(_PREFIX) :].split(","):
        first, dots, last = (part.strip() for part in word.partition(_RANGE))
        found += _expand(first, last, columns, where=where) if dots else [first]
    missing = next((name for name in found if columns and name not in columns), None)
    if missing is not None:
        shown = ", ".join(columns[:_MOST_SHOWN]) + (", …" if len(columns) > _MOST_SHOWN else "")
        raise RequestError(f"{where}: there is no column {missing!r}; there are: {shown}", code="unknown_column")
    twice = next((name for number, name in enumerate(found) if name in found[:number]), None)
    if twice is not None:
        raise RequestError(f"{where}: names the column {twice!r} twice", code="invalid_layout")
    return tuple(found)


def point_columns(columns: Sequence[str]) -> list[str]:
    """Returns the columns named as x or y of points; empty if not as many are x as y."""
    found = {name: match[1] for name in columns if (match := _AXIS.search(name.lower()))}
    return [*found] if 2 * [*found.values()].count("x") == len(found) else []


def axes_of(columns: Sequence[str], length: int) -> list[int]:
    """Returns the axis of each value of a vector of points: 0 for x, 1 for y.

    The names of the columns say it, such as `x0, x1, y0, y1` and `nose_x, nose_y`, if as many are x as y. Otherwise x
    and y take turns.
    """
    found = [match[1] for name in columns if (match := _AXIS.search(name.lower()))]
    if len(found) == length and 2 * found.count("x") == length:
        return ["xy".index(letter) for letter in found]
    return [0, 1] * (length // 2)


def _expand(first: str, last: str, columns: Sequence[str], *, where: str) -> list[str]:
    """Returns the columns of a range."""
    counted = count_columns(first, last)
    between: list[str] = []
    if first in columns and last in columns:
        between = list(columns[columns.index(first) : columns.index(last) + 1])
    if not (counted or between):
        raise RequestError(
            f"{where}: {first}..{last} is not a range: {last!r} "
            + ("comes before it in the table" if columns else "and the other end are not the same word with numbers")
            + "; expected the first and the last column, or all columns with commas between them",
            code="invalid_layout",
        )
    others = [name for name in between if name not in counted]
    if counted and others:
        raise RequestError(
            f"{where}: {first}..{last} may be the {len(counted):,} columns that the numbers count, or all "
            f"{len(between):,} from the first to the last in the table, with {', '.join(others[:_MOST_SHOWN])}; "
            f"expected all columns with commas between them: columns.{','.join(between[:2])},…",
            code="unclear_columns",
        )
    return counted or between


def count_columns(first: str, last: str) -> list[str]:
    """Returns the columns from `x0` to `x135`; empty if the ends are not one word with ascending numbers."""
    ends = _NUMBERED.fullmatch(first), _NUMBERED.fullmatch(last)
    if ends[0] is None or ends[1] is None or ends[0][1] != ends[1][1]:
        return []
    start, stop = int(ends[0][2]), int(ends[1][2])
    width = len(ends[0][2]) if ends[0][2].startswith("0") and len(ends[0][2]) > 1 else 0
    if not start <= stop < start + _MOST:
        return []
    names = [f"{ends[0][1]}{number:0{width}d}" for number in range(start, stop + 1)]
    return names if names[-1] == last else []
