"""Checks the sizes of the pages of a Parquet file before Arrow decompresses them.

Arrow decompresses whole pages, so a few bytes may expand to fill the memory. Arrow allocates the size in the page
header; the footer may state any size. Format: parquet-format's `PageHeader`, in Thrift's compact protocol.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Collection, Iterator
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

# Smaller pages always fit in memory. Images are compressed already, so they do not exceed this ratio.
_FREE_BYTES = 64 << 20
_MOST_EXPANSION = 200
# Codec -> largest expansion factor.
_EXPANSIONS = {"UNCOMPRESSED": 1, "SNAPPY": 22, "LZ4": 256, "LZ4_RAW": 256, "GZIP": 1033}
_HEADER_BYTES = 4 << 10
_MOST_HEADER_BYTES = 16 << 20
_MOST_NESTED = 16


def check_pages(file: IO[bytes], metadata: pq.FileMetaData, number: int, columns: Collection[str]) -> None:
    """Checks that a row group has no decompression bomb, and that Arrow can describe its columns.

    Args:
      file: the Parquet file.
      metadata: footer of the file.
      number: number of the row group.
      columns: columns to read.

    Raises:
      ArrowInvalid: a page expands too much, or a page header cannot be read.
    """
    _check_columns(metadata, number)
    group = metadata.row_group(number)
    for chunk in map(group.column, range(group.num_columns)):
        most = _EXPANSIONS.get(chunk.compression)
        is_small = most is not None and chunk.total_compressed_size * most <= _FREE_BYTES
        if chunk.path_in_schema.partition(".")[0] not in columns or is_small or most == 1:
            continue
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        for compressed, size in _page_sizes(file, start, start + chunk.total_compressed_size):
            if size > max(_FREE_BYTES, _MOST_EXPANSION * compressed):
                raise pa.ArrowInvalid(
                    f"a page of {compressed:,} bytes of the column {chunk.path_in_schema!r} expands to {size:,}"
                )


class _Unread(Exception):
    """Raised when Arrow, having described the columns, starts to read their bytes."""


class _NoBytes(io.RawIOBase):
    """A file that raises `_Unread` on every read."""

    def __init__(self) -> None:
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset if whence == io.SEEK_SET else sys.maxsize
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        raise _Unread


def _check_columns(metadata: pq.FileMetaData, number: int) -> None:
    """Makes Arrow describe the columns of a row group in a call that can raise.

    For damaged columns, `RowGroupMetaData.column` throws a C++ exception that ends the process, while reading raises a
    Python exception. So this function reads the row group up to the first byte.
    """
    with contextlib.suppress(_Unread), pq.ParquetFile(_NoBytes(), metadata=metadata, buffer_size=1 << 16) as file:
        file.reader.read_row_group(number, column_indices=list(range(metadata.num_columns)), use_threads=False)


def _page_sizes(file: IO[bytes], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields (compressed bytes, decompressed bytes) for each page of a column."""
    while start < end:
        length, found = _HEADER_BYTES, None
        while found is None:
            file.seek(start)
            data = file.read(min(length, end - start))
            try:
                found = _ThriftStruct(data)
            except IndexError:
                if length > _MOST_HEADER_BYTES or len(data) < length:
                    raise pa.ArrowInvalid(f"the header of the page at byte {start:,} cannot be read") from None
                length *= 16
        sizes = found.sizes
        if min(sizes.get(2, -1), sizes.get(3, -1)) < 0:
            raise pa.ArrowInvalid(f"the header of the page at byte {start:,} has no sizes")
        yield sizes[3], sizes[2]
        start += found.end + sizes[3]


class _ThriftStruct:
    """A struct in Thrift's compact protocol.

    Attributes:
      sizes: field number -> integer value.
      end: length of the struct in bytes.

    Raises:
      IndexError: the data is truncated, or is not a valid struct.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.end = 0
        self.sizes: dict[int, int] = {}
        self._struct(0)

    def _struct(self, depth: int) -> None:
        if depth > _MOST_NESTED:
            raise IndexError
        field = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 15
            field = field + delta if delta else self._integer()
            value = self._value(kind, depth, is_field=True)
            if depth == 0 and value is not None:
                self.sizes[field] = value

    def _value(self, kind: int, depth: int, *, is_field: bool = False) -> int | None:
        if kind in (1, 2):  # The value of a boolean field is its type.
            self.end += not is_field
        elif kind in (4, 5, 6):
            return self._integer()
        elif kind in (3, 7):
            self.end += 1 if kind == 3 else 8
        elif kind == 8:
            size = self._varint()
            self.end += size
        elif kind in (9, 10):
            head = self._byte()
            for _ in range(self._varint() if head >> 4 == 15 else head >> 4):
                self._value(head & 15, depth + 1)
        elif kind == 12:
            self._struct(depth + 1)
        else:  # A page header has no maps.
            raise IndexError
        return None

    def _byte(self) -> int:
        self.end += 1
        return self._data[self.end - 1]

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
