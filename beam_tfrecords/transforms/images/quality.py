"""Measures that find bad pictures and near-duplicates, computed on the stored pixels before encoding.

Brightness, contrast and hash use 64 x 64 grey values: for an H x W image, the pixels in row floor((i + 0.5) * H / 64)
and column floor((j + 0.5) * W / 64), as 0.299 R + 0.587 G + 0.114 B in 8 bits. A conversion only picks these pixels,
because measuring many images together takes a third of the time. Sharpness uses bands of adjacent pixels, since only
these show a blur. A small image is kept whole, and measured together with others of its size. All steps use integers,
so the index is the same on every CPU.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

import cv2
import numpy as np
from PIL import Image

_SIDE = 64
_VALUES = _SIDE * _SIDE
# Four bands rank blurred photos like the whole image, in an eighth of the time.
_BANDS, _BAND_ROWS = 4, 8
# The perceptual hash uses the 8 x 8 lowest frequencies of 32 x 32 values.
_SQUARE, _FREQUENCIES = 32, 8
# The DCT-II in integers: every product and sum fits into the 53 bits that float64 represents exactly.
_COSINES = np.round(1024 * np.cos(np.pi / _SQUARE * np.outer(np.arange(_FREQUENCIES), np.arange(_SQUARE) + 0.5)))
_TO_GREY = {"RGB": cv2.COLOR_RGB2GRAY, "BGR": cv2.COLOR_BGR2GRAY, "RGBA": cv2.COLOR_RGBA2GRAY}


def pick_grey(pixels: np.ndarray, order: str) -> bytes:
    """Picks the 64 x 64 grey values of an image, row by row.

    Args:
      pixels: [H, W], or [H, W, C] in the given order, uint8 or uint16. Transparency is ignored.
      order: order of the channels: "RGB", "BGR" or "RGBA"; ignored for [H, W].
    """
    values = cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_NEAREST_EXACT)
    return bytes(_to_grey(values, order).data)


def _to_grey(pixels: np.ndarray, order: str) -> np.ndarray:
    """Converts to grey; returns [H, W] uint8."""
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return pixels if pixels.ndim == 2 else cv2.cvtColor(pixels, _TO_GREY[order])


@dataclasses.dataclass(frozen=True)
class Quality:
    """The pixels of an image that are needed to measure its quality with `measure_quality`.

    Attributes:
      pixels: all pixels of a small image, row by row; the values of `pick_grey` for any other.
      shape: (H, W) of these pixels, and C unless they are grey.
      order: order of their channels, as in `pick_grey`.
      sharpness: result of `measure_sharpness`; None for a small image.
    """

    pixels: bytes
    shape: tuple[int, ...]
    order: str
    sharpness: float | None

    @classmethod
    def of(cls, pixels: np.ndarray, order: str) -> Quality:
        """Takes the pixels from an image as an array; arguments as for `pick_grey`."""
        height, width = pixels.shape[:2]
        if height * width <= _VALUES:
            pixels = _to_grey(pixels, order) if pixels.dtype == np.uint16 else pixels
            return cls(pixels.tobytes(), pixels.shape, order, None)
        bands = (pixels[begin:end] for begin, end in band_rows(height))
        return cls._of_large(pick_grey(pixels, order), bands, order)

    @classmethod
    def of_image(cls, image: Image.Image) -> Quality:
        """Takes the pixels from an L, RGB or RGBA image; copies only the needed pixels of a large one."""
        width, height, order = *image.size, image.mode
        if height * width <= _VALUES:
            shape = (height, width) if order == "L" else (height, width, len(order))
            return cls(image.tobytes(), shape, order, None)
        grey = pick_grey(np.asarray(image.resize((_SIDE, _SIDE), Image.Resampling.NEAREST)), order)
        bands = (np.asarray(image.crop((0, begin, width, end))) for begin, end in band_rows(height))
        return cls._of_large(grey, bands, order)

    @classmethod
    def _of_large(cls, grey: bytes, bands: Iterable[np.ndarray], order: str) -> Quality:
        return cls(grey, (_SIDE, _SIDE), "", measure_sharpness(bands, order))


def band_rows(height: int) -> list[tuple[int, int]]:
    """Returns the first row and the end of each band of an image."""
    if height <= _BANDS * _BAND_ROWS:
        return [(0, height)]
    middles = (int((band + 0.5) * height / _BANDS) for band in range(_BANDS))
    return [(middle - _BAND_ROWS // 2, middle + _BAND_ROWS // 2) for middle in middles]


def measure_sharpness(bands: Iterable[np.ndarray], order: str) -> float:
    """Returns the variance of the Laplacian (kernel 0 1 0, 1 -4 1, 0 1 0; mirrored at the edges of a band).

    Args:
      bands: the rows of `band_rows`, as arrays as for `pick_grey`.
      order: order of the channels, as in `pick_grey`.
    """
    return _pooled_variance([_laplacian(band, order) for band in bands])


def _laplacian(pixels: np.ndarray, order: str) -> np.ndarray:
    return cv2.Laplacian(_to_grey(pixels, order), cv2.CV_16S)


def _pooled_variance(parts: Sequence[np.ndarray]) -> float:
    count = sum(part.size for part in parts)
    mean = sum(cv2.sumElems(part)[0] for part in parts) / count
    return float(max(0.0, sum(map(_sum_of_squares, parts)) / count - mean * mean))


def _sum_of_squares(values: np.ndarray) -> float:
    """Returns the sum of squares. It is exact in any order of additions, since it stays below the 2**53 of float64."""
    flat = values.ravel().astype(np.float64)
    return float(flat @ flat)


def measure_quality(images: Sequence[Quality]) -> dict[str, list[float]]:
    """Measures images; returns index column -> values.

    * brightness: mean, 0 to 255.
    * contrast: standard deviation.
    * phash: 64 bits, the highest first, one for each of the 8 x 8 lowest frequencies of the DCT-II, row by row: whether
      it is above the lower median. The input of the DCT is means of 2 x 2 values (hackerfactor.com, "Looks Like It").
    * sharpness: see `measure_sharpness`.

    All sums are of integers that float64 represents exactly, so measuring images together gives the same results, in a
    fifth of the time.
    """
    greys = np.empty((len(images), _SIDE, _SIDE), np.uint8)
    sharpness = np.array([image.sharpness or 0.0 for image in images])
    alike = defaultdict(list)
    for number, image in enumerate(images):
        alike[image.shape, image.order, image.sharpness is None].append(number)
    for (shape, order, is_small), numbers in alike.items():
        pixels = np.frombuffer(b"".join([images[number].pixels for number in numbers]), np.uint8)
        # Stacks the images vertically to convert all to grey with one call.
        grey = _to_grey(pixels.reshape(-1, *shape[1:]), order)
        if is_small:
            sharpness[numbers] = _measure_together(grey.reshape(-1, *shape[:2]))
            grey = cv2.resize(grey, (_SIDE, len(grey)), interpolation=cv2.INTER_NEAREST_EXACT)
        rows = (2 * np.arange(_SIDE) + 1) * shape[0] // (2 * _SIDE)
        greys[numbers] = grey.reshape(-1, shape[0], _SIDE).take(rows, axis=1)
    squares = np.array([_sum_of_squares(grey) for grey in greys]) / _VALUES
    brightness = greys.sum(axis=(1, 2), dtype=np.uint32) / _VALUES
    contrast = np.sqrt(np.maximum(0, squares - brightness * brightness))
    columns = {"brightness": brightness, "contrast": contrast, "phash": _perceptual_hashes(greys.reshape(-1, _SIDE))}
    return {name: column.tolist() for name, column in {**columns, "sharpness": sharpness}.items()}


def _measure_together(greys: np.ndarray) -> np.ndarray:
    """Computes `measure_sharpness` of images of one size: [N, H, W] -> [N] float64."""
    number, _, width = greys.shape
    count = 0
    sums, squares = np.zeros(number), np.zeros(number)
    for begin, end in band_rows(greys.shape[1]):
        # Stacks the bands vertically, each between rows that mirror its edges.
        rows = [min(begin + 1, end - 1), *range(begin, end), max(end - 2, begin)]
        tall = _laplacian(greys.take(rows, axis=1).reshape(-1, width), "L")
        found = tall.reshape(number, -1)[:, width:-width]
        sums += found.sum(axis=1)
        squares += [_sum_of_squares(one) for one in found]
        count += found.shape[1]
    means = sums / count
    return np.maximum(0, squares / count - means * means)


def _perceptual_hashes(greys: np.ndarray) -> np.ndarray:
    """Computes perceptual hashes of vertically stacked grey values: [N * 64, 64] -> [N] uint64."""
    # The heights are even, so no mean mixes two images.
    means = cv2.resize(greys, (_SQUARE, greys.shape[0] // 2), interpolation=cv2.INTER_AREA)
    squares = means.reshape(-1, _SQUARE, _SQUARE).astype(np.float64)
    frequencies = (_COSINES @ squares @ _COSINES.T).reshape(-1, _FREQUENCIES * _FREQUENCIES)
    medians = np.sort(frequencies, axis=1)[:, 31:32]
    return np.packbits(frequencies > medians, axis=1).view(">u8")[:, 0]
