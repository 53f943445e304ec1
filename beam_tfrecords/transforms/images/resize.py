"""Turns, resizes, crops and pads pixels: arrays of every type, and Pillow's images of 8 bits.

Integers are resized with Pillow's antialiasing filters by the Rust crate fast_image_resize. The crate rounds the
weights of the filters to 16 bits (32 for 16-bit images) and sums integers, so SSE4.1, AVX2, NEON and its portable code
give the same pixels. It takes a sixth of Pillow's time. For floats, every weight is rounded to a multiple of 2^-24, and
products are added in float64 one after the other, so that every processor makes the same bytes.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Mapping

import cv2
import numpy as np
from cykooz_resizer import CropBox, FilterType, ImageData, PixelType, ResizeAlg, ResizeOptions, Resizer
from PIL import Image

from beam_tfrecords.geometry.geometry import Geometry, swaps_sides
from beam_tfrecords.transforms.images.image_spec import Codec, Resample

FILTERS = {resample: Image.Resampling[resample.name] for resample in Resample}
# Pillow's own filters NEAREST and BOX are exact, and as fast for images of 8 bits.
FILTERED = (Resample.BICUBIC, Resample.BILINEAR, Resample.LANCZOS)
# Pixels. Larger images are not copied for the crate, since a copy would double their memory.
_LARGEST_COPY = 1 << 24
# Pixels. A resizer keeps the memory of its largest image, so each larger image gets a new resizer.
_LARGEST_KEPT = 1 << 21
_ALGORITHMS: Mapping[Resample, ResizeAlg] = {
    Resample.BICUBIC: ResizeAlg.convolution(FilterType.catmull_rom),
    Resample.BILINEAR: ResizeAlg.convolution(FilterType.bilinear),
    Resample.LANCZOS: ResizeAlg.convolution(FilterType.lanczos3),
    Resample.BOX: ResizeAlg.convolution(FilterType.box),
}
_PIXEL_TYPES: Mapping[tuple[type, int], PixelType] = {
    (np.uint8, 1): PixelType.U8,
    (np.uint8, 3): PixelType.U8x3,
    (np.uint16, 1): PixelType.U16,
    (np.uint16, 3): PixelType.U16x3,
    (np.uint16, 4): PixelType.U16x4,
}
_WHITE = 65535
# Weights of floats are multiples of 1 / _ONE.
_ONE = 1 << 24
# Filter -> half of its width in pixels, as in Pillow.
_SUPPORT = {Resample.BOX: 0.5, Resample.BILINEAR: 1.0, Resample.BICUBIC: 2.0, Resample.LANCZOS: 3.0}


class _Resizers(threading.local):
    """One resizer per thread, because a resizer is locked while it works."""

    def __init__(self) -> None:
        self.kept = Resizer()


_RESIZERS = _Resizers()


def turn(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turns an image, [H, W] or [H, W, C], upright."""
    if swaps_sides(orientation):
        pixels = cv2.transpose(pixels)
    flip = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return pixels if flip is None else cv2.flip(pixels, flip)


