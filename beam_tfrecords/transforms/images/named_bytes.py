"""Finds the end of the bytes that the structure of a file refers to; a shorter file is truncated."""

from __future__ import annotations

import struct

import numpy as np

# Tags of a TIFF: offsets and bytes of strips, offsets and bytes of tiles.
_PIXELS = 273, 279, 324, 325
# Type -> its size in bytes; and the integer types.
_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_NUMBERS = (3, 4, 16)


def end_of_tiff(data: bytes, at: int | None = None) -> int:
    """Returns the end offset of a directory, its values and its pixels (TIFF 6.0; BigTIFF has wider numbers).

    Args:
      at: where the directory is; None for the first one.

    Returns:
      A larger number than the size of the file if any of them reaches beyond its end.
    """
    order, is_big = ("<" if data.startswith(b"II") else ">"), 43 in data[2:4]
    number, counter, entry = ("Q", "Q", "HHQ8s") if is_big else ("I", "H", "HHI4s")
    pixels: dict[int, np.ndarray] = {}
    end = 8
    try:
        if at is None:
            at = 8 if is_big else 4
            (at,) = struct.unpack_from(order + number, data, at)
        (entries,) = struct.unpack_from(order + counter, data, at)
        at += struct.calcsize(order + counter)
        for _ in range(entries):
            tag, kind, count, place = struct.unpack_from(order + entry, data, at)
            at += struct.calcsize(order + entry)
            size, values = count * _SIZES.get(kind, 0), memoryview(place)
            if size > len(place):
                (start,) = struct.unpack(order + number, place)
                values = memoryview(data)[start : start + size]
                end = max(end, start + size)
            if len(values) >= size and tag in _PIXELS and kind in _NUMBERS:
                pixels[tag] = np.frombuffer(values[:size], f"{order}u{_SIZES[kind]}").astype(np.float64)
    except (struct.error, OverflowError):
        return max(at or 0, len(data)) + 1
    for starts, lengths in zip(_PIXELS[::2], _PIXELS[1::2], strict=True):
        most = min(len(pixels.get(starts, ())), len(pixels.get(lengths, ())))
        if most:
            end = max(end, int((pixels[starts][:most] + pixels[lengths][:most]).max()))
    return max(end, at)


def end_of_boxes(data: bytes) -> int:
    """Returns the end offset of the last box of an ISO base media file (ISO/IEC 14496-12, 4.2)."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 1:
            size = int.from_bytes(data[at + 8 : at + 16], "big")
        if size < 8:  # to the end of the file, or damaged
            return len(data)
        at += size
    return at
