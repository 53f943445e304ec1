"""Reads tables of image pixels: one cell with all numbers as text, as in FER2013, or one column per pixel.

Each table is a partition: one worker reads it and copies the pixels to a staging file.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Locator, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.settings import slice_of
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import find_pixels
from beam_tfrecords.transforms.sources.detect.columns import choose_label, find_label
from beam_tfrecords.transforms.sources.detect.image_columns import find_image_column
from beam_tfrecords.transforms.sources.detect.numbered_columns import square_shape
from beam_tfrecords.transforms.sources.inputs import describe_splits, quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.cells import check_columns, invalid_row
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, list_rows
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowImages
from beam_tfrecords.transforms.sources.tables.table import FirstRows, Row, Table, open_table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.sources.tally import Tally


@dataclasses.dataclass(frozen=True)
class _RowPixels(RowImages):
    """Finds the images whose pixels are in the rows.

    Attributes:
      columns: the column with all pixels as text, or one column per pixel.
      shape: shape of the images, [H, W] or [H, W, C]; with one column, images may differ in size, but all are square.
    """

    columns: Sequence[str]
    shape: tuple[int, ...]
    partition: Partition
    staging: StagingFiles

    def place(self, row: Row | SampleError, found: Located) -> dict[str, Locator]:
        """See `RowImages.place`."""
        return {IMAGE: Range(self.partition.uri, 0, 0, f"{self.partition.uri}#{found.key}")}

    def find(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.find`."""
        pixels = _read_pixels(row, self.columns)
        shape = tuple(square_shape(len(pixels))) if len(self.columns) == 1 else self.shape
        if not shape or len(shape) != len(self.shape):
            raise invalid_row(f"{len(pixels):,} pixels, which make no square image")
        copied = self.staging.add([pixels], size=len(pixels), name=f"{self.partition.uri}#{found.key}")
        where = copied.uri, copied.offset, copied.length, copied.name, copied.version
        found.images[IMAGE] = PixelRange(*where, shape=shape, axes="HWC" if len(shape) == 3 else "HW")
        found.size, found.fingerprint = len(pixels), f"{self.partition.fingerprint}@{found.number}"


def _read_pixels(row: Mapping[str, Any], columns: Sequence[str]) -> bytes:
    """Converts the numbers of a row to bytes.

    Raises:
      SampleError: a number is not a whole number from 0 to 255.
    """
    values = row[columns[0]] if len(columns) == 1 else [row[column] for column in columns]
    try:
        return bytes(map(int, values.split() if isinstance(values, str) else values))
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid_row(f"the pixels are not whole numbers from 0 to 255: {error}") from error


class PixelTableSource(RowSource):
    """Tables that contain image pixels.

    Raises:
      RequestError: the tables do not fit the request.
    """

    description = Description(unit="row")

    def __init__(self, files: Sequence[Partition], table: Table, request: OpenRequest, needs: Needs) -> None:
        inputs, settings = request.inputs, request.spec
        super().__init__(files, inputs)
        self._settings = slice_of(TableSettings, request.spec)
        found = find_pixels(table, any_name=True)
        if found is None:
            raise RequestError(
                f"{quote_input(table.path)} has no pixels of square images: a column of texts such as '70 80 82 …', or "
                "columns such as pixel0, pixel1, …",
                code="missing_pixel_columns",
            )
        pixels, shape = found
        self._pixels, self._shape = pixels, tuple(shape)
        columns = tuple(name for name in table.columns if name not in pixels)
        types = {name: kind for name, kind in (table.column_types or {}).items() if name in columns}
        known = types or dict.fromkeys(columns, "bytes")
        rest = FirstRows(table.path, columns, table.head(columns), column_types=known)
        label = self._choose_label(rest, settings, needs)
        self._cells = self._take_columns(rest, settings, needs, label, images={IMAGE: False})
        self._describe(column_types=types or None)
        if self._cells.columns.split is None:
            self.notes += describe_splits({file.uri: file.split for file in files if file.split}, inputs)

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields one reference per row; copies the pixels.

        Raises:
          SampleError: the table cannot be read to its end.
        """
        try:
            table = open_table(partition.uri, self._settings)
        except RequestError as error:
            raise invalid_row(str(error)) from error
        needed = tuple(dict.fromkeys([*self._cells.needed, *self._pixels]))
        check_columns(needed, table.columns)

        images = _RowPixels(self._pixels, self._shape, partition, staging)
        yield from list_rows(self._cells, table.rows(needed), images, partition)

    def _choose_label(self, table: FirstRows, settings: TableSettings, needs: Needs) -> str | None:
        named = [name for name in table.columns if is_label_name(name)]
        then = named if len(named) == 1 else ()
        label = choose_label(table, settings, needs, then=then)
        if label in then and label != settings.label_column and find_label(table) is None:
            self.notes.append(f"{printable(storage.basename(table.path))}: labels from column {label!r}")
        return label


def recognizes(partition: Partition, settings: TableSettings, needs: Needs) -> bool:
    """Whether a table contains pixels, and the request needs images and does not name image files."""
    if Content.IMAGE not in needs.contents or settings.image_column is not None or settings.image_path is not None:
        return False
    try:
        opened = open_table(partition.uri, settings)
    except (RequestError, OSError) as error:
        if storage.is_unanswered(error):
            raise
        return False  # Opening the file as another kind of table reports the error.
    found = find_pixels(opened)
    return found is not None and find_image_column(opened.columns) in (None, *found[0])


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and reads the header of the first file.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    files = request.find_files()
    return functools.partial(PixelTableSource, files, open_table(files[0].uri, request.spec), request)
