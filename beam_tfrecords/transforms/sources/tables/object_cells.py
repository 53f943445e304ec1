"""Finds and reads annotated objects in table cells, as Hugging Face's datasets have them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit, Objects, check_count
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.detect.column_names import find_usual, plain_name
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.box_cells import MOST_SHARE, read_number, to_corners
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_label
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import BoxSettings, TableSettings

COLUMN = "objects"
# Usual names of columns of objects.
_NAMES = (COLUMN, "annotations", "annotation", "object", "instances")
_BOX = ("bbox", "bboxes", "boxes", "box")
CLASS_FIELDS = ("categories", "category", "label", "labels", "class", "classes", "names", "category_id", "category_ids")
# Attribute -> field names.
_ATTRIBUTES = {"area": ("area",), "is_crowd": ("is_crowd", "iscrowd"), "difficult": ("difficult", "is_difficult")}
_IMAGE_SIZES = (("imagewidth", "imageheight"), ("imgwidth", "imgheight"), ("width", "height"))
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class ObjectColumns:
    """The columns of the annotated objects of an image.

    Attributes:
      column: column with all fields of the objects; or, with `labels`, column with their boxes.
      labels: column with the class of each box; None if the objects have their classes.
      format: meaning of the four numbers of a box.
      is_normalized: whether the numbers are fractions of the image size.
    """

    column: str
    labels: str | None = None
    format: BoxFormat = BoxFormat.SIZE
    is_normalized: bool = False

    @property
    def needed(self) -> Sequence[str]:
        """All columns that `read` uses."""
        return [self.column, *([self.labels] if self.labels else [])]

    @property
    def classes(self) -> str:
        """Column whose declared classes are those of the objects."""
        return self.labels or self.column

    def read(self, row: Mapping[str, Any], class_names: Sequence[str] = ()) -> Objects:
        """Returns the objects of a row; see `read_objects`."""
        cell = row[self.column]
        if self.labels is not None:
            cell = {_BOX[0]: cell or [], CLASS_FIELDS[0]: row[self.labels] or []}
        found = read_objects(cell, class_names, column=self.column, form=self.format)
        return dataclasses.replace(found, is_normalized=self.is_normalized)


def find_objects(table: Table, settings: TableSettings, needs: Needs, label: str | None) -> ObjectColumns | None:
    """Finds the columns of annotated objects by the first rows; None if there are none or the request wants labels.

    Args:
      table: the table.
      settings: settings of the table.
      needs: requested contents.
      label: label column with a usual name, if any; objects are then read only if the layout needs boxes, or if it has
        a class for each of the boxes.

    Raises:
      RequestError: the boxes may have several formats.
    """
    usual = [*find_usual(table.columns, _NAMES)]
    boxes = [*find_usual(table.columns, _BOX)]
    columns = [name for name in (*usual, *boxes) if name not in table.embedded]
    if not columns or not needs.objects or settings.label_columns:
        return None
    cells = first_cells(table, columns, rows=_ROWS)
    held = next((name for name in columns if hold_objects(cells[name])), None)
    if held is not None:
        if not wants_objects(settings, needs, label):
            return None
        found = [_find(_columns(cell) or {}, _BOX) for cell in cells[held]]
        return _with_format(ObjectColumns(held), found, table, settings)
    for name in boxes:
        classes = [*find_usual(table.columns, CLASS_FIELDS)] if _are_boxes(cells[name]) else []
        for labels in classes:
            if _are_parallel(cells[name], first_cells(table, [labels], rows=_ROWS)[labels]):
                wanted = None if label == labels else label
                if settings.label_column not in (None, labels) or not wants_objects(
                    change_settings(settings, label_column=None), needs, wanted
                ):
                    return None
                return _with_format(ObjectColumns(name, labels), cells[name], table, settings)
    return None


def _with_format(found: ObjectColumns, cells: Sequence[Any], table: Table, settings: TableSettings) -> ObjectColumns:
    """Returns the columns with the format of their boxes; `cells` are the lists of boxes in the first rows."""
    size = find_sizes(table.columns, without=())
    known = first_cells(table, size, rows=_ROWS) if size else {}
    sizes = [[read_number(known[name][row]) for name in size] for row in range(len(cells))]
    pairs = [(_numbers(box), of) for boxes, of in zip(cells, sizes, strict=True) for box in boxes or ()]
    if not pairs and len(cells) < _ROWS:
        return found
    form, is_normalized = choose_format(pairs, BoxFormat.AUTO, settings.boxes, table, shown=found.column)
    return dataclasses.replace(found, format=form, is_normalized=is_normalized)


def find_sizes(columns: Sequence[str], *, without: Sequence[str]) -> Sequence[str]:
    """Returns the columns with the image's width and height; [] if there are none besides those of other meaning."""
    plain = {plain_name(name): name for name in reversed(columns)}
    found = ([plain.get(word) for word in pair] for pair in _IMAGE_SIZES)
    return next(([one for one in pair if one] for pair in found if None not in pair and not {*pair} & {*without}), [])


