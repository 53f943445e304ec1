"""Reads the image of a record that is stored as numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.features.serialize import read_message
from beam_tfrecords.storage.reading import parsing
from beam_tfrecords.transforms.images.raw_pixels import NPY_HEADERS, NPY_START
from beam_tfrecords.transforms.sources.tables.cells import invalid_row

# Number of a type in a TensorProto -> NumPy name (tensorflow/core/framework/types.proto).
_TENSOR_TYPES = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|u1", 17: "<u2", 19: "<f2", 22: "<u4",
    23: "<u8",
}  # fmt: skip
# Numbers of channels that an image can have; an array can have any number.
CHANNELS = (1, 3, 4)
# Types of pixels whose black is 0 and whose white is their largest number.
PIXEL_TYPES = ("|u1", "<u2")
# Numbers beyond the range by less than half a level of 8 bits are rounded to its end.
_HALF_LEVEL = 0.5 / 255


class PixelUse(enum.Enum):
    """What the numbers become: an image with black and white, an array of them as they are, or a mask of classes."""

    IMAGE = enum.auto()
    ARRAY = enum.auto()
    MASK = enum.auto()


@dataclasses.dataclass(frozen=True)
class PixelReader:
    """Reads the numbers of an image from the features of a record. Picklable.

    Attributes:
      image: feature with the numbers.
      use: what the numbers become.
      shape: lengths of the axes; empty if `sides` say them, or if the numbers have a shape of their own.
      sides: features with the height, the width and perhaps the channels; or one with the shape.
      axes: axes of the images, as in `PixelRange`.
      dtype: NumPy name of the type of the numbers; "" for uint8, and for floats and arrays of uint16 that say it.
      limits: as in `PixelRange`.
    """

    image: str
    use: PixelUse
    shape: tuple[int, ...] = ()
    sides: tuple[str, ...] = ()
    axes: str = "HW"
    dtype: str = ""
    limits: tuple[float, float] | None = None

    @property
    def features(self) -> frozenset[str]:
        """The features with the numbers and their size."""
        return frozenset({self.image, *self.sides})

    def numbers(self, value: Any) -> np.ndarray | None:
        """Returns the numbers in a cell, in their own shape if they have one; None if it has none."""
        if not isinstance(value, bytes):
            return listed_numbers(value)
        kind = np.dtype(self.dtype or "uint8")
        if (described := described_numbers(value)) is not None or len(value) % kind.itemsize:
            return described
        return np.frombuffer(value, kind.newbyteorder("<"))

    def shape_of(self, row: Mapping[str, Any], numbers: np.ndarray) -> tuple[int, ...]:
        """Returns the shape of the image of a row; () if the row says none that its numbers fit."""
        said = [read_lengths(row.get(side)) for side in self.sides]
        found = self.shape or (tuple(itertools.chain(*said)) if self.sides and all(said) else ())
        found = found if self.shape or self.sides else numbers.shape
        while len(found) > 3 and found[0] == 1:
            found = found[1:]
        if len(self.sides) == 2 and len(found) == 2:
            # Four bytes for each pixel may also be one float.
            channels = (3, 4) if self.dtype or isinstance(row[self.image], list) else (3,)
            found += tuple(one for one in channels if math.prod(found) * one == numbers.size)
        return found if len(found) in (2, 3) and math.prod(found) == numbers.size > 0 else ()

    def read(self, row: Mapping[str, Any]) -> tuple[np.ndarray, tuple[int, ...]]:
        """Returns the pixels of a row, and the shape of its image.

        Raises:
          SampleError: they do not fit the size, the type or the range.
        """
        value = row.get(self.image)
        numbers = self.numbers(value)
        if numbers is None:
            raise invalid_row(f"the feature {self.image!r} has {describe_cell(value)}; expected pixels")
        shape = self.shape_of(row, numbers)
        if not shape or len(shape) != len(self.axes or "HWC"):
            expected = [*map(row.get, self.sides), *self.shape]
            raise invalid_row(f"the feature {self.image!r} has {describe_cell(value)}, where its size is {expected}")
        channels = shape[self.axes.index("C")] if "C" in self.axes else 1
        if channels not in CHANNELS and self.use is not PixelUse.ARRAY:
            raise invalid_row(f"{channels:,} channels; expected 1, 3 or 4, or `layout=array`")
        if self.limits is not None:
            self._check_limits(numbers)
        pixels = self.convert(numbers)
        if pixels is None:
            raise self._refuse(numbers, f"{self.dtype or 'uint8 or uint16'} (`pixels`)")
        return pixels, shape

    def convert(self, numbers: np.ndarray) -> np.ndarray | None:
        """Returns numbers in the type of pixels; None if it does not hold them exactly, or is not one of pixels."""
        has_type = numbers.dtype.kind == "f" or numbers.dtype.str in PIXEL_TYPES
        kind = self.dtype or (numbers.dtype.name if has_type else "uint8")
        if self.use is PixelUse.MASK:
            kind = "uint8" if numbers.max() <= 255 else "uint16"
        typed = _convert(numbers, np.dtype(kind).newbyteorder("<"))
        if typed is None or self.limits or typed.dtype.str in PIXEL_TYPES:
            return typed
        if self.use is PixelUse.IMAGE:
            return None
        return typed if typed.dtype == np.float64 else _convert(typed, np.dtype("<f4"))

    def _check_limits(self, numbers: np.ndarray) -> None:
        low, high = sorted(self.limits or ())
        beyond = (high - low) * _HALF_LEVEL
        if not (low - beyond < numbers.min() and numbers.max() < high + beyond):  # also for NaN
            raise self._refuse(numbers, f"{low:.6g} to {high:.6g} (`pixels`)")

    def _refuse(self, numbers: np.ndarray, expected: str) -> SampleError:
        found = f"numbers of {numbers.dtype.name} from {numbers.min():.6g} to {numbers.max():.6g}"
        return invalid_row(f"the feature {self.image!r} has {found}; expected {expected}")


def _convert(numbers: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray | None:
    """Returns numbers as another type; None if it does not hold them exactly."""
    if numbers.dtype == dtype:
        return numbers
    with np.errstate(invalid="ignore", over="ignore"):
        found = numbers.astype(dtype)
        is_exact = np.array_equal(found.astype(np.float64), numbers.astype(np.float64), equal_nan=True)
    return found if is_exact else None


def read_lengths(value: Any) -> tuple[int, ...]:
    """Returns the sizes in a cell, which is a number or a list; () if the cell has none."""
    found = value if isinstance(value, list) else [value]
    are_lengths = all(isinstance(one, int | float) and one > 0 and one == one // 1 for one in found)
    return tuple(map(int, found)) if found and are_lengths else ()


def find_axes(shapes: Sequence[Sequence[int]], use: PixelUse) -> str | None:
    """Returns the axes of images with these shapes, as in `PixelRange`; None if they are not those of images.

    Args:
      shapes: shapes of some images, not empty.
      use: what the numbers become; "" then are three axes of an array in an unknown order.
    """
    lengths = {len(shape) for shape in shapes}
    if lengths == {2}:
        return "HW"
    if lengths != {3}:
        return None
    for axes, channel in (("HWC", 2), ("CHW", 0)):
        if {shape[channel] for shape in shapes} <= {*CHANNELS}:
            return axes
    if use is not PixelUse.ARRAY:
        return None
    return "HWC" if all(shape[2] < min(shape[:2]) for shape in shapes) else ""


def describe_cell(value: Any) -> str:
    """Describes what a cell holds, for a message."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list):
        return f"{len(value):,} values"
    return "nothing" if value is None else "one value"


