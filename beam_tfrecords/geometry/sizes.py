"""Reads the requested size of an image, and computes the size of a resized one, for builds and for readers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

ImageSize: TypeAlias = "int | str | tuple[int, int] | None"
ResizeMode: TypeAlias = Literal["crop", "pad", "shorter", "longer", "exact"]
# In these modes an image covers the requested size; in the others it fits inside.
_COVERING = ("shorter", "crop")
# In these modes every image has the requested size, if sides may grow.
FIXED_MODES = ("exact", "pad", "crop")


def read_image_size(word: Any) -> tuple[int, int]:
    """Reads `256` (both sides), `224x160` or `[224, 160]` (height x width), in pixels."""
    if isinstance(word, list | tuple) and len(word) == 2:
        word = f"{word[0]}x{word[1]}"
    match = re.fullmatch(r"\s*([0-9]{1,5})(?:\s*[xX]\s*([0-9]{1,5}))?\s*", str(word))
    if match:
        height = int(match[1])
        width = int(match[2] or height)
        if height and width:
            return height, width
    raise ValueError("expected pixels as 256, or height x width as 224x160")


def resized_size(
    height: Any,
    width: Any,
    size: tuple[int, int],
    mode: str,
    *,
    greater: Callable[[Any, Any], Any] = max,
    smaller: Callable[[Any, Any], Any] = min,
) -> tuple[Any, Any]:
    """Returns the (height, width) in pixels of an upright image after resizing, before cropping or padding.

    The limiting side fits exactly; the other side is rounded to the nearest pixel (halves up), at least 1.

    Args:
      height: height of the image in pixels; a number or an int64 tensor.
      width: width of the image in pixels; a number or an int64 tensor.
      size: the requested (height, width).
      mode: "shorter", "longer", "exact", "pad" or "crop", as `resize_mode`.
      greater: returns the greater of two numbers; tensors need their own function.
      smaller: returns the smaller of two numbers.
    """
    if mode == "exact":
        return size
    best = greater if mode in _COVERING else smaller
    scaled_height = greater((2 * height * size[1] + width) // (2 * width), 1)
    scaled_width = greater((2 * width * size[0] + height) // (2 * height), 1)
    return best(scaled_height, size[0]), best(scaled_width, size[1])
