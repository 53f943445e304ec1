"""What every contestant that uses Pillow does to a photo, and how they all list them."""

from __future__ import annotations

import io
import pathlib
import random
from typing import BinaryIO

from PIL import Image

_SHORTER_SIDE = 256
_QUALITY = 95


def list_photos(root: pathlib.Path) -> list[tuple[pathlib.Path, int]]:
    """Path and label of every photo in a folder of class folders, shuffled."""
    classes = sorted(folder.name for folder in root.iterdir())
    photos = [(path, classes.index(path.parent.name)) for path in sorted(root.glob("*/*.jpg"))]
    random.Random(0).shuffle(photos)
    return photos


def shrink_photo(path: pathlib.Path | BinaryIO, *, draft: bool = False) -> bytes:
    """Resizes a photo's shorter side to 256 pixels, bicubic, and encodes it as JPEG of quality 95.

    As such scripts do, it makes RGB of gray and CMYK photos, and ignores the color profile and the EXIF
    orientation; beam-tfrecords applies both.

    Args:
      path: of the photo, or its file.
      draft: let libjpeg decode at a half, a quarter or an eighth where that is still large enough.
    """
    with Image.open(path) as photo:
        if draft:
            photo.draft("RGB", (_SHORTER_SIDE, _SHORTER_SIDE))
        rgb = photo.convert("RGB")
    scale = _SHORTER_SIDE / min(rgb.size)
    size = (round(rgb.width * scale), round(rgb.height * scale))
    encoded = io.BytesIO()
    rgb.resize(size, Image.Resampling.BICUBIC).save(encoded, "JPEG", quality=_QUALITY)
    return encoded.getvalue()
