"""The size that an image is resized to, for builds and for readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Modes that make an image cover the size that was asked for; the others make it fit in.
_COVERING = ("shorter", "crop")


def resized_size(
    height: Any,
    width: Any,
    size: tuple[int, int],
    mode: str,
    *,
    greater: Callable[[Any, Any], Any] = max,
    smaller: Callable[[Any, Any], Any] = min,
) -> tuple[Any, Any]:
    """(height, width) in pixels of an upright image after the resize, before it is cropped or padded.

    The side that decides fits exactly; the other is rounded to the nearest pixel (halves up), at least 1.

    Args:
      height: of the image in pixels; a number, or an int64 tensor.
      width: of the same.
      size: (height, width) that was asked for.
      mode: "shorter", "longer", "exact", "pad" or "crop", as `resize_mode`.
      greater: the greater one of two numbers; for tensors a function of their own.
      smaller: the smaller one.
    """
    if mode == "exact":
        return size
    best = greater if mode in _COVERING else smaller
    scaled_height = greater((2 * height * size[1] + width) // (2 * width), 1)
    scaled_width = greater((2 * width * size[0] + height) // (2 * height), 1)
    return best(scaled_height, size[0]), best(scaled_width, size[1])
