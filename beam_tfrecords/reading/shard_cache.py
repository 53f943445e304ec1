"""Keeps records and indices of a dataset in a bucket on this machine, named by their checksums."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Sequence

from beam_tfrecords.dataset.manifest import Shard
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
