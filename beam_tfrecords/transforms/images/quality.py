"""Measures that find bad pictures and near-duplicates, computed on the stored pixels before encoding.

Brightness, contrast and hash use 64 x 64 gray values: for an H x W image, the pixels in row floor((i + 0.5) * H / 64)
and column floor((j + 0.5) * W / 64), as 0.299 R + 0.587 G + 0.114 B in 8 bits. Sharpness uses bands of adjacent pixels,
since only these show a blur. All steps use integers that float64 represents exactly, so the index is the same on every
CPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

_SIDE = 64
_VALUES = _SIDE * _SIDE
# Pixels of an image that is copied, because cutting bands out of it takes longer.
_COPIED = 1 << 16
# Four bands rank blurred photos like the whole image, in an eighth of the time.
_BANDS, _BAND_ROWS = 4, 8
# The perceptual hash uses the 8 x 8 lowest frequencies of 32 x 32 values.
_SQUARE, _FREQUENCIES = 32, 8
_MEDIAN = _FREQUENCIES * _FREQUENCIES // 2 - 1
# The DCT-II in integers: every product and sum fits into the 53 bits that float64 represents exactly.
_COSINES = np.round(1024 * np.cos(np.pi / _SQUARE * np.outer(np.arange(_FREQUENCIES), np.arange(_SQUARE) + 0.5)))
_TO_GREY = {"RGB": cv2.COLOR_RGB2GRAY, "BGR": cv2.COLOR_BGR2GRAY, "RGBA": cv2.COLOR_RGBA2GRAY}


class Quality(NamedTuple):
    """The measures of an image: the values of its index columns.

    Attributes:
      brightness: mean, 0 to 255.
      contrast: standard deviation.
      phash: 64 bits, the highest first, one for each of the 8 x 8 lowest frequencies of the DCT-II, row by row: whether
        it is above the lower median. The input of the DCT is means of 2 x 2 values (hackerfactor.com, "Looks Like It").
      sharpness: variance of the Laplacian (kernel 0 1 0, 1 -4 1, 0 1 0; mirrored at the edges of a band).
    """

    brightness: float
    contrast: float
    phash: int
    sharpness: float


def measure_array(pixels: np.ndarray, order: str) -> Quality:
    """Measures an image as an array.

    Args:
      pixels: [H, W], or [H, W, C] in the given order, uint8 or uint16. Transparency is ignored.
      order: order of the channels: "RGB", "BGR" or "RGBA"; ignored for [H, W].
    """
    if pixels.shape[0] * pixels.shape[1] <= _VALUES:  # fewer than the 64 x 64 picked ones
        pixels = _to_gray(pixels, order)
    gray = _to_gray(cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST_EXACT), order)
    return _measure(gray, (pixels[begin:end] for begin, end in _band_rows(len(pixels))), order)


def measure_image(image: Image.Image) -> Quality:
    """Measures an L, RGB or RGBA image; copies only the needed pixels of a large one."""
    if image.height * image.width <= _COPIED:
        channels = [len(image.mode)] if len(image.mode) > 1 else []
        pixels = np.frombuffer(image.tobytes(), np.uint8).reshape(image.height, image.width, *channels)
        return measure_array(pixels, image.mode)
    gray = _to_gray(np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)), image.mode)
    bands = (np.asarray(image.crop((0, begin, image.width, end))) for begin, end in _band_rows(image.height))
    return _measure(gray, bands, image.mode)


def _measure(gray: np.ndarray, bands: Iterable[np.ndarray], order: str) -> Quality:
    """Measures an image by its 64 x 64 gray values, and its bands in the given order of channels."""
    brightness = cv2.sumElems(gray)[0] / _VALUES
    contrast = math.sqrt(max(0.0, _sum_of_squares(gray) / _VALUES - brightness * brightness))
    parts = [cv2.Laplacian(_to_gray(band, order), cv2.CV_16S) for band in bands]
    count = sum(part.size for part in parts)
    mean = sum(cv2.sumElems(part)[0] for part in parts) / count
    sharpness = max(0.0, sum(map(_sum_of_squares, parts)) / count - mean * mean)
    return Quality(brightness, contrast, _perceptual_hash(gray), sharpness)


def _to_gray(pixels: np.ndarray, order: str) -> np.ndarray:
    """Converts to gray; returns [H, W] uint8."""
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, _TO_GREY[order])


def _band_rows(height: int) -> list[tuple[int, int]]:
    """Returns the first row and the end of each band of an image."""
    if height <= _BANDS * _BAND_ROWS:
        return [(0, height)]
    middles = (int((band + 0.5) * height / _BANDS) for band in range(_BANDS))
    return [(middle - _BAND_ROWS // 2, middle + _BAND_ROWS // 2) for middle in middles]


def _sum_of_squares(values: np.ndarray) -> float:
    """Returns the sum of squares.

    OpenCV adds integers in float64, which is exact in any order of additions, and then squares the rounded root.
    """
    return float(round(cv2.norm(values, cv2.NORM_L2SQR)))


def _perceptual_hash(gray: np.ndarray) -> int:
    means = cv2.resize(gray, (_SQUARE, _SQUARE), interpolation=cv2.INTER_AREA).astype(np.float64)
    # For matrices of this size, `dot` takes half the time of `@`.
    frequencies = _COSINES.dot(means).dot(_COSINES.T).ravel()
    return int.from_bytes(np.packbits(frequencies > np.sort(frequencies)[_MEDIAN]).tobytes(), "big")
