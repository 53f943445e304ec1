"""Reads annotated objects from a table cell, in the format of Hugging Face's datasets. Pure functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_label
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

COLUMN = "objects"
_BOX = ("bbox", "bboxes")
CLASS_FIELDS = ("categories", "category", "label", "labels", "class", "classes")
# Attribute -> field names.
_ATTRIBUTES = {"area": ("area",), "is_crowd": ("is_crowd", "iscrowd"), "difficult": ("difficult", "is_difficult")}
_ROWS = 100


def find_objects(table: Table, settings: TableSettings, needs: Needs, label: str | None) -> str | None:
    """Finds the column of annotated objects by its first rows; None if there is none or the request wants labels.

    Args:
      table: the table.
      settings: settings of the table.
      needs: requested contents.
      label: label column with a usual name, if any; objects are then read only if the layout needs boxes.
    """
    if COLUMN not in table.columns or not wants_objects(settings, needs, label):
        return None
    rows = itertools.islice(table.rows([COLUMN]), _ROWS)
    return COLUMN if hold_objects(row[COLUMN] for row in rows if not isinstance(row, InvalidRow)) else None


def wants_objects(settings: TableSettings, needs: Needs, label: str | None) -> bool:
    """Whether to read the objects of an input that contains objects and possibly labels."""
    if settings.label_column or settings.label_columns or not needs.objects:
        return False
    return label is None or not (needs.columns is None or needs.label)


def hold_objects(cells: Iterable[Any]) -> bool:
    """Whether the first non-empty cell contains boxes."""
    return _find(next(filter(None, map(_columns, cells)), {}), _BOX) is not None


def read_objects(cell: Any, class_names: Sequence[str] = ()) -> Objects:
    """Reads the objects of an image.

    Args:
      cell: an object of lists, or a list of objects, with the fields `bbox` (x, y, width and height in pixels of the
        oriented image) and `categories`; None for an image without objects.
      class_names: names of the categories, if these are indices.

    Raises:
      SampleError: the cell has another form, or too many objects.
    """
    fields = _columns(cell)
    if fields is None:
        raise invalid_row(
            f"column {COLUMN!r} has {shorten(str(cell))}; expected an object with 'bbox' and 'categories'"
        )
    boxes, labels = _find(fields, _BOX) or [], _find(fields, CLASS_FIELDS)
    check_count(len(boxes))
    if labels is None:
        labels = [None] * len(boxes)
    found = {name: values for name, names in _ATTRIBUTES.items() if (values := _find(fields, names)) is not None}
    lengths = {len(boxes), len(labels), *map(len, found.values())}
    if len(lengths) > 1:
        raise invalid_row(f"column {COLUMN!r} has lists of {' and '.join(map(str, sorted(lengths)))} elements")
    sides: list[float] = []
    for box in boxes:
        x, y, width, height = _numbers(box)
        sides += [x, y, x + width, y + height]
    named = tuple(_name(read_label({COLUMN: label}, COLUMN), class_names) for label in labels)
    return Objects(tuple(sides), named, {name: tuple(values) for name, values in found.items()})


def _columns(cell: Any) -> Mapping[str, Any] | None:
    """Returns field -> value for each object; {} if there are no objects, None if the cell has another form."""
    if cell is None:
        return {}
    if isinstance(cell, list) and all(isinstance(one, dict) for one in cell):
        return {name: [one.get(name) for one in cell] for name in dict.fromkeys(itertools.chain(*cell))}
    return cell if isinstance(cell, dict) else None


def _find(fields: Mapping[str, Any], names: Sequence[str]) -> list[Any] | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), list)), None)


def _numbers(box: Any) -> Sequence[float]:
    if isinstance(box, list | tuple) and len(box) == 4 and all(type(side) in (int, float) for side in box):
        return [float(side) for side in box]
    return [math.nan] * 4


def _name(label: Any, class_names: Sequence[str]) -> Any:
    return class_names[label] if type(label) is int and 0 <= label < len(class_names) else label
