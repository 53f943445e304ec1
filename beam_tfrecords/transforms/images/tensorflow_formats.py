"""Which image files `tf.io.decode_image` reads, told from their headers; tests compare with TensorFlow."""

from __future__ import annotations

import struct

from PIL import Image

from beam_tfrecords.transforms.images.color import largest_value
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.jpeg_header import parse_jpeg_header

# TensorFlow reads WebP since 2.20, and 2.21 aborts the process on an animated one.
_UNREADABLE = {
    "avif": "an AVIF image",
    "heic": "a HEIC image",
    "jpeg2000": "a JPEG 2000 image",
    "ppm": "a PPM image",
    "tiff": "a TIFF image",
    "webp": "a WebP image",
}
_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C
# GIF89a, appendix F; Pillow reads larger ones.
_GIF_LARGEST_CODE_SIZE = 8


def unreadable_by_tensorflow(data: bytes, image: Image.Image | None = None) -> str | None:
    """Says why `tf.io.decode_image(data, expand_animations=False)` would not give the image of a valid file.

    Kinds that TensorFlow decodes to other pixels or to another size than the file has count as unreadable.

    Args:
      data: the file. Whether its pixels are whole is not checked.
      image: the same, decoded by Pillow; without it, colors that a GIF's table does not have go unnoticed.

    Returns:
      What the file is, such as "a WebP image" or "a CMYK JPEG"; None if TensorFlow reads it.

    Raises:
      SampleError: the file is no image, or in a format that cannot be decoded here either.
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
    """TensorFlow takes the size from the frames, not from the screen, and stops at unknown blocks.

    Args:
      data: the file.
      largest: number of a color among its pixels.
    """
    broken = "a GIF of irregular structure"
    try:
        screen_width, screen_height, flags = struct.unpack_from("<HHB", data, 6)
        has_colors, colors = flags & 0x80, 2 << (flags & 7)
        at = 13 + (3 << (flags & 7) + 1 if has_colors else 0)
        while data[at] == _GIF_EXTENSION:
            if not data[at + 2]:  # TensorFlow would take the next byte for the size of a block
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
    """The offset behind a sequence of data sub-blocks (GIF89a, section 15)."""
    while data[at]:
        at += 1 + data[at]
    return at + 1


def _unreadable_bmp(data: bytes) -> str | None:
    """TensorFlow reads rows of bytes and nothing else: color tables are ignored, a fourth byte is alpha."""
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
