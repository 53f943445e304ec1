"""Reads serialized examples from the shards of one dataset through its index; caches examples of a store."""

from __future__ import annotations

import array
import bisect
import dataclasses
import functools
import io
import itertools
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import explain_missing, replaced
from beam_tfrecords.errors import BuildError
from beam_tfrecords.reading.index_files import ShardCache, read_places
from beam_tfrecords.storage.local import OpenFile
from beam_tfrecords.tfrecord import FOOTER_BYTES, HEADER_BYTES, RecordError, masked_crc32c, read_records

# Maximum of local files open at once, in each process.
_OPEN_FILES = 64
# Concurrent requests to a store. A small record takes some 20 ms, whatever its size.
THREADS = 16
# One request reads several records of a store if the gaps between them, and the request itself, are no larger.
_GAP_BYTES = 64 << 10
_REQUEST_BYTES = 4 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class ShardReader:
    """Reads examples by their numbers among all records of the shards, from 0. Processes may share it by pickling.

    Attributes:
      path: folder of the dataset.
      shards: the shards of the records; uncompressed and indexed.
      verify: checks the CRCs of each record that is read.
      cache: keeps records of a store; None for no cache.
      gap: bytes between two records of a store that one request reads as well.
    """

    path: str
    shards: Sequence[Shard]
    verify: bool
    cache: ShardCache | None
    gap: int = _GAP_BYTES
    # Shard -> [offset, length, CRC] of its records.
    _places: dict[int, np.ndarray] = dataclasses.field(default_factory=dict, init=False, repr=False)

    @functools.cached_property
    def is_remote(self) -> bool:
        """Whether a store has the shards."""
        return storage.has_scheme(self.path)

    @functools.cached_property
    def starts(self) -> array.array[int]:
        """Number of the first record of each shard, and of all records."""
        return array.array("q", itertools.accumulate((shard.records for shard in self.shards), initial=0))

    def __len__(self) -> int:
        return self.starts[-1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_places": {}}

    def fetch(self, numbers: Sequence[int]) -> list[bytes]:
        """Returns the serialized examples with these numbers; reads adjacent records of a store with one request."""
        if not self.is_remote:
            return [
                self._check(self._read_range(shard, offset, length), shard, offset, crc)
                for shard, offset, length, crc in map(self._find, numbers)
            ]
        # Read together: one by one, the indices of a shuffled batch would cost a request for each of its records.
        places = self._find_all(numbers)
        found = self._find_kept(places)
        lacking = [place for place in places if place not in found]
        reads_blocks = self.cache and self.cache.keeps_all
        requests = self._block_requests(lacking) if reads_blocks else _merge(lacking, gap=self.gap)
        for answer in pool().map(self._request, requests):
            found.update(answer)
        return [found[place] for place in places]

    def unreadable(self, number: int, example: bytes, error: Exception) -> BuildError:
        """Returns the error for an example that cannot be read; its message says whether it is damaged."""
        shard, offset, _, crc = self._find(number)
        where = f"{self._file(shard)}: record {number - self.starts[shard]:,} at byte {offset:,}"
        if masked_crc32c(example) == crc:
            return BuildError(f"{where} cannot be read: {error}")
        return BuildError(
            f"{where} is damaged (its CRC32C differs): {error}; `records(…, verify=True)` checks each record that "
            f"is read, and `beam-tfrecords verify --dataset={self.path}` all of them"
        )

    def _read_places(self, shard: Shard) -> np.ndarray:
        return read_places(self.path, shard, cache=self.cache)

    def _find_kept(self, places: Iterable[_Place]) -> dict[_Place, bytes]:
        """Returns the examples that the cache has."""
        found: dict[_Place, bytes] = {}
        if self.cache is None:
            return found
        # Adjacent records are read together.
        for shard, begin, length, wanted in _merge(places, gap=0):
            kept = self.cache.read_examples(self.shards[shard], begin, length, [place[1:] for place in wanted])
            found.update((place, example) for place, example in zip(wanted, kept, strict=True) if example is not None)
        return found

    def _block_requests(self, places: Iterable[_Place]) -> list[_Request]:
        """Returns requests for all records that start in the same blocks of the shards as `places`."""
        blocks: dict[tuple[int, int], list[_Place]] = {}
        for place in sorted(set(places)):
            blocks.setdefault((place[0], place[1] // _REQUEST_BYTES), []).append(place)
        requests = []
        for (shard, block), wanted in blocks.items():
            starts, lengths = self._places[shard][:, 0], self._places[shard][:, 1]
            first, behind = np.searchsorted(starts, [block * _REQUEST_BYTES, (block + 1) * _REQUEST_BYTES])
            begin, end = int(starts[first]), int(starts[behind - 1] + lengths[behind - 1])
            requests.append((shard, begin, end - begin, wanted))
        return requests

    def _request(self, request: _Request) -> dict[_Place, bytes]:
        """Returns the wanted examples of a request."""
        shard, begin, length, wanted = request
        if self.cache is None:
            return self._cut(request, self._read_range(shard, begin, length))
        named = self.shards[shard]
        with self.cache.filling(named, begin):
            # Another process may have read them in the meantime.
            found = self._find_kept(wanted)
            if len(found) < len(wanted):
                data = self._read_range(shard, begin, length)
                self.cache.keep(named, begin, data)
                found = self._cut(request, data)
        return found

    def _cut(self, request: _Request, data: bytes) -> dict[_Place, bytes]:
        shard, begin, _, wanted = request
        framed = {place: data[place[1] - begin :][: place[2]] for place in wanted}
        return {place: self._check(record, shard, place[1], place[3]) for place, record in framed.items()}

    def _find_all(self, numbers: Sequence[int]) -> list[_Place]:
        """Finds several records like `_find`; reads the indices that are not loaded yet together."""
        shards = (np.searchsorted(self.starts, numbers, side="right") - 1).tolist()
        missing = set(shards) - self._places.keys()
        read = pool().map(self._read_places, (self.shards[shard] for shard in missing))
        self._places.update(zip(missing, read, strict=True))
        starts, places = self.starts, self._places
        return [
            (shard, *places[shard][number - starts[shard]].tolist())
            for shard, number in zip(shards, numbers, strict=True)
        ]

    def _find(self, number: int) -> _Place:
        """Returns the shard, offset, length and CRC of a record."""
        shard = bisect.bisect_right(self.starts, number) - 1
        if shard not in self._places:
            self._places[shard] = self._read_places(self.shards[shard])
        return (shard, *self._places[shard][number - self.starts[shard]].tolist())

    def _file(self, shard: int) -> str:
        return storage.join(self.path, self.shards[shard].file)

    def _read_range(self, shard: int, offset: int, length: int) -> bytes:
        path, named = self._file(shard), self.shards[shard]
        try:
            if self.is_remote:
                data = storage.read_range(path, offset, length)
            else:
                # A dataset that replaces this one has other files with the same names.
                file = _open(path, named.crc32c)  # stays open as long as it is referenced
                if file.size != named.bytes:
                    raise replaced(self.path, named.file)
                data = file.read_range(offset, length)
        except FileNotFoundError as error:
            raise explain_missing(self.path, named.file) from error
        if len(data) != length:
            raise BuildError(f"{path} ends before byte {offset + length:,}, where the index has a record")
        return data

    def _check(self, framed: bytes, shard: int, offset: int, crc: int) -> bytes:
        """Returns the example in a framed record.

        Raises:
          BuildError: the record differs from the index, because the shard was replaced; or it is damaged.
        """
        if self.verify:
            try:
                (_,) = read_records(io.BytesIO(framed))
            except (RecordError, ValueError) as error:
                raise BuildError(
                    f"{self._file(shard)}: the record at byte {offset:,} is damaged: {error}; run `beam-tfrecords "
                    f"verify --dataset={self.path}`"
                ) from error
        if crc != int.from_bytes(framed[-FOOTER_BYTES:], "little"):
            raise replaced(self.path, self.shards[shard].file)
        return framed[HEADER_BYTES:-FOOTER_BYTES]


# (shard, offset, length, CRC) of a record
_Place: TypeAlias = "tuple[int, int, int, int]"
# (shard, offset, length, the wanted records in this range)
_Request: TypeAlias = "tuple[int, int, int, list[_Place]]"


def _merge(places: Iterable[_Place], *, gap: int) -> list[_Request]:
    """Returns requests that cover the records; joins requests with at most `gap` bytes between them."""
    requests: list[_Request] = []
    for place in sorted(set(places)):
        shard, offset, length, _ = place
        if requests:
            last, begin, size, wanted = requests[-1]
            end = offset + length
            if last == shard and offset - begin - size <= gap and end - begin <= _REQUEST_BYTES:
                wanted.append(place)
                requests[-1] = (shard, begin, end - begin, wanted)
                continue
        requests.append((shard, offset, length, [place]))
    return requests


@functools.lru_cache(maxsize=_OPEN_FILES)
def _open(path: str, checksum: str | None) -> OpenFile:
    # The checksum distinguishes the file from an earlier one at the same path.
    return OpenFile(path)


def pool() -> ThreadPoolExecutor:
    """Returns the threads of this process that send requests."""
    return _pool_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _pool_of(process: int) -> ThreadPoolExecutor:
    """Returns the threads of a process; a forked process has none of its parent's threads."""
    return ThreadPoolExecutor(THREADS, "records")
