"""Reads the numbers in a cell: lists, NumPy's files, and TensorFlow's serialized tensors. Pure functions."""

from __future__ import annotations

import contextlib
import io
import math
from typing import Any

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.examples.wire import read_fields
from beam_tfrecords.transforms.images.npy_headers import NPY_HEADERS, NPY_START
from beam_tfrecords.transforms.sources.reading import parsing

# Number of a type in a TensorProto -> NumPy name (tensorflow/core/framework/types.proto).
_TENSOR_TYPES = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|u1", 17: "<u2", 19: "<f2", 22: "<u4",
    23: "<u8",
}  # fmt: skip


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
        fields: dict[int, Any] = dict(read_fields(value))
        kind = _TENSOR_TYPES.get(fields.get(1, 0)) if fields.keys() <= {1, 2, 3, 4} else None
        shape, content = fields.get(2), fields.get(4)
        if kind is None or not isinstance(shape, bytes) or not isinstance(content, bytes):
            return None
        axes = [axis for number, axis in read_fields(shape) if number == 2 and isinstance(axis, bytes)]
        lengths = [length for axis in axes if isinstance(length := dict(read_fields(axis)).get(1, 0), int)]
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
