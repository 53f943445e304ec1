"""Finds out which type stored numbers have, and which of them are black and white. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Ranges of images in programs: of libraries for images, of frameworks, and of networks whose output is a tanh.
_USUAL = ((0.0, 1.0), (0.0, 255.0), (-1.0, 1.0))
_WIDE = (0.0, 65535.0)
# White of 10, 12, 14 and 16 bits.
_DEPTHS = (1023, 4095, 16383, 65535)
_MOST_RANGES = 4
# Numbers of pixels are not outside these; bytes read as floats of the wrong type are.
_SMALLEST, _LARGEST = 1e-12, 1e12
# Integers of pixels are below this; the bytes of floats, read as integers, are above.
_MOST_INTEGER = 1 << 16
# Images whose brightest pixel is below this share of white are nearly black: 4 of 8 bits, or 12 of 16.
_DARK = 1 / 15
# Numbers that must be levels of a range before it is evident.
_LEAST_LEVELS = 64
# A level is a float32 with a relative error of 6e-8, times 255.
_LEVEL_ERROR = 1e-3
# Largest integer up to which float32 holds all.
_EXACT = 1 << 24
# How much smaller the steps between rows are in the right order of channels.
_PLANES = 0.85


def may_be_pixels(numbers: np.ndarray) -> bool:
    """Whether numbers can be those of images: the bytes of another type give numbers that are not."""
    if numbers.dtype.kind in "ui":
        if numbers.dtype.str == "<i2":
            return _is_signed(numbers)
        return numbers.itemsize <= 2 or bool((np.abs(numbers.astype(np.float64)) <= _MOST_INTEGER).all())
    finite = np.abs(numbers[np.isfinite(numbers)].astype(np.float64))
    nonzero = finite[finite > 0]
    if len(finite) * 2 < numbers.size or (nonzero < _SMALLEST).any() or (nonzero > _LARGEST).any():
        return False
    # Most numbers of 16 bits are floats of 16 bits, too; those of pixels are in a usual range and fill it.
    return numbers.itemsize > 2 or any(_fills(numbers, ends) for ends in _USUAL)


def evident_limits(numbers: np.ndarray) -> tuple[float, float] | None:
    """Returns the range of which all numbers are levels of 8 bits, if there is only one; None without one."""
    wide = numbers.astype(np.float64)
    if numbers.size < _LEAST_LEVELS or numbers.itemsize == 2 or not np.isfinite(wide).all():
        return None
    found = [ends for ends in _USUAL if _holds(wide, ends) and _are_levels(wide, ends)]
    return found[0] if len(found) == 1 and not is_dark(wide, found[0][1]) else None


def possible_limits(numbers: np.ndarray) -> list[tuple[float, float]]:
    """Returns ranges that hold all numbers, the most likely first."""
    finite = numbers[np.isfinite(numbers)].astype(np.float64)
    if finite.size == 0:
        return []
    are_floats = numbers.dtype.kind == "f"
    usual = [ends for ends in (*_USUAL, _WIDE) if _holds(finite, ends) and (are_floats or ends[0] == 0)]
    likely = [ends for ends in usual if not is_dark(finite, ends[1])]
    most = float(np.ceil(finite.max()))
    seen = [(0.0, most)] if most <= 255 else [(0.0, float(white)) for white in _DEPTHS]
    seen = [ends for ends in seen if ends[1] > 0 and _holds(finite, ends)]
    return [*dict.fromkeys([*likely[:1], *seen, *(likely if are_floats and likely else usual)])][:_MOST_RANGES]


def type_of_numbers(numbers: np.ndarray, limits: Sequence[float]) -> str:
    """Returns the type in which numbers are read: for integers, the smallest of four that holds them and the limits.

    Args:
      limits: the numbers of black and white, or none.
    """
    if numbers.dtype.kind == "f":
        return "<f8" if numbers.itemsize == 8 else "<f4"
    if numbers.dtype.str in ("|u1", "<u2"):
        return numbers.dtype.str
    ends = [*limits, float(numbers.min()), float(numbers.max())]
    if min(ends) >= 0 and max(ends) <= 65535 and all(end == int(end) for end in ends):
        return "|u1" if max(ends) <= 255 else "<u2"
    return "<f4" if max(map(abs, ends)) <= _EXACT else "<f8"


def is_dark(numbers: np.ndarray, white: float) -> bool:
    """Whether images of these numbers are nearly black, as those with another white are, but not all black."""
    return bool(0 < numbers.max() < white * _DARK)


def may_be_planes(numbers: np.ndarray, shape: Sequence[int]) -> bool:
    """Whether images of [H, W, C] become smoother as [C, H, W]; `numbers` are those of several images of this shape.

    Compares each number with the one that is a row below in both orders. 126 photos of [H, W, C] had a ratio of 1.3 or
    more, those of [C, H, W] one of 0.84 or less.
    """
    _, width, channels = shape
    images = numbers.reshape(-1, int(np.prod(shape))).astype(np.float64)
    steps = [np.abs(images[:, step:] - images[:, :-step]).mean() for step in (width * channels, width)]
    return bool(steps[1] < steps[0] * _PLANES)


def _is_signed(numbers: np.ndarray) -> bool:
    """Whether pixels of int16 are negative, and much smoother than as uint16, as those of a scan are."""
    jumps = [np.abs(np.diff(one.astype(np.int64))).mean() for one in (numbers, numbers.view("<u2"))]
    return bool(numbers.min() < 0 and jumps[0] * 2 < jumps[1])


def _holds(numbers: np.ndarray, ends: tuple[float, float]) -> bool:
    return numbers.size > 0 and ends[0] <= numbers.min() and numbers.max() <= ends[1]


def _fills(numbers: np.ndarray, ends: tuple[float, float]) -> bool:
    """Whether numbers are within a range, and take a tenth of each half of it."""
    if not _holds(numbers, ends):
        return False
    middle, tenth = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 10
    return bool(numbers.max() >= ends[0] + tenth and (ends[0] == 0 or numbers.min() <= middle - tenth))


def _are_levels(numbers: np.ndarray, ends: tuple[float, float]) -> bool:
    levels = (numbers - ends[0]) / (ends[1] - ends[0]) * 255
    return bool((np.abs(levels - np.round(levels)) <= _LEVEL_ERROR).all())
