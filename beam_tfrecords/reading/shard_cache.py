"""Records and indices of a dataset in a bucket, kept on this machine and told by their checksums."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import secrets
from collections.abc import Sequence
from typing import IO

from beam_tfrecords import crc32c
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.storage.cache_folder import CacheFolder
from beam_tfrecords.storage.chunks import read_chunks
from beam_tfrecords.tfrecord import open_frame

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

    def read_examples(
        self, shard: Shard, begin: int, length: int, places: Sequence[tuple[int, int, int]]
    ) -> list[bytes | None]:
        """The examples of records that are kept; None for one that is not, or is damaged.

        Args:
          shard: their shard.
          begin: of a range of it that has them all.
          length: of the range.
          places: where each begins in the shard, its length with its frame, and the CRC of its example as the index
            has it, or -1.
        """
        framed = self.folder.read(_name_of(shard), begin, length)
        found = ((open_frame(framed, offset - begin, size), crc) for offset, size, crc in places)
        return [opened[0] if opened and crc in (-1, opened[1]) else None for opened, crc in found]

    def keep(self, shard: Shard, offset: int, data: bytes) -> None:
        """Keeps bytes of a shard."""
        self.folder.write(_name_of(shard), offset, data)

    def filling(self, shard: Shard, offset: int) -> contextlib.AbstractContextManager[None]:
        """A block in which no other thread or process reads the same range of the store."""
        return self.folder.filling(_name_of(shard), offset)

    def open_shard(self, shard: Shard) -> IO[bytes] | None:
        """A whole shard that is kept, checked from its beginning to its end; None if it is not, or is damaged."""
        file = self.folder.open(_name_of(shard))
        # A disk that cannot read it is as good as none.
        with contextlib.suppress(OSError):
            if file and _has_content(shard, file):
                file.seek(0)
                return file
        if file:
            file.close()
        return None

    def keep_shard(self, shard: Shard, file: IO[bytes]) -> None:
        """Keeps a whole shard, which is open in its store; nobody sees a part of it."""
        # What a process leaves that is killed here is one day the oldest.
        temporary, offset = secrets.token_hex(_NAME_DIGITS // 2), 0
        for chunk in read_chunks(file, limit=shard.bytes):
            if not self.folder.write(temporary, offset, chunk):
                self.folder.remove(temporary)
                return
            offset += len(chunk)
        self.folder.rename(temporary, _name_of(shard))

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


def _has_content(shard: Shard, file: IO[bytes]) -> bool:
    """Whether a file has the bytes that the manifest says; format 1 has another digest of them."""
    crc, digest, size = 0, hashlib.sha256(), 0
    for chunk in read_chunks(file):
        size += len(chunk)
        if shard.crc32c:
            crc = crc32c.extend(crc, bytes(chunk))
        else:
            digest.update(chunk)
    found = crc32c.to_hex(crc) if shard.crc32c else digest.hexdigest()
    return size == shard.bytes and found == (shard.crc32c or shard.sha256)
