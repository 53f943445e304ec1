"""Concatenates parts and their indices under the final names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import crc32c, storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.files import ShardKey, ShardNames
from beam_tfrecords.index import INDEX_SCHEMA
from beam_tfrecords.manifest import Shard
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.parts import Part, read_index
from beam_tfrecords.transforms.shards.plan import part_order

_READERS = 8


def compose_shard(
    keyed: tuple[ShardKey, Iterable[Part | None]], *, names: ShardNames, with_index: bool, fence: Fence | None = None
) -> Shard:
    """Writes one shard from its parts, and leaves the parts as they are.

    Args:
      keyed: the key of the shard, and its parts in any order.
      names: file names of the shards.
      with_index: whether the parts have indices.
      fence: of a build, which has removed the files that it replaces; without one, files of these names are replaced.

    Raises:
      BuildError: a part does not have its bytes, or the shard does not; or another build has taken over.
    """
    if fence:
        fence.check()
    key, found = keyed
    parts = sorted((part for part in found if part is not None), key=part_order)
    index = names.index(key) if with_index else None
    index_sha256 = first_key = None
    if index:
        index_sha256, first_key = _compose_index(
            parts, storage.join(names.folder, index), staging=names.staging, fence=fence
        )
    return Shard(
        split=key[0],
        number=key[1],
        of=key[2],
        file=names.shard(key),
        records=sum(part.records for part in parts),
        bytes=sum(part.bytes for part in parts),
        crc32c=_compose_records(
            parts, storage.join(names.folder, names.shard(key)), staging=names.staging, fence=fence
        ),
        index=index,
        index_sha256=index_sha256,
        first_key=first_key,
    )


def _compose_records(parts: Sequence[Part], path: str, *, staging: str, fence: Fence | None) -> str:
    """Concatenates the files of parts; returns the CRC-32C of the result in hex digits, from those of the parts."""
    crc = 0
    for part in parts:
        crc = crc32c.combine(crc, part.crc32c, part.bytes)
    sources, size = [part.uri for part in parts], sum(part.bytes for part in parts)
    if fence is None:
        found = storage.concatenate(sources, path, staging=staging)
    else:
        try:
            found = storage.concatenate(sources, path, staging=staging, replaces=False, check=fence.check)
        except FileExistsError as error:  # by an earlier attempt at this shard, or by another build
            fence.check()
            found = storage.crc32c(path)
            if found != crc or storage.stat(path).size != size:
                raise storage.written_by_another(path) from error
    stored = storage.stat(path).size
    if stored != size:
        for part in parts:
            if (length := storage.stat(part.uri).size) != part.bytes:
                raise BuildError(f"{part.uri} has {length} bytes, but {part.bytes} were written to it")
        raise BuildError(f"{path} has {stored} bytes, but {size} were written to it")
    # None where the store does not know it.
    if found not in (None, crc):
        folder = storage.dirname(parts[0].uri)
        raise BuildError(
            f"{path} has CRC-32C {found:08x}, but {crc:08x} was written; a part is damaged: delete {folder} and give "
            "the same command again"
        )
    return crc32c.to_hex(crc)


def _compose_index(parts: Sequence[Part], path: str, *, staging: str, fence: Fence | None) -> tuple[str, str | None]:
    """Concatenates the indices of parts, offsets moved; returns the hex SHA-256 of the result and its first key."""
    begin = 0
    first_key = None
    sink = pa.BufferOutputStream()
    # From a store, one after the other would take a request's time for every part.
    tables = map_in_threads(read_index, parts, threads=_READERS) if storage.has_scheme(path) else map(read_index, parts)
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for part, table in zip(parts, tables, strict=True):
            first_key = first_key or table["key"][0].as_py()
            column = table.schema.get_field_index("offset")
            # Importing Arrow's compute functions, or what pa.array needs of NumPy, takes longer than this does.
            offsets = table["offset"].to_numpy() + begin
            moved = pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)])
            writer.write_table(table.set_column(column, INDEX_SCHEMA.field("offset"), moved))
            begin += part.stream_bytes
    data = sink.getvalue()
    if fence is None:
        storage.write_bytes(path, memoryview(data), staging=staging)
    else:
        storage.write_once(path, memoryview(data), staging=staging, check=fence.check)
    digest = hashlib.sha256(data).hexdigest()
    # Arrow would keep the memory of one shard, and with the next one take more.
    pa.default_memory_pool().release_unused()
    return digest, first_key
