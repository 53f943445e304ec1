"""Colors of more than 8 bits per channel, as OpenCV decodes them: in Pillow, only grey has so many."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image, ImageFile

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.formats import jpeg2000_depth

_THREE_CHANNELS = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


def decode_color(data: bytes, image: Image.Image, *, bits: int = 16) -> np.ndarray:
    """[H, W, 3] or [H, W, 4] uint16, or uint8 of a file with 8 bits.

    They are OpenCV's, if Pillow has decoded the same upper 8 bits: the two do not agree about every kind of file.

    Args:
      data: the file.
      image: the same, decoded by Pillow.
      bits: per channel, in the file; Pillow has kept the upper 8 of them.

    Raises:
      SampleError: reason `unsupported_mode` if they do not agree.
    """
    seen = np.asarray(image)
    # A color that means transparency stays a color; `sixteen_bit` looks for it.
    flags = cv2.IMREAD_UNCHANGED if image.mode in ("RGBA", "RGBX") else _THREE_CHANNELS
    values = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if values is not None and values.dtype == np.uint8:
        return values
    if values is not None and values.dtype == np.uint16 and values.shape == seen.shape:
        values = swap_red_and_blue(values)
        # Pillow cuts off, or rounds; of JPEG 2000, it rounds the highest values to 256, which becomes 0.
        if ((values >> (bits - 8)).astype(np.uint8) - seen + np.uint8(1)).max() <= 2:
            return values
    raise decode_error(
        FailureReason.UNSUPPORTED_MODE, f"the {bits} bits of this kind of {image.format} cannot be decoded"
    )


def has_wrong_white(data: bytes, image: ImageFile.ImageFile) -> bool:
    """Whether an opened file is one whose white Pillow turns to black: a JPEG 2000 in color, of more than 8 bits."""
    return image.format == "JPEG2000" and len(image.getbands()) > 1 and jpeg2000_depth(data) > 8


def restore_white(data: bytes, image: ImageFile.ImageFile) -> None:
    """Gives a decoded JPEG 2000 the white that Pillow has rounded to 256, which became 0.

    Raises:
      SampleError: reason `unsupported_mode` if OpenCV does not read this kind.
    """
    bits = jpeg2000_depth(data)
    values, pixels = decode_color(data, image, bits=bits), np.array(image)
    # Half a step of 8 bits below white, and more: nine ones.
    pixels[values >> (bits - 9) == 0b1_1111_1111] = 255
    image.paste(Image.fromarray(pixels, image.mode))


def swap_red_and_blue(pixels: np.ndarray) -> np.ndarray:
    """From OpenCV's order of channels, or to it; grey stays as it is."""
    if pixels.ndim == 2:
        return pixels
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)
