"""Writes TIFF files with any number of channels, as Pillow cannot (TIFF 6.0, and Technical Note 3 of Adobe)."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from PIL import Image

LZW, DEFLATE, PACKBITS = 5, 8, 32773
_PILLOW = {LZW: "tiff_lzw", PACKBITS: "packbits"}
_OFFSETS, _COUNTS = 273, 279


def tiff_of(
    *pages: np.ndarray,
    planar: bool = False,
    compression: int = 1,
    predictor: int = 1,
    order: str = "<",
    tile: tuple[int, int] | None = None,
    tags: dict[int, int] | None = None,
    later_tags: dict[int, int] | None = None,
) -> bytes:
    """Makes a file of [H, W] or [H, W, C] pages, in strips of up to 16 rows or in tiles of (rows, columns).

    Args:
      tags: tags that differ, of all pages.
      later_tags: tags that differ, of all pages but the first.
    """
    file = bytearray(struct.pack(f"{order}2sHI", b"II" if order == "<" else b"MM", 42, 0))
    link = 4
    for number, page in enumerate(pages):
        pixels = np.atleast_3d(page)
        height, width, channels = pixels.shape
        rows, columns = tile or (16, width)
        parts = []
        for plane in np.split(pixels, channels, axis=2) if planar else [pixels]:
            for top, left in itertools.product(range(0, height, rows), range(0, width, columns)):
                part = plane[top : top + rows, left : left + columns]
                if tile:
                    part = np.pad(part, ((0, rows - part.shape[0]), (0, columns - part.shape[1]), (0, 0)))
                parts.append(_compress(_predict(part, predictor, order), len(part), compression))
        offsets = []
        for part in parts:
            offsets.append(len(file))
            file += part
        kind = {"u": 1, "i": 2, "f": 3}[pixels.dtype.kind]
        entries: dict[int, Sequence[int]] = {
            256: [width], 257: [height], 258: [8 * pixels.itemsize] * channels, 259: [compression], 262: [1],
            277: [channels], 284: [2 if planar else 1], 317: [predictor], 339: [kind] * channels,
        }  # fmt: skip
        entries |= {322: [columns], 323: [rows]} if tile else {278: [rows]}
        places = (324, 325) if tile else (_OFFSETS, _COUNTS)
        entries |= dict(zip(places, (offsets, list(map(len, parts))), strict=True))
        entries |= {tag: [value] for tag, value in {**(tags or {}), **((later_tags or {}) if number else {})}.items()}
        link = _add_directory(file, entries, order, link)
    return bytes(file)


def _add_directory(file: bytearray, entries: dict[int, Sequence[int]], order: str, link: int) -> int:
    """Adds a directory of LONG values and refers to it at `link`; returns where the next is referred to."""
    packed = b""
    for tag, values in sorted(entries.items()):
        data = struct.pack(f"{order}{len(values)}I", *values)
        if len(values) > 1:
            start = len(file)
            file += data
            data = struct.pack(f"{order}I", start)
        packed += struct.pack(f"{order}HHI", tag, 4, len(values)) + data
    struct.pack_into(f"{order}I", file, link, len(file))
    file += struct.pack(f"{order}H", len(entries)) + packed
    file += b"\0\0\0\0"
    return len(file) - 4


def _predict(part: np.ndarray, predictor: int, order: str) -> bytes:
    numbers = np.ascontiguousarray(part, part.dtype.newbyteorder(order))
    if predictor == 1:
        return numbers.tobytes()
    if predictor == 2:
        bits = part.view(f"u{part.itemsize}")
        first = np.zeros_like(bits[:, :1])
        return np.diff(bits, axis=1, prepend=first).astype(f"{order}u{part.itemsize}").tobytes()
    planes = np.ascontiguousarray(part, part.dtype.newbyteorder(">")).view(np.uint8)
    planes = planes.reshape(len(part), -1, part.itemsize).transpose(0, 2, 1).reshape(len(part), -1, part.shape[2])
    return np.diff(planes, axis=1, prepend=np.zeros_like(planes[:, :1])).tobytes()


def _compress(data: bytes, rows: int, compression: int) -> bytes:
    if compression == 1:
        return data
    if compression == DEFLATE:
        return zlib.compress(data)
    file = io.BytesIO()
    image = Image.frombytes("L", (len(data) // rows, rows), data)
    image.save(file, "TIFF", compression=_PILLOW[compression], tiffinfo={278: rows})
    with Image.open(file) as written:
        start, size = written.tag_v2[_OFFSETS][0], written.tag_v2[_COUNTS][0]
    return file.getvalue()[start : start + size]
