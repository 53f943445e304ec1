"""Plans the parts of an S3 upload that concatenates several sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# Minimum size of a part, except for the last, and maximum size of one copy request.
MIN_BYTES = 5 << 20
_MAX_BYTES = 1 << 30


class CopyRange(NamedTuple):
    """A range of bytes of a source.

    Attributes:
      source: index of the source.
      offset: offset of the first byte.
      length: length in bytes.
    """

    source: int
    offset: int
    length: int


def plan_upload(sizes: Sequence[int]) -> list[list[CopyRange]]:
    """Splits concatenated sources into the parts of an upload, each of one or more pieces.

    Every part except the last has 5 MiB or more. The store can copy a part of one piece by itself; other parts go
    through memory, so they have 5 MiB. If a large source follows small ones, its first bytes fill up their part.

    Args:
      sizes: sizes of the sources in bytes.
    """
    parts: list[list[CopyRange]] = []
    small: list[CopyRange] = []
    missing = MIN_BYTES
    for source, size in enumerate(sizes):
        offset = 0
        while offset < size:
            length = min(size - offset, _MAX_BYTES)
            if not small and length >= MIN_BYTES:
                parts.append([CopyRange(source, offset, length)])
            else:
                length = min(length, missing)
                small.append(CopyRange(source, offset, length))
                missing -= length
                if not missing:
                    parts.append(small)
                    small, missing = [], MIN_BYTES
            offset += length
    return [*parts, small] if small else parts
