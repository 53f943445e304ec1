"""Makes image files from arrays of raw pixels. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import cv2
import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage

# Number of channels -> number of the format (Netpbm's pgm(5) and ppm(5)).
_NETPBM = {1: 5, 3: 6}


def as_file(data: bytes, *, shape: Sequence[int], axes: str, dtype: str) -> bytes:
    """Makes a lossless image file of an array.

    Args:
      data: the pixels.
      shape: lengths of the axes.
      axes: as in `refs.PixelRange`.
      dtype: as in `refs.PixelRange`.

    Returns:
      A PGM or PPM file; a PNG if there is a channel of transparency, which these formats lack.

    Raises:
      SampleError: bytes are missing.
    """
    numbers = np.frombuffer(data, dtype)
    if numbers.size != math.prod(shape):
        detail = f"{len(data):,} bytes where the shape {tuple(shape)} has more; the array is cut"
        raise SampleError(Stage.READ, FailureReason.TRUNCATED, detail)
    order = [axes.index(axis) for axis in "HWC" if axis in axes]
    pixels = numbers.reshape(shape).transpose(order)
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if channels == 4:
        plain = np.ascontiguousarray(pixels[..., (2, 1, 0, 3)]).astype(f"u{numbers.itemsize}")
        return cv2.imencode(".png", plain)[1].tobytes()
    header = f"P{_NETPBM[channels]}\n{width} {height}\n{256**numbers.itemsize - 1}\n"
    return header.encode() + pixels.astype(f">u{numbers.itemsize}", copy=False).tobytes()
