"""The index: one row per record, in Parquet files beside the shards. Its columns are declared here and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords.tfrecord import masked_crc32c

# Facts about a sample before its conversion, and the location of its record.
_PLACED = [
    pa.field("key", pa.string(), nullable=False),
    pa.field("uri", pa.string()),
    pa.field("fingerprint", pa.string(), nullable=False),
    pa.field("label", pa.string()),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
]
# Measured by the conversion: `ConvertedBatch.index_columns` under the same names. A reused record keeps its values; a
# column that the previous dataset did not have is null.
_CONVERSION_FIELDS = [
    pa.field("content_hash", pa.string(), nullable=False),
    pa.field("sample_hash", pa.string(), nullable=False),
    pa.field("height", pa.int32()),
    pa.field("width", pa.int32()),
    pa.field("replaced_format", pa.string()),
    # Size of the image in the file, before its EXIF orientation (1 to 8) is applied.
    pa.field("source_height", pa.int32()),
    pa.field("source_width", pa.int32()),
    pa.field("orientation", pa.int8()),
    # Orientation that a kept file still needs.
    pa.field("kept_orientation", pa.int8()),
    # Largest stored value, up to 255; only for sources with more than 8 bits.
    pa.field("stored_maximum", pa.int16()),
    # `QUALITY`: measured on the stored pixels, see `transforms.images.quality`; null for kept files.
    pa.field("brightness", pa.float32()),
    pa.field("contrast", pa.float32()),
    pa.field("sharpness", pa.float32()),
    pa.field("phash", pa.uint64()),
    # Null without annotated objects. Numbers of objects: in the record; of these, clipped; dropped outside the stored
    # image; dropped for an invalid box.
    pa.field("objects", pa.int32()),
    pa.field("objects_clipped", pa.int32()),
    pa.field("objects_outside", pa.int32()),
    pa.field("objects_invalid", pa.int32()),
]
QUALITY = ("brightness", "contrast", "phash", "sharpness")
CONVERSION_COLUMNS = tuple(field.name for field in _CONVERSION_FIELDS)
INDEX_SCHEMA = pa.schema([*_PLACED, *_CONVERSION_FIELDS])

# Hexadecimal digits of a `sample_hash` before those of the record's masked CRC32C.
HASH_DIGITS = 32
_SEAL_DIGITS = 8
# Rows per batch: some megabytes.
_BATCH_ROWS = 1 << 14


def read_columns(data: bytes | pa.Buffer, columns: Sequence[str] = (), *, group: int | None = None) -> pa.Table:
    """Reads an index in this thread.

    Args:
      data: the file.
      columns: the columns to read; empty reads all. Those that the file lacks are missing.
      group: the row group to read; None reads all.

    Raises:
      pyarrow.ArrowInvalid: the file is damaged, or not an index of ours.
    """
    with _opened(data) as file:
        groups = range(file.num_row_groups) if group is None else [group]
        return _check(file.read_row_groups(groups, columns=list(columns) or None, use_threads=False), columns)


def read_batches(file: bytes | pa.Buffer | IO[bytes], columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Reads an index in this thread, some thousand rows at a time, otherwise like `read_columns`.

    Args:
      file: the file, or its content.
      columns: as in `read_columns`.

    Raises:
      pyarrow.ArrowInvalid: as in `read_columns`.
    """
    with _opened(file) as opened:
        for batch in opened.iter_batches(_BATCH_ROWS, columns=list(columns) or None, use_threads=False):
            table = _check(pa.Table.from_batches([batch]), columns)
            if not table.schema.equals(batch.schema):
                batch = pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=table.schema)
            yield batch


@contextlib.contextmanager
def _opened(file: bytes | pa.Buffer | IO[bytes]) -> Iterator[pq.ParquetFile]:
    # `read_table` always scans with its own threads. A process that exits while they end is aborted or hangs
    # (arrow#34314, arrow#50482).
    try:
        source = pa.BufferReader(file) if isinstance(file, bytes | pa.Buffer) else file
        with pq.ParquetFile(source, pre_buffer=False) as opened:
            yield opened
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, MemoryError):
            raise
        raise pa.ArrowInvalid(f"the index is damaged: {' '.join(str(error).split())[:300]}") from error


def _check(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Casts the columns of an index to their types, and checks that locations of records are not null or negative."""
    for field in _PLACED:
        if (not columns or field.name in columns) and field.name not in table.column_names:
            raise ValueError(f"it has no column {field.name}")
    for name in table.column_names:
        place, found = table.column_names.index(name), INDEX_SCHEMA.get_field_index(name)
        if found >= 0 and not table.schema.field(place).type.equals(INDEX_SCHEMA.field(found).type):
            table = table.set_column(place, name, table[name].cast(INDEX_SCHEMA.field(found).type))
        if name in ("offset", "length") and (table[name].null_count or table[name].to_numpy().min(initial=0) < 0):
            raise ValueError(f"column {name} has null or a negative number")
    return table


def pack_hash_and_crc(sample_hash: str, crc: int) -> str:
    """Appends the CRC of a record to the hash of its sample, so that a record can be matched with its index row."""
    return f"{sample_hash}{crc:08x}"


def unpack_hash(sealed: str) -> str:
    """Returns the hash of the sample alone."""
    return sealed[:HASH_DIGITS]


def fits_packed_hash(sealed: str, example: bytes) -> bool:
    """Whether an example matches the packed CRC."""
    return sealed == pack_hash_and_crc(unpack_hash(sealed), masked_crc32c(example))


def sealed_crcs(column: pa.Array) -> np.ndarray:
    """Returns the packed CRCs: [N] int64.

    Raises:
      ValueError: a text has no CRC of hexadecimal digits.
    """
    # The strings are contiguous in memory, all of the same length.
    _, ends, texts = column.buffers()
    ends = np.frombuffer(ends or b"\0" * 4, np.int32)[column.offset :][: len(column) + 1].astype(np.int64)
    if column.null_count or (np.diff(ends) != HASH_DIGITS + _SEAL_DIGITS).any():
        raise ValueError("a sample_hash has the wrong length")
    places = ends[1:][:, None] + np.arange(-_SEAL_DIGITS, 0)
    digits = np.frombuffer(texts or b"", np.uint8)[places].tobytes()
    return np.frombuffer(bytes.fromhex(digits.decode("ascii")), ">u4").astype(np.int64)
