"""Reads serialized examples of shards as a `tf.data.Dataset` whose iterators TensorFlow can checkpoint exactly."""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import explain_missing, replaced
from beam_tfrecords.errors import BuildError
from beam_tfrecords.reading.records import Records
from beam_tfrecords.reading.shard_cache import ShardCache
from beam_tfrecords.tfrecord import RecordError, open_stream, read_records

# Records that are read together through the index, while the next group is read ahead: limits in bytes and in records.
_GROUP_BYTES = 8 << 20
_GROUP_RECORDS = 64
# Maximum number of streams that wait for their next group; an evicted stream is read again from its start.
_MOST_WAITING = 32

# (open shard, its remaining examples)
_Stream: TypeAlias = "tuple[IO[bytes], Iterator[bytes]]"
# (path of a shard, its number, records to skip, records to take) -> serialized examples
_ShardReader: TypeAlias = "Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tf.data.Dataset]"
# (number of a shard, begin and end of a group, end of the reader's range in the shard) -> serialized examples
_Groups: TypeAlias = "Callable[[int, int, int, int], list[bytes]]"


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
    read = _shard_reader(dataset)
    records = shards.interleave(
        read,
        cycle_length=max(1, min(len(paths), 16)) if interleaved else 1,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=deterministic,
    )
    return records.apply(tf.data.experimental.assert_cardinality(sum(share.takes)))


