"""Pixels of an array come out of the decoder as they are, whatever their order."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.raw_pixels import as_file
from tests.each import each

PNG = ImageSpec(image_encoding=ImageEncoding.PNG, channels=None)
DEEP = ImageSpec(image_encoding=ImageEncoding.PNG, channels=None, bit_depth=16)


def pixels_of(png: bytes) -> np.ndarray:
    """[H, W, C] of a PNG."""
    pixels = np.atleast_3d(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED))
    return np.dstack([pixels[..., 2::-1], pixels[..., 3:]]) if pixels.shape[2] > 1 else pixels


@each("dtype", ["|u1", "<u2", ">u2"])
@each(
    "shape, axes, order",
    [
        ((5, 7), "HW", (0, 1)),
        ((7, 5), "WH", (1, 0)),
        ((5, 7, 1), "HWC", (0, 1, 2)),
        ((5, 7, 3), "HWC", (0, 1, 2)),
        ((5, 7, 4), "HWC", (0, 1, 2)),
        ((3, 5, 7), "CHW", (1, 2, 0)),
        ((1, 1), "HW", (0, 1)),
    ],
)
def test_every_number_is_kept(shape, axes, order, dtype):
    depth = np.dtype(dtype).itemsize
    array = np.random.default_rng(0).integers(0, 256**depth, shape).astype(dtype)
    file = as_file(array.tobytes(), shape=shape, axes=axes, dtype=dtype)
    converted = convert_image(file, PNG if depth == 1 else DEEP)
    np.testing.assert_array_equal(pixels_of(converted.data), np.atleast_3d(array.transpose(order)))


@each("limits", [(0.0, 1.0), (-1.0, 1.0), (0.0, 4095.0), (1.0, 0.0)])
@each("channels", [1, 3, 4])
def test_a_range_becomes_the_nearest_levels(limits, channels):
    low, high = limits
    shares = np.random.default_rng(0).random((50, 70, channels))
    shares[0, 0], shares[0, 1], shares[0, 2] = 0, 1, 0.5 / 255 + 1e-9
    for dtype in ("<f4", "<f8"):
        array = (low + shares * (high - low)).astype(dtype)
        file = as_file(array.tobytes(), shape=array.shape, axes="HWC", dtype=dtype, limits=limits)
        exact = (array.astype(np.float64) - low) / (high - low)
        for spec, white in ((PNG, 255), (DEEP, 65535)):
            found = pixels_of(convert_image(file, dataclasses.replace(spec, channels=channels)).data)
            levels = np.floor(exact * white + 0.5) if channels < 4 else np.floor(exact * 255 + 0.5) * (white // 255)
            np.testing.assert_array_equal(found, levels)
