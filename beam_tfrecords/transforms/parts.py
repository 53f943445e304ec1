"""Parts: the files of records that one block writes, with one index for all parts of the block."""

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
from beam_tfrecords.dataset.index import INDEX_SCHEMA, read_columns
from beam_tfrecords.errors import BuildError
from beam_tfrecords.tfrecord import FRAME_BYTES, Compression, frame
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

PART_BYTES = 16 << 20
# Size limit for the values of one key in a shuffle. Flink joins the values that a task sends for a key to one record,
# and fails the job if this record exceeds a sort buffer: 13 MB for a task manager with 1600m and one slot, 4.4 MB with
# 2000m and four slots, and half of that in a job with all stages.
GROUP_BYTES = 2 << 20
# A GZIP member cannot be cut, so the size of a shard is off by at most one member.
MEMBERS_PER_SHARD = 8
# Totals are kept per range of this many blocks. A billion images have about three thousand ranges, which fit into the
# memory of every worker, and each range finds its own shards from a prefix sum.
RANGE_BLOCKS = 1024
# Parallel uploads; each file is on the local disk until it is uploaded.
_UPLOADS = 4
# Records of up to this many bytes are copied into one buffer with their framing, which is faster than three writes.
_SMALL_BYTES = 4096
_NO_COLUMNS: Mapping[str, Sequence[Any]] = {}
# Columns of possible cuts: start offset of the record, and CRC-32C of the part up to there; both are -1 for a record
# inside a GZIP member. The indices of shards have neither column.
_PLACES = [INDEX_SCHEMA.field(name) for name in ("offset", "length")]
_CUTS = [pa.field("cut", pa.int64(), nullable=False), pa.field("cut_crc32c", pa.int64(), nullable=False)]
RangeKey: TypeAlias = "tuple[str, int]"
# Concatenated hashes. An alias, because `bytes` is a field of `Part`.
Packed: TypeAlias = bytes


