"""Converts pixels of any mode, depth and color space to 8-bit sRGB."""

from __future__ import annotations

import functools
import io
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageCms

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.images.decode_errors import decode_error, decoder_errors

_GREY_MODES = ("1", "L", "I", "F", "I;16", "I;16B")
_COLOR_MODES = ("P", "RGB", "CMYK", "YCbCr", "LAB", "HSV")
_ALPHA_MODES = ("LA", "PA", "RGBA")
# Modes in which one value, or palette entries, can mean transparency.
_KEYED_MODES = (*_GREY_MODES, "P", "RGB")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# (channels of an array, wanted channels) -> OpenCV's conversion, which adds opaque pixels.
_ARRAY_CHANNELS = {
    (1, 3): cv2.COLOR_GRAY2RGB,
    (1, 4): cv2.COLOR_GRAY2RGBA,
    (3, 1): cv2.COLOR_RGB2GRAY,
    (3, 4): cv2.COLOR_RGB2RGBA,
}
# A profile counts as sRGB if it changes no color by more than this many of 255 levels.
_SRGB_TOLERANCE = 2
_LARGEST_CACHED_PROFILE = 1 << 20


def stored_channels(image: Image.Image) -> int:
    """Returns the number of channels of an image: 1, 3 or 4. The fourth is any transparency.

    Raises:
      SampleError: reason `unsupported_mode`.
    """
    if image.mode in _ALPHA_MODES or (image.mode in _KEYED_MODES and "transparency" in image.info):
        return 4
    if image.mode in _GREY_MODES:
        return 1
    if image.mode in _COLOR_MODES:
        return 3
    raise decode_error(FailureReason.UNSUPPORTED_MODE, f"pixels of Pillow's mode {image.mode!r}")


def to_srgb(image: Image.Image, *, use_profile: bool) -> Image.Image:
    """Converts an image to 8 bits of mode L, RGB or RGBA, without a color profile.

    Values of more than 8 bits are scaled, not clipped (see `_to_8_bits`).

    Args:
      use_profile: apply the embedded profile, unless it is sRGB, broken, or for pixels of another mode. False keeps
        the values unchanged.

    Raises:
      SampleError: reason `unsupported_mode`, or `corrupt` if a palette or transparency value is out of range.
    """
    mode = _MODES[stored_channels(image)]
    if image.mode == mode and "icc_profile" not in image.info:
        return image
    profile = image.info.pop("icc_profile", None)
    with decoder_errors():
        image = _plain(image, mode)
    if use_profile and isinstance(profile, bytes):  # in a TIFF, the tag can have any type
        image = apply_profile(image, profile)
    return image if image.mode == mode else image.convert(mode)


def to_channels(image: Image.Image, channels: int) -> Image.Image:
    """Gives an L, RGB or RGBA image 1, 3 or 4 channels.

    Blends transparency with white, the usual background in pages and viewers.
    """
    if image.mode == "RGBA" and channels < 4:
        canvas = Image.new("RGB", image.size, "white")
        canvas.paste(image, mask=image.getchannel("A"))
        image = canvas
    mode = _MODES[channels]
    return image if image.mode == mode else image.convert(mode)


