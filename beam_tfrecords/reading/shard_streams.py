"""Reads shards that can only be read from their start: compressed ones, and those without an index."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import IO

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.output.missing import explain_missing
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.index_files import replaced
from beam_tfrecords.reading.shard_cache import ShardCache
from beam_tfrecords.tfrecord import RecordError, open_stream, read_records

# Maximum of streams that wait for their next group; an evicted stream is read again from its start.
_MOST_WAITING = 32


@dataclasses.dataclass(frozen=True)
class _Stream:
    """An open shard.

    Attributes:
      file: the file to close in the end.
      records: its remaining examples.
    """

    file: IO[bytes]
    records: Iterator[bytes]


class ShardStreams:
    """Reads groups of records by their numbers. A group that starts where an earlier one ended continues its stream.

    Record numbers are therefore the only state, and a reader that resumes elsewhere gets the same records.

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
            stream = stream or self._open(shard, begin)
            group = list(itertools.islice(stream.records, end - begin))
        except (RecordError, EOFError, ValueError) as error:
            raise BuildError(f"{self._file(shard)} cannot be read: {error}") from error
        if len(group) != end - begin:
            raise BuildError(f"{self._file(shard)} ends before record {end:,}; the manifest has {shard.records:,}")
        unused = stream if end == stop else None
        with self._lock:
            if not unused:
                self._waiting[shard.file, end] = stream
                if len(self._waiting) > _MOST_WAITING:
                    _, unused = self._waiting.popitem(last=False)
        if unused:
            unused.file.close()
        return group

    def _open(self, shard: Shard, begin: int) -> _Stream:
        file = self._open_file(shard)
        records = (record.data for record in read_records(open_stream(file, self._compression)))
        return _Stream(file, itertools.islice(records, begin, None))

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