def described_numbers(value: bytes) -> np.ndarray | None:
    """Returns the array of a .npy file or of a serialized tensor; None for other bytes."""
    array: np.ndarray | None = None
    if not value.startswith(NPY_START):
        return _read_tensor(value)
    with contextlib.suppress(SampleError), parsing():
        array = _read_npy(value)
    return array


def _read_npy(value: bytes) -> np.ndarray | None:
    """Reads a .npy file of numbers in place, so that its header cannot claim more memory than the file has."""
    file = io.BytesIO(value)
    read_header = NPY_HEADERS.get(np.lib.format.read_magic(file))
    if read_header is None:
        return None
    shape, is_fortran, dtype = read_header(file)
    if dtype.kind not in "uifb" or math.prod(shape) * dtype.itemsize != len(value) - file.tell():
        return None
    array: np.ndarray = np.frombuffer(value, dtype, offset=file.tell()).reshape(shape, order="F" if is_fortran else "C")
    array = array.view(np.uint8) if dtype.kind == "b" else array
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _read_tensor(value: bytes) -> np.ndarray | None:
    """Parses a TensorProto whose numbers are in `tensor_content`, as `tf.io.serialize_tensor` writes it.

    Fields are dtype = 1, tensor_shape = 2 and tensor_content = 4 (tensorflow/core/framework/tensor.proto).
    """
    # NumPy raises ValueError for a shape of too many axes, and for one that is too long beside an axis of length 0.
    with contextlib.suppress(ValueError):
        fields: dict[int, Any] = dict(read_message(value))
        kind = _TENSOR_TYPES.get(fields.get(1, 0)) if fields.keys() <= {1, 2, 3, 4} else None
        shape, content = fields.get(2), fields.get(4)
        if kind is None or not isinstance(shape, bytes) or not isinstance(content, bytes):
            return None
        axes = [axis for number, axis in read_message(shape) if number == 2 and isinstance(axis, bytes)]
        lengths = [length for axis in axes if isinstance(length := dict(read_message(axis)).get(1, 0), int)]
        if len(lengths) == len(axes) and math.prod(lengths) * np.dtype(kind).itemsize == len(content):
            return np.frombuffer(content, kind).reshape(lengths)
    return None


def listed_numbers(value: Any) -> np.ndarray | None:
    """Returns a list of numbers as int64 or, for floats, as float32, which is what a list in a record has."""
    if not isinstance(value, list) or not value or not isinstance(value[0], int | float):
        return None
    try:
        return np.array(value, np.float32 if isinstance(value[0], float) else np.int64)
    except (ValueError, TypeError, OverflowError):
        return None
