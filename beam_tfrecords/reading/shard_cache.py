"""Keeps records and indices of a dataset in a bucket on this machine, named by their checksums."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import secrets
from collections.abc import Sequence
from typing import IO

from beam_tfrecords import crc32c
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.storage.cache_folder import CacheFolder
from beam_tfrecords.storage.range_reader import read_chunks
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

    @classmethod
    def of(cls, folder: CacheFolder, size: int) -> ShardCache:
        """Makes the cache of shards that have `size` bytes in all."""
        return cls(folder, size <= folder.most_bytes)

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

    def open_shard(self, shard: Shard) -> IO[bytes] | None:
        """Opens a whole shard in the cache after checking its content; returns None if it is missing or damaged."""
        file = self.folder.open(_name_of(shard))
        # A shard that the disk cannot read counts as missing.
        with contextlib.suppress(OSError):
            if file and _has_content(shard, file):
                file.seek(0)
                return file
        if file:
            file.close()
        return None

    def keep_shard(self, shard: Shard, file: IO[bytes]) -> None:
        """Keeps a whole shard from its open file in the store; other readers never see a part of it."""
        # If this process is killed here, the temporary file ages and is evicted.
        temporary, offset = secrets.token_hex(_NAME_DIGITS // 2), 0
        for chunk in read_chunks(file, limit=shard.bytes):
            if not self.folder.write(temporary, offset, chunk):
                self.folder.remove(temporary)
                return
            offset += len(chunk)
        self.folder.rename(temporary, _name_of(shard))

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


def _has_content(shard: Shard, file: IO[bytes]) -> bool:
    """Whether a file has the content that the manifest records."""
    crc = size = 0
    for chunk in read_chunks(file):
        size += len(chunk)
        crc = crc32c.extend(crc, bytes(chunk))
    return size == shard.bytes and crc32c.to_hex(crc) == shard.crc32c
