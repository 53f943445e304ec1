"""Plans the parts of an S3 upload that concatenates several sources; needs no S3 library."""

from __future__ import annotations

from collections.abc import Sequence

from beam_tfrecords.storage.entries import FileRange

# Minimum size of a part, except for the last, and maximum size of one copy request.
MIN_BYTES = 5 << 20
_MAX_BYTES = 1 << 30


def plan_upload(ranges: Sequence[FileRange]) -> list[list[FileRange]]:
    """Splits concatenated ranges into the parts of an upload, each of one or more pieces.

    Every part except the last has 5 MiB or more. The store can copy a part of one piece by itself; other parts go
    through memory, so they have 5 MiB. If a large range follows small ones, its first bytes fill up their part.
    """
    parts: list[list[FileRange]] = []
    small: list[FileRange] = []
    missing = MIN_BYTES
    for path, offset, length in ranges:
        end = offset + length
        while offset < end:
            piece = FileRange(path, offset, min(end - offset, _MAX_BYTES))
            if not small and piece.length >= MIN_BYTES:
                parts.append([piece])
            else:
                piece = piece._replace(length=min(piece.length, missing))
                small.append(piece)
                missing -= piece.length
                if not missing:
                    parts.append(small)
                    small, missing = [], MIN_BYTES
            offset += piece.length
    return [*parts, small] if small else parts
