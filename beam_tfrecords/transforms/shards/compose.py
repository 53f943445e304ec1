"""Cuts parts into pieces, and concatenates pieces and their index rows under the final names."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import crc32c, storage
from beam_tfrecords.dataset.files import ShardKey, ShardNames
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.parts import Cuts, Part, read_cuts, read_index
from beam_tfrecords.transforms.shards.plan import GroupKey, PlacedPart, find_edge, find_shards, part_order
from beam_tfrecords.transforms.workspace.counts import add_step

_READERS = 8


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive records of a part.

    Attributes:
      row: number of the first record in the part.
      begin: offset of its first byte in the part.
      crc32c: checksum of its bytes when they were written.
    """

    part: Part
    row: int
    records: int
    begin: int
    bytes: int
    crc32c: int

    @property
    def source(self) -> str | storage.FileRange:
        """Location of the bytes: the whole part file, or a range of it."""
        uri = self.part.uri
        return uri if self.bytes == self.part.bytes else storage.FileRange(uri, self.begin, self.bytes)


def compose_shards(
    keyed: tuple[GroupKey, Iterable[PlacedPart | None]],
    *,
    names: ShardNames,
    with_index: bool,
    fence: Fence | None = None,
) -> list[Shard]:
    """Writes a group of consecutive shards from their parts, without changing the parts.

    Args:
      keyed: the key of the group, and the parts that may contribute records, in any order.
      names: file names of the shards.
      with_index: whether the parts have complete index rows.
      fence: fence of a build, which has already removed the files that it replaces, and whose folder counts shards;
        None replaces files with these names.

    Raises:
      BuildError: a part or a shard has the wrong size or checksum; or another build has taken over.
    """
    group, found = keyed
    split, first, stop, of, _ = group
    placed = sorted((one for one in found if one is not None), key=lambda one: part_order(one[1]))
    pieces: dict[int, list[Piece]] = {number: [] for number in range(first, stop)}
    for start, part in placed:
        for number, piece in cut_part(part, start=start, group=group):
            pieces[number].append(piece)
    rows = _read_rows(list(itertools.chain.from_iterable(pieces.values()))) if with_index else None
    shards = [
        _compose_shard((split, number, of), found, rows, names=names, fence=fence) for number, found in pieces.items()
    ]
    # If the group has all shards, publishing follows at once, so a store need not get the counts.
    if fence and not (storage.has_scheme(names.staging) and len(shards) == of):
        add_step(names.staging, composed=len(shards), shards={split: of}, pause=0)
    # Otherwise Arrow would keep this memory, and take more for the next shards.
    pa.default_memory_pool().release_unused()
    return shards


def _read_rows(pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """Yields the index rows of each piece; reads each index once, because the pieces of a part follow each other."""
    used = list({piece.part.uri: piece.part for piece in pieces}.values())
    # Reads from a store in parallel, because each part costs the latency of a request.
    remote = bool(used) and storage.has_scheme(used[0].uri)
    tables = map_in_threads(read_index, used, threads=_READERS) if remote else map(read_index, used)
    of_parts = itertools.groupby(pieces, key=lambda piece: piece.part.uri)
    for table, (_, found) in zip(tables, of_parts, strict=True):
        for piece in found:
            yield table.slice(piece.row, piece.records)


def _compose_shard(
    key: ShardKey, pieces: Sequence[Piece], rows: Iterator[pa.Table] | None, *, names: ShardNames, fence: Fence | None
) -> Shard:
    check = storage.SharedCall(fence.check) if fence else None
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
    """Concatenates the bytes of pieces; returns the hex CRC-32C of the result, combined from the CRCs of the pieces."""
    crc = 0
    for piece in pieces:
        crc = crc32c.combine(crc, piece.crc32c, piece.bytes)
    sources, size = [piece.source for piece in pieces], sum(piece.bytes for piece in pieces)
    if check is None:
        found = storage.concatenate(sources, path, staging=staging)
    else:
        try:
            found = storage.concatenate(sources, path, staging=staging, replaces=False, check=check)
        except FileExistsError as error:  # written by an earlier attempt at this shard, or by another build
            check()
            found = storage.crc32c(path)
            if found != crc or storage.stat(path).size != size:
                raise storage.written_by_another(path) from error
    # `found` is None if the store has no checksum. A matching checksum makes checking the size unnecessary.
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
    rows: Iterator[pa.Table] | None,
    index: str | None,
    *,
    names: ShardNames,
    check: storage.Check | None,
) -> tuple[str | None, int | None, str | None]:
    """Concatenates index rows with adjusted offsets; returns hex SHA-256, size in bytes and first key of the index.

    All are None if there is no index.
    """
    if not (rows and index):
        return None, None, None
    path, staging = storage.join(names.folder, index), names.staging
    begin = 0
    first_key = None
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for table in itertools.islice(rows, len(pieces)):
            first_key = first_key or table["key"][0].as_py()
            column = table.schema.get_field_index("offset")
            # Avoids pa.array and Arrow's compute functions, whose imports take longer than this code.
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


def cut_part(part: Part, *, start: int, group: GroupKey) -> Iterator[tuple[int, Piece]]:
    """Yields the pieces of a part for a group of shards, each with the number of its shard.

    Args:
      start: bytes of the split before the part.
      group: key of the group of shards.
    """
    _, first, stop, shards, total = group
    lowest, highest = find_shards(part, start=start, total=total, shards=shards)
    if lowest == highest:
        yield lowest, Piece(part, 0, part.records, 0, part.bytes, part.crc32c)
        return
    cuts = read_cuts(part)
    middles = cuts.begins[:-1] + cuts.begins[1:] + 2 * start
    numbers = range(max(first, lowest), min(stop, highest + 1) + 1)
    edges = [find_edge(number, total=total, shards=shards) for number in numbers]
    places = [int(place) for place in np.searchsorted(middles, edges)]
    if numbers[-1] == shards:
        places[-1] = len(middles)
    for number, low, high in zip(numbers, places, places[1:], strict=False):
        if low < high:
            yield number, _cut(part, cuts, low, high)


def _cut(part: Part, cuts: Cuts, low: int, high: int) -> Piece:
    """Returns the piece between two cuts; computes its CRC from the CRCs of the bytes before each cut."""
    row, stop = int(cuts.rows[low]), int(cuts.rows[high])
    begin, end = int(cuts.begins[low]), int(cuts.begins[high])
    crc = crc32c.combine(int(cuts.crcs[low]), int(cuts.crcs[high]), end - begin)
    return Piece(part, row, stop - row, begin, end - begin, crc)
