"""Orders columns by the numbers in their names, and recognizes pixel columns. Pure functions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.inputs import quote_input

_PIXEL = re.compile(r"(?:pixel|px)?_?([0-9]+)(?:x([0-9]+))?")
_NUMBERED = re.compile(r"(.*?)([0-9]+)(?:x([0-9]+))?")
_LEVEL = re.compile("[0-9]{1,3}")
_LEAST_PIXELS = 64


def sort_by_number(names: Iterable[str]) -> list[str]:
    """Sorts names by the numbers in them: label_2 before label_10."""
    return sorted(names, key=lambda name: [int(one) if one.isdecimal() else one for one in re.split(r"(\d+)", name)])


def is_pixel_name(name: str) -> bool:
    """Whether a column may be named after a pixel."""
    return _PIXEL.fullmatch(name.lower()) is not None


def find_pixel_columns(path: str, names: Iterable[str]) -> tuple[list[str], Sequence[int]]:
    """Returns the pixel columns in image order, and the image shape; both empty if there are no pixel columns.

    The numbers determine the order, regardless of the order in the file: pixel0 to pixel783 row by row with the
    channels of a pixel together, or 1x1 to 28x28 as row and column.

    Args:
      path: path of the table.
      names: names of the columns.

    Raises:
      RequestError: the numbers do not cover the pixels of an image exactly once.
    """
    found = {name: match.groups() for name in names if (match := _PIXEL.fullmatch(name.lower()))}
    if len(found) < _LEAST_PIXELS:
        return [], ()
    columns, shape = _place(found)
    if columns:
        return columns, shape
    first, *_, last = sort_by_number(found)
    raise RequestError(
        f"{quote_input(path)}: {len(found):,} columns look like the pixels of an image, from {first!r} to {last!r}, "
        "but their names do not number each pixel once, so the positions are unknown",
        code="unclear_pixel_columns",
    )


def find_levels(cells: Mapping[str, Sequence[str | int]]) -> tuple[list[str], Sequence[int]]:
    """Does the same as `find_pixel_columns` for columns with other numbered names and cells from 0 to 255."""
    groups: dict[str, dict[str, Sequence[str | None]]] = {}
    for name, values in cells.items():
        match = _NUMBERED.fullmatch(name.lower())
        if match and values and all(_LEVEL.fullmatch(str(value)) and int(value) < 256 for value in values):
            groups.setdefault(match[1], {})[name] = match.groups()[1:]
    most = max(groups.values(), key=len, default={})
    # Columns of only zeros and ones are labels.
    if len(most) < _LEAST_PIXELS or not any(str(value) not in ("0", "1") for name in most for value in cells[name]):
        return [], ()
    return _place(most)


def _place(found: Mapping[str, Sequence[str | None]]) -> tuple[list[str], Sequence[int]]:
    """Returns the columns in number order, and the image shape; both empty unless each pixel occurs exactly once.

    Args:
      found: column name -> numbers in the name.
    """
    places = {name: tuple(int(number) for number in numbers if number) for name, numbers in found.items()}
    ordered = sorted(places, key=lambda name: places[name])
    taken = {place: name for name, place in places.items()}
    first = places[ordered[0]]
    if len({len(place) for place in taken}) == 1 and set(first) <= {0, 1} and len(taken) == len(places):
        sides = [last - start + 1 for start, last in zip(first, places[ordered[-1]], strict=True)]
        if math.prod(sides) == len(places):
            return ordered, sides if len(sides) > 1 else square_shape(len(places))
    return [], ()


def square_shape(pixels: int) -> Sequence[int]:
    """Returns the shape of a square image with this many numbers, [H, W] or [H, W, 3]; empty if there is none."""
    for channels in (1, 3):
        side = math.isqrt(pixels // channels)
        if side and side * side * channels == pixels:
            return (side, side) if channels == 1 else (side, side, 3)
    return ()
