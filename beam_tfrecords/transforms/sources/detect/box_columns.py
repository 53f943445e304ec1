"""Detects the columns of a table with one box per row, and the meaning of their numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.objects.objects import BoxFormat
from beam_tfrecords.transforms.sources.detect.column_names import plain_name
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.tables.box_cells import BoxColumns, read_number, read_sides
from beam_tfrecords.transforms.sources.tables.object_cells import choose_format, find_sizes
from beam_tfrecords.transforms.sources.tables.table import Table, available
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# Usual names, compared without case, spaces and underscores, and without a prefix such as bbox.
_NAMES = {
    BoxFormat.CORNERS: (
        "xmin ymin xmax ymax", "x1 y1 x2 y2", "x0 y0 x1 y1", "left top right bottom", "minx miny maxx maxy",
        "xtl ytl xbr ybr", "topleftx toplefty bottomrightx bottomrighty", "startx starty endx endy",
        "upperleftcornerx upperleftcornery lowerrightcornerx lowerrightcornery", "x y x2 y2", "col1 row1 col2 row2",
    ),
    BoxFormat.CENTER: ("xcenter ycenter", "centerx centery", "cx cy", "xc yc"),
    BoxFormat.SIZE: ("x y", "left top", "xmin ymin", "x1 y1", "minx miny"),
}  # fmt: skip
_SIZES = ("width height", "w h")
_QUARTETS = {
    (*corner.split(), *size.split()): form
    for form, corners in _NAMES.items()
    for corner in corners
    for size in (("",) if form is BoxFormat.CORNERS else _SIZES)
}
_PREFIX = re.compile(r"^(?:bbox|bndbox|boundingbox|box)(?=.)")
_CELLS = ("bbox", "box", "boundingbox")
# Attribute -> usual column names.
_ATTRIBUTES = {
    "is_crowd": ("isgroupof", "iscrowd"),
    "difficult": ("difficult", "isdifficult"),
    "truncated": ("truncated", "istruncated"),
}
# Columns of numbered points. Two points may be corners of a box, four are a quad, and others are landmarks.
_POINT = re.compile(r"x(\d+)")
_QUAD = 4
_COMMA = re.compile(r"-?\d+,\d+")
# Columns beside those of a center that make a box no upright one.
_ANGLES = ("angle", "theta", "rotation")
_ROWS = 1000


def find_boxes(table: Table, settings: TableSettings, needs: Needs, label: str | None) -> BoxColumns | None:
    """Finds the box columns: the columns that the request names, or numeric columns with usual names; None without any.

    Args:
      table: the table.
      settings: settings of the boxes.
      needs: requested contents.
      label: column of the classes, or None.

    Raises:
      RequestError: a column in the request does not exist, or the box format is ambiguous.
    """
    plain = {plain_name(name): name for name in reversed(table.columns)}
    # Columns that only a user function needs stay plain columns, unless the request names them.
    are_columns = needs.all_columns and Content.OBJECTS not in needs.required
    found = _named(table, settings.box_columns) or (None if are_columns else next(_usual(plain), None))
    if found is None:
        return None
    sides, form = found
    if not settings.box_columns:
        _refuse_turned(table, plain, sides, form)
    size = find_sizes(table.columns, without=sides)
    rows = table.head([*sides, *size], _ROWS)
    boxes = [
        (values, [read_number(row[name]) for name in size])
        for row in rows
        if (values := read_sides(row, sides)) and all(map(math.isfinite, values))
    ]
    if not (settings.box_columns or boxes):
        _refuse_commas(table, sides, rows)
        return None
    are_plain = [*map(plain_name, sides[:2])] == ["x", "y"] and form is BoxFormat.SIZE
    form, is_normalized = choose_format(boxes, form, settings, table, shown=", ".join(sides), may_be_center=are_plain)
    attributes = {
        name: plain[one] for name, names in _ATTRIBUTES.items() for one in names if one in plain and plain[one] != label
    }
    only = "" if label else needs.only_class
    return BoxColumns(sides, form, is_normalized, label, only, size, attributes)


def _refuse_commas(table: Table, sides: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Refuses boxes whose numbers have a decimal comma: 1,234 may also be a thousand."""
    shown = next((cell for row in rows for name in sides if (cell := row[name]) not in (None, "")), None)
    if len(sides) > 1 and isinstance(shown, str) and _COMMA.fullmatch(shown.strip()):
        raise RequestError(
            f"{table.path}: the columns {', '.join(sides)} look like boxes, and their numbers have commas, such as "
            f"{shown!r}; expected decimal points, as in {shown.replace(',', '.')!r}",
            code="decimal_commas",
        )


def _refuse_turned(table: Table, plain: Mapping[str, str], sides: Sequence[str], form: BoxFormat) -> None:
    """Refuses boxes that are not upright: the columns are four points, or have an angle beside a center."""
    turns = [plain[name] for name in _ANGLES if name in plain and form is BoxFormat.CENTER]
    if (_count_points(plain) == _QUAD and any(map(_POINT.fullmatch, map(plain_name, sides)))) or turns:
        what = f"{', '.join(turns)} turns the boxes" if turns else "there are more than two corners"
        how = "the unit of the angle" if turns else "four corners"
        raise RequestError(
            f"{table.path}: the columns {', '.join(sides)} look like boxes, but {what}; a `mapping` of a few lines "
            f"reads them, with {how}, and `box_columns={','.join(sides)}` takes these columns alone",
            code="turned_boxes",
        )


def find_sides(columns: Sequence[str]) -> set[str]:
    """Returns the columns named like the four sides of a box, with any beginning, such as `Roi.X1` to `Roi.Y2`."""
    plain = {plain_name(name): name for name in columns}
    starts = {(words, name.removesuffix(words[0])) for name in plain for words in _QUARTETS if name.endswith(words[0])}
    boxes = [[start + word for word in words] for words, start in starts]
    return {plain[side] for sides in boxes if plain.keys() >= {*sides} for side in sides}


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
            f"`box_columns={','.join(named)}`: {what}; {available(table, missing[0] if missing else '')}",
            code="unknown_column" if missing else "invalid_value",
        )
    plain = {plain_name(name): name for name in named}
    return next((found for found in _usual(plain) if {*found[0]} == {*named}), (named, BoxFormat.AUTO))


def _count_points(plain: Mapping[str, str]) -> int:
    return sum(f"y{match[1]}" in plain for match in map(_POINT.fullmatch, plain) if match)


def _usual(plain: Mapping[str, str]) -> Iterator[tuple[Sequence[str], BoxFormat]]:
    """Yields box columns with usual names, the most specific names first."""
    are_landmarks = _count_points(plain) not in (0, 1, 2, _QUAD)
    short = {**{_PREFIX.sub("", name): column for name, column in plain.items()}, **plain}
    for words, form in _QUARTETS.items():
        if all(word in short for word in words) and not (are_landmarks and _POINT.fullmatch(words[0])):
            yield [short[word] for word in words], form
    yield from (([plain[name]], BoxFormat.AUTO) for name in _CELLS if name in plain)
