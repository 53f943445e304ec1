"""Reads Parquet files in batches of rows, with the types of their schema."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.storage.reading import damaged, is_damage
from beam_tfrecords.transforms.objects.objects import MOST_OBJECTS
from beam_tfrecords.transforms.sources.partition import MOST_MISSING
from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, RowRange, TableFile
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, TableSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables

_BATCH_ROWS = 512
# Target number of values of a column in a batch: 64 MB of numbers.
_GROUP_VALUES = 16 << 20
# Target size of a batch; not counting values that a dictionary shares between rows.
_BATCH_BYTES = 16 << 20
# Number of list elements to convert to Python values at once.
_SLICE_VALUES = 1 << 16
# Without a buffer size, pyarrow reads whole column chunks, which can be as large as the file.
_BUFFER_BYTES = 1 << 20
# Minimum number of rows in a range. Seeking to a range decodes the earlier pages of its row group again, so a row group
# is split into a few ranges only, which keeps the overhead small compared with reading the rows as samples.
_RANGE_ROWS = 1 << 16
_MOST_IN_GROUP = 8


@dataclasses.dataclass(frozen=True, eq=False)
class ParquetTable(TableFile):
    """A Parquet file.

    Integers, booleans, floats, strings, bytes and lists keep their type. Times, dates and decimals become
    strings in Arrow's notation.

    Attributes:
      column_types: column -> "int64" (integers, booleans), "float", or "bytes" (all other types); for a list, the
        type of its elements.
      text_columns: columns of strings.
      group_rows: number of rows in each row group.
    """

    column_types: Mapping[str, str] = dataclasses.field(kw_only=True)
    text_columns: frozenset[str]
    group_rows: Sequence[int]

    def may_hold_text(self, column: str) -> bool:
        """Whether the schema declares the column as string."""
        return column in self.text_columns

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`; a row with a value that Python cannot represent (a broken string) becomes an `InvalidRow`.

        Every row after a damaged part of the file also becomes an `InvalidRow`.

        Raises:
          OSError: a service fault.
        """
        part = part or RowRange(0, 0, sum(self.group_rows))
        number, end = part.row, part.stop
        with opened(self.path) as file, storage.open_read(self.path) as plain:
            try:
                for batch in self._batches(file, plain, columns, part):
                    for row in read_rows(batch, columns):
                        yield InvalidRow(f"row {number}: {row.detail}") if isinstance(row, InvalidRow) else row
                        number += 1
            except Exception as error:  # Arrow may raise any exception for a malformed file.
                if not is_damage(error):
                    raise
                problem = damaged(error).detail
                lost = range(number, min(end, number + MOST_MISSING))
                yield from (InvalidRow(f"row {row}: {problem}") for row in lost)
                if end - number > MOST_MISSING:
                    yield InvalidRow(f"the table cannot be read beyond row {number:,}: {problem}", ends=True)
            else:
                yield from (InvalidRow(f"row {row}: it is missing") for row in range(number, end))

    def _beside(self, columns: Sequence[str], rows: int) -> Sequence[str]:
        """See `Table._beside`; other columns may be damaged or large."""
        return ()

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`; splits large row groups, and joins small ones."""
        ends, total = [0], sum(self.group_rows)
        for end, rows in zip(itertools.accumulate(self.group_rows), self.group_rows, strict=True):
            if end - ends[-1] >= _RANGE_ROWS or end == total:
                pieces = max(1, min(_MOST_IN_GROUP, rows // _RANGE_ROWS))
                # The first piece of a group includes the small groups before it.
                ends += [end - rows + rows * piece // pieces for piece in range(1, pieces + 1)]
        return [RowRange(start, start, stop) for start, stop in itertools.pairwise(ends) if start < stop], ""

    def _batches(
        self, file: pq.ParquetFile, plain: IO[bytes], columns: Sequence[str], part: RowRange
    ) -> Iterator[pa.RecordBatch]:
        chosen = frozenset(columns)
        for group, end_of_group in enumerate(itertools.accumulate(self.group_rows)):
            at = end_of_group - self.group_rows[group]
            if end_of_group <= part.start or at >= part.stop:
                continue
            check_pages(plain, file.metadata, group, chosen)
            rows = fitting_rows(file.metadata.row_group(group), chosen, most=_BATCH_ROWS)
            for batch in file.iter_batches(rows, [group], columns=list(columns), use_threads=False):
                begin, end = max(part.start - at, 0), min(part.stop - at, batch.num_rows)
                if begin < end:
                    yield batch.slice(begin, end - begin)
                at += batch.num_rows
                if at >= part.stop:
                    break


def open_table(path: str, settings: TableSettings = DETECTED) -> ParquetTable:
    """Opens a Parquet file, and reads its schema.

    Raises:
      RequestError: the file is not a Parquet file, or two of its columns have the same name.
    """
    try:
        with opened(path) as file:
            schema = file.schema_arrow
            group_rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    except Exception as error:  # Arrow may raise any exception for a malformed file.
        if isinstance(error, OSError) or not is_damage(error):
            raise
        raise RequestError(f"`input={path}` is not a valid Parquet file: {error}", code="invalid_file") from error
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise RequestError(
            f"`input={path}` has more than one column named {', '.join(map(repr, twice))}", code="duplicate_column"
        )
    return ParquetTable(
        path,
        tuple(schema.names),
        frozenset(field.name for field in schema if _is_text(_plain(field.type))),
        tuple(group_rows),
        column_types={field.name: _feature_type(field.type) for field in schema},
        embedded=[field.name for field in schema if may_hold_images(field)],
    )


open_input = functools.partial(open_tables, open_table)


@contextlib.contextmanager
def opened(path: str, *, version: str = "") -> Iterator[pq.ParquetFile]:
    """Opens a version of a Parquet file (see `storage.open_read`), with buffered reads of its columns."""
    with (
        storage.open_read(path, version=version) as source,
        pq.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
    ):
        yield file


def fitting_rows(group: pq.RowGroupMetaData, columns: Collection[str], *, most: int) -> int:
    """Returns the number of rows to read at once, at least one: fewer for long lists or large values.

    Args:
      group: the row group.
      columns: columns to read.
      most: largest number of rows.
    """
    chunks = [
        chunk
        for chunk in map(group.column, range(group.num_columns))
        if chunk.path_in_schema.partition(".")[0] in columns
    ]
    values = max((chunk.num_values for chunk in chunks), default=1)
    size = sum(chunk.total_uncompressed_size for chunk in chunks)
    return max(1, min(most, most * _GROUP_VALUES // max(values, 1), group.num_rows * _BATCH_BYTES // max(size, 1)))


def read_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[dict[str, Any] | InvalidRow]:
    """Yields the rows with plain values; an `InvalidRow` if Python cannot represent a value, or for too many objects.

    A list takes ten times as much memory in Python as in Arrow, so rows with long lists are converted in small slices.
    """
    cells = [batch.column(name) for name in columns]
    values: np.ndarray = sum(map(_count_values, cells), np.zeros(batch.num_rows, np.int64))
    objects = np.maximum.reduce([np.zeros(batch.num_rows, np.int64), *map(_count_objects, cells)])
    too_many = np.flatnonzero(objects > MOST_OBJECTS)
    full = np.flatnonzero(np.diff(np.cumsum(values) // _SLICE_VALUES)) + 1
    for begin, end in itertools.pairwise(sorted({0, batch.num_rows, *full, *too_many, *(too_many + 1)})):
        if objects[begin] > MOST_OBJECTS:
            yield InvalidRow(f"a cell has {objects[begin]:,} objects; expected at most {MOST_OBJECTS:,}")
        else:
            yield from _python_rows(batch.slice(begin, end - begin), columns)


def _python_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[dict[str, Any] | InvalidRow]:
    values = [to_python(batch.column(name)) for name in columns]
    are_whole = not any(InvalidRow in map(type, cells) for cells in values)
    for row in zip(*values, strict=True) if values else [()] * batch.num_rows:
        broken = None if are_whole else next((one for one in row if isinstance(one, InvalidRow)), None)
        yield broken or dict(zip(columns, row, strict=True))


def _count_values(column: pa.Array) -> np.ndarray:
    """Counts the values in the lists of each row, [rows] int64."""
    none = np.zeros(len(column), np.int64)
    if isinstance(column.type, pa.BaseExtensionType):
        return _count_values(column.storage)
    if pa.types.is_struct(column.type):
        return sum(map(_count_values, column.flatten()), none)
    if not is_list(column.type):
        return none
    lengths = _lengths(column)
    sums = np.concatenate([[0], np.cumsum(_count_values(column.flatten()))])
    ends = np.cumsum(lengths)
    return lengths + sums[ends] - sums[ends - lengths]


def _count_objects(column: pa.Array) -> np.ndarray:
    """Counts the objects or lists in each row, [rows] int64; objects may also be stored as one list per field."""
    if pa.types.is_struct(column.type):
        fields = [_lengths(field) for field in column.flatten() if is_list(field.type)]
        return np.maximum.reduce(fields) if fields else np.zeros(len(column), np.int64)
    is_nested = is_list(column.type) and (is_list(column.type.value_type) or pa.types.is_struct(column.type.value_type))
    return _lengths(column) if is_nested else np.zeros(len(column), np.int64)


def _lengths(column: pa.Array) -> np.ndarray:
    return np.asarray(pc.list_value_length(column).fill_null(0).cast(pa.int64()))


def to_python(column: pa.Array) -> list[Any]:
    """Converts cells to plain values; a cell that Python cannot represent becomes an `InvalidRow`."""
    plain = _plain(column.type)
    if plain != column.type:
        column = column.cast(plain)
    try:
        return column.to_pylist()
    except ValueError:  # A string that is not UTF-8, or a time outside Python's range.
        return [_value(cell) for cell in column]


def _value(cell: pa.Scalar) -> Any:
    try:
        return cell.as_py()
    except ValueError as error:
        return InvalidRow(str(error))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type to cast to, so that values convert to plain Python values."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return pa.string()
    if is_list(kind):
        plain = _plain(kind.value_type)
        return kind if plain == kind.value_type else pa.list_(plain)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def _feature_type(kind: pa.DataType) -> str:
    kind = _plain(kind)
    if is_list(kind):
        return _feature_type(kind.value_type)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "int64"
    return "float" if pa.types.is_floating(kind) else "bytes"


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type contains lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def may_hold_images(field: pa.Field) -> bool:
    """Whether a column may contain image bytes: in a struct as Hugging Face writes, or directly."""
    is_named = bool(re.search("image|img|jpe?g|png|photo|picture|bytes", field.name.lower()))
    return is_image(field.type) or (is_binary(field.type) and is_named)


def is_image(kind: pa.DataType) -> bool:
    """Whether a type is `struct<bytes: binary, path: string>`, in any field order, or a list of such structs."""
    kind = kind.value_type if is_list(kind) else kind
    return pa.types.is_struct(kind) and any(one.name == "bytes" and is_binary(one.type) for one in kind)


def is_binary(kind: pa.DataType) -> bool:
    """Whether a column of this type contains bytes."""
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