def choose_format(
    boxes: Sequence[tuple[Sequence[float], Sequence[float]]],
    named: BoxFormat,
    settings: BoxSettings,
    table: Table,
    *,
    shown: str,
) -> tuple[BoxFormat, bool]:
    """Returns the meaning of the numbers of boxes, and whether they are fractions of the image size.

    Args:
      boxes: the four numbers of each box, and width and height of its image if known.
      named: meaning by the names of columns.
      settings: settings of the boxes.
      table: the table.
      shown: columns of the boxes, for messages.

    Raises:
      RequestError: the boxes may be two corners, or a corner and a size.
    """
    most = max((abs(side) for box, _ in boxes for side in box if math.isfinite(side)), default=math.inf)
    unit = settings.box_unit
    is_normalized = unit is BoxUnit.SHARES or (unit is BoxUnit.AUTO and most <= MOST_SHARE)
    form = named if settings.box_format is BoxFormat.AUTO else settings.box_format
    for (x, y, third, fourth), size in boxes if form is BoxFormat.AUTO else ():
        # Allows one pixel of rounding.
        if size and not is_normalized and (x + third > size[0] + 1 or y + fourth > size[1] + 1):
            form = BoxFormat.CORNERS
        if third <= x or fourth <= y:
            form = BoxFormat.SIZE
            break
    if form is BoxFormat.AUTO:
        raise RequestError(
            f"{quote_input(table.path)}: the boxes in {shown} may be two corners, or a corner and a size",
            [
                Suggestion("x and y of the top left corner, width and height", {"box_format": "xywh"}),
                Suggestion("x and y of two corners", {"box_format": "xyxy"}),
            ],
            code="unclear_box_format",
        )
    return form, is_normalized


def _are_boxes(cells: Sequence[Any]) -> bool:
    lists = [cell for cell in cells if cell]
    return bool(lists) and all(isinstance(box, list) and len(box) == 4 for cell in lists for box in _elements(cell))


def _are_parallel(boxes: Sequence[Any], labels: Sequence[Any]) -> bool:
    """Whether each row has as many classes as boxes."""
    return all(
        len(_elements(cell)) == len(_elements(label)) and (label is None or isinstance(label, list))
        for cell, label in zip(boxes, labels, strict=True)
    )


def _elements(cell: Any) -> Sequence[Any]:
    return cell if isinstance(cell, list) else ([] if cell is None else [cell])


def wants_objects(settings: TableSettings, needs: Needs, label: str | None) -> bool:
    """Whether to read the objects of an input that contains objects and possibly labels."""
    if settings.label_column or settings.label_columns or not needs.objects:
        return False
    return label is None or not (needs.columns is None or needs.label)


def hold_objects(cells: Iterable[Any]) -> bool:
    """Whether the first non-empty cell contains boxes."""
    return _find(next(filter(None, map(_columns, cells)), {}), _BOX) is not None


def read_objects(
    cell: Any, class_names: Sequence[str] = (), *, column: str = COLUMN, form: BoxFormat = BoxFormat.SIZE
) -> Objects:
    """Reads the objects of an image.

    Args:
      cell: an object of lists, or a list of objects, with the fields `bbox` (four numbers in pixels of the oriented
        image) and `categories`; None for an image without objects.
      class_names: names of the categories, if these are indices.
      column: column of the cell, for messages.
      form: meaning of the four numbers; by default x, y, width and height.

    Raises:
      SampleError: the cell has another form, or too many objects.
    """
    fields = _columns(cell)
    if fields is None:
        raise invalid_row(
            f"column {column!r} has {shorten(str(cell))}; expected an object with 'bbox' and 'categories'"
        )
    boxes, labels = _find(fields, _BOX) or [], _find(fields, CLASS_FIELDS)
    check_count(len(boxes))
    if labels is None:
        labels = [None] * len(boxes)
    found = {name: values for name, names in _ATTRIBUTES.items() if (values := _find(fields, names)) is not None}
    lengths = {len(boxes), len(labels), *map(len, found.values())}
    if len(lengths) > 1:
        raise invalid_row(f"column {column!r} has lists of {' and '.join(map(str, sorted(lengths)))} elements")
    sides: list[float] = []
    for box in boxes:
        sides += to_corners(_numbers(box), form)
    named = tuple(_name(read_label({column: label}, column), class_names) for label in labels)
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
