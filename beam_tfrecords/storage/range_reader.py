"""Reads files in pieces: chunks of an open file, and ranges of an object as a seekable file."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

# Bytes per read of a chunk, as in `local`.
_CHUNK_BYTES = 1 << 18
# Bytes per download.
_READ_BYTES = 8 << 20


def read_chunks(source: IO[bytes], *, limit: int = sys.maxsize) -> Iterator[memoryview]:
    """Yields the bytes of an open file in chunks of bounded size, each valid until the next one.

    Args:
      source: the file.
      limit: reads at most this many bytes.
    """
    # Allocating memory for every chunk would cost more than reading.
    buffer = memoryview(bytearray(_CHUNK_BYTES))
    while size := source.readinto(buffer[:limit]):  # type: ignore[attr-defined]
        yield buffer[:size]
        limit -= size


class _RangeReader(io.RawIOBase):
    def __init__(self, size: int, read_range: Callable[[int, int], bytes]) -> None:
        self._size, self._read_range = size, read_range
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(self._size)

    def _read(self, length: int) -> bytes:
        length = min(length, self._size - self._position)
        data = self._read_range(self._position, length) if length > 0 else b""
        self._position += len(data)
        return data


def open_ranges(size: int, read_range: Callable[[int, int], bytes], *, read_bytes: int = _READ_BYTES) -> IO[bytes]:
    """Returns a seekable, buffered file that downloads ranges.

    Args:
      size: size of the object in bytes.
      read_range: downloads a number of bytes from an offset.
      read_bytes: bytes per download.
    """
    return io.BufferedReader(_RangeReader(size, read_range), read_bytes)


def is_complete(data: bytes, content_range: str, size: int = 0) -> bool:
    """Whether a response has the length in its header, "bytes 0-9/20", or that of the object if known."""
    first, _, last = content_range.partition("/")[0].removeprefix("bytes ").partition("-")
    return len(data) == (int(last) - int(first) + 1 if last else size or len(data))
