"""Reads boxes from tables with one row per box. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.objects.objects import BoxFormat, Objects, RunOrder, check_count
from beam_tfrecords.transforms.refs.sample_refs import object_mask
from beam_tfrecords.transforms.sources.detect.roles import is_segmentation, parse_cell
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, name_class, read_label, read_text

# Normalized coordinates above this are in pixels instead.
MOST_SHARE = 1.5


@dataclasses.dataclass(frozen=True)
class BoxColumns:
    """The columns of a table with one row per box.

    Attributes:
      sides: the four coordinate columns, x and y first; or a single column with lists of four numbers.
      format: meaning of the four numbers.
      is_normalized: whether the numbers are fractions of the image size.
      label: column of the class; None if all boxes have the class `only`.
      only: class of all boxes if there is no label column.
      size: columns of the image's width and height in pixels; empty if there are none.
      attributes: name of another object attribute -> column.
    """

    sides: Sequence[str]
    format: BoxFormat
    is_normalized: bool
    label: str | None
    only: str = ""
    size: Sequence[str] = ()
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def needed(self) -> Sequence[str]:
        """All columns that `read` uses."""
        label = [self.label] if self.label else []
        return [*self.sides, *label, *self.size, *self.attributes.values()]

    def read(self, row: Mapping[str, Any], class_names: Sequence[str] = ()) -> Objects:
        """Returns the object of a row; no object if all sides are empty, as for an image without boxes.

        Args:
          row: column -> cell.
          class_names: names of the classes, if these are indices.

        Raises:
          SampleError: a cell has an invalid value.
        """
        values = read_sides(row, self.sides)
        size = tuple(map(read_number, (row[name] for name in self.size)))
        shown = None
        if size and not self.is_normalized and all(side > 0 and side.is_integer() for side in size):
            shown = (int(size[0]), int(size[1]))
        if values is None:
            return Objects(size=shown, is_normalized=self.is_normalized)
        if not all(map(math.isfinite, values)):
            found = shorten(", ".join(str(row[name]) for name in self.sides))
            raise invalid_row(f"columns {', '.join(self.sides)} have {found}; expected the four numbers of a box")
        if self.is_normalized and max(map(abs, values)) > MOST_SHARE:
            raise invalid_row(f"the box {list(values)} is not in shares of the image, unlike those of the first rows")
        label = self.only if self.label is None else name_class(read_label(row, self.label), class_names)
        if isinstance(label, list | bytes | float):
            raise invalid_row(f"column {self.label!r} has {shorten(str(label))}; expected the class of a box")
        attributes = {name: (int(read_number(row[column]) == 1),) for name, column in self.attributes.items()}
        return Objects(
            tuple(to_corners(values, self.format)), (label,), attributes, size=shown, is_normalized=self.is_normalized
        )


def read_sides(row: Mapping[str, Any], columns: Sequence[str]) -> Sequence[float] | None:
    """Returns the four numbers of a box, NaN for invalid cells; None if all cells are empty."""
    cells = [row[name] for name in columns]
    if len(cells) == 1:
        cells = _as_list(cells[0])
    if all(_is_empty(cell) for cell in cells):
        return None
    return list(map(read_number, cells)) if len(cells) == 4 else [math.nan] * 4


def read_number(cell: Any) -> float:
    """Returns the number in a cell; NaN if it has no number."""
    if isinstance(cell, bool | None):
        return math.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _as_list(cell: Any) -> list[Any]:
    """Returns a cell as a list: parses text such as `[1, 2, 3, 4]` or `1 2 3 4`, and wraps any other cell."""
    if isinstance(cell, str) and cell.strip():
        try:
            found = json.loads(cell)
        except (ValueError, RecursionError):
            found = re.split(r"[\s,;()\[\]]+", cell.strip(" []()\t"))
        return found if isinstance(found, list) else [found]
    return cell if isinstance(cell, list) else [cell]


def _is_empty(cell: Any) -> bool:
    return cell is None or cell != cell or (isinstance(cell, str) and not cell.strip())


def to_corners(values: Sequence[float], of: BoxFormat) -> Sequence[float]:
    """Returns the x and y of two corners, for the four numbers of a box in some format."""
    x, y, third, fourth = values
    if of is BoxFormat.CORNERS:
        return values
    if of is BoxFormat.CENTER:
        x, y = x - third / 2, y - fourth / 2
    return x, y, x + third, y + fourth


_NO_BOX = (math.nan,) * 4
# The word for an image without a mask in SIIM-ACR's table.
_NO_MASK = "-1"


@dataclasses.dataclass(frozen=True)
class MaskColumns:
    """The column with the masks of objects: one in each row, or a list of them.

    Attributes:
      column: column with the masks.
      label: column of the class, or of a list of classes; None if all objects have the class `only`.
      only: class of all objects if there is no label column.
      are_files: whether the cells are paths of files, and not run lengths or polygons.
      run_order: direction in which run lengths count the pixels.
    """

    column: str
    label: str | None
    only: str
    are_files: bool
    run_order: RunOrder

    @property
    def needed(self) -> Sequence[str]:
        """All columns that `read` uses."""
        return [self.column, *([self.label] if self.label else [])]

    def paths(self, row: Mapping[str, Any]) -> Iterator[str]:
        """Yields the paths of the files with masks in a row.

        Raises:
          SampleError: a path is not a string, or is too long.
        """
        for path in _parts(row[self.column]) if self.are_files else ():
            yield read_text({self.column: path}, self.column)

    def read(self, row: Mapping[str, Any], class_names: Sequence[str] = ()) -> Objects:
        """Returns the objects of a row; none if the cell is empty, as for an image without a mask.

        Args:
          row: column -> cell.
          class_names: names of the classes, if these are indices.

        Raises:
          SampleError: a cell has an invalid value.
        """
        parts = _parts(row[self.column])
        check_count(len(parts))
        if not parts:
            return Objects()
        found = self.only if self.label is None else read_label(row, self.label)
        labels = found if isinstance(found, list) else [found] * len(parts)
        if len(labels) != len(parts):
            raise invalid_row(f"column {self.label!r} has {len(labels)} classes for {len(parts)} masks")
        named = tuple(name_class(label, class_names) for label in labels)
        masks = [self._pack(part) for part in parts]
        return Objects(tuple(side for _, box in masks for side in box), named, polygons=[packed for packed, _ in masks])

    def _pack(self, part: Any) -> tuple[bytes, Sequence[float]]:
        """Returns a packed mask, and its box; NaN if only the image decides the box."""
        # Tables without masks need no NumPy here.
        from beam_tfrecords.transforms.objects.polygons import bounds_of, pack_pixels, pack_runs, pack_segmentation

        if self.are_files:
            return pack_pixels(object_mask(read_text({self.column: part}, self.column))), _NO_BOX
        if isinstance(part, str):
            try:
                return pack_runs(part, self.run_order), _NO_BOX
            except ValueError as error:
                detail = f"column {self.column!r}: {error}"
                raise SampleError(Stage.LIST, FailureReason.INVALID_MASK, detail) from error
        bounds = bounds_of(part)
        if bounds is None:
            shown = shorten(str(part))
            raise invalid_row(f"column {self.column!r} has {shown}; expected run lengths or polygons, as COCO has them")
        x, y, width, height = bounds
        return pack_segmentation(part), (x, y, x + width, y + height)


def _parts(cell: Any) -> list[Any]:
    """Returns the masks in a cell."""
    cell = parse_cell(cell)
    if cell is None or cell != cell or (isinstance(cell, str) and cell.strip() in ("", _NO_MASK)):
        return []
    return cell if isinstance(cell, list) and not is_segmentation(cell) else [cell]
