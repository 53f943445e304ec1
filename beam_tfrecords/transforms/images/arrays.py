"""Operations on images as arrays: [H, W] grey, or [H, W, C], of any depth."""

from __future__ import annotations

import functools

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.orient import swaps_sides


def turn(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Turns an image upright."""
    if swaps_sides(orientation):
        pixels = cv2.transpose(pixels)
    flip = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}.get(orientation)
    return pixels if flip is None else cv2.flip(pixels, flip)


@functools.lru_cache(256)
def nearest_pixels(size: int, resized: int) -> np.ndarray:
    """Returns the rows or columns that Pillow's nearest filter picks. Ties depend on Pillow's rounding."""
    numbers = Image.fromarray(np.arange(size, dtype=np.int32)[np.newaxis])
    return np.asarray(numbers.resize((resized, 1), Image.Resampling.NEAREST))[0]


def pick_nearest(pixels: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Resizes an upright image, or its mask, by Pillow's nearest filter."""
    rows = nearest_pixels(pixels.shape[0], geometry.resized_height)
    return pixels[rows][:, nearest_pixels(pixels.shape[1], geometry.resized_width)]


def fit(pixels: np.ndarray, geometry: Geometry, *, padding: int = 0) -> np.ndarray:
    """Crops an upright image, or pads it with one value, black by default."""
    height, width = geometry.final_height, geometry.final_width
    over_height, over_width = height - pixels.shape[0], width - pixels.shape[1]
    top, left = geometry.offset
    if over_height > 0 or over_width > 0:
        bottom, right = over_height + top, over_width + left
        return cv2.copyMakeBorder(pixels, -top, bottom, -left, right, cv2.BORDER_CONSTANT, value=padding)
    return pixels[top : top + height, left : left + width]


def swap_red_and_blue(pixels: np.ndarray) -> np.ndarray:
    """Converts between RGB and OpenCV's order of channels; returns grey unchanged."""
    if pixels.ndim == 2:
        return pixels
    return cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if pixels.shape[2] == 3 else cv2.COLOR_BGRA2RGBA)
