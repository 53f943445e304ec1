"""What the files of the corpus are made of."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def picture() -> Image.Image:
    """A smooth RGB image, 48 pixels wide and 32 high."""
    y, x = np.mgrid[0:32, 0:48]
    wave = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return Image.fromarray(np.stack([40 + 4 * x, 200 - 5 * y, wave], -1).clip(0, 255).astype(np.uint8))


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    """What Pillow writes."""
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def with_clear(palette: Image.Image, alphas: dict[int, int]) -> Image.Image:
    """A palette image as RGBA, with the given alpha for some palette entries."""
    seen = palette.convert("RGB")
    table = [alphas.get(index, 255) for index in range(256)]
    seen.putalpha(Image.fromarray(np.array(table, np.uint8)[np.array(palette)]))
    return seen
