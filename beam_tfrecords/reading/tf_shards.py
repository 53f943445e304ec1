"""Reads serialized examples of shards as a `tf.data.Dataset` whose iterators TensorFlow can checkpoint exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import replaced
from beam_tfrecords.errors import RequestError
from beam_tfrecords.reading.records import Records

# Records that are read together through the index, while the next group is read ahead: limits in bytes and in records.
_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 64

# (path of a shard, its number, records to skip, records to take) -> serialized examples
_ShardReader: TypeAlias = "Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]"


class Share(NamedTuple):
    """The records that a reader reads, in order.

    Attributes:
      shards: numbers of the shards in the dataset.
      files: their file names.
      skips: number of records to skip in each.
      takes: number of records to read in each after that.
    """

    shards: list[int]
    files: list[str]
    skips: list[int]
    takes: list[int]


def read_share(dataset: Dataset, share: Share, *, interleaved: bool, deterministic: bool) -> tf.data.Dataset:
    """Returns the serialized examples of a reader; reads several shards at once if they are interleaved."""
    paths = [storage.join(dataset.path, file) for file in share.files]
    numbers = (tf.constant(column, tf.int64) for column in (share.shards, share.skips, share.takes))
    shards = tf.data.Dataset.from_tensor_slices((tf.constant(paths, tf.string), *numbers))
    records = shards.interleave(
        _index_reader(dataset) if storage.has_scheme(dataset.path) else _file_reader(dataset),
        cycle_length=max(1, min(len(paths), 16)) if interleaved else 1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    return records.apply(tf.data.experimental.assert_cardinality(sum(share.takes)))


def read_numbers(records: Records, begin: int | tf.Tensor, end: int | tf.Tensor) -> tf.data.Dataset:
    """Returns a range of records through the index: pairs of the number of its source and the serialized example.

    The number of the next record is the only state. The index detects records of another dataset.

    Args:
      begin: number of the first record, or a tensor.
      end: number after the last record, or a tensor.
    """
    checked = records.checked()
    group = _group_size([source.shards for source in records.sources])

    def fetch(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        sources, examples = zip(*checked.fetch(range(first, last)), strict=True)
        return np.array(sources, np.int64), np.array(examples, object)

    def read_group(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        last = tf.minimum(first + group, end)
        sources, examples = tf.numpy_function(fetch, [first, last], [tf.int64, tf.string])
        return tf.ensure_shape(sources, [None]), tf.ensure_shape(examples, [None])

    groups = tf.data.Dataset.range(begin, end, group).map(read_group, num_parallel_calls=2, deterministic=True)
    return groups.unbatch().apply(tf.data.experimental.assert_cardinality(end - begin))


def mean_record(several: Iterable[Sequence[Shard]]) -> float:
    """Returns the mean size in bytes of a record of several datasets, from the shards of each."""
    shards = [shard for each in several for shard in each]
    return sum(shard.bytes for shard in shards) / max(1, sum(shard.records for shard in shards))


def _group_size(shards: Sequence[Sequence[Shard]]) -> int:
    """Returns the number of records that are read together; takes the shards of each source."""
    return max(1, min(_GROUP_RECORDS, int(_GROUP_BYTES // max(1, mean_record(shards)))))


def _file_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of local files, which fails if a shard differs from the manifest, as after an `overwrite`.

    Checks the shard's size and the published manifest before the shard is opened. No byte is then read twice, and an
    open file does not change.
    """
    shards, kind = dataset.shards, "GZIP" if dataset.compression == "gzip" else ""

    def find_problem(number: int) -> str:
        shard = shards[number]
        if dataset.is_there() and storage.have_sizes({storage.join(dataset.path, shard.file): shard.bytes}):
            return ""
        return str(replaced(dataset.path, shard.file))

    def read(file: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        problem = tf.ensure_shape(tf.numpy_function(find_problem, [number], tf.string), [])
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(problem, ""), [problem])]):
            return tf.data.TFRecordDataset(tf.identity(file), compression_type=kind).skip(skip).take(take)

    return read


def _index_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of a bucket. TensorFlow has no client for s3://, and its gs:// client has its own settings.

    Raises:
      RequestError: the shards are compressed.
    """
    if dataset.compression != "none":
        raise RequestError(
            f"{dataset.path}: compressed shards cannot be read from a bucket; copy the folder to a disk, or build it "
            "with --compression=none",
            code="compressed_shards",
        )
    records = dataset.records(form="bytes")
    firsts = tf.constant([*itertools.accumulate((shard.records for shard in dataset.shards), initial=0)], tf.int64)

    def read(_: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        begin = firsts[number] + skip
        return read_numbers(records, begin, begin + take).map(lambda _, example: example)

    return read
