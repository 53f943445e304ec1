"""Records and indices of a dataset in a bucket, kept on this machine and told by their checksums."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Sequence

from beam_tfrecords.manifest import Shard
from beam_tfrecords.storage.cache_folder import CacheFolder
from beam_tfrecords.tfrecord import FOOTER_BYTES, open_frame

_NAME_DIGITS = 32


@dataclasses.dataclass(frozen=True)
class ShardCache:
    """Keeps shards of one dataset. Their names are those of their content, so another dataset has other ones.

    Attributes:
      folder: where.
      keeps_all: whether there may be room for all of the dataset: then a record is read with those around it.
    """

    folder: CacheFolder
    keeps_all: bool

    @classmethod
    def of(cls, folder: CacheFolder, shards: Sequence[Shard]) -> ShardCache:
        """Keeps some shards."""
        return cls(folder, sum(shard.bytes for shard in shards) <= folder.most_bytes)

    def read_example(self, shard: Shard, offset: int, length: int, crc: int) -> bytes | None:
        """The example in a record that is kept; None if it is not, or is damaged.

        Args:
          shard: its shard.
          offset: where it begins in the shard.
          length: of it, frame included.
          crc: of its example as the index has it, or -1.
        """
        framed = self.folder.read(_name_of(shard), offset, length)
        fits = len(framed) == length and crc in (-1, int.from_bytes(framed[-FOOTER_BYTES:], "little"))
        return open_frame(framed) if fits else None

    def keep(self, shard: Shard, offset: int, data: bytes) -> None:
        """Keeps bytes of a shard."""
        self.folder.write(_name_of(shard), offset, data)

    def filling(self, shard: Shard, offset: int) -> contextlib.AbstractContextManager[None]:
        """A block in which no other thread or process reads the same range of the store."""
        return self.folder.filling(_name_of(shard), offset)

    def read_index(self, sha256: str) -> bytes | None:
        """The index file that has a digest, if it is kept."""
        data = self.folder.read(sha256[:_NAME_DIGITS])
        return data if hashlib.sha256(data).hexdigest() == sha256 else None

    def keep_index(self, sha256: str, data: bytes) -> None:
        """Keeps an index file."""
        self.folder.write(sha256[:_NAME_DIGITS], 0, data)


@functools.lru_cache(1 << 12)
def _name_of(shard: Shard) -> str:
    content = shard.bytes, shard.records, shard.crc32c, shard.sha256, shard.index_sha256
    return hashlib.sha256(repr(content).encode()).hexdigest()[:_NAME_DIGITS]
