"""Reads and writes small plain PNGs: 8-bit gray, RGB or RGBA, not interlaced, without any other chunks.

For a small image, Pillow's PNG reader and writer spend as much time in Python as in zlib. This module calls only
Pillow's decoder and encoder, with the same pixels and bytes as results. Without it, a build of 32 x 32 PNGs has 0.75 of
the rate: 0.36 of a bare loop instead of 0.48 (`benchmarks/small_samples.py --only=png`, 20,000 images, busy machine).
"""

from __future__ import annotations

import dataclasses
import struct
import zlib

from PIL import Image

from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.formats import PNG_START
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.memory import check_memory, pixels_memory

# Maximum bytes of a file, and of its pixels. Up to this size, Pillow's encoder writes the pixels as one chunk.
_MOST_BYTES = 60_000
_FIRST = PNG_START + b"\0\0\0\rIHDR"
_HEADER = struct.Struct(">IIBBBBB")
_CHUNK, _NUMBER = struct.Struct(">I4s"), struct.Struct(">I")
_END = _NUMBER.pack(0), b"IEND", _NUMBER.pack(zlib.crc32(b"IEND"))
_COLOR_TYPES = {"L": 0, "RGB": 2, "RGBA": 6}
_MODES = {number: mode for mode, number in _COLOR_TYPES.items()}
# Metadata that Pillow stores besides the pixels.
_STORED_INFO = ("icc_profile", "transparency")
# Not optimized; zlib's default level, strategy and dictionary.
_OPTIONS = (False, -1, -1, b"")


@dataclasses.dataclass(frozen=True)
class PlainPng:
    """A plain PNG with correct checksums.

    Attributes:
      mode: Pillow's mode: "L", "RGB" or "RGBA".
      deflated: the compressed pixels of the file.
      file_size: size of the file in bytes.
    """

    height: int
    width: int
    mode: str
    deflated: bytes
    file_size: int

    def load(self, spec: ImageSpec) -> Image.Image | None:
        """Decodes the pixels.

        Returns:
          None if the pixels are incomplete; Pillow's reader then finds the reason.

        Raises:
          SampleError: reason `too_much_memory`.
        """
        needed = self.file_size + pixels_memory(self.mode, self.height * self.width)
        check_memory(needed, spec, height=self.height, width=self.width)
        try:
            return Image.frombytes(self.mode, (self.width, self.height), self.deflated, "zip", self.mode, False)
        except ValueError:
            return None


def parse_plain_png(data: bytes, spec: ImageSpec) -> PlainPng | None:
    """Parses a file to its header and its compressed pixels.

    Returns:
      None if the file is not a plain PNG, large or damaged.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    if len(data) > _MOST_BYTES or not data.startswith(_FIRST) or len(data) < len(_FIRST) + _HEADER.size:
        return None
    width, height, depth, color_type, compression, filters, interlace = _HEADER.unpack_from(data, len(_FIRST))
    mode = _MODES.get(color_type)
    if mode is None or depth != 8 or compression or filters or interlace or not _fits(height, width, mode):
        return None
    pixels: list[bytes] = []
    at = len(PNG_START)
    while at + 12 <= len(data):
        length, kind = _CHUNK.unpack_from(data, at)
        end = at + 12 + length
        if end > len(data) or zlib.crc32(data[at + 4 : end - 4]) != _NUMBER.unpack_from(data, end - 4)[0]:
            return None
        if kind == b"IEND":
            check_pixels(height, width, spec.max_pixels)
            return PlainPng(height, width, mode, b"".join(pixels), len(data)) if pixels else None
        if kind == b"IDAT":
            pixels.append(data[at + 8 : end - 4])
        elif at > len(PNG_START):
            return None
        at = end
    return None


def encode_plain_png(image: Image.Image) -> bytes | None:
    """Returns the file that Pillow would write of an L, RGB or RGBA image; None if it is large or has metadata."""
    width, height = image.size
    if not _fits(height, width, image.mode) or any(name in image.info for name in _STORED_INFO):
        return None
    header = _HEADER.pack(width, height, 8, _COLOR_TYPES[image.mode], 0, 0, 0)
    deflated = image.tobytes("zip", image.mode, *_OPTIONS)
    return b"".join((PNG_START, *_chunk(b"IHDR", header), *_chunk(b"IDAT", deflated), *_END))


def _chunk(kind: bytes, content: bytes) -> tuple[bytes, ...]:
    """Returns a chunk as its length, kind, content and checksum."""
    return _NUMBER.pack(len(content)), kind, content, _NUMBER.pack(zlib.crc32(content, zlib.crc32(kind)))


def _fits(height: int, width: int, mode: str) -> bool:
    """Whether a PNG can have this size, and its pixels are few enough."""
    return 0 < height * (len(mode) * width + 1) <= _MOST_BYTES and width > 0
