"""Decodes colors of more than 8 bits per channel with OpenCV, because Pillow supports them only for grey."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image, ImageFile

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.formats import jpeg2000_depth

_THREE_CHANNELS = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


def decode_color(data: bytes, image: Image.Image, *, bits: int = 16) -> np.ndarray:
    """Decodes a file to [H, W, 3] or [H, W, 4] uint16, or uint8 if it has 8 bits.

    Checks that Pillow decodes the same upper 8 bits, because OpenCV and Pillow disagree about some kinds of files.

    Args:
      data: the file.
      image: the file, decoded by Pillow.
      bits: bits per channel in the file, of which Pillow keeps the upper 8.

    Raises:
      SampleError: reason `unsupported_mode` if OpenCV and Pillow disagree.
    """
    seen = np.asarray(image)
    # A color key stays a color here; `sixteen_bit` applies it.
    flags = cv2.IMREAD_UNCHANGED if image.mode in ("RGBA", "RGBX") else _THREE_CHANNELS
    values = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if values is not None and values.dtype == np.uint8:
        return values
    if values is not None and values.dtype == np.uint16 and values.shape == seen.shape:
        values = swap_red_and_blue(values)
        # Pillow truncates or rounds; in JPEG 2000, it rounds the highest values to 256, which becomes 0.
        if ((values >> (bits - 8)).astype(np.uint8) - seen + np.uint8(1)).max() <= 2:
            return values
    raise decode_error(
        FailureReason.UNSUPPORTED_MODE, f"the {bits} bits of this kind of {image.format} cannot be decoded"
    )


def has_wrong_white(data: bytes, image: ImageFile.ImageFile) -> bool:
    """Whether Pillow turns the white of an opened file to black, as in a color JPEG 2000 of more than 8 bits."""
    return image.format == "JPEG2000" and len(image.getbands()) > 1 and jpeg2000_depth(data) > 8


def restore_white(data: bytes, image: ImageFile.ImageFile) -> None:
    """Restores the white of a decoded JPEG 2000, which Pillow has rounded to 256 and so turned to 0.

    Raises:
      SampleError: reason `unsupported_mode` if OpenCV cannot read this kind of file.
    """
    bits = jpeg2000_depth(data)
    values, pixels = decode_color(data, image, bits=bits), np.array(image)
    # Values from half an 8-bit step below white have nine leading ones.
    pixels[values >> (bits - 9) == 0b1_1111_1111] = 255
    image.paste(Image.fromarray(pixels, image.mode))


def swap_red_and_blue(pixels: np.ndarray) -> np.ndarray:
    """Converts between RGB and OpenCV's order of channels; returns grey unchanged."""
    if pixels.ndim == 2:
        return pixels
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)
