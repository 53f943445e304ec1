"""Reads masks of objects from the cells of a table: run lengths, polygons, or paths of files. Pure functions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import bounds_of, pack_pixels, pack_runs, pack_segmentation
from beam_tfrecords.transforms.refs.sample_refs import object_mask
from beam_tfrecords.transforms.sources.detect.roles import is_segmentation, parse_cell
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, name_class, read_label, read_text

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
    """

    column: str
    label: str | None
    only: str
    are_files: bool

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
        if self.are_files:
            return pack_pixels(object_mask(read_text({self.column: part}, self.column))), _NO_BOX
        if isinstance(part, str):
            try:
                return pack_runs(part), _NO_BOX
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
