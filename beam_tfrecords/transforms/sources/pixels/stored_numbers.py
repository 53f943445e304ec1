"""Reads the numbers in a cell: lists, NumPy's bytes and files, and TensorFlow's serialized tensors. Pure functions."""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.examples.wire_fields import read_fields
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.npy_headers import NPY_HEADERS, NPY_START
from beam_tfrecords.transforms.sources.reading import parsing

# Number of a type in a TensorProto -> NumPy name (tensorflow/core/framework/types.proto).
_TENSOR_TYPES = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<i2", 6: "|i1", 9: "<i8", 10: "|u1", 17: "<u2", 19: "<f2", 22: "<u4",
    23: "<u8",
}  # fmt: skip
# Number of the type of texts, and of the field with them.
_STRING, _STRING_VALUE = 7, 8
# A list of whole numbers as a text, such as that of the shape of an array.
_LIST = re.compile(rb"[\[(]?\s*\d{1,9}(?:\s*[,x ]\s*\d{1,9}){0,3}\s*,?\s*[\])]?")
_MOST_LIST = 64
# Class numbers, sizes and counts are smaller; bytes read as another type give larger numbers.
_MOST_COUNT = 1 << 16
# Number of bytes -> types of a whole number.
_COUNTS = {1: ("|u1",), 2: ("<i2",), 4: ("<i4", "<f4"), 8: ("<i8", "<f8")}
# Start of a `data:` URL with the base64 text of an image (RFC 2397).
_DATA_URL = re.compile(rb"\s*data:image/[\w.+-]+(?:;[\w.=-]+)*;base64,")
# Web-safe letters of base64 -> the standard ones (RFC 4648, 5).
_STANDARD = bytes.maketrans(b"-_", b"+/")
# Letters of a base64 text that show the format of its image.
_SNIFFED = 1024


def is_encoded_image(value: Any) -> bool:
    """Whether a cell holds an encoded image, such as a JPEG."""
    if not isinstance(value, bytes) or not value:
        return False
    try:
        sniff(value)
    except SampleError:
        return False
    return True


def is_base64_image(value: Any) -> bool:
    """Whether a cell holds the base64 text of an encoded image."""
    if not isinstance(value, bytes) or is_encoded_image(value):
        return False
    start = b"".join(_DATA_URL.sub(b"", value[:_SNIFFED], count=1).split())
    return is_encoded_image(decode_base64(start[: len(start) // 4 * 4]))


def decode_base64(value: bytes) -> bytes:
    """Decodes standard or web-safe base64, with or without padding or the start of a URL; b"" for other bytes."""
    text = b"".join(_DATA_URL.sub(b"", value, count=1).split()).rstrip(b"=").translate(_STANDARD)
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return b""


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


def listed_numbers(value: Any) -> np.ndarray | None:
    """Returns a list of numbers as int64 or, for floats, as float32, which is what a list in a record has."""
    if not isinstance(value, list) or not value or not isinstance(value[0], int | float):
        return None
    try:
        return np.array(value, np.float32 if isinstance(value[0], float) else np.int64)
    except (ValueError, TypeError, OverflowError):
        return None


def read_lengths(value: Any) -> tuple[int, ...]:
    """Returns the sizes in a cell: a number, a list, a text such as `(28, 28, 1)`, or the bytes of int32 or int64.

    Returns () if the cell has none.
    """
    if isinstance(value, bytes) and len(value) <= _MOST_LIST and _LIST.fullmatch(value):
        value = [*map(int, re.findall(rb"\d+", value))]
    elif isinstance(value, bytes):
        value = next((found for found in _numbers_in(value, ("<i4", "<i8")) if found and min(found) > 0), [])
    found = value if isinstance(value, list) else [value]
    are_lengths = all(isinstance(one, int | float) and one > 0 and one == one // 1 for one in found)
    return tuple(map(int, found)) if found and are_lengths else ()


def number_in_bytes(value: bytes) -> int | None:
    """Returns the whole number whose bytes NumPy or `tf.io.serialize_tensor` wrote; None if there is none.

    The type is certain: the bytes of a small integer are a tiny fraction if they are read as a float, and those of a
    float with a small whole number are a large integer.
    """
    array = described_numbers(value)
    if array is not None and array.size != 1:
        return None
    types = _COUNTS.get(len(value), ()) if array is None else (array.dtype.str,)
    return next((numbers[0] for numbers in _numbers_in(value if array is None else array.tobytes(), types)), None)


def flags_in_bytes(value: bytes) -> list[int] | None:
    """Returns the zeros and ones whose bytes NumPy wrote as floats, or that say their type; None if there are others.

    Zeros and ones as integers need a serialized tensor or a .npy file, because their bytes fit several types.
    """
    array = described_numbers(value)
    if array is not None:
        are_flags = array.ndim == 1 and array.size > 1 and bool(np.isin(array, (0, 1)).all())
        return [*map(int, array)] if are_flags else None
    found = (numbers for numbers in _numbers_in(value, ("<f4", "<f8")) if {*numbers} <= {0, 1})
    return next((numbers for numbers in found if 1 in numbers and len(numbers) > 1), None)


def text_in_bytes(value: bytes) -> str | None:
    """Returns the text in bytes; None for bytes that are not UTF-8, or that have control characters."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter.isspace() for letter in text) else None


def text_in_tensor(value: bytes) -> bytes | None:
    """Returns the only text of a serialized tensor of strings; None for other bytes.

    Its fields are dtype = 1, tensor_shape = 2 and string_val = 8 (tensorflow/core/framework/tensor.proto).
    """
    try:
        fields = [*read_fields(value)]
    except ValueError:
        return None
    texts = [text for number, text in fields if number == _STRING_VALUE]
    is_tensor = {number for number, _ in fields} <= {1, 2, 3, _STRING_VALUE} and dict(fields).get(1) == _STRING
    return texts[0] if is_tensor and len(texts) == 1 and isinstance(texts[0], bytes) else None


def _numbers_in(value: bytes, kinds: Sequence[str]) -> Iterator[list[int]]:
    """Yields the numbers in bytes for each type of which all are small and whole."""
    for kind in kinds:
        if value and len(value) % np.dtype(kind).itemsize == 0:
            with np.errstate(invalid="ignore"):
                numbers = np.frombuffer(value, kind).astype(np.float64)
            is_whole = np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all()
            if is_whole and numbers.min() >= -1 and numbers.max() < _MOST_COUNT:
                yield [*map(int, numbers.tolist())]


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
