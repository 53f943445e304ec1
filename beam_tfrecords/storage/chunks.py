"""Reads open files in chunks of bounded size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO

# Bytes per read, as in `local`.
_READ_BYTES = 1 << 18


def read_chunks(source: IO[bytes], *, limit: int = sys.maxsize) -> Iterator[memoryview]:
    """Yields the bytes of an open file in chunks of bounded size, each valid until the next one.

    Args:
      source: the file.
      limit: reads at most this many bytes.
    """
    # Allocating memory for every chunk would cost more than reading.
    buffer = memoryview(bytearray(_READ_BYTES))
    while size := source.readinto(buffer[:limit]):  # type: ignore[attr-defined]
        yield buffer[:size]
        limit -= size
