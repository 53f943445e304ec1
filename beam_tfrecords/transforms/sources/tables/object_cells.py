"""Finds and reads annotated objects in table cells, as Hugging Face's datasets have them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.transforms.objects.objects import BoxFormat, BoxUnit, Objects, check_count
from beam_tfrecords.transforms.sources.detect.column_names import find_usual, plain_name
from beam_tfrecords.transforms.sources.detect.roles import parse_cell
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import ONLY_CLASS, Needs
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.box_cells import MOST_SHARE, read_number, to_corners
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, name_class, read_label, read_text
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

COLUMN = "objects"
# Usual names of columns of objects.
_NAMES = (COLUMN, "annotations", "annotation", "object", "instances")
_BOX = ("bbox", "bboxes", "boxes", "box")
_POLYGONS = ("segmentation", "segmentations")
# Fields with the sides of a box: a corner and a size, or two corners.
_SIZES, _CORNERS = ("x", "y", "width", "height"), ("xmin", "ymin", "xmax", "ymax")
CLASS_FIELDS = ("categories", "category", "label", "labels", "class", "classes", "names", "category_id", "category_ids")
_KEYPOINTS = ("keypoints",)
# Attribute -> field names.
_ATTRIBUTES = {
    "area": ("area",),
    "is_crowd": ("is_crowd", "iscrowd"),
    "difficult": ("difficult", "is_difficult"),
    "truncated": ("truncated", "is_truncated"),
    "pose": ("pose",),
}
# Column with the source's own name of the image.
_IMAGE_ID = "source_id"
_IMAGE_SIZES = (("imagewidth", "imageheight"), ("imgwidth", "imgheight"), ("width", "height"))
_ROWS = 1000
# Numbers of a quad.
_QUAD = 8
# Rounding of a box whose numbers are fractions of the image size.
_SLACK = 0.01
# Meaning of the numbers of a box, in a sentence and alone.
_FORMS = {
    BoxFormat.CORNERS: ("two corners", "x and y of two corners"),
    BoxFormat.SIZE: ("a corner and a size", "x and y of the top left corner, width and height"),
    BoxFormat.CENTER: ("a center and a size", "x and y of the center, width and height"),
}


@dataclasses.dataclass(frozen=True)
class ObjectColumns:
    """The columns of the annotated objects of an image.

    Attributes:
      column: column with all fields of the objects; or, with `labels`, column with their boxes.
      labels: column with the class of each box; None if the objects have their classes.
      format: meaning of the four numbers of a box.
      is_normalized: whether the numbers are fractions of the image size.
      has_polygons: whether the objects have polygons or run lengths, as COCO has them.
      has_keypoints: whether the objects have keypoints, as COCO has them.
      image_id: column with the source's own name of the image; None if there is none.
      only: class of boxes without classes.
    """

    column: str
    labels: str | None = None
    format: BoxFormat = BoxFormat.SIZE
    is_normalized: bool = False
    has_polygons: bool = False
    has_keypoints: bool = False
    image_id: str | None = None
    only: str = ONLY_CLASS

    @property
    def needed(self) -> Sequence[str]:
        """All columns that `read` uses."""
        return [self.column, *filter(None, (self.labels, self.image_id))]

    @property
    def classes(self) -> str:
        """Column that declares the classes of the objects."""
        return self.labels or self.column

    def read(self, row: Mapping[str, Any], class_names: Sequence[str] = ()) -> Objects:
        """Returns the objects of a row.

        The cell is an object of lists, or a list of objects, with the fields `bbox` (four numbers in pixels of the
        oriented image) and `categories`; None for an image without objects.

        Args:
          row: column -> cell.
          class_names: names of the categories, if these are indices.

        Raises:
          SampleError: the cell has another form, or too many objects.
        """
        column, cell = self.column, row[self.column]
        if self.labels is not None:
            cell = {_BOX[0]: cell or [], CLASS_FIELDS[0]: row[self.labels] or []}
        fields = _columns(cell)
        if fields is None:
            raise invalid_row(
                f"column {column!r} has {shorten(str(cell))}; expected an object with 'bbox' and 'categories'"
            )
        boxes, labels = _find(fields, _BOX) or [], _find(fields, CLASS_FIELDS)
        check_count(len(boxes))
        if labels is None:
            labels = [self.only] * len(boxes)
        found = {name: values for name, names in _ATTRIBUTES.items() if (values := _find(fields, names)) is not None}
        lengths = {len(boxes), len(labels), *map(len, found.values())}
        if len(lengths) > 1:
            raise invalid_row(f"column {column!r} has lists of {' and '.join(map(str, sorted(lengths)))} elements")
        sides = [side for box in boxes for side in to_corners(_numbers(box), self.format)]
        named = tuple(name_class(read_label({column: label}, column), class_names) for label in labels)
        polygons: tuple[bytes, ...] = ()
        if found_polygons := _find(fields, _POLYGONS):
            # Imports NumPy, which a refused request does without.
            from beam_tfrecords.transforms.objects.polygons import pack_segmentation

            polygons = tuple(map(pack_segmentation, found_polygons))
        if len(polygons) not in (0, len(boxes)):
            raise invalid_row(f"column {column!r} has {len(boxes)} boxes and {len(polygons)} segmentations")
        return Objects(
            tuple(sides),
            named,
            {name: tuple(values) for name, values in found.items()},
            image_id="" if self.image_id is None else read_text(row, self.image_id, required=False),
            is_normalized=self.is_normalized,
            polygons=polygons if self.has_polygons else (),
            keypoints=self._read_keypoints(fields) if self.has_keypoints else (),
        )

    def _read_keypoints(self, fields: Mapping[str, Any]) -> tuple[bytes, ...]:
        """Packs the keypoints of each object; the shorter ones get points that are not labeled."""
        # Most tables have no keypoints.
        from beam_tfrecords.transforms.objects.polygons import pack_keypoints

        shift = 0 if self.is_normalized else 0.5
        packed = [pack_keypoints(points, shift=shift) for points in _find(fields, _KEYPOINTS) or ()]
        most = max(map(len, packed), default=0)
        return tuple(points.ljust(most, b"\0") for points in packed)


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
    contents = needs.contents
    usual = [*find_usual(table.columns, _NAMES)]
    boxes = [*find_usual(table.columns, _BOX)]
    columns = [name for name in (*usual, *boxes) if name not in table.embedded]
    if not columns or not ({Content.OBJECTS, Content.MASK} & contents) or settings.label_columns:
        return None
    cells = first_cells(table, columns, rows=_ROWS)
    held = next((name for name in columns if hold_objects(cells[name])), None)
    if held is None and Content.OBJECTS in needs.required and COLUMN in columns and not any(cells[COLUMN]):
        # The first images have no objects.
        held = COLUMN
    if held is not None:
        fields = [_columns(cell) or {} for cell in cells[held]]
        outlines = [outline for one in fields for outline in _find(one, _POLYGONS) or ()]
        # Run lengths have no corners.
        is_open = not any(fields)
        has_polygons = bool({*OUTLINES, Content.MASK} & contents) and (
            is_open or any(isinstance(one, list) or Content.POLYGONS not in contents for one in outlines if one)
        )
        has_points = is_open or any(_find(one, _KEYPOINTS) for one in fields)
        # A layout may have both.
        wants_both = Content.OBJECTS in needs.required and Content.LABEL in contents
        has_any = Content.OBJECTS in contents or has_polygons
        if not (wants_both or wants_objects(settings, needs, label)) or not has_any:
            return None
        form = next((BoxFormat.SIZE for one in fields if _SIZES[0] in one or _CORNERS[0] in one), BoxFormat.AUTO)
        found = [_find(one, _BOX) for one in fields]
        objects = ObjectColumns(
            held,
            has_polygons=has_polygons,
            has_keypoints=has_points and Content.KEYPOINTS in contents,
            image_id=_IMAGE_ID if _IMAGE_ID in table.columns else None,
            only=needs.only_class,
        )
        return _with_format(objects, found, table, settings, form)
    for name in boxes if Content.OBJECTS in contents else ():
        classes = [*find_usual(table.columns, CLASS_FIELDS)] if _are_boxes(cells[name]) else []
        for labels in classes:
            if _are_parallel(cells[name], first_cells(table, [labels], rows=_ROWS)[labels]):
                wanted = None if label == labels else label
                if settings.label_column not in (None, labels) or not wants_objects(
                    dataclasses.replace(settings, label_column=None), needs, wanted
                ):
                    return None
                return _with_format(ObjectColumns(name, labels), cells[name], table, settings)
    return None


def _with_format(
    found: ObjectColumns,
    cells: Sequence[Any],
    table: Table,
    settings: TableSettings,
    named: BoxFormat = BoxFormat.AUTO,
) -> ObjectColumns:
    """Returns the columns with the format of their boxes; `cells` are the lists of boxes in the first rows."""
    size = find_sizes(table.columns, without=())
    known = first_cells(table, size, rows=_ROWS) if size else {}
    sizes = [[read_number(known[name][row]) for name in size] for row in range(len(cells))]
    pairs = [(_numbers(box), of) for boxes, of in zip(cells, sizes, strict=True) for box in boxes or ()]
    if not pairs and len(cells) < _ROWS:
        return found
    form, is_normalized = choose_format(pairs, named, settings, table, shown=found.column)
    return dataclasses.replace(found, format=form, is_normalized=is_normalized)


def find_sizes(columns: Sequence[str], *, without: Sequence[str]) -> Sequence[str]:
    """Returns the columns with the image's width and height that are not in `without`; [] if there are none."""
    plain = {plain_name(name): name for name in reversed(columns)}
    found = ([plain.get(word) for word in pair] for pair in _IMAGE_SIZES)
    return next(([one for one in pair if one] for pair in found if None not in pair and not {*pair} & {*without}), [])


