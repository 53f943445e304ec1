"""Whether all that the structure of a file names is in the file."""

from __future__ import annotations

import math
import struct

import numpy as np

# Tags of a TIFF: where strips begin, their bytes, and the same of tiles.
_TIFF_PIXELS = 273, 279, 324, 325
# Bytes of each type, and the types of whole numbers.
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_TIFF_NUMBERS = (3, 4, 16)


def is_whole(data: bytes, name: str) -> bool:
    """Whether all that the structure of a file names is in it, of a file that `check_cut` has nothing to say about."""
    if name == "tiff":
        return _end_of_tiff_pixels(data) <= len(data)
    if name == "avif":
        return _end_of_boxes(data) == len(data)
    return True


def _end_of_tiff_pixels(data: bytes) -> float:
    """The offset behind the last strip or tile of the first directory; infinite if any value of it is missing."""
    order, is_big = ("<" if data.startswith(b"II") else ">"), 43 in data[2:4]
    number, counter, entry = ("Q", "Q", "HHQ8s") if is_big else ("I", "H", "HHI4s")
    found: dict[int, np.ndarray] = {}
    try:
        (at,) = struct.unpack_from(order + number, data, 8 if is_big else 4)
        (entries,) = struct.unpack_from(order + counter, data, at)
        at += struct.calcsize(order + counter)
        for _ in range(entries):
            tag, kind, count, place = struct.unpack_from(order + entry, data, at)
            at += struct.calcsize(order + entry)
            size = count * _TIFF_SIZES.get(kind, 0)
            start = struct.unpack(order + number, place)[0] if size > len(place) else 0
            values = memoryview(data if size > len(place) else place)[start : start + size]
            if len(values) < size:
                return math.inf
            if tag in _TIFF_PIXELS and kind in _TIFF_NUMBERS:
                found[tag] = np.frombuffer(values, f"{order}u{_TIFF_SIZES[kind]}").astype(np.float64)
    except struct.error:
        return math.inf
    ends = [
        (found[starts][:most] + found[lengths][:most]).max()
        for starts, lengths in zip(_TIFF_PIXELS[::2], _TIFF_PIXELS[1::2], strict=True)
        if (most := min(len(found.get(starts, ())), len(found.get(lengths, ()))))
    ]
    return max(ends, default=math.inf)


def _end_of_boxes(data: bytes) -> float:
    """The offset behind the last box of an ISO base media file (ISO/IEC 14496-12, 4.2)."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size < 8 and size:
            return math.inf
        at = at + size if size else len(data)
    return at