def resize_array(
    pixels: np.ndarray,
    height: int,
    width: int,
    resample: Resample,
    *,
    scale: tuple[float, float] | None = None,
    has_alpha: bool = False,
) -> np.ndarray:
    """Resizes an image of any type; the pixels are nearly equal to Pillow's.

    Args:
      pixels: [H, W] or [H, W, C] uint8, uint16 or float32. A NaN stays where a pixel has a share in it.
      scale: source pixels per result pixel, (vertical, horizontal). Usually H / height and W / width; less if the last
        row or column reaches beyond the edge, as in a JPEG decoded at a fraction that does not divide its size.
      has_alpha: whether the fourth of four channels of uint16 is the opacity, by which colors are weighted. All other
        channels are resized separately.

    Returns:
      [height, width] or [height, width, C] of the same type; read-only or `pixels` itself.
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    if resample is Resample.NEAREST:  # at 16 bits, Pillow rounds differently
        return pick_nearest(pixels, height, width)
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if has_alpha and channels == 4 and pixels.dtype == np.uint16:
        return _resize_weighted(pixels, height, width, resample)
    if channels > 1 and (pixels.dtype.type, channels) not in _PIXEL_TYPES:
        bands = (np.ascontiguousarray(pixels[..., band]) for band in range(channels))
        return np.dstack([resize_array(band, height, width, resample, scale=scale) for band in bands])
    if pixels.dtype == np.float32:
        resized = _resize_floats(pixels.reshape(pixels.shape[:2]), height, width, resample)
        return resized.reshape(height, width, *pixels.shape[2:])
    box = None
    if scale is not None:
        box = 0, 0, min(width * scale[1], pixels.shape[1]), min(height * scale[0], pixels.shape[0])
    if pixels.dtype == np.uint8 and resample not in FILTERED:
        image = Image.fromarray(pixels[..., 0] if pixels.ndim == 3 and channels == 1 else pixels)
        made = np.asarray(image.resize((width, height), FILTERS[resample], box=box))
        return made.reshape(height, width, *pixels.shape[2:])
    data = _convolve(pixels.tobytes(), pixels.dtype.type, pixels.shape, (height, width), resample, box)
    return np.frombuffer(data, pixels.dtype).reshape(height, width, *pixels.shape[2:])


def pick_nearest(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resizes an image or a mask by Pillow's nearest filter."""
    rows = _nearest_pixels(pixels.shape[0], height)
    return pixels[rows][:, _nearest_pixels(pixels.shape[1], width)]


def fit(pixels: np.ndarray, geometry: Geometry, *, padding: int = 0) -> np.ndarray:
    """Crops an upright image, or pads it with one value, black by default."""
    height, width = geometry.final
    over_height, over_width = height - pixels.shape[0], width - pixels.shape[1]
    top, left = geometry.offset
    if over_height > 0 or over_width > 0:
        bottom, right = over_height + top, over_width + left
        return cv2.copyMakeBorder(pixels, -top, bottom, -left, right, cv2.BORDER_CONSTANT, value=padding)
    return pixels[top : top + height, left : left + width]


def place_array(
    pixels: np.ndarray, orientation: int, geometry: Geometry, resample: Resample, *, has_alpha: bool = False
) -> np.ndarray:
    """Turns an image upright, resizes it, and crops or pads it; `has_alpha` as in `resize_array`."""
    upright = turn(pixels, orientation)
    height, width = geometry.resized
    return fit(resize_array(upright, height, width, resample, has_alpha=has_alpha), geometry)


def resize_image(image: Image.Image, height: int, width: int, resample: Resample, *, codec: Codec) -> Image.Image:
    """Resizes an L, RGB or RGBA image of Pillow. EXACT gives Pillow's pixels; FAST gives nearly the same."""
    if image.size == (width, height):
        return image
    is_fast = codec is Codec.FAST and image.mode in ("L", "RGB") and resample in FILTERED
    if is_fast and image.height * image.width <= _LARGEST_COPY:
        shape = (image.height, image.width, len(image.getbands()))
        resized = _convolve(image.tobytes(), np.uint8, shape, (height, width), resample, None)
        return Image.frombytes(image.mode, (width, height), resized)
    return image.resize((width, height), FILTERS[resample], reducing_gap=2.0 if is_fast else None)


def fit_image(image: Image.Image, geometry: Geometry) -> Image.Image:
    """Crops an upright image of Pillow, or pads it with black."""
    size = geometry.final[::-1]
    if size == image.size:
        return image
    top, left = geometry.offset
    if size[0] > image.width or size[1] > image.height:
        canvas = Image.new(image.mode, size)
        canvas.paste(image, (-left, -top))
        return canvas
    return image.crop((left, top, left + size[0], top + size[1]))


