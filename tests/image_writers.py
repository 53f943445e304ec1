"""Writers of files that Pillow reads but does not write, each as short as its format allows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

# Colorants of sRGB, Display P3 and ProPhoto RGB relative to D50, as an ICC profile has them; columns R, G, B.
SRGB_COLORANTS = np.array([[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061], [0.01392, 0.09708, 0.71410]])
P3_COLORANTS = np.array([[0.51512, 0.29198, 0.15710], [0.24120, 0.69225, 0.06657], [-0.00105, 0.04189, 0.78407]])
PROPHOTO_COLORANTS = np.array([[0.79767, 0.13519, 0.03134], [0.28804, 0.71187, 0.00009], [0.0, 0.0, 0.82520]])
_D50 = (0.9642, 1.0, 0.8249)
_PNG_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
# First row, first column, row step and column step of each pass.
_ADAM7 = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One chunk of a PNG: length, kind, body, checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_file(samples: np.ndarray, *, interlaced: bool = False, chunks: Iterable[tuple[bytes, bytes]] = ()) -> bytes:
    """A PNG of [H, W] or [H, W, 1-4] uint8 or uint16 samples; `chunks` go before the pixels."""
    samples = samples.reshape(*samples.shape[:2], -1)
    height, width, channels = samples.shape
    depth = 8 * samples.itemsize
    header = struct.pack(">IIBBBBB", width, height, depth, _PNG_COLOR_TYPES[channels], 0, 0, int(interlaced))
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    pieces = [samples[row::rows, column::columns] for row, column, rows, columns in passes]
    big_endian = f">u{samples.itemsize}"
    raw = b"".join(b"\0" + line.astype(big_endian).tobytes() for piece in pieces if piece.size for line in piece)
    body = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, content) for kind, content in body)


def png_packed(
    samples: np.ndarray, color_type: int, depth: int, transparency: bytes, *, interlaced: bool = False
) -> bytes:
    """A PNG of [H, W, C] samples of any depth and color type, with a tRNS chunk; palettes are made up."""
    passes = _ADAM7 if interlaced else ((0, 0, 1, 1),)
    height, width, _ = samples.shape
    rows = [
        b"\0" + np.packbits((line.reshape(-1, 1) >> np.arange(depth)[::-1] & 1).astype(np.uint8)).tobytes()
        for row, column, down, across in passes
        for line in samples[row::down, column::across]
        if line.size
    ]
    colors = bytes(level for index in range(1 << min(depth, 8)) for level in (index, 255 - index, 7))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, int(interlaced))
    chunks = [(b"IHDR", header), *([(b"PLTE", colors)] if color_type == 3 else [])]
    chunks += [(b"tRNS", transparency), (b"IDAT", zlib.compress(b"".join(rows))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*chunk) for chunk in chunks)


def png_header(width: int, height: int) -> bytes:
    """A PNG whose header gives a size, with next to no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 100)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, content) for kind, content in body)


def tiff_file(
    tags: dict[int, Sequence[int]],
    pixels: bytes,
    *,
    strips: int = 1,
    long_tags: Sequence[int] = (),
    is_big_endian: bool = False,
) -> bytes:
    """A TIFF of strips (tags 273 and 279 are added), then its directory.

    Args:
      tags: number -> values, written as 16 bits, or 32 bits for those in `long_tags`.
      pixels: the strips, which have the same length.
      strips: how many.
      long_tags: see `tags`.
      is_big_endian: whether the tags are; the pixels are as they are given.
    """
    length, order = len(pixels) // strips, ">" if is_big_endian else "<"
    tags = {**tags, 273: [8 + length * strip for strip in range(strips)], 279: [length] * strips}
    long_tags = (*long_tags, 273, 279)
    directory = 8 + len(pixels)
    beyond = directory + 2 + 12 * len(tags) + 4
    entries, extra = b"", b""
    for tag, values in sorted(tags.items()):
        letter, kind = ("I", 4) if tag in long_tags else ("H", 3)
        packed = struct.pack(f"{order}{len(values)}{letter}", *values)
        if len(packed) > 4:
            place = struct.pack(f"{order}I", beyond + len(extra))
            extra += packed
        else:
            place = packed.ljust(4, b"\0")
        entries += struct.pack(f"{order}HHI", tag, kind, len(values)) + place
    start = (b"MM\0*" if is_big_endian else b"II*\0") + struct.pack(f"{order}I", directory)
    return start + pixels + struct.pack(f"{order}H", len(tags)) + entries + b"\0\0\0\0" + extra


def bmp_file(pixels: bytes, *, width: int, height: int, depth: int, compression: int = 0, table: bytes = b"") -> bytes:
    """A BMP from its parts; `table` is what lies between header and pixels: a color table or masks."""
    start = 14 + 40 + len(table)
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, depth, compression, len(pixels), 2835, 2835, 0, 0)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + table + pixels


def bmp_rle8(indices: np.ndarray) -> bytes:
    """A run-length encoded BMP of [H, W] grey levels."""
    table = b"".join(bytes((level, level, level, 0)) for level in range(256))
    rows = (b"".join(bytes((1, level)) for level in row) + b"\0\0" for row in indices[::-1])
    height, width = indices.shape
    return bmp_file(b"".join(rows) + b"\0\1", width=width, height=height, depth=8, compression=1, table=table)