def array_channels(pixels: np.ndarray, channels: int | None) -> np.ndarray:
    """Gives an image as an array 1, 3 or 4 channels; None keeps all. Blends removed transparency with white.

    Args:
      pixels: [H, W], [H, W, 3] or [H, W, 4] uint8 or uint16.
    """
    has = pixels.shape[2] if pixels.ndim == 3 else 1
    if has == 4 and channels in (1, 3):
        white = np.iinfo(pixels.dtype).max
        alpha = pixels[..., 3:].astype(np.uint32)
        blended = pixels[..., :3] * alpha + white * (white - alpha)
        pixels, has = ((blended + white // 2) // white).astype(pixels.dtype), 3
    return pixels if channels in (None, has) else cv2.cvtColor(pixels, _ARRAY_CHANNELS[has, channels])


def largest_value(image: Image.Image) -> int:
    """Returns the largest value of an 8-bit image without transparency, or its upper 8 bits for 16-bit gray."""
    extrema: Any = image.getextrema()
    if len(image.getbands()) > 1:
        return int(max(high for _, high in extrema[:3]))
    return int(extrema[1]) >> (8 if image.mode.startswith("I;16") else 0)


def apply_profile(image: Image.Image, profile: bytes) -> Image.Image:
    """Converts an L, LA, RGB, RGBA or CMYK image to sRGB by an ICC profile."""
    bands = {"LA": "L", "RGBA": "RGB"}.get(image.mode, image.mode)
    transform = to_srgb_transform(profile, bands)
    if transform is None:
        return image
    colors = image.convert(bands)  # a copy
    if bands == "RGB":
        transform.apply_in_place(colors)
    else:
        colors = transform.apply(colors)
    # Pillow adds an sRGB profile that contains the current date.
    del colors.info["icc_profile"]
    if bands == "L":
        colors = colors.convert("L")
    if bands != image.mode:
        colors.putalpha(image.getchannel("A"))
    return colors


def to_srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Returns the transform from a profile to sRGB.

    Args:
      mode: mode of the pixels: "L", "RGB" or "CMYK".

    Returns:
      None if no transform is needed or possible: the profile is sRGB, broken, or for another mode.
    """
    find = _to_srgb_transform if len(profile) <= _LARGEST_CACHED_PROFILE else _to_srgb_transform.__wrapped__
    return find(profile, mode)


@functools.lru_cache(maxsize=32)
def _to_srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (ImageCms.PyCMSError, OSError):
        return None
    if mode == "RGB":
        levels = np.arange(0, 256, 17, dtype=np.uint8)
        cube = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(-1, 16, 3)
        moved = transform.apply(Image.fromarray(cube))
        if np.abs(np.asarray(moved) - cube.astype(np.int16)).max() <= _SRGB_TOLERANCE:
            return None
    return transform


def _plain(image: Image.Image, mode: str) -> Image.Image:
    """Converts an image to L, LA, RGB, RGBA or CMYK, where `mode` is the final mode of the caller."""
    if image.mode in ("LA", "CMYK"):
        return image
    if image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        converted = ImageCms.buildTransform(lab, srgb, "LAB", "RGB").apply(image)
        del converted.info["icc_profile"]
        return converted
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = _to_8_bits(image)
    return image if image.mode == mode else image.convert(mode)


def _to_8_bits(image: Image.Image) -> Image.Image:
    """Converts gray of 16 bits, 32 bits or floats to mode L, or LA if one value means transparency.

    16 bits: 65535 becomes 255. Wider integers and floats have no fixed white. If no value is negative, white is the
    smallest of 1 (floats only), 255 (except for PGM, whose white is 65535) and 65535 that no value exceeds; otherwise
    the darkest and brightest values become 0 and 255, as in viewers.
    """
    values = np.asarray(image)
    key = image.info.get("transparency")
    if image.mode.startswith("I;16"):
        values = values.astype(np.uint16)
        gray = (values // 257 + (values % 257 > 128)).astype(np.uint8)
    else:
        gray = stretch(values, image.format, np.uint8)
    converted = Image.fromarray(gray)
    if isinstance(key, int):
        converted.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    return converted


def find_limits(values: np.ndarray, file_format: str | None) -> tuple[float, float]:
    """Returns the numbers of [H, W] int32 or float32 that become black and white; see `_to_8_bits`."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    whites = [255.0, 65535.0]
    if values.dtype.kind == "f":
        whites.insert(0, 1.0)
    elif file_format == "PPM":
        whites.remove(255.0)
    white = next((white for white in whites if low >= 0 and high <= white), None)
    return (low, high) if white is None else (0.0, white)


def stretch(values: np.ndarray, file_format: str | None, stored: type[np.unsignedinteger[Any]]) -> np.ndarray:
    """Scales [H, W] int32 or float32 to a stored type, uint8 or uint16; see `_to_8_bits`. NaN becomes black."""
    brightest = np.iinfo(stored).max
    low, high = find_limits(values, file_format)
    gain = brightest / ((high - low) or 1)
    values = np.nan_to_num(values.astype(np.float32), copy=False, nan=low, posinf=high, neginf=low)
    values *= gain
    values -= low * gain
    return values.clip(0, brightest, out=values).round(out=values).astype(stored)
