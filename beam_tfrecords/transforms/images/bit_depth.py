"""Finds out which images have more than 8 bits per channel."""

from __future__ import annotations

from PIL import Image

from beam_tfrecords.transforms.images.formats import png_depth
from beam_tfrecords.transforms.images.tiff import TiffImage, bits_of


def is_16_bit(data: bytes, name: str, image: Image.Image) -> bool:
    """Whether the values of a file have more than 8 bits, so that white is 65535.

    Args:
      data: the file.
      name: name of its format.
      image: the file, opened by Pillow.
    """
    if is_wide_grey(image):
        return True
    if isinstance(image, TiffImage):
        return bits_of(image) > 8
    return name == "png" and png_depth(data) > 8


def is_wide_grey(image: Image.Image) -> bool:
    """Whether Pillow represents an image as one channel of more than 8 bits."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")
