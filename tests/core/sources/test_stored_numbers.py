"""Numbers in cells: what NumPy and TensorFlow write is read, and any other bytes are not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.features.wire import varint
from beam_tfrecords.transforms.sources.records.pixel_reader import (
    described_numbers,
)
from beam_tfrecords.transforms.sources.tables.table_settings import TYPES, PixelForm, read_pixels
from tests import tensorflow as tf
from tests.each import each
from tests.pixel_files import npy_of

pytestmark = pytest.mark.tensorflow

KINDS = [
    "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip


@each("kind", KINDS)
@each("shape", [(), (7,), (2, 3), (2, 3, 4), (1, 2, 3, 1)], ids=str)
def test_an_array_that_describes_itself_is_read(kind, shape):
    array = (np.random.default_rng(0).random(shape) * 2).astype(kind)
    for data in (npy_of(array), tf.io.serialize_tensor(tf.constant(array)).numpy()):
        found = described_numbers(data)
        assert found is not None
        assert found.dtype == (np.uint8 if kind == "bool" else array.dtype)
        assert np.array_equal(found, array)
        assert described_numbers(data[:-1]) is None
        assert described_numbers(data + b"\0") is None


def test_a_fortran_array_is_read_in_its_order():
    array = np.asfortranarray(np.arange(24).reshape(2, 3, 4))
    assert np.array_equal(described_numbers(npy_of(array)), array)


@each("value", ["text", tf.constant, b"\x93NUMPY", b"\x93NUMPY\1\0\xff\xff{", b"", b"\x08\x01"], ids=str)
def test_other_bytes_are_no_array(value):
    data = tf.io.serialize_tensor(tf.constant(["a"])).numpy() if callable(value) else value
    assert described_numbers(data if isinstance(data, bytes) else data.encode()) is None


@each("lengths", [[0, 2**62], [1] * 65], ids=["too long", "too many"])
def test_a_tensor_of_a_shape_that_numpy_lacks_is_no_array(lengths):
    axes = [b"\x08" + varint(length) for length in lengths]
    shape = b"".join(b"\x12" + varint(len(axis)) + axis for axis in axes)
    content = bytes(4 * math.prod(lengths))
    data = b"\x08\x01\x12" + varint(len(shape)) + shape + b"\x22" + varint(len(content)) + content
    assert described_numbers(data) is None


def test_a_header_claims_no_memory():
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    assert described_numbers(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(8)) is None


@given(
    st.binary(max_size=300), st.sampled_from([b"", b"\x93NUMPY\1\0\x76\0", b"\x08\x01\x12", b"\x08\x09\x12\x00\x22"])
)
def test_any_bytes_are_read_or_not(data, start):
    described_numbers(start + data)


@given(
    st.lists(st.integers(1, 999999999), min_size=2, max_size=3) | st.just([]),
    st.sampled_from(TYPES),
    st.none() | st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)),
)
def test_the_setting_survives_as_a_text(shape, dtype, limits):
    rounded = limits and (float(f"{limits[0]:.15g}"), float(f"{limits[1]:.15g}"))
    form = PixelForm(tuple(shape), dtype, rounded)
    if not (rounded and rounded[0] == rounded[1]):
        assert read_pixels(str(form)) == form