def read_numbers(records: Records, begin: int, end: int) -> tf.data.Dataset:
    """Returns a range of records through the index: pairs of the number of its source and the serialized example.

    The number of the next record is the only state.
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


def _checked(read: _ShardReader, dataset: Dataset) -> _ShardReader:
    """Wraps a reader so that it fails if the shard differs from the manifest, as after a build with `overwrite`.

    Checks the shard's size and the published manifest before the shard is opened. No byte is then read twice, and an
    open file does not change.
    """
    shards = dataset.shards

    def find_problem(number: int) -> str:
        shard = shards[number]
        if dataset.is_there() and storage.have_sizes({storage.join(dataset.path, shard.file): shard.bytes}):
            return ""
        return str(replaced(dataset.path, shard.file))

    def read_checked(file: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        problem = tf.ensure_shape(tf.numpy_function(find_problem, [number], tf.string), [])
        with tf.control_dependencies([tf.debugging.Assert(tf.equal(problem, ""), [problem])]):
            return read(tf.identity(file), number, skip, take)

    return read_checked


def _shard_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of shards. TensorFlow has no client for s3://, and its gs:// client has its own settings."""
    if storage.has_scheme(dataset.path):
        return _group_reader(dataset)
    kind = "GZIP" if dataset.compression == "gzip" else ""

    def read(file: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(file, compression_type=kind).skip(skip).take(take)

    return _checked(read, dataset)


def _group_reader(dataset: Dataset) -> _ShardReader:
    """Returns a reader of groups of records in a bucket; the number of the next record is its only state."""
    by_index = dataset.compression == "none"
    find = _find_groups(dataset) if by_index else _stream_groups(dataset)
    group = _group_size([dataset.shards])

    def fetch(number: int, begin: int, end: int, stop: int) -> np.ndarray:
        return np.array(find(number, begin, end, stop), object)

    def read(_: tf.Tensor, number: tf.Tensor, skip: tf.Tensor, take: tf.Tensor) -> tf.data.Dataset:
        stop = skip + take

        def read_group(begin: tf.Tensor) -> tf.Tensor:
            end = tf.minimum(begin + group, stop)
            return tf.ensure_shape(tf.numpy_function(fetch, [number, begin, end, stop], tf.string), [None])

        begins = tf.data.Dataset.range(skip, stop, group)
        # A stream can only be read sequentially.
        groups = begins.map(read_group, num_parallel_calls=2 if by_index else 1, deterministic=True)
        return groups.unbatch()

    return read


def _find_groups(dataset: Dataset) -> _Groups:
    """Returns a function that reads groups through the index, which detects records of another dataset."""
    records = dataset.records(form="bytes", verify=True)
    firsts = list(itertools.accumulate((shard.records for shard in dataset.shards), initial=0))
    return lambda number, begin, end, _: records._getitems(range(firsts[number] + begin, firsts[number] + end))


def _stream_groups(dataset: Dataset) -> _Groups:
    """Returns a function that reads groups by streaming shards from their start."""
    streams, shards = _ShardStreams(dataset), dataset.shards
    return lambda number, begin, end, stop: streams.read(shards[number], begin, end, stop=stop)


class _ShardStreams:
    """Reads groups of records of shards that can only be read from their start, such as compressed ones.

    A group that starts where an earlier one ended continues its stream. Record numbers are therefore the only state,
    and a reader that resumes elsewhere gets the same records.

    Args:
      dataset: dataset of the shards; its cache keeps them as whole files, if it is large enough for all.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._path, self._compression = dataset.path, dataset.compression
        self._is_there = dataset.is_there
        self._cache = None
        if dataset.cache and storage.has_scheme(dataset.path):
            cache = ShardCache.of(dataset.cache, sum(shard.bytes for shard in dataset.shards))
            self._cache = cache if cache.keeps_all else None
        # (file, number of the next record) -> stream
        self._waiting: collections.OrderedDict[tuple[str, int], _Stream] = collections.OrderedDict()
        self._lock = threading.Lock()

    def read(self, shard: Shard, begin: int, end: int, *, stop: int) -> list[bytes]:
        """Returns serialized examples of a shard.

        Args:
          shard: a shard of the dataset.
          begin: number of the first record.
          end: number after the last record.
          stop: record number at which the reader's range ends.

        Raises:
          BuildError: the shard is damaged, or no longer belongs to the dataset.
        """
        with self._lock:
            stream = self._waiting.pop((shard.file, begin), None)
        try:
            file, records = stream or self._open(shard, begin)
            group = list(itertools.islice(records, end - begin))
        except (RecordError, EOFError, ValueError) as error:
            raise BuildError(f"{self._file(shard)} cannot be read: {error}") from error
        if len(group) != end - begin:
            raise BuildError(f"{self._file(shard)} ends before record {end:,}; the manifest has {shard.records:,}")
        unused = file if end == stop else None
        with self._lock:
            if not unused:
                self._waiting[shard.file, end] = file, records
                if len(self._waiting) > _MOST_WAITING:
                    _, (unused, _) = self._waiting.popitem(last=False)
        if unused:
            unused.close()
        return group

    def _open(self, shard: Shard, begin: int) -> _Stream:
        file = self._open_file(shard)
        records = (record.data for record in read_records(open_stream(file, self._compression)))
        return file, itertools.islice(records, begin, None)

    def _open_file(self, shard: Shard) -> IO[bytes]:
        """Opens the shard of the manifest, even after a build with `overwrite`."""
        path = self._file(shard)
        try:
            file = self._open_kept(shard, self._cache) if self._cache else None
            if file:
                return file
            # Check the published manifest and the size before opening the shard: no byte is then read twice, and an
            # open file does not change.
            if not (self._is_there() and storage.have_sizes({path: shard.bytes})):
                raise replaced(self._path, shard.file)
            return storage.open_read(path)
        except FileNotFoundError as error:
            raise explain_missing(self._path, shard.file) from error

    def _open_kept(self, shard: Shard, cache: ShardCache) -> IO[bytes] | None:
        """Opens the shard from the cache, after downloading it if needed; returns None if that fails."""
        file = cache.open_shard(shard)
        if file:
            return file
        with cache.filling(shard, 0):
            # Another process may have kept the shard in the meantime.
            file = cache.open_shard(shard)
            if file:
                return file
            with storage.open_read(self._file(shard)) as opened:
                cache.keep_shard(shard, opened)
            return cache.open_shard(shard)

    def _file(self, shard: Shard) -> str:
        return storage.join(self._path, shard.file)