@dataclasses.dataclass(frozen=True)
class Part:
    """A finished part file.

    Attributes:
      block: block that wrote the part; parts of a split are ordered by (block, number).
      stream_bytes: bytes of its uncompressed content.
      index: index file of all parts of the block; `index_bytes` and `index_crc32c` describe this file.
      index_group: row group of this part in the index.
      rows: content of the index if it is not written to a file; else None.
      hashes: first 8 bytes of the content hash of every image, from `pack_hashes`; None if the part comes from a
        checkpoint, so that the hashes have to be read from its index.
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
    """Decides when a part ends, and where a compressed part can be cut. An uncompressed part can be cut at any record.

    Attributes:
      bytes: a part ends when its file reaches this size in bytes.
      member_bytes: a GZIP member ends when it reaches this size in bytes.
      member_records: a GZIP member ends when it reaches this number of records; None for no limit.
    """

    bytes: int = PART_BYTES
    member_bytes: int = PART_BYTES
    member_records: int | None = None

    @classmethod
    def plan(
        cls, *, compression: Compression, shard_size: int, num_shards: int | None, samples: int, output_bytes: int
    ) -> PartPolicy:
        """Returns the policy of a split, from the spec and the listing alone."""
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
    """The possible cuts of a part: arrays with one value per cut, including the start and the end of the part.

    Attributes:
      rows: number of the record after the cut.
      begins: bytes of the part before the cut.
      crcs: CRC-32C of these bytes.
    """

    rows: Any
    begins: Any
    crcs: Any


class PartWriter(contextlib.AbstractContextManager["PartWriter"]):
    """Writes records to parts. A part file appears under its name when it is complete.

    As a context manager, discards the unfinished part if an error is raised.

    Args:
      stem: start of the names of its files, unique to the content of this writer.
      most_index_bytes: an index of up to this size is kept in `Part.rows` if the folder is in a store, which saves one
        request to write it and one to read it.
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
        most_index_bytes: int = 0,
    ) -> None:
        self._folder = folder
        self._stem = stem
        self._split = split
        self._block = block
        self._policy = policy
        self._gzip = compression == "gzip"
        self._most_index_bytes = most_index_bytes if storage.has_scheme(folder) else 0
        self._parts: list[Part] = []
        self._index: pq.ParquetWriter | None = None
        self._opened = contextlib.ExitStack()
        # Uploads run in threads, so that the next record need not wait for the store.
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
          columns: index columns except offset and length; missing columns become null. Either all batches of a writer
            have columns, or none has.
        """
        frames = frame(examples, crcs)
        lengths = [len(example) + FRAME_BYTES for example in examples]
        ends = [0, *itertools.accumulate(lengths)]
        done = 0
        while done < len(frames):
            if not self._records:
                self._file = self._opened.enter_context(storage.open_write(self._uri))
            # Stops at the record that fills the part. The compressed size of a record is known only after writing it.
            room = self._policy.bytes - self._bytes
            stop = done + 1 if self._gzip else bisect.bisect_left(ends, ends[done] + room, done + 1)
            stop = min(stop, len(frames))
            for column, values in columns.items():
                self._extend(column, values[done:stop])
            start = self._stream_bytes - ends[done]
            self._extend("offset", [start + end for end in ends[done:stop]])
            self._extend("length", lengths[done:stop])
            self._write_frames(frames[done:stop])
            self._stream_bytes += ends[stop] - ends[done]
            self._records += stop - done
            self._end_if_full()
            done = stop

    def close(self) -> list[Part]:
        """Ends the last part, writes the index, and returns all parts."""
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
        # Rows after the last value of a column are null, so a column without values costs nothing.
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        self._cuts: list[int] = []
        self._cut_crcs: list[int] = []
        self._stream_bytes = 0
        self._records = 0

    def _extend(self, column: str, values: Sequence[Any]) -> None:
        """Sets the values of the next rows of the index."""
        known = self._columns[column]
        known.extend([None] * (self._records - len(known)))
        known.extend(values)

    def _write_frames(self, frames: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Writes framed records without copying large ones, and notes the possible cuts."""
        if self._gzip and not self._member_records:
            # 16 + MAX_WBITS makes a GZIP member with a header without time and name.
            self._compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
            self._member_begin = self._bytes
        for pieces in frames:
            can_partition = not self._gzip or not self._member_records
            self._cuts.append(self._bytes if can_partition else -1)
            self._cut_crcs.append(self._crc32c if can_partition else -1)
            for piece in pieces if len(pieces[1]) > _SMALL_BYTES else (b"".join(pieces),):
                self._write(self._compressor.compress(piece) if self._gzip else piece)
        self._member_records += len(frames) if self._gzip else 0

    def _write(self, piece: bytes) -> None:
        self._file.write(piece)
        self._bytes += len(piece)
        # Computing the CRC of 110 KB again takes 4 microseconds; combining the known CRCs would take 120.
        self._crc32c = crc32c.extend(self._crc32c, piece)

    def _finish(self, action: Callable[..., None], *arguments: Any) -> None:
        """Writes a file: directly to a disk, in the background to a store."""
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
        """Adds the row group of a part to the index; only offsets, lengths and cuts if the writer got no columns."""
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
            # The file is temporary, and compression, dictionaries and statistics would triple the time to write it.
            self._index = pq.ParquetWriter(
                self._index_file, table.schema, compression="none", use_dictionary=False, write_statistics=False
            )
        self._index.write_table(table, row_group_size=self._records)


def count_bytes(part: Part) -> Stats:
    """Returns the counts that a part adds to its build."""
    return Stats({("bytes", part.split): part.bytes})


def without_hashes(part: Part) -> Part:
    """Returns a part without hashes for shuffling, since only the search for duplicates needs them."""
    return dataclasses.replace(part, hashes=None)


def pack_hashes(content_hashes: Iterable[str | None]) -> Packed:
    """Packs the first 8 bytes of every hash of an index column, without rows that have no image."""
    return bytes.fromhex("".join((one or "")[:16] for one in content_hashes))


def read_index(part: Part, *columns: str) -> pa.Table:
    """Reads the index rows of a part: the named columns, or all columns that the indices of shards have.

    Raises:
      BuildError: the index is damaged, or does not have one row per record.
    """
    with naming_damage(part.index):
        data = storage.read_bytes(part.index) if part.rows is None else part.rows
        table = read_columns(data, columns or INDEX_SCHEMA.names, group=part.index_group)
    if table.num_rows != part.records:
        raise BuildError(f"{part.index} has {table.num_rows} rows, but its part has {part.records} records")
    return table


def read_cuts(part: Part) -> Cuts:
    """Reads the possible cuts of a part.

    Raises:
      BuildError: as `read_index`.
    """
    table = read_index(part, "cut", "cut_crc32c")
    begins, crcs = (table[name].to_numpy() for name in ("cut", "cut_crc32c"))
    rows = np.flatnonzero(begins >= 0)
    return Cuts(np.append(rows, part.records), np.append(begins[rows], part.bytes), np.append(crcs[rows], part.crc32c))
