"""What the files of the corpus are made from."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image


def picture() -> Image.Image:
    """The smooth 48x32 picture that most files of the corpus show."""
    y, x = np.mgrid[0:32, 0:48]
    wave = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    return Image.fromarray(np.stack([40 + 4 * x, 200 - 5 * y, wave], -1).clip(0, 255).astype(np.uint8))


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    """What Pillow writes."""
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()
