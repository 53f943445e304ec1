"""Compares images with equal names in several folders: masks have few values, images of one thing have one size."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage

if TYPE_CHECKING:
    from PIL import Image

_MOST_BYTES = 32 << 20
_MOST_PIXELS = 40_000_000
# Values of gray that a mask has at most, unlike a photo.
_FEW_VALUES = 32


def find_masks_among(folders: Sequence[Sequence[str]]) -> list[int]:
    """Returns the places of the folders whose images look like masks; none if all or none of them do.

    Args:
      folders: paths of some images of each folder.
    """
    values = [[_count_values(path) for path in paths] for paths in folders]
    # The mask of an image without objects has a single value; pictures of one color are no masks.
    drawn = [
        number for number, counts in enumerate(values) if 1 < max(counts, default=0) <= _FEW_VALUES and 0 not in counts
    ]
    return drawn if len(drawn) < len(folders) else []


def have_equal_sizes(folders: Sequence[Sequence[str]]) -> bool:
    """Whether the images at one place of all folders have one size, and those at other places other sizes.

    Args:
      folders: paths of some images of each folder.
    """
    sizes = [[image.size if (image := _open(path)) else None for path in paths] for paths in folders]
    first = sizes[0] if sizes else []
    return all(one == first for one in sizes) and None not in first and len({*first}) == len(first) > 2


def _count_values(path: str) -> int:
    """Returns the number of values of gray in an image; 0 if it is none or cannot store class numbers."""
    image = _open(path)
    if image is None or image.format == "JPEG" or image.width * image.height > _MOST_PIXELS:
        return 0
    try:
        return sum(map(bool, image.convert("L").histogram()))
    except (OSError, SyntaxError, ValueError):
        return 0


def _open(path: str) -> Image.Image | None:
    """Opens an image; returns None if its file is none, or is large."""
    from PIL import Image, UnidentifiedImageError

    try:
        size = storage.stat(path).size
        return Image.open(io.BytesIO(storage.read_range(path, 0, size))) if size <= _MOST_BYTES else None
    except (FileNotFoundError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None
