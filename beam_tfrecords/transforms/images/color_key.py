"""Applies the color key of a PNG, the color that means transparency (PNG, 11.3.2.1), in the depth of the file."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Sequence

from PIL import Image, ImageChops, PngImagePlugin

from beam_tfrecords.transforms.images.decode_errors import DECODER_ERRORS
from beam_tfrecords.transforms.images.formats import png_depth


def has_wide_key(data: bytes, image: Image.Image) -> bool:
    """Whether an opened PNG has a color key of 3 x 16 bits, of which Pillow decodes only the upper 8 bits each."""
    return image.mode == "RGB" and "transparency" in image.info and png_depth(data) > 8


def correct_key(data: bytes, image: Image.Image) -> None:
    """Scales the color key of a decoded PNG. Pillow stretches pixels of 2 and 4 bits to 8, but not the key.

    Ignores bits of the key beyond the depth of the file.
    """
    key, white = image.info.get("transparency"), (1 << png_depth(data)) - 1
    if isinstance(key, tuple):
        image.info["transparency"] = tuple(value & white for value in key)
    elif image.mode == "L" and key is not None:
        image.info["transparency"] = (key & white) * (255 // white)


def apply_wide_key(data: bytes, image: Image.Image) -> Image.Image:
    """Makes a decoded PNG of `has_wide_key` an RGBA image, transparent where all 48 bits equal the key."""
    key = image.info["transparency"]
    is_key = ImageChops.darker(
        _find(image, [value >> 8 for value in key]), _find(_decode_lower_bits(data), [value & 0xFF for value in key])
    )
    image.putalpha(ImageChops.invert(is_key))
    del image.info["transparency"]
    return image


def _find(image: Image.Image, color: Sequence[int]) -> Image.Image:
    """Returns an image that is 255 where the given image has a color, else 0."""
    planes = (
        band.point([255 * (value == level) for level in range(256)])
        for band, value in zip(image.split(), color, strict=True)
    )
    return functools.reduce(ImageChops.darker, planes)


def _decode_lower_bits(data: bytes) -> Image.Image:
    """Decodes the lower 8 bits of each channel of a 16-bit PNG, by reading it in the other byte order."""
    image = PngImagePlugin.PngImageFile(io.BytesIO(data))
    image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]
    # Missing pixels have already been accepted by the first decoding.
    with contextlib.suppress(*DECODER_ERRORS):
        image.load()
    image.tile = []
    return image
