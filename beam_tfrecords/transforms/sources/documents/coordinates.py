"""Numbers in documents: of texts, lists, points with x and y. Pure functions."""

from __future__ import annotations

import contextlib
import math
from typing import Any

_POINT = 2
# Types of most numbers, which need no look at each.
_PLAIN = {int, float}


def to_number(value: Any) -> float:
    """Returns a number or the number in a text; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def flatten(value: Any) -> list[float]:
    """Returns all numbers of nested lists, points with x and y, and texts such as `1,2;3,4`; NaN for other values."""
    if isinstance(value, str):
        return [to_number(word) for word in value.replace(";", " ").replace(",", " ").split()]
    if isinstance(value, dict):
        return [to_number(value.get(name, value.get(name.upper()))) for name in ("x", "y")]
    if isinstance(value, list | tuple):
        if {*map(type, value)} <= _PLAIN:
            with contextlib.suppress(OverflowError):
                return [*map(float, value)]
        return [number for one in value for number in flatten(one)]
    return [to_number(value)]


def depth(value: Any) -> int:
    """Returns how deep lists are nested: 1 for numbers, 2 for points, 3 for polygons."""
    found = 0
    while isinstance(value, list | tuple) and value:
        value, found = value[0], found + 1
    return found + (1 if isinstance(value, dict) and found else 0)


def read_polygons(value: Any) -> list[list[float]]:
    """Returns polygons as x and y in turn, of a list of polygons, or of one: numbers, points, or a text."""
    if isinstance(value, list | tuple):
        value = [one for one in value if one not in (None, [], "")]
    if value is None or value == []:
        return []
    levels = depth(value)
    if levels == 1:
        # A text is a polygon if it has more numbers than a point.
        is_one = not isinstance(value[0], str) or len(flatten(value[0])) <= _POINT
    else:
        is_one = levels == 0 or (levels == 2 and all(isinstance(one, dict) or len(one) == _POINT for one in value))
    return [flatten(value)] if is_one else [flatten(one) for one in value]