@functools.lru_cache(256)
def _nearest_pixels(size: int, resized: int) -> np.ndarray:
    """Returns the rows or columns that Pillow's nearest filter picks. Ties depend on Pillow's rounding."""
    numbers = Image.fromarray(np.arange(size, dtype=np.int32)[np.newaxis])
    return np.asarray(numbers.resize((resized, 1), Image.Resampling.NEAREST))[0]


def _convolve(
    pixels: bytes,
    kind: type,
    shape: tuple[int, ...],
    size: tuple[int, int],
    resample: Resample,
    box: tuple[float, float, float, float] | None,
) -> bytes:
    """Resizes the box (left, top, right, bottom) of an image to `size`, its new height and width."""
    rows, columns, *channels = shape
    pixel_type = _PIXEL_TYPES[kind, channels[0] if channels else 1]
    resized = ImageData(size[1], size[0], pixel_type)
    resizer = _RESIZERS.kept if rows * columns <= _LARGEST_KEPT else Resizer()
    options = ResizeOptions(_ALGORITHMS[resample], use_alpha=False, crop_box=CropBox(*box) if box else None)
    resizer.resize(ImageData(columns, rows, pixel_type, pixels), resized, options)
    return resized.get_buffer()


def _resize_weighted(pixels: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    """Resizes [H, W, 4] uint16, with the colors weighted by their opacity."""
    alpha = pixels[..., 3:].astype(np.uint32)
    colors = (pixels[..., :3] * alpha + _WHITE // 2) // _WHITE
    resized = resize_array(np.dstack([colors.astype(np.uint16), pixels[..., 3]]), height, width, resample)
    alpha = resized[..., 3:]
    divisor = np.maximum(alpha, 1).astype(np.uint32)
    colors = np.minimum((resized[..., :3] * np.uint32(_WHITE) + divisor // 2) // divisor, _WHITE)
    return np.dstack([colors.astype(np.uint16), alpha])


def _resize_floats(band: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    """Resizes a channel, [H, W] float32, with Pillow's filters."""
    across = _resize_rows(band.T.astype(np.float64), width, resample)
    return _resize_rows(across.T, height, resample).astype(np.float32)


def _resize_rows(rows: np.ndarray, size: int, resample: Resample) -> np.ndarray:
    first, weights = _weigh(len(rows), size, resample)
    total = np.zeros((size, rows.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        for tap in range(weights.shape[1]):
            share = weights[:, tap : tap + 1]
            total += np.where(share == 0, 0, share * rows[np.minimum(first + tap, len(rows) - 1)])
    return total


def _weigh(size: int, resized: int, resample: Resample) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first source row of each row, [resized], and the weights of the rows from there, [resized, taps].

    Weights are Pillow's (`precompute_coeffs` in Resample.c), rounded; they add up to exactly 1.
    """
    scale = size / resized
    step = max(scale, 1.0)
    support = _SUPPORT[resample] * step
    centers = (np.arange(resized) + 0.5) * scale
    first = np.maximum(0, (centers - support + 0.5).astype(int))
    last = np.minimum(size, (centers + support + 0.5).astype(int))
    taps = np.arange(max(1, math.ceil(support) * 2 + 1))
    places = first[:, np.newaxis] + taps
    values = _filter((places - centers[:, np.newaxis] + 0.5) / step, resample)
    values = np.where(places < last[:, np.newaxis], values, 0)
    weights = np.round(values / values.sum(axis=1, keepdims=True) * _ONE)
    largest = weights.argmax(axis=1)
    weights[np.arange(resized), largest] += _ONE - weights.sum(axis=1)
    return first, weights / _ONE


def _filter(x: np.ndarray, resample: Resample) -> np.ndarray:
    """Evaluates a filter of Pillow."""
    if resample is Resample.BOX:
        return ((x > -0.5) & (x <= 0.5)).astype(float)
    x = np.abs(x)
    if resample is Resample.BILINEAR:
        return np.maximum(0, 1 - x)
    if resample is Resample.BICUBIC:
        near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
        return np.where(x < 1, near, np.where(x < 2, far, 0))
    return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
