"""Decodes images upright, before any resize."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import cv2
import numpy as np

from beam_tfrecords.transforms.images.arrays import swap_red_and_blue
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec, ResizeMode


class Upright(NamedTuple):
    """An upright image.

    Attributes:
      pixels: [H, W, C] uint8, or uint16 with `bit_depth=16`, or an array of `array_type`; read-only.
      geometry: maps the file to these pixels.
    """

    pixels: np.ndarray
    geometry: Geometry


def decode_upright(data: bytes, spec: ImageSpec) -> Upright:
    """Decodes an image upright, with the colors and channels of a request.

    Raises:
      SampleError: as `convert_image`.
    """
    encoding = ImageEncoding.PNG if spec.bit_depth == 16 else ImageEncoding.RAW
    own_size = dataclasses.replace(
        spec,
        image_size=None,
        resize_mode=ResizeMode.SHORTER,
        image_encoding=encoding,
    )
    made = convert_image(data, own_size)
    assert made.geometry is not None
    if encoding is ImageEncoding.RAW:
        pixels = np.frombuffer(made.data, np.uint8)
    else:
        decoded = cv2.imdecode(np.frombuffer(made.data, np.uint8), cv2.IMREAD_UNCHANGED)
        assert decoded is not None
        pixels = swap_red_and_blue(decoded)
        pixels.flags.writeable = False
    return Upright(pixels.reshape(made.height, made.width, made.channels), made.geometry)
