"""Reads the index files of shards, checks them against the manifest, and keeps data of a bucket on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.dataset.index import read_batches, sealed_crcs
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.published import explain_missing, replaced
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.cache_folder import CacheFolder
from beam_tfrecords.tfrecord import open_frame

_NAME_DIGITS = 32


@dataclasses.dataclass(frozen=True)
class ShardCache:
    """Keeps shards of one dataset. Names derive from the content, so other datasets have other names.

    Attributes:
      folder: the cache folder.
      keeps_all: whether the whole dataset may fit: then records are read in whole blocks.
    """

    folder: CacheFolder
    keeps_all: bool

    def read_examples(
        self, shard: Shard, begin: int, length: int, places: Sequence[tuple[int, int, int]]
    ) -> list[bytes | None]:
        """Returns examples from the cache; None for records that are missing or damaged.

        Args:
          shard: shard of the records.
          begin: start of a range of the shard that contains all of them.
          length: length of the range.
          places: start of each record in the shard, its length including the frame, and the CRC of its example from the
            index, or -1.
        """
        framed = self.folder.read(_name_of(shard), begin, length)
        found = ((open_frame(framed, offset - begin, size), crc) for offset, size, crc in places)
        return [opened[0] if opened and crc == opened[1] else None for opened, crc in found]

    def keep(self, shard: Shard, offset: int, data: bytes) -> None:
        """Keeps bytes of a shard."""
        self.folder.write(_name_of(shard), offset, data)

    def filling(self, shard: Shard, offset: int) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which no other thread or process reads the same range of the store."""
        return self.folder.filling(_name_of(shard), offset)

    def read_index(self, sha256: str) -> bytes | None:
        """Returns the index file with this digest, if the cache has it."""
        data = self.folder.read(sha256[:_NAME_DIGITS])
        return data if hashlib.sha256(data).hexdigest() == sha256 else None

    def keep_index(self, sha256: str, data: bytes) -> None:
        """Keeps an index file."""
        self.folder.write(sha256[:_NAME_DIGITS], 0, data)


@functools.lru_cache(1 << 12)
def _name_of(shard: Shard) -> str:
    content = shard.bytes, shard.records, shard.crc32c, shard.index_sha256
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_NAME_DIGITS]


def read_index(
    path: str, shard: Shard, columns: Sequence[str], *, cache: ShardCache | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the index of a shard in batches of rows, as `read_batches` reads it.

    Args:
      path: folder of the dataset.
      shard: a shard with an index.
      columns: as in `read_batches`.
      cache: keeps the file.

    Raises:
      BuildError: the file differs from the manifest, no longer exists, or does not have one row per record.
    """
    name, sha256 = shard.index or "", shard.index_sha256
    data = cache.read_index(sha256) if cache and sha256 else None
    if data is None:
        data = _read_checked(path, name, sha256)
        if cache and sha256:
            cache.keep_index(sha256, data)
    rows = 0
    try:
        for batch in read_batches(data, columns):
            rows += batch.num_rows
            yield batch
    except pa.ArrowInvalid as error:
        raise _damaged(path, name, error) from error
    if rows != shard.records:
        raise BuildError(f"{shard.index} has {rows} rows, but its shard has {shard.records} records")


def _read_checked(path: str, name: str, sha256: str | None) -> bytes:
    try:
        data = storage.read_bytes(storage.join(path, name))
    except FileNotFoundError as error:
        raise explain_missing(path, name) from error
    if sha256 not in (None, hashlib.sha256(data).hexdigest()):
        raise replaced(path, name)
    return data


def read_places(path: str, shard: Shard, *, cache: ShardCache | None = None) -> np.ndarray:
    """Returns [records, 3] int64: offset and length of each record in bytes, and its CRC.

    Raises:
      BuildError: as `read_index`.
    """
    batches = [np.empty((0, 3), np.int64)]
    for rows in read_index(path, shard, ["offset", "length", "sample_hash"], cache=cache):
        try:
            crcs = sealed_crcs(rows["sample_hash"])
        except (ValueError, KeyError) as error:
            raise _damaged(path, shard.index or "", error) from error
        batches.append(np.stack([rows["offset"].to_numpy(), rows["length"].to_numpy(), crcs], axis=1))
    places = np.concatenate(batches)
    if places[:, :2].max(initial=0) > shard.bytes:
        raise _damaged(path, shard.index or "", ValueError(f"a record lies beyond the end of {shard.file}"))
    return places


def _damaged(path: str, name: str, error: Exception) -> BuildError:
    return BuildError(
        f"{storage.join(path, name)} cannot be read: {error}; run `beam-tfrecords verify --dataset={path}`"
    )
