"""The shards of a dataset with very many, read from their own file when they are asked for."""

from __future__ import annotations

import bisect
import contextlib
import functools
import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.files import SHARDS
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.output.missing import explain_missing
from beam_tfrecords.output.shard_rows import ShardRows, make_shards
from beam_tfrecords.reading.index_files import replaced
from beam_tfrecords.reading.shard_cache import ShardCache
from beam_tfrecords.storage.chunks import read_chunks
from beam_tfrecords.storage.open_file import OpenFile
from beam_tfrecords.storage.range_reader import open_ranges

if TYPE_CHECKING:
    from beam_tfrecords.storage.cache_folder import CacheFolder

# Limits of what a process keeps: decoded row groups of 250 KB each, and single shards of 1 KB each.
_MOST_GROUPS, _MOST_SHARDS = 16, 1 << 12
_READ_BYTES = 64 << 10


class ShardFileError(BuildError):
    """The file with the shards of a dataset is missing, damaged, or not the published one."""


class ShardFile:
    """The file `SHARDS` of a dataset. Its SHA-256 is compared on first use, and then only what is needed is decoded.

    A process keeps a file on disk open, and a file from a store in memory. Processes may share an instance by pickling
    or forking; a process that unpickles it opens the file again.

    Args:
      path: folder of the dataset.
      sha256: hex digest of the file, from the manifest.
      counts: split -> number of its shards, in their order, from the manifest.
      cache: keeps the file of a store.
    """

    def __init__(self, path: str, sha256: str, counts: Mapping[str, int], cache: CacheFolder | None = None) -> None:
        self._path, self._sha256, self._counts = path, sha256, counts
        self._cache = ShardCache(cache, keeps_all=False) if cache and storage.has_scheme(path) else None
        self._rows: ShardRows | None = None
        self._groups: dict[int, pa.RecordBatch] = {}
        self._shards: dict[int, Shard] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": None, "_groups": {}, "_shards": {}}

    def open(self) -> ShardRows:
        """Returns the opened file.

        Raises:
          ShardFileError: the file is missing, damaged, or not the published one.
          BuildError: the store does not answer.
        """
        if self._rows is None:
            opener = self._find_file()
            with self._naming_damage():
                rows = ShardRows(opener)
                if len(rows) != (expected := sum(self._counts.values())):
                    raise ValueError(f"it has {len(rows):,} shards; the manifest says {expected:,}")
            self._rows = rows
        return self._rows

    def read_column(self, name: str, numbers: range) -> Iterator[pa.Array]:
        """Yields a field of a range of shards, some thousand at a time."""
        rows = self.open()
        with self._naming_damage():
            yield from rows.read_column(name, numbers)

    def read_shard(self, number: int) -> Shard:
        """Returns a shard by its number among all shards."""
        shard = self._shards.get(number)
        if shard is None:
            if len(self._shards) >= _MOST_SHARDS:
                self._shards = {}
            rows, start = self._read_group(number)
            (shard,) = make_shards(rows.slice(number - start, 1))
            self._shards[number] = shard
        return shard

    def read_shards(self, numbers: range) -> Iterator[Shard]:
        """Yields shards by their numbers, in order; keeps none of them."""
        number = numbers.start
        while number < numbers.stop:
            rows, start = self._read_group(number)
            end = min(numbers.stop, start + len(rows))
            yield from make_shards(rows.slice(number - start, end - number))
            number = end

    def _read_group(self, number: int) -> tuple[pa.RecordBatch, int]:
        """Returns the row group with a shard, and the number of its first shard."""
        file = self.open()
        group = file.find_group(number)
        start = file.find_start(group)
        rows = self._groups.get(group)
        if rows is None:
            with self._naming_damage():
                rows = file.read_group(group)
                self._check_splits(rows["split"].to_pylist(), start)
            # Other threads may do the same.
            if len(self._groups) >= _MOST_GROUPS:
                self._groups = {}
            self._groups[group] = rows
        return rows, start

    def _check_splits(self, splits: Sequence[str], start: int) -> None:
        """Checks that rows belong to the splits that the manifest says; `start` is the number of the first row."""
        expected = itertools.chain.from_iterable(itertools.repeat(*each) for each in self._counts.items())
        if list(splits) != list(itertools.islice(expected, start, start + len(splits))):
            raise ValueError("its shards are not those of the manifest's splits, in their order")

    def _find_file(self) -> Callable[[], IO[bytes]]:
        """Returns a function that opens the file, after comparing its SHA-256."""
        path = storage.join(self._path, SHARDS)
        try:
            if storage.has_scheme(path):
                return functools.partial(io.BytesIO, self._download(path))
            # Stays open, so that it remains the file that was compared.
            file = OpenFile(path)
            opener = functools.partial(open_ranges, file.size, file.read_range, read_bytes=_READ_BYTES)
            digest = hashlib.sha256()
            with opener() as opened:
                for chunk in read_chunks(opened):
                    digest.update(chunk)
            self._compare(digest.hexdigest())
            return opener
        except FileNotFoundError as error:
            raise ShardFileError(str(explain_missing(self._path, SHARDS))) from error
        except OSError as error:
            kind = BuildError if storage.is_unanswered(error) else ShardFileError
            raise kind(f"{path} cannot be read: {error.strerror or error}") from error

    def _download(self, path: str) -> bytes:
        data = self._cache.read_index(self._sha256) if self._cache else None
        if data is None:
            data = storage.read_bytes(path)
            self._compare(hashlib.sha256(data).hexdigest())
            if self._cache:
                self._cache.keep_index(self._sha256, data)
        return data

    def _compare(self, sha256: str) -> None:
        if sha256 != self._sha256:
            raise ShardFileError(str(replaced(self._path, SHARDS)))

    @contextlib.contextmanager
    def _naming_damage(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise ShardFileError(f"{self._path}: {SHARDS} cannot be read: {error}") from error


class LazyShards(Sequence[Shard]):
    """The shards of splits, one split after the other; like a list, but each shard is read when it is asked for.

    Args:
      file: the file with the shards.
      splits: split -> numbers of its shards in the file.
    """

    def __init__(self, file: ShardFile, splits: Mapping[str, range]) -> None:
        self._file = file
        self._splits = splits
        self._ranges = list(splits.values())
        self._ends = list(itertools.accumulate(map(len, self._ranges)))

    def of_splits(self, names: Iterable[str]) -> LazyShards:
        """Returns the shards of some of the splits, in the order of the names."""
        return LazyShards(self._file, {name: self._splits[name] for name in names})

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, number: int) -> Shard: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Shard]: ...
    def __getitem__(self, number: int | slice) -> Shard | Sequence[Shard]:
        chosen = range(len(self))[number]
        return list(map(self._read, chosen)) if isinstance(chosen, range) else self._read(chosen)

    def _read(self, number: int) -> Shard:
        place = bisect.bisect_right(self._ends, number)
        return self._file.read_shard(self._ranges[place][number - self._ends[place]])

    def __iter__(self) -> Iterator[Shard]:
        return itertools.chain.from_iterable(map(self._file.read_shards, self._ranges))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(Shard.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} shards>"

    def check(self) -> None:
        """Checks the file; raises as `ShardFile.open`."""
        self._file.open()

    def read_column(self, name: str, start: int = 0, stop: int | None = None) -> Iterator[pa.Array]:
        """Yields a field of these shards, or of a range of them, some thousand at a time."""
        stop = len(self) if stop is None else stop
        for numbers, end in zip(self._ranges, self._ends, strict=True):
            first = end - len(numbers)
            if chosen := numbers[max(start - first, 0) : max(stop - first, 0)]:
                yield from self._file.read_column(name, chosen)


