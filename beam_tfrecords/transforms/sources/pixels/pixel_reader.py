"""Reads the image of a record that is stored as numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.sources.pixels.pixel_form import CHANNELS
from beam_tfrecords.transforms.sources.pixels.stored_numbers import described_numbers, listed_numbers, read_lengths
from beam_tfrecords.transforms.sources.tables.cells import invalid_row

# Numbers beyond the range by less than half a level of 8 bits are rounded to its end.
_HALF_LEVEL = 0.5 / 255


class PixelData(NamedTuple):
    """The pixels of an image; the attributes are those of `PixelRange`."""

    data: bytes
    shape: tuple[int, ...]
    axes: str
    dtype: str
    limits: tuple[float, float] | None


@dataclasses.dataclass(frozen=True)
class PixelReader:
    """Reads the numbers of an image from the features of a record. Picklable.

    Attributes:
      image: feature with the numbers.
      sides: features with the size, such as height and width, or one with the shape.
      shape: lengths of the axes behind those in `sides`; of all axes if there are none. Empty if the numbers have a
        shape of their own.
      axes: axes of the images, as in `PixelRange`.
      stored: NumPy type of plain bytes; "" for lists, and for numbers with a type of their own.
      type_feature: feature that names this type, or "".
      cast: NumPy name of the type that these numbers have by the request; "" if it does not say one.
      dtype: NumPy type of the pixels, which holds the numbers exactly.
      limits: as in `PixelRange`.
      any_channels: whether images may have other channels than 1, 3 or 4.
    """

    image: str
    sides: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    axes: str = "HW"
    stored: str = ""
    type_feature: str = ""
    cast: str = ""
    dtype: str = ""
    limits: tuple[float, float] | None = None
    any_channels: bool = False

    @property
    def features(self) -> frozenset[str]:
        """The features that say the numbers, their type and their size."""
        return frozenset({self.image, *self.sides, *([self.type_feature] if self.type_feature else [])})

    def numbers(self, value: Any) -> np.ndarray | None:
        """Returns the numbers in a cell, in their own shape if they have one; None if it has none of the type."""
        if isinstance(value, bytes) and self.stored:
            is_whole = len(value) % np.dtype(self.stored).itemsize == 0
            return np.frombuffer(value, self.stored) if is_whole else None
        numbers = described_numbers(value) if isinstance(value, bytes) else listed_numbers(value)
        return _convert(numbers, np.dtype(self.cast)) if self.cast and numbers is not None else numbers

    def lengths(self, row: Mapping[str, Any], numbers: np.ndarray) -> tuple[int, ...]:
        """Returns the shape of the image of a row; () if the row does not say one that its numbers fit."""
        said = [read_lengths(row.get(side)) for side in self.sides]
        found = (*(one for some in said for one in some), *self.shape) if all(said) else ()
        found = image_shape(found if self.sides or self.shape else numbers.shape)
        return found if found and math.prod(found) == numbers.size > 0 else ()

    def read(self, row: Mapping[str, Any]) -> PixelData:
        """Reads the pixels of a row.

        Raises:
          SampleError: they do not fit the size, the type or the range.
        """
        value = row.get(self.image)
        numbers = self.numbers(value)
        if numbers is None:
            raise invalid_row(f"the feature {self.image!r} has {describe_cell(value)}; expected pixels")
        if self.type_feature and row.get(self.type_feature) != np.dtype(self.stored).name.encode():
            raise invalid_row(f"the feature {self.type_feature!r} names another type than in the first records")
        shape = self.lengths(row, numbers)
        if not shape or len(shape) != len(self.axes or "HWC"):
            expected = [*map(row.get, self.sides), *self.shape]
            raise invalid_row(f"the feature {self.image!r} has {describe_cell(value)}, where its size is {expected}")
        channels = shape[self.axes.index("C")] if "C" in self.axes else 1
        if channels not in CHANNELS and not self.any_channels:
            raise invalid_row(f"{channels:,} channels; expected 1, 3 or 4, or `layout=array`")
        if self.limits is not None:
            self._check_limits(numbers)
        pixels = _convert(numbers, np.dtype(self.dtype))
        if pixels is None:
            raise self._refuse(numbers, f"which {np.dtype(self.dtype).name} does not hold (`pixels`)")
        return PixelData(pixels.tobytes(), shape, self.axes, self.dtype, self.limits)

    def _check_limits(self, numbers: np.ndarray) -> None:
        low, high = sorted(self.limits or ())
        beyond = (high - low) * _HALF_LEVEL
        if not (low - beyond < numbers.min() and numbers.max() < high + beyond):  # also for NaN
            raise self._refuse(numbers, f"expected {low:.6g} to {high:.6g} (`pixels`)")

    def _refuse(self, numbers: np.ndarray, expected: str) -> SampleError:
        found = f"numbers from {numbers.min():.6g} to {numbers.max():.6g}"
        return invalid_row(f"the feature {self.image!r} has {found}; {expected}")


def _convert(numbers: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Returns numbers as another type; None if it does not hold them exactly."""
    if numbers.dtype == dtype:
        return numbers
    with np.errstate(invalid="ignore", over="ignore"):
        found = numbers.astype(dtype)
        is_exact = np.array_equal(found.astype(np.float64), numbers.astype(np.float64), equal_nan=True)
    return found if is_exact else None


def image_shape(lengths: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape of the only image of a batch."""
    while len(lengths) > 3 and lengths[0] == 1:
        lengths = lengths[1:]
    return tuple(lengths)


def describe_cell(value: Any) -> str:
    """Describes what a cell holds, for a message."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list):
        return f"{len(value):,} values"
    return "nothing" if value is None else "one value"
