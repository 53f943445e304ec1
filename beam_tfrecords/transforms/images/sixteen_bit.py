"""Decodes images to 16 bits per channel as arrays, because Pillow supports 16 bits only for grey."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.transforms.images.color import array_channels, stretch, to_srgb, to_srgb_transform
from beam_tfrecords.transforms.images.converted_image import PlacedPixels, swap_red_and_blue
from beam_tfrecords.transforms.images.decode import OpenedImage, decode_image, is_wide_grey
from beam_tfrecords.transforms.images.decode_errors import unsupported
from beam_tfrecords.transforms.images.geometry import plan_geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Metadata
from beam_tfrecords.transforms.images.memory import check_memory, sixteen_bit_memory
from beam_tfrecords.transforms.images.orient import orientation_for
from beam_tfrecords.transforms.images.resize import place_array

_WHITE = 65535
# Factor from 8 to 16 bits: 255 becomes 65535.
_GAIN = 257
_THREE_CHANNELS = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


def place_16_bit(data: bytes, spec: ImageSpec) -> PlacedPixels:
    """Decodes an image as `place_pixels` does, to 16 bits per channel; multiplies values of 8 bits by 257.

    Raises:
      SampleError: as `place_pixels`; reason `unsupported_mode` if 16 bits cannot be decoded, or not converted to sRGB.
    """
    file = decode_image(data, spec)
    image = file.image
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    needed = len(data) + sixteen_bit_memory(geometry)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    pixels = _to_16_bits(file, use_profile=spec.color_profile is Metadata.APPLY)
    pixels = array_channels(pixels, spec.channels)
    return PlacedPixels(place_array(pixels, orientation, geometry, spec.resample, has_alpha=True), geometry)


def _to_16_bits(file: OpenedImage, *, use_profile: bool) -> np.ndarray:
    """Returns the pixels as [H, W], [H, W, 3] or [H, W, 4] uint16."""
    image = file.image
    is_grey, values = is_wide_grey(image), None
    # Pillow scales the colors of a PPM file to 8 bits.
    if file.is_16_bit or (file.format == "ppm" and image.mode == "RGB"):
        values = np.asarray(image) if is_grey else _decode_color(file.data, image)
    if values is None or values.dtype == np.uint8:
        return np.asarray(to_srgb(image, use_profile=use_profile)).astype(np.uint16) * _GAIN
    profile = image.info.get("icc_profile")
    if use_profile and isinstance(profile, bytes) and to_srgb_transform(profile, "L" if is_grey else "RGB"):
        raise unsupported(
            "a color profile cannot be applied to 16 bits; `color_profile=ignore` stores the numbers as they are"
        )
    key = image.info.get("transparency") if is_grey else None
    is_key = None if key is None else values == key
    if image.mode in ("I", "F"):
        values = stretch(values, image.format, np.uint16)
    values = values.astype(np.uint16, copy=False)
    if is_key is None:
        return values
    return np.dstack([array_channels(values, 3), np.where(is_key, 0, _WHITE).astype(np.uint16)])


def _decode_color(data: bytes, image: Image.Image) -> np.ndarray:
    """Decodes a color image with OpenCV to [H, W, 3] or [H, W, 4] uint16, or uint8 if it has 8 bits.

    Checks that Pillow decodes the same upper 8 bits, because OpenCV and Pillow disagree about some kinds of files.

    Args:
      data: the file.
      image: the file, decoded by Pillow.

    Raises:
      SampleError: reason `unsupported_mode` if OpenCV and Pillow disagree.
    """
    seen = np.asarray(image)
    flags = cv2.IMREAD_UNCHANGED if image.mode == "RGBA" else _THREE_CHANNELS
    values = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if values is not None and values.dtype == np.uint8:
        return values
    if values is not None and values.dtype == np.uint16 and values.shape == seen.shape:
        values = swap_red_and_blue(values)
        # Pillow truncates or rounds.
        if ((values >> 8).astype(np.uint8) - seen + np.uint8(1)).max() <= 2:
            return values
    raise unsupported(f"the 16 bits of this kind of {image.format} cannot be decoded")
