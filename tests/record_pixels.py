"""Records with images that are stored as numbers, as programs write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
