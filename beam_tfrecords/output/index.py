"""The index: one row per record, in Parquet files beside the shards. Its columns are declared here and nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords.tfrecord import masked_crc32c

# What is known of a sample before it is converted, and where its record is.
_PLACED = [
    pa.field("key", pa.string(), nullable=False),
    pa.field("uri", pa.string()),
    pa.field("fingerprint", pa.string(), nullable=False),
    pa.field("label", pa.string()),
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("length", pa.int64(), nullable=False),
]
# Measured by the conversion: `ConvertedBatch.index_columns` under the same names. A reused record keeps its values; a
# column that an earlier dataset did not have is null.
_CONVERSION_FIELDS = [
    pa.field("content_hash", pa.string(), nullable=False),
    pa.field("sample_hash", pa.string(), nullable=False),
    pa.field("height", pa.int32()),
    pa.field("width", pa.int32()),
    pa.field("replaced_format", pa.string()),
    # Sizes of the image in the file, before it is turned by its EXIF orientation (1 to 8).
    pa.field("source_height", pa.int32()),
    pa.field("source_width", pa.int32()),
    pa.field("orientation", pa.int8()),
    # What a kept file still asks for.
    pa.field("kept_orientation", pa.int8()),
    # Of 255; of a source with more than 8 bits.
    pa.field("stored_maximum", pa.int16()),
    # Of a source with channels that are beside color and transparency.
    pa.field("channels_left_out", pa.int16()),
    # Measured on the stored pixels, see `transforms.images.quality`; null for kept files.
    pa.field("brightness", pa.float32()),
    pa.field("contrast", pa.float32()),
    pa.field("sharpness", pa.float32()),
    pa.field("phash", pa.uint64()),
    # Null without annotated objects. How many the record has, how many of them were clipped, and how many are left out
    # because they are outside the stored image or have an invalid box.
    pa.field("objects", pa.int32()),
    pa.field("objects_clipped", pa.int32()),
    pa.field("objects_outside", pa.int32()),
    pa.field("objects_invalid", pa.int32()),
]
CONVERSION_COLUMNS = tuple(field.name for field in _CONVERSION_FIELDS)
INDEX_SCHEMA = pa.schema([*_PLACED, *_CONVERSION_FIELDS])

# Hexadecimal digits of a `sample_hash` before those of its record's masked CRC32C, which version 0.1.0 did not write.
HASH_DIGITS = 32
_SEAL_DIGITS = 8
# Of a batch: some megabytes of rows.
_BATCH_ROWS = 1 << 14


def read_columns(data: bytes | pa.Buffer, columns: Sequence[str] = (), *, group: int | None = None) -> pa.Table:
    """Reads an index in this thread.

    Args:
      data: the file.
      columns: those to read; none reads all. Those that an earlier version did not write are left out.
      group: the row group to read; None reads all.

    Raises:
      pyarrow.ArrowInvalid: it is damaged, or not an index of ours.
    """
    with _opened(data) as file:
        groups = range(file.num_row_groups) if group is None else [group]
        return _check(file.read_row_groups(groups, columns=list(columns) or None, use_threads=False), columns)


def read_batches(file: bytes | pa.Buffer | IO[bytes], columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Reads an index in this thread, some thousand rows at a time, as `read_columns` otherwise.

    Args:
      file: the file, or what it holds.

    Raises:
      pyarrow.ArrowInvalid: as there.
    """
    with _opened(file) as opened:
        for batch in opened.iter_batches(_BATCH_ROWS, columns=list(columns) or None, use_threads=False):
            table = _check(pa.Table.from_batches([batch]), columns)
            if not table.schema.equals(batch.schema):
                batch = pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=table.schema)
            yield batch


@contextlib.contextmanager
def _opened(file: bytes | pa.Buffer | IO[bytes]) -> Iterator[pq.ParquetFile]:
    # `read_table` scans with threads of its own whatever it is told. A process that ends while they end is aborted, or
    # never ends (arrow#34314, arrow#50482).
    try:
        source = pa.BufferReader(file) if isinstance(file, bytes | pa.Buffer) else file
        with pq.ParquetFile(source, pre_buffer=False) as opened:
            yield opened
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        if isinstance(error, MemoryError):
            raise
        raise pa.ArrowInvalid(f"the index is damaged: {' '.join(str(error).split())[:300]}") from error


def _check(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """An index with the types of its columns, without nulls and negative numbers where records are."""
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
    """The hash of a sample with the CRC of its record, so that a record tells whether an index row is its own."""
    return f"{sample_hash}{crc:08x}"


def unpack_hash(sealed: str) -> str:
    """The hash of the sample alone."""
    return sealed[:HASH_DIGITS]


def fits_packed_hash(sealed: str, example: bytes) -> bool:
    """Whether an example may be the one whose CRC was sealed."""
    return sealed in (pack_hash_and_crc(unpack_hash(sealed), masked_crc32c(example)), unpack_hash(sealed))


def sealed_crcs(column: pa.Array) -> np.ndarray:
    """The CRCs that were sealed: [N] int64; -1 without a seal, as in indices of version 0.1.0.

    Raises:
      ValueError: a seal is not of hexadecimal digits.
    """
    # The texts lie one behind the other, most of them of one length.
    sealed = column.fill_null("") if column.null_count else column
    _, ends, texts = sealed.buffers()
    ends = np.frombuffer(ends or b"\0" * 4, np.int32)[sealed.offset :][: len(sealed) + 1].astype(np.int64)
    has_seal = np.diff(ends) > HASH_DIGITS
    if (np.diff(ends)[has_seal] != HASH_DIGITS + _SEAL_DIGITS).any():
        raise ValueError("a sample_hash has not the length of a sealed one")
    places = ends[1:][has_seal][:, None] + np.arange(-_SEAL_DIGITS, 0)
    digits = np.frombuffer(texts or b"", np.uint8)[places].tobytes()
    crcs = np.full(len(sealed), -1)
    crcs[has_seal] = np.frombuffer(bytes.fromhex(digits.decode("ascii")), ">u4")
    return crcs
