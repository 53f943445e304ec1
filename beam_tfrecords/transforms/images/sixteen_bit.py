"""Converts images of 16 bits per channel as arrays, because Pillow supports 16 bits only for grey."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image

from beam_tfrecords.transforms.images.arrays import fit, pick_nearest, swap_red_and_blue, turn
from beam_tfrecords.transforms.images.bit_depth import is_16_bit, is_wide_grey
from beam_tfrecords.transforms.images.color import stretch, to_srgb, to_srgb_transform
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.decode import load_pixels, open_image
from beam_tfrecords.transforms.images.decode_errors import unsupported
from beam_tfrecords.transforms.images.encode import COLORSPACES
from beam_tfrecords.transforms.images.fast_resize import resize_wide_array
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Metadata, Resample
from beam_tfrecords.transforms.images.memory import check_memory, sixteen_bit_memory
from beam_tfrecords.transforms.images.orient import orientation_for
from beam_tfrecords.transforms.images.quality import measure_array

_WHITE = 65535
# Factor from 8 to 16 bits: 255 becomes 65535.
_GAIN = 257
# The same level as Pillow's default.
_PNG_OPTIONS = [cv2.IMWRITE_PNG_COMPRESSION, 6]
_THREE_CHANNELS = cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH | cv2.IMREAD_IGNORE_ORIENTATION
_CHANNELS = {
    (1, 3): cv2.COLOR_GRAY2RGB,
    (1, 4): cv2.COLOR_GRAY2RGBA,
    (3, 1): cv2.COLOR_RGB2GRAY,
    (3, 4): cv2.COLOR_RGB2RGBA,
}


def convert_16_bit(data: bytes, spec: ImageSpec) -> ConvertedImage:
    """Converts an image as `convert_image` does, with 16 bits per channel; multiplies values of 8 bits by 257.

    Raises:
      SampleError: as `convert_image`; reason `unsupported_mode` if 16 bits cannot be decoded, or not converted to sRGB.
    """
    name, opened = open_image(data, spec)
    image = load_pixels(data, name, opened, spec)
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    needed = len(data) + sixteen_bit_memory(geometry)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    pixels = _to_16_bits(data, name, image, use_profile=spec.color_profile is Metadata.APPLY)
    pixels = turn(_to_channels(pixels, spec.channels), orientation)
    pixels = fit(resize_16_bit(pixels, geometry, spec.resample), geometry)
    height, width = pixels.shape[:2]
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    _, file = cv2.imencode(".png", swap_red_and_blue(pixels), _PNG_OPTIONS)
    colors = COLORSPACES[channels]
    quality = measure_array(pixels, colors)
    return ConvertedImage(
        file.tobytes(),
        "png",
        height,
        width,
        channels,
        colors,
        geometry=geometry,
        quality=quality,
    )


def _to_16_bits(data: bytes, name: str, image: Image.Image, *, use_profile: bool) -> np.ndarray:
    """Returns the pixels as [H, W], [H, W, 3] or [H, W, 4] uint16."""
    is_grey, values = is_wide_grey(image), None
    # Pillow scales the colors of a PPM file to 8 bits.
    if is_16_bit(data, name, image) or (name == "ppm" and image.mode == "RGB"):
        values = np.asarray(image) if is_grey else _decode_color(data, image)
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
    return np.dstack([_to_channels(values, 3), np.where(is_key, 0, _WHITE).astype(np.uint16)])


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


def _to_channels(pixels: np.ndarray, channels: int | None) -> np.ndarray:
    """Gives an image 1, 3 or 4 channels; None keeps all. Blends removed transparency with white."""
    has = pixels.shape[2] if pixels.ndim == 3 else 1
    if has == 4 and channels in (1, 3):
        alpha = pixels[..., 3:].astype(np.uint32)
        blended = pixels[..., :3] * alpha + _WHITE * (_WHITE - alpha)
        pixels, has = ((blended + _WHITE // 2) // _WHITE).astype(np.uint16), 3
    return pixels if channels in (None, has) else cv2.cvtColor(pixels, _CHANNELS[has, channels])


def resize_16_bit(pixels: np.ndarray, geometry: Geometry, resample: Resample) -> np.ndarray:
    """Resizes an upright image; weights colors by their opacity."""
    size = geometry.resized_height, geometry.resized_width
    if size == pixels.shape[:2]:
        return pixels
    if geometry.is_nearest:  # at 16 bits, Pillow rounds differently
        return pick_nearest(pixels, geometry)
    is_weighted = pixels.ndim == 3 and pixels.shape[2] == 4
    if is_weighted:
        alpha = pixels[..., 3:].astype(np.uint32)
        colors = (pixels[..., :3] * alpha + _WHITE // 2) // _WHITE
        pixels = np.dstack([colors.astype(np.uint16), pixels[..., 3]])
    resized = resize_wide_array(pixels, *size, resample)
    if not is_weighted:
        return resized
    alpha = resized[..., 3:]
    divisor = np.maximum(alpha, 1).astype(np.uint32)
    colors = np.minimum((resized[..., :3] * np.uint32(_WHITE) + divisor // 2) // divisor, _WHITE)
    return np.dstack([colors.astype(np.uint16), alpha])
