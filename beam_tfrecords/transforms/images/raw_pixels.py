"""Makes image files from arrays of raw pixels. All functions are pure."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import cv2
import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage

# Start of a .npy file (numpy.org/doc/stable/reference/generated/numpy.lib.format.html); and version of its header ->
# reader of the shape, of whether the first axis changes fastest, and of the type.
NPY_START = b"\x93NUMPY"
NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# Field name of a structured .npy file with one record per pixel, so that the order of its axes is certain.
BANDS = "bands"
# Number of channels -> number of the format (Netpbm's pgm(5) and ppm(5)).
_NETPBM = {1: 5, 3: 6}
# White of 8 and of 16 bits, and the factor between them.
_BYTE, _WHITE, _GAIN = 255, 65535, 257


def as_file(
    data: bytes, *, shape: Sequence[int], axes: str, dtype: str, limits: tuple[float, float] | None = None
) -> bytes:
    """Makes a lossless image file of an array.

    Args:
      data: the pixels.
      shape: lengths of the axes.
      axes: as in `refs.PixelRange`.
      dtype: as in `refs.PixelRange`.
      limits: as in `refs.PixelRange`.

    Returns:
      A PGM or PPM file; a PNG if there is a channel of transparency, which these formats lack; a .npy file of records
      with all channels of a pixel for any other number of channels, and for floats; a plain .npy file for axes in an
      unknown order, which `array_axes` gives.

    Raises:
      SampleError: bytes are missing.
    """
    numbers = np.frombuffer(data, dtype)
    if numbers.size != math.prod(shape):
        detail = f"{len(data):,} bytes where the shape {tuple(shape)} has more; the array is cut"
        raise SampleError(Stage.READ, FailureReason.TRUNCATED, detail)
    if not axes:
        return npy_file(numbers.reshape(shape))
    order = [axes.index(axis) for axis in "HWC" if axis in axes]
    pixels = numbers.reshape(shape).transpose(order)
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if limits is not None:
        pixels = numbers = _stretch(pixels, *limits, has_alpha=channels == 4)
    if channels not in (*_NETPBM, 4) or numbers.dtype.kind == "f":
        kind = np.dtype([(BANDS, numbers.dtype, (channels,))])
        return npy_file(np.ascontiguousarray(pixels).reshape(height, -1).view(kind))
    if channels == 4:
        plain = np.ascontiguousarray(pixels[..., (2, 1, 0, 3)]).astype(f"u{numbers.itemsize}")
        return cv2.imencode(".png", plain)[1].tobytes()
    header = f"P{_NETPBM[channels]}\n{width} {height}\n{256**numbers.itemsize - 1}\n"
    return header.encode() + pixels.astype(f">u{numbers.itemsize}", copy=False).tobytes()


def npy_file(array: np.ndarray) -> bytes:
    """Returns an array as a .npy file."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _stretch(pixels: np.ndarray, black: float, white: float, *, has_alpha: bool) -> np.ndarray:
    """Maps numbers to the nearest values from 0 to 65535, or from 0 to 255 if that loses nothing.

    Reducing 16 bits to 8 bits later gives the values of mapping to 0..255, because the middle between two values of 8
    bits is the middle between two of 16 bits. Images with an alpha channel have 8 bits, because Pillow cuts off the
    lower half of their 16 bits.
    """
    shares = ((pixels.astype(np.float64) - black) / (white - black)).clip(0, 1)
    if has_alpha:
        return np.floor(shares * _BYTE + 0.5).astype("u1")
    wide = np.floor(shares * _WHITE + 0.5).astype("<u2")
    return wide if (wide % _GAIN).any() else (wide // _GAIN).astype("u1")
