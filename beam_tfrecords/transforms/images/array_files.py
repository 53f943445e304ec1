"""Reads files as arrays of numbers: TIFF and .npy files as they are stored, and all other images by their decoder."""

from __future__ import annotations

import dataclasses
import io
import math
from typing import NamedTuple

import numpy as np

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images import formats
from beam_tfrecords.transforms.images.bit_depth import is_16_bit
from beam_tfrecords.transforms.images.decode import load_pixels, open_image
from beam_tfrecords.transforms.images.decode_errors import check_pixels, decode_error, decoder_errors, unsupported
from beam_tfrecords.transforms.images.image_spec import ArrayType, Axes, ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.memory import array_memory, check_memory
from beam_tfrecords.transforms.images.npy_headers import NPY_HEADERS, NPY_START
from beam_tfrecords.transforms.images.orient import swaps_sides
from beam_tfrecords.transforms.images.raw_pixels import BANDS
from beam_tfrecords.transforms.images.tiff_bands import read_tiff
from beam_tfrecords.transforms.images.upright import decode_upright


class ReadArray(NamedTuple):
    """The array in a file.

    Attributes:
      pixels: [H, W, C] numbers of the type in the file, in native byte order.
      orientation: orientation of the file that the request applies, 1 to 8.
      is_upright: whether the pixels are turned already.
    """

    pixels: np.ndarray
    orientation: int = 1
    is_upright: bool = False

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image in the file."""
        height, width = self.pixels.shape[:2]
        return (width, height) if self.is_upright and swaps_sides(self.orientation) else (height, width)


def read_array(data: bytes, spec: ImageSpec) -> ReadArray:
    """Reads a file as an array.

    Raises:
      SampleError: the file cannot be decoded, or it is unclear what its axes or pages are.
    """
    if data.startswith(NPY_START):
        return ReadArray(_read_npy(data, spec))
    return ReadArray(*read_tiff(data, spec)) if formats.sniff(data) == "tiff" else _read_image(data, spec)


def _read_npy(data: bytes, spec: ImageSpec) -> np.ndarray:
    file = io.BytesIO(data)
    with decoder_errors():
        read_header = NPY_HEADERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            raise unsupported("a .npy file of another version than 1.0 and 2.0")
        shape, is_fortran, dtype = read_header(file)
    axes = spec.array_axes
    if dtype.names == (BANDS,):
        shape, axes = (*shape, *dtype[BANDS].shape), Axes.HWC
        dtype = dtype[BANDS].base
    count = math.prod(shape)
    if dtype.kind not in "uif" or min(shape, default=0) < 1:
        raise unsupported(f"a .npy file of shape {shape} and type {dtype}; expected numbers")
    if file.tell() + count * dtype.itemsize > len(data):
        raise decode_error(FailureReason.TRUNCATED, f"the .npy file has {len(data)} bytes, less than its {shape} take")
    pixels: np.ndarray = np.frombuffer(data, dtype, count, file.tell()).reshape(shape, order="F" if is_fortran else "C")
    if pixels.ndim == 2:
        pixels = pixels[..., np.newaxis]
    elif pixels.ndim != 3:
        raise unsupported(f"a .npy file of shape {shape}; expected an image of two or three axes")
    elif axes is Axes.CHW:
        pixels = pixels.transpose(1, 2, 0)
    elif axes is None and shape[2] >= min(shape[:2]):
        detail = f"a .npy file of shape {shape}, whose channels may be first or last"
        raise unsupported(f"{detail}; `array_axes=CHW` or `array_axes=HWC` says it")
    height, width, channels = pixels.shape
    check_pixels(height, width, spec.max_pixels)
    needed = len(data) + array_memory(height * width, channels, dtype.itemsize)
    check_memory(needed, spec.max_image_memory, height=height, width=width)
    return pixels.astype(dtype.newbyteorder("="), copy=False)


def _read_image(data: bytes, spec: ImageSpec) -> ReadArray:
    """Decodes an image of any other format upright, in its own channels."""
    plain = dataclasses.replace(spec, array_type=None, channels=None, image_encoding=ImageEncoding.PNG)
    name, image = open_image(data, plain)
    if image.mode == "F":
        return ReadArray(np.asarray(load_pixels(data, name, image, plain))[..., np.newaxis])
    is_wide = is_16_bit(data, name, image) or (name == "ppm" and formats.ppm_maximum(data) > 255)
    upright = decode_upright(data, dataclasses.replace(plain, bit_depth=16 if is_wide else 8))
    return ReadArray(upright.pixels, upright.geometry.orientation, is_upright=True)


def to_array_type(pixels: np.ndarray, wanted: ArrayType) -> np.ndarray:
    """Returns numbers as a type that holds all of their values; wider floats are rounded to 32 bits.

    Raises:
      SampleError: the type may not hold them.
    """
    if not np.can_cast(pixels.dtype, wanted.value) and not (pixels.dtype.kind == "f" and wanted is ArrayType.FLOAT32):
        raise unsupported(f"numbers of type {pixels.dtype}, which `array_type={wanted.value}` does not hold")
    return pixels.astype(wanted.value, copy=False)
