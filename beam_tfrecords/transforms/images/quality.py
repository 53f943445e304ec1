"""Measures that find bad pictures and near-duplicates, computed on the stored pixels before encoding.

Brightness, contrast and hash use 64 x 64 gray values: for an H x W image, the pixels in row floor((i + 0.5) * H / 64)
and column floor((j + 0.5) * W / 64), as 0.299 R + 0.587 G + 0.114 B in 8 bits. A conversion picks these, and a batch
measures them together: small images have a sixth more of the rate (`benchmarks/small_samples.py --only=png`). Sharpness
uses bands of adjacent pixels, since only these show a blur. All steps use integers that float64 represents exactly, so
the index is the same on every CPU and for every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.dataset.index import QUALITY

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
    """What `measure_together` needs of an image.

    Attributes:
      gray: the 64 x 64 gray values, row by row.
      sharpness: variance of the Laplacian (kernel 0 1 0, 1 -4 1, 0 1 0; mirrored at the edges of a band).
    """

    gray: bytes
    sharpness: float


def measure_together(images: Sequence[Quality | None]) -> dict[str, list[Any]]:
    """Measures images; returns index column -> values, None for each image that is None.

    * brightness: mean, 0 to 255.
    * contrast: standard deviation.
    * phash: 64 bits, the highest first, one for each of the 8 x 8 lowest frequencies of the DCT-II, row by row: whether
      it is above the lower median. The input of the DCT is means of 2 x 2 values (hackerfactor.com, "Looks Like It").
    * sharpness: as in `Quality`.
    """
    found = [image for image in images if image is not None]
    if not found:
        return {}
    grays = np.frombuffer(b"".join(image.gray for image in found), np.uint8)
    values = grays.reshape(-1, _VALUES).astype(np.uint32)
    brightness = values.sum(axis=1) / _VALUES
    squares = np.einsum("ij,ij->i", values, values) / _VALUES
    contrast = np.sqrt(np.maximum(0.0, squares - brightness * brightness))
    hashes = _perceptual_hashes(grays.reshape(-1, _SIDE))
    sharpness = [image.sharpness for image in found]
    columns = dict(zip(QUALITY, (brightness.tolist(), contrast.tolist(), hashes.tolist(), sharpness), strict=True))
    if len(found) == len(images):
        return columns
    each = {name: iter(one) for name, one in columns.items()}
    return {name: [image and next(one) for image in images] for name, one in each.items()}


def measure_array(pixels: np.ndarray, order: str) -> Quality:
    """Picks what is measured from an image as an array.

    Args:
      pixels: [H, W], or [H, W, C] in the given order, uint8 or uint16. Transparency is ignored.
      order: order of the channels: "RGB", "BGR" or "RGBA"; ignored for [H, W].
    """
    if pixels.shape[0] * pixels.shape[1] <= _VALUES:  # fewer than the 64 x 64 picked ones
        pixels = _to_gray(pixels, order)
    gray = _to_gray(cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST_EXACT), order)
    return _measure(gray, (pixels[begin:end] for begin, end in _band_rows(len(pixels))), order)


def measure_image(image: Image.Image) -> Quality:
    """Picks what is measured from an L, RGB or RGBA image; copies only the needed pixels of a large one."""
    width, height = image.size
    if height * width <= _COPIED:
        shape = (height, width) if image.mode == "L" else (height, width, len(image.mode))
        return measure_array(np.frombuffer(image.tobytes(), np.uint8).reshape(shape), image.mode)
    gray = _to_gray(np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)), image.mode)
    bands = (np.asarray(image.crop((0, begin, width, end))) for begin, end in _band_rows(height))
    return _measure(gray, bands, image.mode)


def _measure(gray: np.ndarray, bands: Iterable[np.ndarray], order: str) -> Quality:
    """Returns the gray values with the sharpness of the bands, whose channels have the given order."""
    parts = [cv2.Laplacian(_to_gray(band, order), cv2.CV_16S) for band in bands]
    count = sum(part.size for part in parts)
    mean = sum(cv2.sumElems(part)[0] for part in parts) / count
    sharpness = max(0.0, sum(map(_sum_of_squares, parts)) / count - mean * mean)
    return Quality(gray.tobytes(), sharpness)


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


def _perceptual_hashes(grays: np.ndarray) -> np.ndarray:
    """Computes the hashes of vertically stacked gray values: [N * 64, 64] -> [N] uint64."""
    # The heights are even, so no mean mixes two images.
    means = cv2.resize(grays, (_SQUARE, len(grays) // 2), interpolation=cv2.INTER_AREA)
    squares = means.reshape(-1, _SQUARE, _SQUARE).astype(np.float64)
    frequencies = (_COSINES @ squares @ _COSINES.T).reshape(-1, _FREQUENCIES * _FREQUENCIES)
    medians = np.sort(frequencies, axis=1)[:, _MEDIAN, np.newaxis]
    return np.packbits(frequencies > medians, axis=1).view(">u8")[:, 0]