def shard_numbers(shards: Sequence[Shard], field: str) -> np.ndarray:
    """Returns a number of each shard, such as its `records`: [shards] int64. Reads one column of a file of shards."""
    if not isinstance(shards, LazyShards):
        return np.fromiter((getattr(shard, field) for shard in shards), np.int64, len(shards))
    numbers, start = np.empty(len(shards), np.int64), 0
    for values in shards.read_column(field):
        numbers[start : start + len(values)] = values
        start += len(values)
    return numbers


def mean_record(several: Iterable[Sequence[Shard]]) -> float:
    """Returns the mean size in bytes of a record of several datasets, from the shards of each."""
    sums = [[shard_numbers(shards, field).sum() for field in ("bytes", "records")] for shards in several]
    size, records = np.sum(sums, axis=0)
    return float(size / max(1, records))


def read_files(shards: Sequence[Shard], start: int, stop: int) -> list[str]:
    """Returns the file names of a range of shards. Reads one column of a file of shards."""
    if isinstance(shards, LazyShards):
        return [file for files in shards.read_column("file", start, stop) for file in files.to_pylist()]
    return [shard.file for shard in shards[start:stop]]


def find_keyed(shards: Sequence[Shard]) -> np.ndarray:
    """Returns the numbers of the shards that have a first key: [n] int64."""
    if isinstance(shards, LazyShards):
        keys = (key for several in shards.read_column("first_key") for key in several.to_pylist())
        return np.flatnonzero(np.fromiter((key is not None for key in keys), bool, len(shards)))
    return np.array([number for number, shard in enumerate(shards) if shard.first_key is not None], np.int64)
