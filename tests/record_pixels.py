"""Records with images that are stored as numbers, as programs write them, and the pixels that become of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beam_tfrecords.transforms.images.convert_array import convert_array
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import ArrayType, ImageEncoding, ImageSpec
from beam_tfrecords.transforms.refs.fetching import read_images
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.settings import read_settings
from tests import tensorflow as tf


def feature(value: Any) -> Any:
    """A feature of bytes, of a number, or of all numbers of an array or list, as TensorFlow makes it."""
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, list) and isinstance(value[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    numbers = np.asarray(value).ravel()
    if numbers.dtype.kind == "f":
        return tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))


def write_records(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Writes a file with TensorFlow's writer; values as `feature` takes them."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            features = tf.train.Features(feature={name: feature(value) for name, value in record.items()})
            file.write(tf.train.Example(features=features).SerializeToString())
    return path


def tensor(array: np.ndarray) -> bytes:
    """`tf.io.serialize_tensor` of an array."""
    found: bytes = tf.io.serialize_tensor(tf.constant(array)).numpy()
    return found


def image_of(ref: SampleRef, *, channels: int = 3, bit_depth: int = 8) -> np.ndarray:
    """The pixels of the stored image, without compression and resizing: [H, W, C]."""
    encoding = ImageEncoding.RAW if bit_depth == 8 else ImageEncoding.PNG
    spec = read_settings(ImageSpec, {"image_encoding": encoding.value, "bit_depth": bit_depth, "channels": channels})
    made = convert_image(_file_of(ref), spec)
    if encoding is ImageEncoding.PNG:
        decoded: np.ndarray = tf.io.decode_png(made.data, dtype=tf.uint16).numpy()
        return decoded
    return np.frombuffer(made.data, np.uint8).reshape(made.height, made.width, made.channels)


def array_of(ref: SampleRef, kind: ArrayType) -> np.ndarray:
    """The stored array: [H, W, C]."""
    made = convert_array(_file_of(ref), dataclasses.replace(read_settings(ImageSpec, {}), array_type=kind))
    return np.frombuffer(made.data, made.dtype).reshape(made.height, made.width, made.channels)


def _file_of(ref: SampleRef) -> bytes:
    assert ref.failure is None, ref.failure
    read = read_images(ref, max_file_size=1 << 30)
    assert isinstance(read, dict), read
    return read["image"]
