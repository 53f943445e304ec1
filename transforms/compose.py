"""Concatenates consecutive parts to one shard, and their indices likewise."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from transforms import storage
from transforms.dataset import BUILD_FOLDER
from transforms.errors import BuildError
from transforms.parts import INDEX_SCHEMA, read_index
from transforms.values import Part, Shard

# (split, number, of)
ShardKey: TypeAlias = "tuple[str, int, int]"


@dataclasses.dataclass(frozen=True)
class ShardNames:
    """How shards and their index files are called, as TFDS does.

    Attributes:
      folder: the dataset's folder.
      prefix: what stands before the split.
      suffix: what stands between the split and the numbers.
    """

    folder: str
    prefix: str
    suffix: str = ".tfrecord"

    def shard(self, key: ShardKey) -> str:
        """File name of a shard."""
        split, number, of = key
        stem = "-".join(word for word in (self.prefix, split) if word)
        return f"{stem}{self.suffix}-{number:05d}-of-{of:05d}"

    def index(self, key: ShardKey) -> str:
        """Name of a shard's index file, relative to the dataset's folder."""
        split, number, of = key
        return f"index/{self.prefix}-{split}-{number:05d}-of-{of:05d}.parquet"


def compose_shard(
    keyed: tuple[ShardKey, Iterable[Part | None]], *, names: ShardNames, with_index: bool, merging: str | None = None
) -> Shard:
    """Writes one shard from its parts.

    Args:
      keyed: the shard's key, and its parts in any order.
      names: how shards are called and where they go.
      with_index: whether the parts have indices.
      merging: a local folder on the output's disk; there the parts' own files become the shard, by one process
        at a time, and are gone afterwards. None copies them, so that any number of attempts find them.

    Raises:
      BuildError: if a part or its index is not what its marker says, or storage not what was written to it.
    """
    key, parts = keyed
    ordered = sorted((part for part in parts if part is not None), key=part_order)
    path = storage.join(names.folder, names.shard(key))
    if merging is None:
        return _describe_shard(key, ordered, names=names, with_index=with_index, sha256=_copy_parts(ordered, path))
    merged = storage.join(merging, names.shard(key))
    marker = f"{merged}.json"
    if not storage.exists(marker):
        try:
            sha256 = storage.merge_files([(part.uri, part.bytes) for part in ordered], merged)
        except storage.StorageError as error:
            temporary = storage.join(names.folder, BUILD_FOLDER)
            raise BuildError(f"{error}; remove {temporary} and run the same command again") from error
        shard = _describe_shard(key, ordered, names=names, with_index=with_index, sha256=sha256)
        storage.write_bytes(marker, json.dumps(shard.to_json()).encode())
    if storage.exists(merged):
        storage.move_file(merged, path)
    return Shard(**json.loads(storage.read_bytes(marker)))


def _copy_parts(parts: Iterable[Part], path: str) -> str:
    """Concatenates the parts' files; gives the hex SHA-256 of the result."""
    size = 0
    digest = hashlib.sha256()
    with storage.open_write(path) as target:
        for part in parts:
            begin = size
            with storage.open_read(part.uri) as source:
                for chunk in storage.read_chunks(source):
                    target.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
            if size - begin != part.bytes:
                raise BuildError(f"{part.uri} has {size - begin} bytes, but {part.bytes} were written to it")
    stored = storage.stat(path).size
    if stored != size:
        raise BuildError(f"{path} has {stored} bytes, but {size} were written to it")
    return digest.hexdigest()


def _describe_shard(key: ShardKey, parts: list[Part], *, names: ShardNames, with_index: bool, sha256: str) -> Shard:
    index = names.index(key) if with_index else None
    return Shard(
        split=key[0],
        number=key[1],
        of=key[2],
        file=names.shard(key),
        records=sum(part.records for part in parts),
        bytes=sum(part.bytes for part in parts),
        sha256=sha256,
        index=index,
        index_sha256=_compose_index(parts, storage.join(names.folder, index)) if index else None,
    )


def _compose_index(parts: Iterable[Part], path: str) -> str:
    begin = 0
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for part in parts:
            table = read_index(part)
            column = table.schema.get_field_index("offset")
            # NumPy, because importing Arrow's compute functions takes longer than this does.
            moved = pa.array(table["offset"].to_numpy() + begin)
            writer.write_table(table.set_column(column, INDEX_SCHEMA.field("offset"), moved))
            begin += part.stream_bytes
    data = sink.getvalue()
    storage.write_bytes(path, memoryview(data))
    digest = hashlib.sha256(data).hexdigest()
    # Arrow would keep what one shard took, and with the next one take more.
    pa.default_memory_pool().release_unused()
    return digest


def part_order(part: Part) -> tuple[int, int, str]:
    """Where a part stands in its split."""
    return part.block, part.number, part.uri
