"""Columns told apart by the numbers in their names: their order, and the pixels that they are. Pure functions."""

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
    """The names with the numbers in them compared as numbers: label_2 before label_10."""
    return sorted(names, key=lambda name: [int(one) if one.isdecimal() else one for one in re.split(r"(\d+)", name)])


def is_pixel_name(name: str) -> bool:
    """Whether a column may be a pixel by its name."""
    return _PIXEL.fullmatch(name.lower()) is not None


def find_pixel_columns(path: str, names: Iterable[str]) -> tuple[list[str], Sequence[int]]:
    """The columns of the pixels of an image in its order, and its shape; none and an empty one if there are none.

    The numbers say the order, whatever that of the file is: pixel0 to pixel783 along the rows, those of a color
    together, or 1x1 to 28x28 as row and column.

    Args:
      path: of the table.

    Raises:
      RequestError: the numbers are not those of all pixels of an image.
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
        "but their numbers are not those of each pixel once, so that nobody knows their places"
    )


def find_levels(cells: Mapping[str, Sequence[str | int]]) -> tuple[list[str], Sequence[int]]:
    """As `find_pixel_columns`, of columns with any other name and numbers from 0 to 255 in their cells."""
    groups: dict[str, dict[str, Sequence[str | None]]] = {}
    for name, values in cells.items():
        match = _NUMBERED.fullmatch(name.lower())
        if match and values and all(_LEVEL.fullmatch(str(value)) and int(value) < 256 for value in values):
            groups.setdefault(match[1], {})[name] = match.groups()[1:]
    most = max(groups.values(), key=len, default={})
    # Zeros and ones are labels.
    if len(most) < _LEAST_PIXELS or not any(str(value) not in ("0", "1") for name in most for value in cells[name]):
        return [], ()
    return _place(most)


def _place(found: Mapping[str, Sequence[str | None]]) -> tuple[list[str], Sequence[int]]:
    """The columns in the order of their numbers, and the shape of the image; empty if they are not of each pixel once.

    Args:
      found: name -> numbers in it.
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
    """[H, W] or [H, W, 3] of a square image of so many numbers; empty if there is none."""
    for channels in (1, 3):
        side = math.isqrt(pixels // channels)
        if side and side * side * channels == pixels:
            return (side, side) if channels == 1 else (side, side, 3)
    return ()
