"""What tells bad pictures and near-duplicates apart, measured on the pixels that are stored, before they are encoded.

All four columns are of 64 x 64 grey values: of an H x W image, the pixels of row floor((i + 0.5) * H / 64) and column
floor((j + 0.5) * W / 64), as 0.299 R + 0.587 G + 0.114 B in 8 bits. Steps are of whole numbers, so that an index is
the same on every CPU. A conversion only picks the values: many images measured in a row take a third of the time.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from PIL import Image

_SIDE = 64
_VALUES = _SIDE * _SIDE
# The perceptual hash is made of the 8 x 8 lowest frequencies of 32 x 32 values.
_SQUARE, _FREQUENCIES = 32, 8
# The DCT-II in whole numbers: every product and sum fits into the 53 bits that float64 holds exactly.
_COSINES = np.round(1024 * np.cos(np.pi / _SQUARE * np.outer(np.arange(_FREQUENCIES), np.arange(_SQUARE) + 0.5)))
_COSINES_ACROSS = np.ascontiguousarray(_COSINES.T)
_DIGITS = bytes.maketrans(b"\0\1", b"01")
_TO_GREY = {"RGB": cv2.COLOR_RGB2GRAY, "BGR": cv2.COLOR_BGR2GRAY, "RGBA": cv2.COLOR_RGBA2GRAY}


def pick_grey(pixels: np.ndarray, order: str) -> bytes:
    """The grey values of an image, row by row.

    Args:
      pixels: [H, W], or [H, W, C] in the given order, uint8 or uint16. Transparency is left out.
      order: of the channels: "RGB", "BGR" or "RGBA"; without a meaning for [H, W].
    """
    values = cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST_EXACT)
    if values.dtype == np.uint16:
        values = (values >> 8).astype(np.uint8)
    return bytes((values if values.ndim == 2 else cv2.cvtColor(values, _TO_GREY[order])).data)


def pick_grey_of_image(image: Image.Image) -> bytes:
    """Does what `pick_grey` does with an L, RGB or RGBA image; only the pixels that count are copied."""
    return pick_grey(np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)), image.mode)


def measure_grey(values: bytes) -> dict[str, float]:
    """Measures an image by its grey values; columns of the index by name.

    * brightness: the mean, 0 to 255.
    * contrast: the standard deviation.
    * sharpness: the variance of the Laplacian (kernel 0 1 0, 1 -4 1, 0 1 0; mirrored at the edges).
    * phash: of means of 2 x 2 values, the 8 x 8 lowest frequencies of the DCT-II, row by row, the highest bit first:
      whether each is above the median, the lower of the two (hackerfactor.com, "Looks Like It").
    """
    grey = np.frombuffer(values, np.uint8).reshape(_SIDE, _SIDE)
    brightness, variance = _moments(grey)
    _, sharpness = _moments(cv2.Laplacian(grey, cv2.CV_16S))
    square = cv2.resize(grey, (_SQUARE, _SQUARE), interpolation=cv2.INTER_AREA)
    return {
        "brightness": brightness,
        "contrast": math.sqrt(variance),
        "sharpness": sharpness,
        "phash": _perceptual_hash(square),
    }


def _moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and variance."""
    mean = cv2.sumElems(values)[0] / _VALUES
    return mean, max(0.0, cv2.norm(values, cv2.NORM_L2SQR) / _VALUES - mean * mean)


def _perceptual_hash(square: np.ndarray) -> int:
    frequencies = _COSINES.dot(square.astype(np.float64)).dot(_COSINES_ACROSS)
    median = sorted(frequencies.ravel().tolist())[31]
    return int((frequencies > median).tobytes().translate(_DIGITS), 2)
