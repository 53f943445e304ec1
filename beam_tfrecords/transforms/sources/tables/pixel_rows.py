"""Lists the rows of tables that contain image pixels."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles
from beam_tfrecords.transforms.sources.detect.numbered_columns import square_shape
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.cells import check_end, invalid_row
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.table_settings import TextSettings


@dataclasses.dataclass(frozen=True)
class ReadPixels:
    """Lists the rows of one table. Picklable.

    Attributes:
      cells: reads the other values of a row.
      pixels: the column with all pixels as text, or one column per pixel.
      shape: shape of an image, [H, W] or [H, W, C].
      splits: file -> split of its rows.
      text: text settings of the table.
    """

    cells: RowReader
    pixels: Sequence[str]
    shape: tuple[int, ...]
    splits: Mapping[str, str]
    text: TextSettings

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per row.

        Args:
          staging: receives the pixels.

        Raises:
          SampleError: the table cannot be read to its end.
        """
        try:
            table = open_table(container.uri, self.text)
        except RequestError as error:
            raise invalid_row(str(error)) from error
        missing = {*self.cells.needed, *self.pixels} - set(table.columns)
        if missing:
            raise invalid_row(f"the file has no column {min(missing)!r}, which the first one has")
        split = self.splits.get(container.uri)
        for number, row in enumerate(table.rows(tuple(dict.fromkeys([*self.cells.needed, *self.pixels])))):
            check_end(row)
            located = _RowPixels(
                number_key(number), row=row, number=number, container=container, reader=self, staging=staging
            )
            yield self.cells.sample(row, located, prefix=container.key_prefix, split=split)


@dataclasses.dataclass(kw_only=True)
class _RowPixels(Located):
    """The image whose pixels are in a row."""

    row: Row
    number: int
    container: Container
    reader: ReadPixels
    staging: StagingFiles

    def __post_init__(self) -> None:
        self._name = f"{self.container.uri}#{self.key}"
        self.images[IMAGE] = Range(self.container.uri, 0, 0, self._name)

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        assert not isinstance(self.row, InvalidRow)
        columns, expected = self.reader.pixels, self.reader.shape
        pixels = _read_pixels(self.row, columns)
        # With one column, images may differ in size, but all are square.
        shape = tuple(square_shape(len(pixels)) if len(columns) == 1 else expected)
        if not shape or len(shape) != len(expected):
            raise invalid_row(f"{len(pixels):,} pixels, which make no square image")
        copied = self.staging.add([pixels], size=len(pixels), name=self._name)
        where = copied.uri, copied.offset, copied.length, self._name, copied.version
        self.images[IMAGE] = PixelRange(*where, shape=shape, axes="HWC" if len(shape) == 3 else "HW")
        self.size, self.fingerprint = len(pixels), f"{self.container.fingerprint}@{self.number}"


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
