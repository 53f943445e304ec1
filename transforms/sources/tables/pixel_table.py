"""Tables that hold the pixels of images as numbers: a text of them in a cell, as FER2013, or a column for each.

The workers read the tables, one each, and copy the pixels to a spool.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs import IMAGE, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.sources.containers import Container, Spool
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import find_pixels
from beam_tfrecords.transforms.sources.detect.columns import choose_label, find_label
from beam_tfrecords.transforms.sources.detect.image_columns import find_image_column
from beam_tfrecords.transforms.sources.detect.numbered_columns import square_shape
from beam_tfrecords.transforms.sources.inputs import (
    InputFile,
    describe_splits,
    find_files,
    quote_input,
)
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import Skipped, SourceSpec
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.cells import check_end, invalid_row
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows, InvalidRow, Row, Table


class PixelTableSource(RowSource):
    """Tables with the pixels of images.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "row"
    labels_may_be_indices = True

    def __init__(self, files: Sequence[InputFile], table: Table, spec: SourceSpec) -> None:
        super().__init__(files)
        self.name = spec.source
        found = find_pixels(table, any_name=True)
        if found is None:
            raise RequestError(
                f"{quote_input(table.path)} has no pixels of square images: a column of texts such as '70 80 82 …', or "
                "columns such as pixel0, pixel1, …"
            )
        pixels, shape = found
        columns = tuple(name for name in table.columns if name not in pixels)
        types = {name: kind for name, kind in (table.column_types or {}).items() if name in columns}
        rest = FirstRows(table.path, columns, types or dict.fromkeys(columns, "bytes"), _first_rows(table, columns))
        label = self._choose_label(rest, spec)
        cells = self._take_columns(rest, spec, label)
        self.column_types = types or None
        splits = splits_of(files) if spec.input_splits or cells.columns.split is None else {}
        self.notes += describe_splits(splits, list(splits.values()), spec)
        self.read_container: ReadPixels = ReadPixels(cells, pixels, tuple(shape), splits, spec.delimiter, spec.encoding)

    def _choose_label(self, table: FirstRows, spec: SourceSpec) -> str | None:
        named = [name for name in table.columns if is_label_name(name)]
        then = named if len(named) == 1 else ()
        label = choose_label(table, spec, then=then)
        if label in then and label != spec.label_column and find_label(table) is None:
            self.notes.append(f"{printable(storage.basename(table.path))}: labels from column {label!r}")
        return label


@dataclasses.dataclass(frozen=True)
class ReadPixels:
    """Lists the rows of one table. Picklable.

    Attributes:
      cells: reads what belongs to an image.
      pixels: the column of texts, or the columns of the pixels.
      shape: of an image.
      splits: file -> split of its rows.
      delimiter: of the request, and `encoding`.
    """

    cells: RowReader
    pixels: Sequence[str]
    shape: tuple[int, ...]
    splits: Mapping[str, str]
    delimiter: str | None
    encoding: str | None

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per row.

        Args:
          spool: receives the pixels.

        Raises:
          SampleError: the table cannot be read to its end.
        """
        try:
            table = open_table(container.uri, delimiter=self.delimiter, encoding=self.encoding)
        except RequestError as error:
            raise invalid_row(str(error)) from error
        missing = {*self.cells.needed, *self.pixels} - set(table.columns)
        if missing:
            raise invalid_row(f"the file has no column {min(missing)!r}, which the first one has")
        split = self.splits.get(container.uri)
        for number, row in enumerate(table.rows(tuple(dict.fromkeys([*self.cells.needed, *self.pixels])))):
            check_end(row)
            located = _RowPixels(
                number_key(number), row=row, number=number, container=container, reader=self, spool=spool
            )
            yield self.cells.sample(row, located, prefix=container.key_prefix, split=split)


@dataclasses.dataclass(kw_only=True)
class _RowPixels(Located):
    """The image whose pixels a row has."""

    row: Row
    number: int
    container: Container
    reader: ReadPixels
    spool: Spool

    def __post_init__(self) -> None:
        self._name = f"{self.container.uri}#{self.key}"
        self.images[IMAGE] = Range(self.container.uri, 0, 0, self._name)

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        assert not isinstance(self.row, InvalidRow)
        columns, expected = self.reader.pixels, self.reader.shape
        pixels = _read_pixels(self.row, columns)
        # Datasets of several sizes are said to be square too.
        shape = tuple(square_shape(len(pixels)) if len(columns) == 1 else expected)
        if not shape or len(shape) != len(expected):
            raise invalid_row(f"{len(pixels):,} pixels, which make no square image")
        copied = self.spool.add([pixels], size=len(pixels), name=self._name)
        where = copied.uri, copied.offset, copied.length, self._name, copied.version
        self.images[IMAGE] = PixelRange(*where, shape=shape, axes="HWC" if len(shape) == 3 else "HW")
        self.size, self.fingerprint = len(pixels), f"{self.container.fingerprint}@{self.number}"


def recognises(container: Container, spec: SourceSpec) -> bool:
    """Whether a table has pixels, and the request wants images and does not say where their files are."""
    if not spec.needs_image or spec.image_column is not None or spec.image_path is not None:
        return False
    try:
        table = open_table(container.uri, delimiter=spec.delimiter, encoding=spec.encoding)
    except (RequestError, OSError) as error:
        if storage.is_unanswered(error):
            raise
        return False  # Opening it as another table says why.
    found = find_pixels(table)
    return found is not None and find_image_column(table.columns) in (None, *found[0])


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the files, and reads the header of the first.

    Raises:
      RequestError: a file does not exist, or they do not fit the request.
    """
    files = find_files(spec)
    table = open_table(files[0].entry.path, delimiter=spec.delimiter, encoding=spec.encoding)
    return functools.partial(PixelTableSource, files, table)


def _first_rows(table: Table, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    rows = zip(range(100), table.rows(columns), strict=False)
    return [row for _, row in rows if not isinstance(row, InvalidRow)]


def _read_pixels(row: Mapping[str, Any], columns: Sequence[str]) -> bytes:
    """The numbers of a row as bytes.

    Raises:
      SampleError: they are no bytes.
    """
    values = row[columns[0]] if len(columns) == 1 else [row[column] for column in columns]
    try:
        return bytes(map(int, values.split() if isinstance(values, str) else values))
    except (ValueError, TypeError, OverflowError) as error:
        raise invalid_row(f"the pixels are not whole numbers from 0 to 255: {error}") from error
