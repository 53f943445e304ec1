"""From whatever a file holds to the 8-bit sRGB picture that a person sees."""

from __future__ import annotations

import functools
import io

import numpy as np
from PIL import Image, ImageCms

from transforms.errors import FailureReason
from transforms.images.refusals import decoder_errors, refusal

_GREY_MODES = ("1", "L", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_COLOR_MODES = ("P", "RGB", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")
_ALPHA_MODES = ("LA", "PA", "RGBA")
# Modes in which one value, or entries of the palette, can stand for transparency.
_KEYED_MODES = (*_GREY_MODES, "P", "RGB")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# A profile that moves no colour by more levels than this, out of 255, is sRGB.
_SRGB_TOLERANCE = 2
_LARGEST_CACHED_PROFILE = 1 << 20


def stored_channels(image: Image.Image) -> int:
    """1, 3 or 4: what a picture has; transparency of any kind counts as the fourth channel.

    Raises:
      SampleError: reason `unsupported_mode`.
    """
    if image.mode in _ALPHA_MODES or (image.mode in _KEYED_MODES and "transparency" in image.info):
        return 4
    if image.mode in _GREY_MODES:
        return 1
    if image.mode in _COLOR_MODES:
        return 3
    raise refusal(FailureReason.UNSUPPORTED_MODE, f"pixels of Pillow's mode {image.mode!r}")


def to_srgb(image: Image.Image) -> Image.Image:
    """The picture as 8-bit sRGB of mode L, RGB or RGBA, and without a colour profile.

    Values of more than 8 bits are scaled, not clipped (see `_to_8_bits`). An embedded profile is applied
    unless it is sRGB's own, broken, or made for other pixels than these.

    Raises:
      SampleError: reason `unsupported_mode`, or `corrupt` if a palette or transparency makes no sense.
    """
    mode = _MODES[stored_channels(image)]
    profile = image.info.pop("icc_profile", None)
    with decoder_errors():
        image = _plain(image, mode)
    if profile:
        image = apply_profile(image, profile)
    return image if image.mode == mode else image.convert(mode)


def to_channels(image: Image.Image, channels: int) -> Image.Image:
    """An L, RGB or RGBA picture with 1, 3 or 4 channels; transparency is laid over white.

    White, because that is what a page or a viewer shows behind a picture.
    """
    if image.mode == "RGBA" and channels < 4:
        canvas = Image.new("RGB", image.size, "white")
        canvas.paste(image, mask=image.getchannel("A"))
        image = canvas
    mode = _MODES[channels]
    return image if image.mode == mode else image.convert(mode)


def apply_profile(image: Image.Image, profile: bytes) -> Image.Image:
    """The colours of an L, LA, RGB, RGBA or CMYK picture as sRGB, by an ICC profile."""
    bands = {"LA": "L", "RGBA": "RGB"}.get(image.mode, image.mode)
    transform = to_srgb_transform(profile, bands)
    if transform is None:
        return image
    colors = transform.apply(image.convert(bands))
    # Made anew by the library, with a date in it.
    del colors.info["icc_profile"]
    if bands == "L":
        colors = colors.convert("L")
    if bands != image.mode:
        colors.putalpha(image.getchannel("A"))
    return colors


def to_srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """What takes pixels of a mode to sRGB; None where nothing is to be done.

    Args:
      profile: an ICC profile as it was found in a file.
      mode: "L", "RGB" or "CMYK".

    Returns:
      None if the profile is sRGB, broken, or not for pixels of this mode.
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
    """The picture as L, LA, RGB, RGBA or CMYK; `mode` is what it ends as."""
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
    """Grey of 16 bits, 32 bits or floats as mode L, or LA if one value stands for transparency.

    16 bits: 65535 becomes 255. Wider integers and floats have no fixed white. If nothing is negative,
    white is the smallest of 1 (floats only), 255 (not for PPM, whose white is 65535) and 65535 that
    no value is above; else the darkest and brightest values become 0 and 255, as viewers do it.
    """
    values = np.asarray(image)
    key = image.info.get("transparency")
    if image.mode.startswith("I;16"):
        values = values.astype(np.uint16)
        grey = (values // 257 + (values % 257 > 128)).astype(np.uint8)
    else:
        grey = _stretch(values, image.format)
    picture = Image.fromarray(grey)
    if isinstance(key, int):
        picture.putalpha(Image.fromarray(np.where(values == key, 0, 255).astype(np.uint8)))
    return picture


def _stretch(values: np.ndarray, file_format: str | None) -> np.ndarray:
    """[H, W] int32 or float32 -> [H, W] uint8; see `_to_8_bits`. NaN becomes black."""
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    whites = [65535.0] if file_format == "PPM" else [255.0, 65535.0]
    if values.dtype.kind == "f":
        whites.insert(0, 1.0)
    white = next((white for white in whites if low >= 0 and high <= white), None)
    if white is not None:
        low, high = 0.0, white
    gain = 255 / ((high - low) or 1)
    values = np.nan_to_num(values.astype(np.float32), nan=low, posinf=high, neginf=low)
    return (values * gain - low * gain).clip(0, 255).round().astype(np.uint8)
