"""Shrinks images that are so large that a worker should not hold a second copy of them."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

# Pixels of a large image, and of one strip.
_LARGE, _STRIP = 1 << 24, 1 << 21
# Box averaging leaves this factor of the scale to the filter, as Pillow's `reducing_gap=2.0` does.
_GAP = 2
# Modes that cannot be converted in strips, because their white level depends on the whole image.
_WHOLE_MODES = ("I", "F")


def strip_factor(image: Image.Image, size: tuple[int, int]) -> int:
    """Returns the factor by which an image is reduced strip by strip; 0 if it is not large or does not shrink much."""
    factor = int(min(image.width / size[0], image.height / size[1]) / _GAP)
    if image.width * image.height < _LARGE or factor < 2 or image.mode in _WHOLE_MODES:
        return 0
    return factor


def shrink_large(
    image: Image.Image,
    *,
    factor: int,
    convert: Callable[[Image.Image], Image.Image],
    size: tuple[int, int],
    resample: Image.Resampling,
) -> Image.Image:
    """Converts a large image strip by strip and shrinks it.

    Args:
      resample: any filter except NEAREST and BOX.
    """
    width, height = image.size
    rows = max(1, _STRIP // width // factor) * factor
    reduced: Image.Image | None = None
    for top in range(0, height, rows):
        strip = convert(image.crop((0, top, width, min(top + rows, height)))).reduce(factor)
        if reduced is None:
            reduced = Image.new(strip.mode, (strip.width, -(-height // factor)))
        reduced.paste(strip, (0, top // factor))
    assert reduced is not None
    return reduced.resize(size, resample, box=(0, 0, width / factor, height / factor))