def choose_format(
    boxes: Sequence[tuple[Sequence[float], Sequence[float]]],
    named: BoxFormat,
    settings: TableSettings,
    table: Table,
    *,
    shown: str,
    may_be_center: bool = False,
) -> tuple[BoxFormat, bool]:
    """Returns the meaning of the numbers of boxes, and whether they are fractions of the image size.

    Args:
      boxes: the four numbers of each box, and width and height of its image if known.
      named: meaning by the names of columns.
      settings: settings of the boxes.
      table: the table.
      shown: columns of the boxes, for messages.
      may_be_center: whether a corner may also be a center, if the numbers are fractions.

    Raises:
      RequestError: several meanings fit the boxes.
    """
    most = max((abs(side) for box, _ in boxes for side in box if math.isfinite(side)), default=math.inf)
    unit = settings.box_unit
    is_normalized = unit is BoxUnit.SHARES or (unit is BoxUnit.AUTO and most <= MOST_SHARE)
    if settings.box_format is not BoxFormat.AUTO:
        return settings.box_format, is_normalized
    forms = [BoxFormat.CORNERS, BoxFormat.SIZE] if named is BoxFormat.AUTO else [named]
    if is_normalized and (named is BoxFormat.AUTO or may_be_center):
        forms.append(BoxFormat.CENTER)
    sized = [(box, (1, 1) if is_normalized else size) for box, size in boxes]
    # Allows for rounding, of one pixel or as large a part of a small image.
    slack = _SLACK if is_normalized else 1
    found = [form for form in forms if all(_fits(box, form, size, slack) for box, size in sized)]
    if len(forms) > 1 and len(found) > 1:
        raise RequestError(
            f"{quote_input(table.path)}: the boxes in {shown} may be {', or '.join(_FORMS[form][0] for form in found)}",
            [Reading(_FORMS[form][1], {"box_format": form.value}) for form in reversed(found)],
            code="unclear_box_format",
        )
    return (found or [BoxFormat.SIZE if named is BoxFormat.AUTO else named])[0], is_normalized


