"""Concatenates pieces of parts and their index rows under the final names."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import crc32c, storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.files import ShardKey, ShardNames
from beam_tfrecords.output.index import INDEX_SCHEMA
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.parts import Part, read_index
from beam_tfrecords.transforms.shards.pieces import Piece, cut_part
from beam_tfrecords.transforms.shards.plan import GroupKey, PlacedPart, part_order
from beam_tfrecords.transforms.workspace.counts import add_shards

_READERS = 8


def compose_shards(
    keyed: tuple[GroupKey, Iterable[PlacedPart | None]],
    *,
    names: ShardNames,
    with_index: bool,
    fence: Fence | None = None,
) -> list[Shard]:
    """Writes a group of consecutive shards from their parts, and leaves the parts as they are.

    Args:
      keyed: the key of the group, and the parts that it may have records of in any order.
      names: file names of the shards.
      with_index: whether the index rows of the records are complete.
      fence: of a build, which has removed the files that it replaces, and whose folder counts shards; without one,
        files of these names are replaced.

    Raises:
      BuildError: a part does not have its bytes, or a shard does not; or another build has taken over.
    """
    group, found = keyed
    split, first, stop, of, _ = group
    placed = sorted((one for one in found if one is not None), key=lambda one: part_order(one[1]))
    pieces: dict[int, list[Piece]] = {number: [] for number in range(first, stop)}
    for start, part in placed:
        for number, piece in cut_part(part, start=start, group=group):
            pieces[number].append(piece)
    rows = _PieceRows([piece.part for found in pieces.values() for piece in found])
    shards = [
        _compose_shard((split, number, of), found, rows if with_index else None, names=names, fence=fence)
        for number, found in pieces.items()
    ]
    # If these are all, publishing follows, and a store is spared a request.
    if fence and not (storage.has_scheme(names.staging) and len(shards) == of):
        add_shards(names.staging, split, of=of, composed=len(shards))
    # Arrow would keep the memory of these shards, and with the next ones take more.
    pa.default_memory_pool().release_unused()
    return shards


class _PieceRows:
    """The index rows of pieces that are asked for in their order; each index is read once.

    Args:
      parts: of the pieces.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        used = list({part.uri: part for part in parts}.values())
        # From a store, one after the other would take a request's time for every part.
        remote = bool(used) and storage.has_scheme(used[0].uri)
        read = map_in_threads(read_index, used, threads=_READERS) if remote else map(read_index, used)
        self._tables = zip(used, read, strict=True)
        self._part: Part | None = None

    def of(self, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
        """The rows of each piece."""
        for piece in pieces:
            while self._part != piece.part:
                self._part, self._table = next(self._tables)
            yield self._table.slice(piece.row, piece.records)


def _compose_shard(
    key: ShardKey, pieces: Sequence[Piece], rows: _PieceRows | None, *, names: ShardNames, fence: Fence | None
) -> Shard:
    check = storage.shared(fence.check) if fence else None
    if check:
        check()
    index = names.index(key) if rows else None
    crc, (index_sha256, index_bytes, first_key) = storage.run_concurrently(
        names.folder,
        functools.partial(
            _compose_records, pieces, storage.join(names.folder, names.shard(key)), staging=names.staging, check=check
        ),
        functools.partial(_compose_index, pieces, rows, index, names=names, check=check),
    )
    return Shard(
        split=key[0],
        number=key[1],
        of=key[2],
        file=names.shard(key),
        records=sum(piece.records for piece in pieces),
        bytes=sum(piece.bytes for piece in pieces),
        crc32c=crc,
        index=index,
        index_sha256=index_sha256,
        index_bytes=index_bytes,
        first_key=first_key,
    )


def _compose_records(pieces: Sequence[Piece], path: str, *, staging: str, check: storage.Check | None) -> str:
    """Concatenates the bytes of pieces; returns the CRC-32C of the result in hex digits, from those of the pieces."""
    crc = 0
    for piece in pieces:
        crc = crc32c.combine(crc, piece.crc32c, piece.bytes)
    sources, size = [piece.source for piece in pieces], sum(piece.bytes for piece in pieces)
    if check is None:
        found = storage.concatenate(sources, path, staging=staging)
    else:
        try:
            found = storage.concatenate(sources, path, staging=staging, replaces=False, check=check)
        except FileExistsError as error:  # by an earlier attempt at this shard, or by another build
            check()
            found = storage.crc32c(path)
            if found != crc or storage.stat(path).size != size:
                raise storage.written_by_another(path) from error
    # None where the store does not know it. A checksum that fits says more than the size.
    stored = size if found == crc else storage.stat(path).size
    if stored != size:
        for part in (piece.part for piece in pieces):
            if (length := storage.stat(part.uri).size) != part.bytes:
                raise BuildError(f"{part.uri} has {length} bytes, but {part.bytes} were written to it")
        raise BuildError(f"{path} has {stored} bytes, but {size} were written to it")
    if found not in (None, crc):
        folder = storage.dirname(pieces[0].part.uri)
        raise BuildError(
            f"{path} has CRC-32C {found:08x}, but {crc:08x} was written; a part is damaged: delete {folder} and give "
            "the same command again"
        )
    return crc32c.to_hex(crc)


def _compose_index(
    pieces: Sequence[Piece],
    rows: _PieceRows | None,
    index: str | None,
    *,
    names: ShardNames,
    check: storage.Check | None,
) -> tuple[str | None, int | None, str | None]:
    """Concatenates index rows, offsets moved; returns the hex SHA-256 of the result, its size and its first key.

    All are None if there are no rows.
    """
    if not (rows and index):
        return None, None, None
    path, staging = storage.join(names.folder, index), names.staging
    begin = 0
    first_key = None
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for table in rows.of(pieces):
            first_key = first_key or table["key"][0].as_py()
            column = table.schema.get_field_index("offset")
            # Importing Arrow's compute functions, or what pa.array needs of NumPy, takes longer than this does.
            offsets, lengths = table["offset"].to_numpy(), table["length"].to_numpy()
            moved = offsets - (offsets[0] - begin)
            begin = moved[-1] + lengths[-1]
            array = pa.Array.from_buffers(pa.int64(), len(moved), [None, pa.py_buffer(moved)])
            writer.write_table(table.set_column(column, INDEX_SCHEMA.field("offset"), array))
    data = sink.getvalue()
    if check is None:
        storage.write_bytes(path, memoryview(data), staging=staging)
    else:
        storage.write_once(path, memoryview(data), staging=staging, check=check)
    return hashlib.sha256(data).hexdigest(), len(data), first_key
