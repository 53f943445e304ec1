"""Reads serialized examples of shards as a `tf.data.Dataset` whose iterators TensorFlow can checkpoint exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import tensorflow as tf

from beam_tfrecords import storage
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.index_files import replaced
from beam_tfrecords.reading.shard_streams import ShardStreams

# Records of a bucket that are read together, while the next group is read ahead: limits in bytes and in records.
_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 64

# Files, and the number of records to skip and then to take in each.
Share: TypeAlias = "tuple[list[str], list[int], list[int]]"
# (file, records to skip, records to take) -> serialized examples
_ShardReader: TypeAlias = "Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]"
# (path of a shard, begin and end of a group, end of the reader's range in the shard) -> serialized examples
_Groups: TypeAlias = "Callable[[str, int, int, int], list[bytes]]"


def read_share(dataset: Dataset, share: Share, *, interleaved: bool, deterministic: bool) -> tf.data.Dataset:
    """Returns the serialized examples of a reader; reads several shards at once if they are interleaved."""
    files, skips, takes = share
    paths = [storage.join(dataset.path, file) for file in files]
    shards = tf.data.Dataset.from_tensor_slices(
        (tf.constant(paths, tf.string), tf.constant(skips, tf.int64), tf.constant(takes, tf.int64))
    )
    read = _shard_reader(dataset)
    records = shards.interleave(
        read,
        cycle_length=max(1, min(len(paths), 16)) if interleaved else 1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    return records.apply(tf.data.experimental.assert_cardinality(sum(takes)))


def _checked(read: _ShardReader, dataset: Dataset) -> _ShardReader:
    """Wraps a reader so that it fails if the shard differs from the manifest, as after a build with `overwrite`.

    Checks the shard's size and the published manifest before the shard is opened. No byte is then read twice, and an
    open file does not change.
    """
    sizes = {storage.join(dataset.path, shard.file): shard.bytes for shard in dataset.shards}

    def find_problem(file: bytes) -> str:
        path = file.decode()
        if dataset.is_there() and storage.have_sizes({path: sizes[path]}):
            return ""
        return str(replaced(dataset.path, storage.basename(path)))

    def read_checked(file: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        problem = tf.ensure_shape(tf.numpy_function(find_problem, [file], tf.string), [])
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(problem, ""), [problem])]):
            return read(tf.identity(file), skip, take)

    return read_checked


def _shard_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of shards. TensorFlow has no client for s3://, and its gs:// client has its own settings."""
    if storage.has_scheme(dataset.path):
        return _group_reader(dataset)
    kind = "GZIP" if dataset.compression == "gzip" else ""

    def read(file: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(file, compression_type=kind).skip(skip).take(take)

    return _checked(read, dataset)


def _group_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of groups of records in a bucket; the number of the next record is its only state."""
    by_index = dataset.compression == "none" and all(shard.index for shard in dataset.shards)
    find = _find_groups(dataset) if by_index else _stream_groups(dataset)
    average = sum(shard.bytes for shard in dataset.shards) // max(1, dataset.num_records)
    group = max(1, min(_GROUP_RECORDS, _GROUP_BYTES // max(1, average)))

    def fetch(file: bytes, begin: int, end: int, stop: int) -> np.ndarray:
        return np.array(find(file.decode(), begin, end, stop), object)

    def read(file: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        stop = skip + take

        def read_group(begin: tf.Tensor) -> tf.Tensor:
            end = tf.minimum(begin + group, stop)
            return tf.ensure_shape(tf.numpy_function(fetch, [file, begin, end, stop], tf.string), [None])

        begins = tf.data.Dataset.range(skip, stop, group)
        # A stream can only be read sequentially.
        groups = begins.map(read_group, num_parallel_calls=2 if by_index else 1, deterministic=True)
        return groups.unbatch()

    return read


def _find_groups(dataset: Dataset) -> _Groups:
    """Returns a function that reads groups through the index, which detects records of another dataset."""
    records = dataset.records(form="bytes", verify=True)
    shards = dataset.shards
    starts = itertools.accumulate((shard.records for shard in shards), initial=0)
    first = {storage.join(dataset.path, shard.file): start for shard, start in zip(shards, starts, strict=False)}
    return lambda path, begin, end, _: records._getitems(range(first[path] + begin, first[path] + end))


def _stream_groups(dataset: Dataset) -> _Groups:
    """Returns a function that reads groups by streaming shards from their start."""
    streams = ShardStreams(dataset)
    shards = {storage.join(dataset.path, shard.file): shard for shard in dataset.shards}
    return lambda path, begin, end, stop: streams.read(shards[path], begin, end, stop=stop)