def _fits(box: Sequence[float], form: BoxFormat, size: Sequence[float], slack: float) -> bool:
    """Whether four numbers are a box inside its image, if its size is known."""
    x, y, third, fourth = box
    if form is BoxFormat.CORNERS:
        return third > x and fourth > y
    if form is BoxFormat.CENTER and min(x - third / 2, y - fourth / 2) < -slack:
        return False
    x, y, right, lower = to_corners(box, form)
    return not size or (right <= size[0] + slack and lower <= size[1] + slack)


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
    if settings.label_column or settings.label_columns or not ({Content.OBJECTS, Content.MASK} & needs.contents):
        return False
    return label is None or not (needs.columns is None or Content.LABEL in needs.contents)


def hold_objects(cells: Iterable[Any]) -> bool:
    """Whether the first non-empty cell contains boxes; quads of eight numbers are none."""
    found = _find(next(filter(None, map(_columns, cells)), {}), _BOX)
    return found is not None and not any(isinstance(box, list) and len(box) == _QUAD for box in found)


def unread_fields(cells: Sequence[Any], contents: Collection[Content]) -> list[str]:
    """Returns the fields of the objects in cells that `ObjectColumns.read` does not read; [] for other cells.

    Args:
      cells: first cells of a column.
      contents: contents that the layout needs.
    """
    fields = dict.fromkeys(itertools.chain.from_iterable(_columns(cell) or {} for cell in cells))
    if not hold_objects(cells):
        return []
    groups = [_BOX, CLASS_FIELDS, *_ATTRIBUTES.values()]
    groups += [_POLYGONS] if {*OUTLINES, Content.MASK} & {*contents} else []
    groups += [_KEYPOINTS] if Content.KEYPOINTS in contents else []
    read = {next((name for name in names if name in fields), "") for names in groups}
    return [name for name in fields if name not in {*read, *_SIZES, *_CORNERS}]


def _columns(cell: Any) -> Mapping[str, Any] | None:
    """Returns field -> value for each object; {} if there are no objects, None if the cell has another form."""
    cell = parse_cell(cell)
    if cell is None or cell == "":
        return {}
    if isinstance(cell, list) and all(isinstance(one, dict) for one in cell):
        fields = {name: [one.get(name) for one in cell] for name in dict.fromkeys(itertools.chain(*cell))}
        for x, y, right, lower in (_SIZES, _CORNERS):
            if {x, y, right, lower} <= fields.keys() and _find(fields, _BOX) is None:
                sides = zip(*(fields[name] for name in (x, y, right, lower)), strict=True)
                fields[_BOX[0]] = [_as_size(box) if x == _CORNERS[0] else list(box) for box in sides]
        return fields
    return cell if isinstance(cell, dict) else None


def _as_size(box: Sequence[Any]) -> list[float]:
    """Returns the corner and size of a box given by two corners."""
    x, y, right, lower = _numbers(box)
    return [x, y, right - x, lower - y]


def _find(fields: Mapping[str, Any], names: Sequence[str]) -> list[Any] | None:
    return next((fields[name] for name in names if isinstance(fields.get(name), list)), None)


def _numbers(box: Any) -> Sequence[float]:
    if isinstance(box, list | tuple) and len(box) == 4 and all(type(side) in (int, float) for side in box):
        return [float(side) for side in box]
    return [math.nan] * 4
