"""Pictures so large that a worker should not hold a second copy of them."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image

# Pixels from which on a picture is large, and of the strips that it is worked on in.
_LARGE, _STRIP = 1 << 24, 1 << 21
# A box of this part of the scale leaves the filter enough to do (Pillow's `reducing_gap=2.0`).
_GAP = 2
# Their white depends on the whole picture, so they cannot be converted in strips.
_WHOLE_MODES = ("I", "F")


def shrink_large(
    picture: Image.Image,
    convert: Callable[[Image.Image], Image.Image],
    size: tuple[int, int],
    resample: Image.Resampling,
) -> Image.Image | None:
    """Converts a large picture strip by strip and makes it much smaller.

    Args:
      picture: any mode.
      convert: what makes an L, RGB or RGBA picture of it.
      size: wanted (width, height).
      resample: filter, not NEAREST or BOX.

    Returns:
      The picture converted and of that size, or None if it is not large or does not get much smaller.
    """
    width, height = picture.size
    factor = int(min(width / size[0], height / size[1]) / _GAP)
    if width * height < _LARGE or factor < 2 or picture.mode in _WHOLE_MODES:
        return None
    rows = max(1, _STRIP // width // factor) * factor
    reduced: Image.Image | None = None
    for top in range(0, height, rows):
        strip = convert(picture.crop((0, top, width, min(top + rows, height)))).reduce(factor)
        if reduced is None:
            reduced = Image.new(strip.mode, (strip.width, -(-height // factor)))
        reduced.paste(strip, (0, top // factor))
    assert reduced is not None
    return reduced.resize(size, resample, box=(0, 0, width / factor, height / factor))
