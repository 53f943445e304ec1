"""Reads open files in chunks of bounded size."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO

# As in `local`: what is read at once.
_READ_BYTES = 1 << 18


def read_chunks(source: IO[bytes], *, limit: int = sys.maxsize) -> Iterator[memoryview]:
    """The bytes of an open file in chunks of bounded size, each valid until the next is asked for.

    Args:
      source: the file.
      limit: reads at most this many bytes.
    """
    # Fresh memory for every chunk would cost more than the reading.
    buffer = memoryview(bytearray(_READ_BYTES))
    while size := source.readinto(buffer[:limit]):  # type: ignore[attr-defined]
        yield buffer[:size]
        limit -= size
