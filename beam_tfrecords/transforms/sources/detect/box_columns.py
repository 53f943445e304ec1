"""Detects the columns of a table with one box per row, and the meaning of their numbers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit
from beam_tfrecords.transforms.sources.detect.column_names import plain_name
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.tables.box_cells import (
    MOST_SHARE,
    BoxColumns,
    read_number,
    read_sides,
)
from beam_tfrecords.transforms.sources.tables.object_cells import unclear_format
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, Table
from beam_tfrecords.transforms.sources.tables.table_settings import BoxSettings

# Usual names, compared without case, spaces and underscores, and without a prefix such as bbox.
_NAMES = {
    BoxFormat.CORNERS: (
        "xmin ymin xmax ymax", "x1 y1 x2 y2", "x0 y0 x1 y1", "left top right bottom", "minx miny maxx maxy",
    ),
    BoxFormat.CENTER: ("xcenter ycenter", "centerx centery", "cx cy", "xc yc"),
    BoxFormat.SIZE: ("x y", "left top", "xmin ymin", "x1 y1", "minx miny"),
}  # fmt: skip
_SIZES = ("width height", "w h")
_PREFIX = re.compile(r"^(?:bbox|bndbox|boundingbox|box)(?=.)")
_CELLS = ("bbox", "box", "boundingbox")
_IMAGE_SIZES = ("imagewidth imageheight", "imgwidth imgheight", "width height")
# Attribute -> usual column names.
_ATTRIBUTES = {
    "is_crowd": ("isgroupof", "iscrowd"),
    "difficult": ("difficult", "isdifficult"),
    "truncated": ("truncated", "istruncated"),
}
_ROWS = 1000
ONLY_CLASS = "object"


def find_boxes(table: Table, settings: BoxSettings, needs: Needs, label: str | None) -> BoxColumns | None:
    """Finds the box columns: those that the request names, or numeric columns with usual names; None without any.

    Args:
      table: the table.
      settings: settings of the boxes.
      needs: requested contents.
      label: column of the classes, or None.

    Raises:
      RequestError: a column in the request does not exist, or the box format is ambiguous.
    """
    plain = {plain_name(name): name for name in reversed(table.columns)}
    found = _named(table, settings.box_columns) or (None if needs.boxes_are_columns else next(_usual(plain), None))
    if found is None:
        return None
    sides, form = found
    size = _find(plain, _IMAGE_SIZES, without=sides)
    rows = [*itertools.islice(table.rows([*sides, *size]), _ROWS)]
    boxes = [values for row in rows if not isinstance(row, InvalidRow) and (values := read_sides(row, sides))]
    numbers = [values for values in boxes if all(map(math.isfinite, values))]
    if not (settings.box_columns or numbers):
        return None
    most = max((abs(value) for values in numbers for value in values), default=math.inf)
    is_normalized = settings.box_unit is BoxUnit.SHARES or (settings.box_unit is BoxUnit.AUTO and most <= MOST_SHARE)
    if settings.box_format is not BoxFormat.AUTO:
        form = settings.box_format
    if form is BoxFormat.AUTO:
        form = _format_of(table, numbers, [] if is_normalized else rows, sides, size)
    attributes = {
        name: plain[one] for name, names in _ATTRIBUTES.items() for one in names if one in plain and plain[one] != label
    }
    only = "" if label else needs.class_names[0] if len(needs.class_names) == 1 else ONLY_CLASS
    return BoxColumns(sides, form, is_normalized, label, only, size, attributes)


def has_box_names(columns: Sequence[str]) -> bool:
    """Whether the columns include box columns with usual names."""
    return next(_usual({plain_name(name): name for name in reversed(columns)}), None) is not None


def describe_boxes(boxes: BoxColumns) -> str:
    """Describes the box columns, for a note."""
    unit = "shares of the image" if boxes.is_normalized else "pixels"
    alone = "" if boxes.label else f", all of the class {boxes.only!r}"
    columns = f"column {boxes.sides[0]!r}" if len(boxes.sides) == 1 else f"columns {', '.join(boxes.sides)}"
    return f"boxes from {columns}, {boxes.format.value} in {unit}{alone}"


def _named(table: Table, named: Sequence[str]) -> tuple[Sequence[str], BoxFormat] | None:
    if not named:
        return None
    missing = [name for name in named if name not in table.columns]
    if missing or len(named) not in (1, 4):
        what = f"{table.path} has no column {missing[0]!r}" if missing else "expected four columns, or one with lists"
        raise RequestError(
            f"`box_columns={','.join(named)}`: {what}; it has: {', '.join(table.columns)}",
            code="unknown_column" if missing else "invalid_value",
        )
    plain = {plain_name(name): name for name in named}
    return next((found for found in _usual(plain) if {*found[0]} == {*named}), (named, BoxFormat.AUTO))


def _usual(plain: Mapping[str, str]) -> Iterator[tuple[Sequence[str], BoxFormat]]:
    """Yields box columns with usual names, the most specific names first."""
    short = {**{_PREFIX.sub("", name): column for name, column in plain.items()}, **plain}
    for form, names in _NAMES.items():
        for corner in names:
            for words in (corner,) if form is BoxFormat.CORNERS else [f"{corner} {size}" for size in _SIZES]:
                if all(word in short for word in words.split()):
                    yield [short[word] for word in words.split()], form
    yield from (([plain[name]], BoxFormat.AUTO) for name in _CELLS if name in plain)


def _find(plain: Mapping[str, str], names: Sequence[str], *, without: Sequence[str]) -> Sequence[str]:
    """Returns the columns of the first pair of names that the table has; [] if it has none."""
    found = ([plain.get(word) for word in pair.split()] for pair in names)
    return next(([one for one in pair if one] for pair in found if None not in pair and not {*pair} & {*without}), [])


def _format_of(
    table: Table, boxes: Sequence[Sequence[float]], rows: Sequence[Row], sides: Sequence[str], size: Sequence[str]
) -> BoxFormat:
    """Decides from the numbers whether boxes are two corners, or a corner and a size.

    Raises:
      RequestError: both are possible.
    """
    if any(third <= x or fourth <= y for x, y, third, fourth in boxes):
        return BoxFormat.SIZE
    for row in rows if size else ():
        values = None if isinstance(row, InvalidRow) else read_sides(row, sides)
        if values and not isinstance(row, InvalidRow):
            width, height = (read_number(row[name]) for name in size)
            # Allows one pixel of rounding.
            if values[0] + values[2] > width + 1 or values[1] + values[3] > height + 1:
                return BoxFormat.CORNERS
    if size and boxes and rows:
        return BoxFormat.SIZE
    raise unclear_format(table, ", ".join(sides))
