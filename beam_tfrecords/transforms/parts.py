"""Parts: files of records written by one block, with one index for all of the block beside them."""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import itertools
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import crc32c, storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.index import INDEX_SCHEMA, read_columns
from beam_tfrecords.tfrecord import FRAME_BYTES, Compression, frame
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

PART_BYTES = 16 << 20
# A GZIP member cannot be cut, so a shard is off its share by at most one.
MEMBERS_PER_SHARD = 8
# Totals are kept per range of this many blocks: a billion images are some three thousand ranges, which every
# worker can hold, and each range finds its own shards from a prefix sum.
RANGE_BLOCKS = 1024
# Files that are uploaded at once, each held on the disk.
_UPLOADS = 4
# A record of up to so many bytes is copied into its frame, which takes less than writing the three pieces of it.
_SMALL_BYTES = 4096
# Rows whose images are measured at once; up to 16 KB each are held until then.
_MEASURED = 64
_NO_COLUMNS: Mapping[str, Sequence[Any]] = {}
# Where a part can be cut: the byte where a record begins, and the CRC-32C of the part up to there; -1 for a record that
# does not begin a GZIP member. Shards have neither.
_PLACES = [INDEX_SCHEMA.field(name) for name in ("offset", "length")]
_CUTS = [pa.field("cut", pa.int64(), nullable=False), pa.field("cut_crc32c", pa.int64(), nullable=False)]
RangeKey: TypeAlias = "tuple[str, int]"
# Hashes, one behind the other. `Part` has another meaning of `bytes`.
Packed: TypeAlias = bytes


