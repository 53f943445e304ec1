"""Converts files to stored arrays: any number of channels, each resized alone by the geometry of images."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.array_files import read_array
from beam_tfrecords.transforms.images.converted_image import ConvertedImage, describe_raw
from beam_tfrecords.transforms.images.decode_errors import decode_error, unsupported
from beam_tfrecords.transforms.images.image_spec import ArrayType, ImageSpec
from beam_tfrecords.transforms.images.memory import array_memory, check_memory
from beam_tfrecords.transforms.images.plan_geometry import plan_geometry
from beam_tfrecords.transforms.images.resize import place_array


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
    pixels = _to_array_type(read.pixels, spec.array_type)
    geometry = plan_geometry(*read.size, orientation=read.orientation, spec=spec)
    largest = max(pixels[..., 0].size, geometry.resized_height * geometry.resized_width)
    needed = array_memory(largest, pixels.shape[2], pixels.itemsize)
    check_memory(len(data) + needed, spec, height=geometry.height, width=geometry.width)
    stored = np.empty((geometry.final_height, geometry.final_width, pixels.shape[2]), pixels.dtype.newbyteorder("<"))
    orientation = 1 if read.is_upright else read.orientation
    for channel in range(stored.shape[2]):
        band = np.ascontiguousarray(pixels[..., channel])
        stored[..., channel] = place_array(band, orientation, geometry, spec.resample)
    return _describe(stored, geometry)


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
    if len(bands) == 1:
        return image
    arrays = [np.frombuffer(one.data, image.dtype).reshape(one.height, one.width, -1) for one in bands.values()]
    return _describe(np.concatenate(arrays, axis=2), image.geometry)


def _describe(pixels: np.ndarray, geometry: Geometry) -> ConvertedImage:
    return describe_raw(pixels.tobytes(), pixels.shape, pixels.dtype, geometry)


def _to_array_type(pixels: np.ndarray, wanted: ArrayType) -> np.ndarray:
    """Returns numbers as a type that holds all of their values; wider floats are rounded to 32 bits.

    Raises:
      SampleError: the type may not hold them.
    """
    if not np.can_cast(pixels.dtype, wanted.value) and not (pixels.dtype.kind == "f" and wanted is ArrayType.FLOAT32):
        raise unsupported(f"numbers of type {pixels.dtype}, which `array_type={wanted.value}` does not hold")
    return pixels.astype(wanted.value, copy=False)
