"""Decodes image files to the pixels that are stored, except for arrays.

Plain JPEGs, the most common files in datasets, have a fast codec. TurboJPEG decodes to an array at 1/2, 1/4 or 1/8 of
the size if at least twice the target size remains, and reports broken files. The Rust resizer takes a sixth of Pillow's
time. OpenCV's encoder writes the same bytes as Pillow from the array; simplejpeg's encoder would use a less exact
transform below quality 96.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import cv2
import numpy as np
import simplejpeg
from PIL import Image

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.color import (
    apply_profile,
    array_channels,
    find_limits,
    largest_value,
    stored_channels,
    stretch,
    to_channels,
    to_srgb,
    to_srgb_transform,
)
from beam_tfrecords.transforms.images.converted_image import PlacedPixels, swap_red_and_blue
from beam_tfrecords.transforms.images.decode import OpenedImage, decode_image, is_wide_grey
from beam_tfrecords.transforms.images.decode_errors import check_pixels, unsupported
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata, Resample, ResizeMode
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START, JpegHeader, parse_jpeg_header
from beam_tfrecords.transforms.images.memory import (
    check_memory,
    converting_memory,
    plain_jpeg_memory,
    sixteen_bit_memory,
)
from beam_tfrecords.transforms.images.orient import orient, orientation_for, plan_geometry
from beam_tfrecords.transforms.images.resize import (
    FILTERED,
    FILTERS,
    fit,
    fit_image,
    place_array,
    resize_array,
    resize_image,
    turn,
)

# Pixels of an image that is so large that a worker should not hold a second copy of it, and of one strip.
_LARGE, _STRIP = 1 << 24, 1 << 21
# Box averaging leaves this factor of the scale to the filter, as Pillow's `reducing_gap=2.0` does.
_GAP = 2
# Modes that cannot be converted in strips, because their white level depends on the whole image.
_WHOLE_MODES = ("I", "F")
# White of 16 bits, and the factor from 8 to 16 bits.
_WHITE = 65535
_GAIN = 257
_THREE_CHANNELS = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION


def place_pixels(data: bytes, spec: ImageSpec) -> PlacedPixels:
    """Decodes an image, converts its colors, turns it upright and resizes it, with the settings of a request.

    Raises:
      SampleError: the bytes are not an image, or the image cannot be converted.
    """
    if spec.bit_depth == 16:
        return _place_16_bit(data, spec)
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


def find_scale(data: bytes, spec: ImageSpec) -> tuple[float, float] | None:
    """Returns the numbers of a file that become black and white; None if its format says which these are.

    Raises:
      SampleError: the file cannot be decoded.
    """
    file = decode_image(data, spec)
    return find_limits(np.asarray(file.image), file.image.format) if file.image.mode in _WHOLE_MODES else None


def _place_with_pillow(file: OpenedImage, spec: ImageSpec) -> PlacedPixels:
    image = file.image
    width, height = image.size
    channels = spec.channels or stored_channels(image)
    if spec.image_encoding is ImageEncoding.JPEG:
        channels = min(channels, 3)
    # Pillow has already applied the orientation tag of a TIFF.
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(height, width, orientation=orientation, spec=spec)
    size = geometry.resized_unturned
    factor = _strip_factor(image, size) if spec.codec is Codec.FAST and spec.resample in FILTERED else 0
    needed = converting_memory(image, spec, geometry, in_strips=factor > 0)
    check_memory(len(file.data) + needed, spec, height=height, width=width)
    convert = functools.partial(_convert_colors, spec=spec, channels=channels)
    if factor:
        placed = orient(_shrink_large(image, convert, factor=factor, size=size, spec=spec), orientation)
    else:
        placed = orient(convert(image), orientation)
    placed = resize_image(placed, *geometry.resized, spec.resample, codec=spec.codec)
    placed = fit_image(placed, geometry)
    return PlacedPixels(placed, geometry, largest_value(placed) if file.is_16_bit else None)


def _convert_colors(image: Image.Image, spec: ImageSpec, channels: int) -> Image.Image:
    return to_channels(to_srgb(image, use_profile=spec.color_profile is Metadata.APPLY), channels)


def _strip_factor(image: Image.Image, size: tuple[int, int]) -> int:
    """Returns the factor by which an image is reduced strip by strip; 0 if it is not large or does not shrink much.

    Args:
      size: (height, width) of the resized image.
    """
    width, height = image.size
    if width * height < _LARGE or image.mode in _WHOLE_MODES:
        return 0
    factor = int(min(width / size[1], height / size[0]) / _GAP)
    return factor if factor >= 2 else 0


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


def _place_16_bit(data: bytes, spec: ImageSpec) -> PlacedPixels:
    """Decodes to 16 bits per channel as an array, because Pillow supports 16 bits only for gray.

    Multiplies values of 8 bits by 257.

    Raises:
      SampleError: reason `unsupported_mode` if 16 bits cannot be decoded, or not converted to sRGB.
    """
    file = decode_image(data, spec)
    image = file.image
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    check_memory(len(data) + sixteen_bit_memory(geometry), spec, height=image.height, width=image.width)
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


# A reduced image keeps at least this multiple of the target size: 47 dB or more on the test photos; 1.5 gives 41 dB.
_SPARE = 2


def place_plain_jpeg(data: bytes, spec: ImageSpec) -> PlacedPixels | None:
    """Decodes a plain JPEG as `place_pixels` does.

    Returns:
      None if the file is not a plain JPEG, truncated or broken; Pillow's decoder then finds the reason.

    Raises:
      SampleError: reason `too_many_pixels` or `too_much_memory`.
    """
    header = parse_jpeg_header(data)
    if header is None or not header.is_plain or not header.has_end(data):
        return None
    check_pixels(header.height, header.width, spec.max_pixels)
    orientation = header.orientation() if spec.orientation is Metadata.APPLY else 1
    geometry = plan_geometry(header.height, header.width, orientation=orientation, spec=spec)
    profile = header.icc_profile if spec.color_profile is Metadata.APPLY else None
    if profile and not to_srgb_transform(profile, "L" if header.components == 1 else "RGB"):
        profile = None
    # OpenCV's encoder takes BGR.
    order = "BGR" if spec.image_encoding is ImageEncoding.JPEG else "RGB"
    gray = header.components == 1 or (spec.channels == 1 and profile is None)
    reduction = _reduction(header, geometry, spec.resample)
    needed = plain_jpeg_memory(
        header, geometry, spec, reduction=reduction, channels=1 if gray else 3, has_profile=bool(profile)
    )
    check_memory(len(data) + needed, spec, height=header.height, width=header.width)
    pixels = _decode(data, header, geometry, spec.resample, reduction=reduction, colors="GRAY" if gray else order)
    if pixels is None:
        return None
    if geometry.is_nearest:  # the nearest pixel depends on the orientation
        pixels, orientation = turn(pixels, orientation), 1
        pixels = resize_array(pixels, *geometry.resized, spec.resample)
    if profile:
        pixels = _to_srgb(pixels, profile, order, gray=spec.channels == 1)
    pixels = fit(turn(pixels, orientation), geometry)
    return PlacedPixels(array_channels(pixels, spec.channels), geometry, is_bgr=order == "BGR" and pixels.ndim == 3)


def _reduction(header: JpegHeader, geometry: Geometry, resample: Resample) -> int:
    """Returns 1, 2, 4 or 8: the factor by which decoding reduces the size."""
    height, width = geometry.resized_unturned
    reduction = 1
    if resample in FILTERED:
        while reduction < 8 and min(header.height / height, header.width / width) >= 2 * reduction * _SPARE:
            reduction *= 2
    return reduction


def _decode(
    data: bytes, header: JpegHeader, geometry: Geometry, resample: Resample, *, reduction: int, colors: str
) -> np.ndarray | None:
    """Decodes and resizes, without turning: returns [H, W] (for "GRAY") or [H, W, 3] uint8; None if the file is broken.

    Does not resize with the nearest filter.
    """
    height, width = geometry.resized_unturned
    reduced_height, reduced_width = -(-header.height // reduction), -(-header.width // reduction)
    try:
        pixels = simplejpeg.decode_jpeg(data, colors, min_height=reduced_height, min_width=reduced_width)
    except ValueError:
        return None
    if colors == "GRAY":
        pixels = pixels[:, :, 0]
    if geometry.is_nearest:
        return pixels
    scale = header.height / reduction / height, header.width / reduction / width
    return resize_array(pixels, height, width, resample, scale=scale)


def _to_srgb(pixels: np.ndarray, profile: bytes, order: str, *, gray: bool) -> np.ndarray:
    """Applies a color profile. Runs after the resize, when there are fewer pixels.

    Args:
      pixels: [H, W] uint8, or [H, W, 3] in the given order.
      gray: always return [H, W].
    """
    height, width = pixels.shape[:2]
    mode, stored = ("L", "L") if pixels.ndim == 2 else ("RGB", order)
    image = Image.frombytes(mode, (width, height), np.ascontiguousarray(pixels), "raw", stored)
    image = apply_profile(image, profile)
    if gray or mode == "L":
        return np.asarray(image.convert("L"))
    return np.frombuffer(image.tobytes("raw", order), np.uint8).reshape(height, width, 3)