@dataclasses.dataclass(frozen=True)
class Part:
    """A finished part file.

    Attributes:
      block: block that wrote it; parts of a split are ordered by (block, number).
      stream_bytes: size of its uncompressed content.
      index: of all parts of the block; `index_bytes` and `index_crc32c` are of that file.
      index_group: the row group of this part in it.
      rows: the content of that file, which is not written; None if it is.
      hashes: the first 8 bytes of the content hash of every image, as `pack_hashes` has them; None if the part is
        known from a checkpoint, and its index tells.
    """

    split: str
    block: int
    number: int
    uri: str
    bytes: int
    stream_bytes: int
    records: int
    crc32c: int
    index: str
    index_bytes: int = 0
    index_crc32c: int = 0
    index_group: int = 0
    rows: Packed | None = dataclasses.field(default=None, repr=False)
    hashes: Packed | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class PartPolicy:
    """When a part ends, and where a compressed one can be cut; an uncompressed one can be cut at every record.

    Attributes:
      bytes: a part ends once its file has this size.
      member_bytes: a GZIP member ends once it has this size.
      member_records: a GZIP member ends once it has this many records.
    """

    bytes: int = PART_BYTES
    member_bytes: int = PART_BYTES
    member_records: int | None = None

    @classmethod
    def plan(
        cls, *, compression: Compression, shard_size: int, num_shards: int | None, samples: int, output_bytes: int
    ) -> PartPolicy:
        """The policy of a split, from the spec and the listing alone."""
        if compression == "none":
            return cls()
        if num_shards is None:
            return cls(member_bytes=max(1, min(PART_BYTES, shard_size // MEMBERS_PER_SHARD)))
        wanted = num_shards * MEMBERS_PER_SHARD
        return cls(
            member_bytes=max(1, min(PART_BYTES, output_bytes // wanted)), member_records=max(1, samples // wanted)
        )


@dataclasses.dataclass(frozen=True)
class Cuts:
    """Where a part can be cut: arrays with one value for each cut, its beginning and its end included.

    Attributes:
      rows: the number of the record behind the cut.
      begins: bytes of the part before the cut.
      crcs: their CRC-32C.
    """

    rows: Any
    begins: Any
    crcs: Any


class PartWriter(contextlib.AbstractContextManager["PartWriter"]):
    """Appends records to parts, which appear under their names once they are complete.

    As a context manager, it discards the unfinished part if an error is raised.

    Args:
      stem: beginning of the names of its files, unique to the content of this writer.
      measure: makes columns of the index from the `quality` of rows.
      most_index_bytes: of an index that a part may hold itself where the folder is in a store: a request less to write
        it, and one less to read it.
    """

    def __init__(
        self,
        *,
        folder: str,
        stem: str,
        split: str,
        block: int,
        policy: PartPolicy,
        compression: Compression,
        measure: Callable[[Sequence[Any]], Mapping[str, Sequence[float]]] | None = None,
        most_index_bytes: int = 0,
    ) -> None:
        self._folder = folder
        self._stem = stem
        self._split = split
        self._block = block
        self._policy = policy
        self._gzip = compression == "gzip"
        self._measure = measure
        self._most_index_bytes = most_index_bytes if storage.has_scheme(folder) else 0
        self._parts: list[Part] = []
        self._index: pq.ParquetWriter | None = None
        self._opened = contextlib.ExitStack()
        # A store takes its time; the next record need not wait for it.
        self._threads = ThreadPoolExecutor(_UPLOADS) if storage.has_scheme(folder) else None
        self._pending: deque[Future[None]] = deque()
        self._begin()

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)
        if self._threads:
            self._threads.shutdown(cancel_futures=True)

    def add(
        self, examples: Sequence[bytes], crcs: Sequence[int], columns: Mapping[str, Sequence[Any]] = _NO_COLUMNS
    ) -> None:
        """Appends the records of a batch.

        Args:
          crcs: the masked CRC of each example.
          columns: of their index rows and `quality`, without offset and length; rows are null in those that it lacks.
            All batches of a writer have some, or none has.
        """
        frames = frame(examples, crcs)
        lengths = [len(example) + FRAME_BYTES for example in examples]
        ends = [0, *itertools.accumulate(lengths)]
        done = 0
        while done < len(frames):
            if not self._records:
                self._file = self._opened.enter_context(storage.open_write(self._uri))
            # Up to the record that fills the part; compressed, each says only when it is written whether it does.
            room = self._policy.bytes - self._bytes
            stop = done + 1 if self._gzip else bisect.bisect_left(ends, ends[done] + room, done + 1)
            stop = min(stop, len(frames))
            self._add_rows(columns, slice(done, stop))
            start = self._stream_bytes - ends[done]
            self._extend("offset", [start + end for end in ends[done:stop]])
            self._extend("length", lengths[done:stop])
            self._write_frames(frames[done:stop])
            self._stream_bytes += ends[stop] - ends[done]
            self._records += stop - done
            self._end_if_full()
            done = stop

    def close(self) -> list[Part]:
        """Ends the last part, writes the index and returns all parts."""
        if self._records:
            self._roll()
        if self._index is not None:
            self._index.close()
            data = self._index_file.getvalue().to_pybytes()
            rows = data if len(data) <= self._most_index_bytes and len(self._parts) == 1 else None
            if rows is None:
                self._finish(storage.write_bytes, self._index_uri, data)
            size, crc = len(data), crc32c.value(data)
            self._parts = [
                dataclasses.replace(part, index_bytes=size, index_crc32c=crc, rows=rows) for part in self._parts
            ]
        while self._pending:
            self._pending.popleft().result()
        if self._threads:
            self._threads.shutdown()
        return self._parts

    @property
    def _uri(self) -> str:
        return storage.join(self._folder, f"{self._stem}-{len(self._parts):04d}.tfrecord")

    @property
    def _index_uri(self) -> str:
        return storage.join(self._folder, f"{self._stem}.parquet")

    def _begin(self) -> None:
        self._bytes = 0
        self._crc32c = 0
        self._member_records = 0
        # Rows behind the last value of a column are null in it, so that one which no row has costs nothing.
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        self._cuts: list[int] = []
        self._cut_crcs: list[int] = []
        # Number of a row -> what is measured of it.
        self._unmeasured: dict[int, Any] = {}
        self._stream_bytes = 0
        self._records = 0

    def _add_rows(self, columns: Mapping[str, Sequence[Any]], rows: slice) -> None:
        """Adds rows of columns to the index."""
        for column, values in columns.items():
            if column != "quality":
                self._extend(column, values[rows])
                continue
            found = enumerate(values[rows], start=self._records)
            self._unmeasured |= {row: quality for row, quality in found if quality and self._measure}
        if len(self._unmeasured) >= _MEASURED:
            self._measure_rows()

    def _extend(self, column: str, values: Sequence[Any]) -> None:
        """Sets the values of the next rows of the index."""
        known = self._columns[column]
        known.extend([None] * (self._records - len(known)))
        known.extend(values)

    def _measure_rows(self) -> None:
        if self._measure and self._unmeasured:
            for column, values in self._measure(list(self._unmeasured.values())).items():
                known = self._columns[column]
                known.extend([None] * (max(self._unmeasured) + 1 - len(known)))
                for row, value in zip(self._unmeasured, values, strict=True):
                    known[row] = value
        self._unmeasured.clear()

    def _write_frames(self, frames: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Writes framed records and notes where they can be cut; large ones without a copy."""
        if self._gzip and not self._member_records:
            # 16 + MAX_WBITS: a GZIP member, whose header zlib writes without time or name.
            self._compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
            self._member_begin = self._bytes
        for pieces in frames:
            can_cut = not self._gzip or not self._member_records
            self._cuts.append(self._bytes if can_cut else -1)
            self._cut_crcs.append(self._crc32c if can_cut else -1)
            for piece in pieces if len(pieces[1]) > _SMALL_BYTES else (b"".join(pieces),):
                self._write(self._compressor.compress(piece) if self._gzip else piece)
        self._member_records += len(frames) if self._gzip else 0

    def _write(self, piece: bytes) -> None:
        self._file.write(piece)
        self._bytes += len(piece)
        # A second look at 110 KB takes 4 microseconds; combining the CRC of the frame's data would take 120.
        self._crc32c = crc32c.extend(self._crc32c, piece)

    def _finish(self, action: Callable[..., None], *arguments: Any) -> None:
        """Writes a file: at once to a disk, meanwhile to a store."""
        if self._threads is None:
            return action(*arguments)
        self._pending.append(self._threads.submit(action, *arguments))
        if len(self._pending) > _UPLOADS:
            self._pending.popleft().result()

    def _end_if_full(self) -> None:
        """Ends the part, or the GZIP member, if it is full."""
        size, policy = self._member_records, self._policy
        if self._bytes >= policy.bytes:
            self._roll()
        elif size and (size == policy.member_records or self._bytes - self._member_begin >= policy.member_bytes):
            self._end_member()

    def _end_member(self) -> None:
        if self._member_records:
            self._write(self._compressor.flush())
            self._member_records = 0

    def _roll(self) -> None:
        self._end_member()
        self._finish(self._opened.pop_all().close)
        self._measure_rows()
        self._write_rows()
        part = Part(
            split=self._split,
            block=self._block,
            number=len(self._parts),
            uri=self._uri,
            bytes=self._bytes,
            stream_bytes=self._stream_bytes,
            records=self._records,
            crc32c=self._crc32c,
            index=self._index_uri,
            index_group=len(self._parts),
            hashes=pack_hashes(self._columns["content_hash"]),
        )
        self._parts.append(part)
        self._begin()

    def _write_rows(self) -> None:
        """Adds the row group of a part to the index; without columns of the records, only where they are."""
        fields = [*(INDEX_SCHEMA if self._columns["key"] else _PLACES), *_CUTS]
        self._columns |= {"cut": self._cuts, "cut_crc32c": self._cut_crcs}
        columns: dict[str, Any] = {}
        for field in fields:
            values = self._columns.get(field.name, [])
            missing = [None] * (self._records - len(values))
            columns[field.name] = [*values, *missing] if values else pa.nulls(self._records, field.type)
        table = pa.table(columns, schema=pa.schema(fields))
        if self._index is None:
            self._index_file = pa.BufferOutputStream()
            # A temporary file: what makes that of a shard smaller takes two thirds of the time to write it.
            self._index = pq.ParquetWriter(
                self._index_file, table.schema, compression="none", use_dictionary=False, write_statistics=False
            )
        self._index.write_table(table, row_group_size=self._records)


def count_bytes(part: Part) -> Stats:
    """What a part adds to the counts of its build."""
    return Stats({("bytes", part.split): part.bytes})


def without_hashes(part: Part) -> Part:
    """A part as it is shuffled: only the search for duplicates needs the hashes."""
    return dataclasses.replace(part, hashes=None)


def pack_hashes(content_hashes: Iterable[str | None]) -> Packed:
    """The first 8 bytes of every hash, from the column of an index; rows without an image have none."""
    return bytes.fromhex("".join((one or "")[:16] for one in content_hashes))


def read_index(part: Part, *columns: str) -> pa.Table:
    """The index rows of a part: the columns that shards have, or the ones named.

    Raises:
      BuildError: the index is damaged, or does not have a row for every record.
    """
    with naming_damage(part.index):
        data = storage.read_bytes(part.index) if part.rows is None else part.rows
        table = read_columns(data, columns or INDEX_SCHEMA.names, group=part.index_group)
    if table.num_rows != part.records:
        raise BuildError(f"{part.index} has {table.num_rows} rows, but its part has {part.records} records")
    return table


def read_cuts(part: Part) -> Cuts:
    """Where a part can be cut.

    Raises:
      BuildError: as `read_index`.
    """
    table = read_index(part, "cut", "cut_crc32c")
    begins, crcs = (table[name].to_numpy() for name in ("cut", "cut_crc32c"))
    rows = np.flatnonzero(begins >= 0)
    return Cuts(np.append(rows, part.records), np.append(begins[rows], part.bytes), np.append(crcs[rows], part.crc32c))
