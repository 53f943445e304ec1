"""Decodes image files to the pixels that are stored, except for arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from PIL import Image

from beam_tfrecords.transforms.images.color import largest_value, stored_channels, to_channels, to_srgb
from beam_tfrecords.transforms.images.converted_image import PlacedPixels
from beam_tfrecords.transforms.images.decode import OpenedImage, decode_image
from beam_tfrecords.transforms.images.fast_jpeg import place_plain_jpeg
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, ResizeMode
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START
from beam_tfrecords.transforms.images.memory import check_memory, converting_memory
from beam_tfrecords.transforms.images.orient import orient, orientation_for
from beam_tfrecords.transforms.images.resize import FILTERED, FILTERS, fit_image, resize_image
from beam_tfrecords.transforms.images.sixteen_bit import place_16_bit

# Pixels of an image that is so large that a worker should not hold a second copy of it, and of one strip.
_LARGE, _STRIP = 1 << 24, 1 << 21
# Box averaging leaves this factor of the scale to the filter, as Pillow's `reducing_gap=2.0` does.
_GAP = 2
# Modes that cannot be converted in strips, because their white level depends on the whole image.
_WHOLE_MODES = ("I", "F")


def place_pixels(data: bytes, spec: ImageSpec) -> PlacedPixels:
    """Decodes an image, converts its colors, turns it upright and resizes it, with the settings of a request.

    Raises:
      SampleError: the bytes are not an image, or the image cannot be converted.
    """
    if spec.bit_depth == 16:
        return place_16_bit(data, spec)
    placed = None
    if spec.codec is Codec.FAST and data.startswith(JPEG_START):
        placed = place_plain_jpeg(data, spec)
    return placed or _place_with_pillow(decode_image(data, spec), spec)


class Upright(NamedTuple):
    """An upright image.

    Attributes:
      pixels: [H, W, C] uint8, or uint16 with `bit_depth=16`, or an array of `array_type`; read-only.
      geometry: maps the file to these pixels.
    """

    pixels: np.ndarray
    geometry: Geometry


def decode_upright(data: bytes, spec: ImageSpec) -> Upright:
    """Decodes an image upright and in its own size, with the colors and channels of a request.

    Raises:
      SampleError: as `place_pixels`.
    """
    encoding = ImageEncoding.PNG if spec.bit_depth == 16 else ImageEncoding.RAW
    own_size = dataclasses.replace(spec, image_size=None, resize_mode=ResizeMode.SHORTER, image_encoding=encoding)
    placed = place_pixels(data, own_size)
    pixels = np.asarray(placed.pixels)
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    pixels.flags.writeable = False
    return Upright(pixels, placed.geometry)


def _place_with_pillow(file: OpenedImage, spec: ImageSpec) -> PlacedPixels:
    image = file.image
    channels = spec.channels or stored_channels(image)
    if spec.image_encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)
    # Pillow has already applied the orientation tag of a TIFF.
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    size = geometry.resized_unturned
    factor = _strip_factor(image, size) if spec.codec is Codec.FAST and spec.resample in FILTERED else 0
    needed = len(file.data) + converting_memory(image, spec, geometry, in_strips=factor > 0)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    convert = functools.partial(_convert_colors, spec=spec, channels=channels)
    if factor:
        placed = orient(_shrink_large(image, convert, factor=factor, size=size, spec=spec), orientation)
    else:
        placed = orient(convert(image), orientation)
    placed = resize_image(placed, geometry.resized_height, geometry.resized_width, spec.resample, codec=spec.codec)
    placed = fit_image(placed, geometry)
    return PlacedPixels(placed, geometry, largest_value(placed) if file.is_16_bit else None)


def _convert_colors(image: Image.Image, spec: ImageSpec, channels: int) -> Image.Image:
    return to_channels(to_srgb(image, use_profile=spec.color_profile is Metadata.APPLY), channels)


def _strip_factor(image: Image.Image, size: tuple[int, int]) -> int:
    """Returns the factor by which an image is reduced strip by strip; 0 if it is not large or does not shrink much.

    Args:
      size: (height, width) of the resized image.
    """
    factor = int(min(image.width / size[1], image.height / size[0]) / _GAP)
    if image.width * image.height < _LARGE or factor < 2 or image.mode in _WHOLE_MODES:
        return 0
    return factor


def _shrink_large(
    image: Image.Image,
    convert: Callable[[Image.Image], Image.Image],
    *,
    factor: int,
    size: tuple[int, int],
    spec: ImageSpec,
) -> Image.Image:
    """Converts a large image strip by strip and shrinks it to `size`, its new height and width."""
    width, height = image.size
    rows = max(1, _STRIP // width // factor) * factor
    reduced: Image.Image | None = None
    for top in range(0, height, rows):
        strip = convert(image.crop((0, top, width, min(top + rows, height)))).reduce(factor)
        if reduced is None:
            reduced = Image.new(strip.mode, (strip.width, -(-height // factor)))
        reduced.paste(strip, (0, top // factor))
    assert reduced is not None
    return reduced.resize(size[::-1], FILTERS[spec.resample], box=(0, 0, width / factor, height / factor))
