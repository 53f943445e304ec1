"""Predicts from headers which image files `tf.io.decode_image` can read. Tests compare with TensorFlow."""

from __future__ import annotations

import struct

from PIL import Image

from beam_tfrecords.transforms.images.color import largest_value
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.jpeg_header import parse_jpeg_header

# TensorFlow reads WebP since 2.20, but 2.21 aborts the process at an animated WebP.
_UNREADABLE = {
    "avif": "an AVIF image",
    "heic": "a HEIC image",
    "jpeg2000": "a JPEG 2000 image",
    "ppm": "a PPM image",
    "tiff": "a TIFF image",
    "webp": "a WebP image",
}
_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C
# GIF89a, appendix F; Pillow also reads larger codes.
_GIF_LARGEST_CODE_SIZE = 8


def unreadable_by_tensorflow(data: bytes, image: Image.Image | None = None) -> str | None:
    """Finds out why `tf.io.decode_image(data, expand_animations=False)` cannot read a valid file.

    Files that TensorFlow decodes to wrong pixels or a wrong size count as unreadable.

    Args:
      data: the file. Its pixels are not checked.
      image: the file, decoded by Pillow; without it, colors missing from a GIF's table go unnoticed.

    Returns:
      Kind of the file, such as "a WebP image" or "a CMYK JPEG"; None if TensorFlow can read it.

    Raises:
      SampleError: the file is not an image, or its format cannot be decoded here either.
    """
    name = sniff(data)
    if name == "jpeg":
        return _unreadable_jpeg(data)
    if name == "gif":
        return _unreadable_gif(data, largest=largest_value(image) if image and image.mode in ("P", "L") else 0)
    if name == "bmp":
        return _unreadable_bmp(data)
    return _UNREADABLE.get(name)


def _unreadable_jpeg(data: bytes) -> str | None:
    header = parse_jpeg_header(data)
    if header is None:
        return "a JPEG with an unusual header"
    if header.components == 4:
        return "a CMYK JPEG"
    return None if header.is_plain else f"a JPEG of process 0x{header.process:x}"


def _unreadable_gif(data: bytes, *, largest: int) -> str | None:
    """Checks a GIF. TensorFlow takes the size from the frames instead of the screen, and stops at unknown blocks.

    Args:
      data: the file.
      largest: largest color index among its pixels.
    """
    broken = "a GIF of irregular structure"
    try:
        screen_width, screen_height, flags = struct.unpack_from("<HHB", data, 6)
        has_colors, colors = flags & 0x80, 2 << (flags & 7)
        at = 13 + (3 << (flags & 7) + 1 if has_colors else 0)
        while data[at] == _GIF_EXTENSION:
            if not data[at + 2]:  # TensorFlow would read the next byte as the size of a block
                return "a GIF with an empty extension"
            at = _skip_blocks(data, at + 2)
        if data[at] != _GIF_IMAGE:
            return broken
        left, top, width, height, flags = struct.unpack_from("<HHHHB", data, at + 1)
        if data[at + 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)] > _GIF_LARGEST_CODE_SIZE:
            return "a GIF with codes of more than 8 bits"
    except (IndexError, struct.error):
        return broken
    if not (has_colors or flags & 0x80):
        return "a GIF without a color table"
    if largest >= (2 << (flags & 7) if flags & 0x80 else colors):
        return "a GIF with colors that its table does not have"
    if (left, top, width, height) != (0, 0, screen_width, screen_height):
        return "a GIF whose first frame does not fill the screen"
    return None


def _skip_blocks(data: bytes, at: int) -> int:
    """Returns the end offset of a sequence of data sub-blocks (GIF89a, section 15)."""
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _unreadable_bmp(data: bytes) -> str | None:
    """Checks a BMP. TensorFlow reads only rows of bytes: it ignores color tables, and takes a fourth byte as alpha."""
    if len(data) < 54 or data[14] < 40:
        return "a BMP with an OS/2 header"
    start, header, width, height, _, depth, compression = struct.unpack_from("<IIiiHHI", data, 10)
    if compression:
        return "a compressed BMP"
    if depth not in (8, 24):
        return f"a BMP of {depth} bits per pixel"
    row = (width * depth // 8 + 3) // 4 * 4
    if len(data) != start + row * abs(height):
        return "a BMP with bytes missing or left over"
    colors = data[14 + header : start]
    grey = bytes(range(256))
    if depth == 8 and not colors[::4] == colors[1::4] == colors[2::4] == grey:
        return "a BMP with a color table"
    return None
