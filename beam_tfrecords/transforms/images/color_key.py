"""The color of a PNG that means transparency (PNG, 11.3.2.1), in the depth of the file."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Sequence

from PIL import Image, ImageChops, PngImagePlugin

from beam_tfrecords.transforms.images.decode_errors import DECODER_ERRORS
from beam_tfrecords.transforms.images.formats import png_depth


def has_wide_key(data: bytes, image: Image.Image) -> bool:
    """Whether an opened PNG has a color of 3 x 16 bits for transparency; Pillow decodes the upper 8 of each."""
    return image.mode == "RGB" and "transparency" in image.info and png_depth(data) > 8


def correct_key(data: bytes, image: Image.Image) -> None:
    """Gives a decoded PNG its key in the scale of its pixels: Pillow stretches 2 and 4 bits to 8, and not the key.

    Bits of a key beyond those of the file do not count.
    """
    key, white = image.info.get("transparency"), (1 << png_depth(data)) - 1
    if isinstance(key, tuple):
        image.info["transparency"] = tuple(value & white for value in key)
    elif image.mode == "L" and key is not None:
        image.info["transparency"] = (key & white) * (255 // white)


def apply_wide_key(data: bytes, image: Image.Image) -> Image.Image:
    """Makes an RGBA image of a decoded PNG of `has_wide_key`: transparent where all 48 bits are those of the key."""
    key = image.info["transparency"]
    is_key = ImageChops.darker(
        _find(image, [value >> 8 for value in key]), _find(_decode_lower_bits(data), [value & 0xFF for value in key])
    )
    image.putalpha(ImageChops.invert(is_key))
    del image.info["transparency"]
    return image


def _find(image: Image.Image, color: Sequence[int]) -> Image.Image:
    """255 where an image has a color, else 0."""
    planes = (
        band.point([255 * (value == level) for level in range(256)])
        for band, value in zip(image.split(), color, strict=True)
    )
    return functools.reduce(ImageChops.darker, planes)


def _decode_lower_bits(data: bytes) -> Image.Image:
    """The lower 8 bits of each channel of a PNG with 16, which are where the upper ones are in the other byte order."""
    image = PngImagePlugin.PngImageFile(io.BytesIO(data))
    image.tile = [tile._replace(args="RGB;16L") for tile in image.tile]
    # What is missing here was missing before, and has been accepted.
    with contextlib.suppress(*DECODER_ERRORS):
        image.load()
    image.tile = []
    return image
