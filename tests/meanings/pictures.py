"""Images of one color, from which a record tells which sample it is."""

from __future__ import annotations

import functools
import io

import numpy as np
import PIL.Image

from tests.pictures import picture as picture_of

# Every image is as large as this, in pixels: wide enough for boxes.
WIDTH, HEIGHT = 48, 36
_STEPS, _STEP = 18, 15
COUNT = _STEPS**3
_GRAY = 1 + _STEPS + _STEPS**2


def color_of(number: int) -> str:
    """Returns the color of the image with a number below `COUNT`, such as `#000f1e`."""
    return "#" + "".join(f"{number // _STEPS**place % _STEPS * _STEP:02x}" for place in range(3))


def is_gray(number: int) -> bool:
    """Whether the image with a number is gray, as a mask is."""
    return number % _GRAY == 0


def gray(level: int) -> int:
    """Returns the number of the image of a gray, from 0 (black) to 17."""
    return level * _GRAY


@functools.lru_cache(maxsize=4096)
def picture(number: int, kind: str = "png") -> bytes:
    """Returns a file with the image of a number."""
    return picture_of(f"{color_of(number)} {WIDTH}x{HEIGHT}", f"x.{kind}")


@functools.lru_cache(maxsize=256)
def mask_picture(value: int) -> bytes:
    """Returns a PNG file whose pixels all have this value."""
    return picture_of(f"mask {WIDTH}x{HEIGHT} {value}=0,0,{WIDTH},{HEIGHT}")


@functools.lru_cache(maxsize=4096)
def read_picture(data: bytes) -> int:
    """Returns the number of the image in a file, whose color may be off by the loss of a JPEG file."""
    pixel = PIL.Image.open(io.BytesIO(data)).convert("RGB").getpixel((1, 1))
    return sum(min(round(value / _STEP), _STEPS - 1) * _STEPS**place for place, value in enumerate(pixel))


def read_mask(data: bytes) -> int:
    """Returns the largest value of a mask."""
    return int(np.max(PIL.Image.open(io.BytesIO(data))))
