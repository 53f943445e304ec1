"""How sources are joined in S3: which of their bytes make which part of an upload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# The least that the service accepts in a part, the last one excepted, and the most that one request copies.
MIN_BYTES = 5 << 20
_MAX_BYTES = 1 << 30


class CopyRange(NamedTuple):
    """Bytes of a source.

    Attributes:
      source: index of the source.
      offset: of the first byte.
      length: in bytes.
    """

    source: int
    offset: int
    length: int


def plan_upload(sizes: Sequence[int]) -> list[list[CopyRange]]:
    """Cuts joined sources into the parts of an upload, each of one or more pieces.

    Every part but the last has 5 MiB or more. One that is a single piece can be copied within the store; the others
    have 5 MiB, for they go through memory. Where small sources come before a large one, its first bytes fill theirs.

    Args:
      sizes: of the sources, in bytes.
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
