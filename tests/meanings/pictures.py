"""Images of one colour, from which a record tells which sample it is."""

from __future__ import annotations

import functools
import io

import numpy as np
import PIL.Image

# Every image is as large as this, in pixels: wide enough for boxes.
WIDTH, HEIGHT = 48, 36
_STEPS, _STEP = 18, 15
COUNT = _STEPS**3
_GREY = 1 + _STEPS + _STEPS**2


def colour_of(number: int) -> tuple[int, int, int]:
    """Returns the colour of the image with a number below `COUNT`."""
    return number % _STEPS * _STEP, number // _STEPS % _STEPS * _STEP, number // _STEPS**2 * _STEP


def number_of(colour: tuple[int, ...] | np.ndarray) -> int:
    """Returns the number of the image with a colour, which may be off by the loss of a JPEG file."""
    red, green, blue = (min(round(int(value) / _STEP), _STEPS - 1) for value in colour[:3])
    return red + green * _STEPS + blue * _STEPS**2


def is_grey(number: int) -> bool:
    """Whether the image with a number is grey, as a mask is."""
    return number % _GREY == 0


def grey(level: int) -> int:
    """Returns the number of the image of a grey, from 0 (black) to 17."""
    return level * _GREY


@functools.lru_cache(maxsize=4096)
def picture(number: int, kind: str = "png", size: tuple[int, int] = (WIDTH, HEIGHT)) -> bytes:
    """Returns a file with the image of a number."""
    return _save(PIL.Image.new("RGB", size, colour_of(number)), kind)


@functools.lru_cache(maxsize=256)
def mask_picture(value: int) -> bytes:
    """Returns a PNG file whose pixels all have this value."""
    return _save(PIL.Image.new("L", (WIDTH, HEIGHT), value), "png")


@functools.lru_cache(maxsize=4096)
def read_picture(data: bytes) -> int:
    """Returns the number of the image in a file."""
    return number_of(PIL.Image.open(io.BytesIO(data)).convert("RGB").getpixel((1, 1)))


def read_mask(data: bytes) -> int:
    """Returns the value of the pixels of a mask."""
    return PIL.Image.open(io.BytesIO(data)).getpixel((1, 1))


def _save(image: PIL.Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, {"jpg": "jpeg"}.get(kind, kind), **({"quality": 95} if kind in ("jpg", "jpeg") else {}))
    return file.getvalue()
