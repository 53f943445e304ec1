"""Converts files to stored arrays: any number of channels, each resized alone by the geometry of images.

Integers are resized by the code of images, in integers. For floats, every weight is rounded to a multiple of 2^-24, and
products are added in float64 one after the other, so that every processor makes the same bytes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.array_files import read_array, to_array_type
from beam_tfrecords.transforms.images.arrays import fit, pick_nearest, turn
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.decode_errors import decode_error
from beam_tfrecords.transforms.images.encode import COLORSPACES
from beam_tfrecords.transforms.images.fast_resize import fast_resize_array, resize_wide_array
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Resample, ResizeMode
from beam_tfrecords.transforms.images.memory import array_memory, check_memory
from beam_tfrecords.transforms.images.upright import Upright, decode_upright

_ONE = 1 << 24
# Filter -> half of its width in pixels, as in Pillow.
_SUPPORT = {Resample.BOX: 0.5, Resample.BILINEAR: 1.0, Resample.BICUBIC: 2.0, Resample.LANCZOS: 3.0}


def convert_array(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Reads a file as an array, turns it and resizes each channel. This function is pure.

    Args:
      spec: `array_type` is the type of the stored numbers; `channels` is checked by `join_bands`.

    Returns:
      The numbers, [H, W, C] row by row in little-endian order.

    Raises:
      SampleError: as `read_array`; or the type does not hold the numbers.
    """
    assert spec.array_type is not None
    read = read_array(data, spec)
    pixels = to_array_type(read.pixels, spec.array_type)
    geometry = plan_geometry(*read.size, orientation=read.orientation, spec=spec)
    largest = max(pixels[..., 0].size, geometry.resized_height * geometry.resized_width)
    needed = len(data) + array_memory(largest, pixels.shape[2], pixels.itemsize)
    check_memory(needed, spec.max_image_memory, height=geometry.height, width=geometry.width)
    shape = geometry.final_height, geometry.final_width, pixels.shape[2]
    stored = np.empty(shape, pixels.dtype.newbyteorder("<"))
    for channel in range(shape[2]):
        band = turn(np.ascontiguousarray(pixels[..., channel]), 1 if read.is_upright else read.orientation)
        stored[..., channel] = fit(resize_band(band, geometry, spec.resample), geometry)
    return _describe(stored, geometry)


def decode_pixels(data: bytes, spec: ImageSpec) -> Upright:
    """Reads a file upright and in its own size: as an array if the request stores arrays, else as `decode_upright`.

    Raises:
      SampleError: as `convert_array`, or as `convert_image`.
    """
    if spec.array_type is None:
        return decode_upright(data, spec)
    made = convert_array(data, dataclasses.replace(spec, image_size=None, resize_mode=ResizeMode.SHORTER))
    assert made.geometry is not None
    pixels = np.frombuffer(made.data, made.dtype).reshape(made.height, made.width, made.channels)
    return Upright(pixels, made.geometry)


def join_bands(bands: Mapping[str, ConvertedImage], spec: ImageSpec) -> ConvertedImage:
    """Joins the arrays of a sample to one with all channels, in their order.

    Args:
      bands: image name -> array, of `array_type`.

    Raises:
      SampleError: reason `unsupported_mode`; they differ in size, or together do not have `channels`.
    """
    (first, image), *_ = bands.items()
    for name, other in bands.items():
        if (other.height, other.width) != (image.height, image.width):
            detail = (
                f"{first} has {image.height} x {image.width}, {name} {other.height} x {other.width} (height x width)"
            )
            how = "`image_size` with `resize_mode=exact` gives all bands one size"
            raise decode_error(FailureReason.UNSUPPORTED_MODE, f"bands of several sizes: {detail}; {how}")
    channels = sum(one.channels for one in bands.values())
    if spec.channels not in (None, channels):
        detail = f"{channels} channels, where the dataset has {spec.channels} (`channels`)"
        raise decode_error(FailureReason.UNSUPPORTED_MODE, detail)
    if len(bands) == 1 or image.geometry is None:
        return image
    arrays = [np.frombuffer(one.data, image.dtype).reshape(one.height, one.width, -1) for one in bands.values()]
    return _describe(np.concatenate(arrays, axis=2), image.geometry)


def _describe(pixels: np.ndarray, geometry: Geometry) -> ConvertedImage:
    height, width, channels = pixels.shape
    colors, dtype = COLORSPACES.get(channels, ""), pixels.dtype.newbyteorder("=").name
    return ConvertedImage(pixels.tobytes(), "raw", height, width, channels, colors, geometry=geometry, dtype=dtype)


def resize_band(band: np.ndarray, geometry: Geometry, resample: Resample) -> np.ndarray:
    """Resizes an upright channel, [H, W]."""
    height, width = geometry.resized_height, geometry.resized_width
    if band.shape == (height, width):
        return band
    if geometry.is_nearest:
        return pick_nearest(band, geometry)
    if band.dtype == np.uint16:
        return resize_wide_array(band, height, width, resample)
    if band.dtype == np.uint8:
        scale = band.shape[0] / height, band.shape[1] / width
        return fast_resize_array(band, height, width, scale=scale, resample=resample)
    return resize_float(band, height, width, resample)


def resize_float(band: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    """Resizes a channel of floats with Pillow's filters. A NaN stays where a pixel has a share in it.

    Args:
      band: [H, W] float32.
      resample: any filter except NEAREST.

    Returns:
      [height, width] float32.
    """
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
