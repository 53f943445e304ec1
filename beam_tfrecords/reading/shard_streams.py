"""Records of shards that can only be read from their beginning: compressed ones, and those without an index."""

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

# Streams that wait for their next group; one that is closed is read again from its beginning.
_MOST_WAITING = 32


@dataclasses.dataclass(frozen=True)
class _Stream:
    """An open shard.

    Attributes:
      file: what is closed in the end.
      records: the rest of its examples.
    """

    file: IO[bytes]
    records: Iterator[bytes]


class ShardStreams:
    """Reads groups of records by their numbers. A group that begins where another one ended needs no search for it.

    So numbers are all the state that there is, and whoever goes on somewhere else gets the same records.

    Args:
      dataset: whose shards are read; its cache keeps them as whole files, if it may have room for all.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._path, self._compression = dataset.path, dataset.compression
        self._is_there = dataset.is_there
        shards = dataset.shards
        cache = ShardCache.of(dataset.cache, shards) if dataset.cache and storage.has_scheme(dataset.path) else None
        self._cache = cache if cache and cache.keeps_all else None
        # (file, number of the next record) -> stream
        self._waiting: collections.OrderedDict[tuple[str, int], _Stream] = collections.OrderedDict()
        self._lock = threading.Lock()

    def read(self, shard: Shard, begin: int, end: int, *, stop: int) -> list[bytes]:
        """Serialized examples of a shard.

        Args:
          shard: of the dataset.
          begin: number of the first record.
          end: number behind the last one.
          stop: number of the record before which nobody reads on.

        Raises:
          BuildError: the shard is damaged, or not that of the dataset any more.
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
        """The shard, which is that of the manifest: also after a build with `overwrite`."""
        path = self._file(shard)
        try:
            file = self._open_kept(shard, self._cache) if self._cache else None
            if file:
                return file
            # What was published, and the size, are looked at before the shard is opened; so no byte of it is read
            # twice, and what is open stays the same file.
            if not (self._is_there() and storage.have_sizes({path: shard.bytes})):
                raise replaced(self._path, shard.file)
            return storage.open_read(path)
        except FileNotFoundError as error:
            raise explain_missing(self._path, shard.file) from error

    def _open_kept(self, shard: Shard, cache: ShardCache) -> IO[bytes] | None:
        """The shard as the cache has it, which takes it from the store first; None if that cannot be."""
        file = cache.open_shard(shard)
        if file:
            return file
        with cache.filling(shard, 0):
            # Another process may have kept it meanwhile.
            file = cache.open_shard(shard)
            if file:
                return file
            with storage.open_read(self._file(shard)) as opened:
                cache.keep_shard(shard, opened)
            return cache.open_shard(shard)

    def _file(self, shard: Shard) -> str:
        return storage.join(self._path, shard.file)