def gif_flood(frames: int) -> bytes:
    """A GIF of many one-pixel frames, the first of them white."""
    start = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    white, black = b"\x02\x02\x4c\x01\0", b"\x02\x02\x44\x01\0"
    frame = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0)
    return start + frame + white + (frame + black) * (frames - 1) + b";"


def icc_profile(colorants: np.ndarray | None, gamma: float) -> bytes:
    """A display profile (ICC.1:2001): a matrix and one gamma; of grey if there are no colorants."""

    def xyz(values: Iterable[float]) -> bytes:
        return b"XYZ \0\0\0\0" + b"".join(struct.pack(">i", round(value * 65536)) for value in values)

    curve = b"curv\0\0\0\0" + struct.pack(">IHH", 1, round(gamma * 256), 0)
    name = b"made by a test\0"
    tags = {
        b"desc": b"desc\0\0\0\0" + struct.pack(">I", len(name)) + name + bytes(78),
        b"cprt": b"text\0\0\0\0" + name,
        b"wtpt": xyz(_D50),
    }
    if colorants is None:
        tags[b"kTRC"] = curve
    else:
        for letter, column in zip(b"rgb", colorants.T, strict=True):
            tags[bytes([letter]) + b"XYZ"] = xyz(column)
            tags[bytes([letter]) + b"TRC"] = curve
    table, body = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for tag, content in tags.items():
        table += tag + struct.pack(">II", start + len(body), len(content))
        body += content.ljust(-(-len(content) // 4) * 4, b"\0")
    space = b"GRAY" if colorants is None else b"RGB "
    head = struct.pack(">I4sI", start + len(body), bytes(4), 0x02100000) + b"mntr" + space + b"XYZ "
    head += struct.pack(">6H", 2024, 1, 1, 0, 0, 0) + b"acsp" + bytes(28) + xyz(_D50)[8:]
    return head.ljust(128, b"\0") + table + body


def to_profile(srgb: np.ndarray, colorants: np.ndarray | None, gamma: float) -> np.ndarray:
    """[H, W, 3] or [H, W] uint8 sRGB levels -> levels of the same colors in `icc_profile`'s space."""
    level = srgb / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    if colorants is not None:
        linear = linear @ (np.linalg.inv(colorants) @ SRGB_COLORANTS).T
    return np.round(255 * linear.clip(0, 1) ** (1 / gamma)).astype(np.uint8)


def box(kind: bytes, body: bytes) -> bytes:
    """A box of an ISO base media file (ISO/IEC 14496-12, 4.2)."""
    return struct.pack(">I", 8 + len(body)) + kind + body


def boxes_of(data: bytes) -> dict[bytes, bytes]:
    """Kind -> body of the boxes in a row, the last of each kind."""
    found, at = {}, 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        found[data[at + 4 : at + 8]] = data[at + 8 : at + size]
        at += size
    return found


def avif_grid(tile: bytes, size: tuple[int, int], *, rows: int, columns: int) -> bytes:
    """An AVIF whose image is a grid (ISO/IEC 23008-12, 6.6.2.3) of one AVIF of (height, width) pixels."""
    top, (tile_height, tile_width) = boxes_of(tile), size
    properties = boxes_of(boxes_of(boxes_of(top[b"meta"][4:])[b"iprp"])[b"ipco"])
    count, shown = rows * columns, (columns * tile_width, rows * tile_height)
    grid = struct.pack(">4B2H", 0, 0, rows - 1, columns - 1, *shown)
    sizes = [struct.pack(">3I", 0, *shown), properties[b"ispe"]]
    shared = [box(b"ispe", size) for size in sizes] + [box(kind, properties[kind]) for kind in (b"pixi", b"av1C")]
    tiles = range(2, count + 2)
    of_items = [struct.pack(">HB2B", 1, 2, 1, 3), *(struct.pack(">HB3B", item, 3, 2, 3, 0x84) for item in tiles)]
    items = [box(b"infe", struct.pack(">I2H4sB", 2 << 24, 1, 0, b"grid", 0))]
    items += [box(b"infe", struct.pack(">I2H4sB", (2 << 24) + 1, item, 0, b"av01", 0)) for item in tiles]

    def start(at: int) -> bytes:
        places = [struct.pack(">4H2I", 1, 1, 0, 1, 0, len(grid))]
        places += [struct.pack(">4H2I", item, 0, 0, 1, at, len(top[b"mdat"])) for item in tiles]
        meta = [
            box(b"hdlr", bytes(8) + b"pict" + bytes(13)),
            box(b"pitm", struct.pack(">IH", 0, 1)),
            box(b"iloc", struct.pack(">I2BH", 1 << 24, 0x44, 0, count + 1) + b"".join(places)),
            box(b"iinf", struct.pack(">IH", 0, count + 1) + b"".join(items)),
            box(b"iref", bytes(4) + box(b"dimg", struct.pack(f">2H{count}H", 1, count, *tiles))),
            box(
                b"iprp",
                box(b"ipco", b"".join(shared)) + box(b"ipma", struct.pack(">2I", 0, count + 1) + b"".join(of_items)),
            ),
            box(b"idat", grid),
        ]
        return box(b"ftyp", b"avif\0\0\0\0avifmif1miafMA1B") + box(b"meta", bytes(4) + b"".join(meta))

    return start(len(start(0)) + 8) + box(b"mdat", top[b"mdat"])
