"""Turns a picture the way its EXIF block says that a person should see it."""

from __future__ import annotations

import struct

from PIL import ExifTags, Image

_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# What Pillow's EXIF parser raises on malformed blocks; viewers ignore such blocks, and so do we.
_EXIF_ERRORS = (SyntaxError, OSError, ValueError, TypeError, KeyError, IndexError, EOFError, struct.error)


def orientation_of(image: Image.Image) -> int:
    """1 to 8 as EXIF or XMP have it; 1 where they say nothing or cannot be read."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation)
    except _EXIF_ERRORS:
        return 1
    return value if value in _TRANSPOSE else 1


def orient(image: Image.Image, orientation: int) -> Image.Image:
    """The picture upright: what `PIL.ImageOps.exif_transpose` makes."""
    method = _TRANSPOSE.get(orientation)
    return image if method is None else image.transpose(method)
