"""Compares images with equal names in several folders: masks have few values, images of one thing have one size."""

from __future__ import annotations

import io
from collections.abc import Sequence

from beam_tfrecords import storage

_MOST_BYTES = 32 << 20
_MOST_PIXELS = 40_000_000
# A mask has at most this many gray values; a photo has more.
_FEW_VALUES = 32


def compare_images(folders: Sequence[Sequence[str]]) -> tuple[list[int], bool]:
    """Compares the images of several folders, which have the same names.

    Args:
      folders: paths of some images of each folder.

    Returns:
      The places of the folders whose images look like masks, none if all or none of them do; and whether images of one
      name have one size, and those of other names other sizes.
    """
    seen = [[_look(path) for path in paths] for paths in folders]
    values = [[count for _, count in images] for images in seen]
    # The mask of an image without objects has a single value; pictures of one color are no masks.
    drawn = [number for number, some in enumerate(values) if 0 not in some and 1 < max(some, default=0) <= _FEW_VALUES]
    sizes = [[size for size, _ in images] for images in seen]
    first = sizes[0] if sizes else []
    are_equal = all(one == first for one in sizes) and None not in first and len({*first}) == len(first) > 2
    return drawn if len(drawn) < len(folders) else [], are_equal


def _look(path: str) -> tuple[tuple[int, int] | None, int]:
    """Returns the width and height of an image, and its number of gray values.

    The size is None if the file is not an image, or is large; the number is 0 if the file cannot store class numbers.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        size = storage.stat(path).size
        image = Image.open(io.BytesIO(storage.read_range(path, 0, size))) if size <= _MOST_BYTES else None
    except (FileNotFoundError, UnidentifiedImageError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None, 0
    if image is None:
        return None, 0
    if image.format == "JPEG" or image.width * image.height > _MOST_PIXELS:
        return image.size, 0
    try:
        return image.size, sum(map(bool, image.convert("L").histogram()))
    except (OSError, SyntaxError, ValueError):
        return image.size, 0
