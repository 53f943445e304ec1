"""Parts: files of records written by one block, each with its index beside it."""

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

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import crc32c, storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.index import INDEX_SCHEMA, read_columns
from beam_tfrecords.tfrecord import FRAME_BYTES, Compression, frame
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

PART_BYTES = 16 << 20
# A shard is off its share by at most one part, so small shards want parts that are smaller still.
PARTS_PER_SHARD = 8
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
RangeKey: TypeAlias = "tuple[str, int]"
# Hashes, one behind the other. `Part` has another meaning of `bytes`.
Packed: TypeAlias = bytes


@dataclasses.dataclass(frozen=True)
class Part:
    """A finished part file.

    Attributes:
      block: block that wrote it; parts of a split are ordered by (block, number).
      stream_bytes: size of its uncompressed content.
      hashes: the first 8 bytes of the content hash of every image, as `pack_hashes` has them; None if the part is
        known from a marker, and its index tells.
    """

    split: str
    block: int
    number: int
    uri: str
    bytes: int
    stream_bytes: int
    records: int
    crc32c: int
    index: str | None
    index_bytes: int = 0
    index_crc32c: int = 0
    hashes: Packed | None = dataclasses.field(default=None, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class PartPolicy:
    """When a part ends.

    Attributes:
      bytes: a part ends once its file has this size.
      records: a part ends once it has this many records.
    """

    bytes: int = PART_BYTES
    records: int | None = None

    @classmethod
    def plan(cls, *, shard_size: int, num_shards: int | None, samples: int, output_bytes: int) -> PartPolicy:
        """The policy of a split, from the spec and the listing alone."""
        if num_shards is None:
            return cls(bytes=max(1, min(PART_BYTES, shard_size // PARTS_PER_SHARD)))
        wanted = num_shards * PARTS_PER_SHARD
        return cls(bytes=max(1, min(PART_BYTES, output_bytes // wanted)), records=max(1, samples // wanted))


class PartWriter(contextlib.AbstractContextManager["PartWriter"]):
    """Appends records to parts, which appear under their names once they are complete.

    As a context manager, it discards the unfinished part if an error is raised.

    Args:
      stem: beginning of their names, unique to the content of this writer.
      measure: makes columns of the index from the `quality` of rows.
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
    ) -> None:
        self._folder = folder
        self._stem = stem
        self._split = split
        self._block = block
        self._policy = policy
        self._gzip = compression == "gzip"
        self._measure = measure
        self._parts: list[Part] = []
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
            if self._policy.records is not None:
                stop = min(stop, done + self._policy.records - self._records)
            stop = min(stop, len(frames))
            if columns:
                self._index(columns, slice(done, stop))
                start = self._stream_bytes - ends[done]
                self._extend("offset", [start + end for end in ends[done:stop]])
                self._extend("length", lengths[done:stop])
            self._write_frames(frames[done:stop])
            self._stream_bytes += ends[stop] - ends[done]
            self._records += stop - done
            self._roll_if_full()
            done = stop

    def close(self) -> list[Part]:
        """Ends the last part and returns all."""
        if self._records:
            self._roll()
        while self._pending:
            self._pending.popleft().result()
        if self._threads:
            self._threads.shutdown()
        return self._parts

    @property
    def _uri(self) -> str:
        return storage.join(self._folder, f"{self._stem}-{len(self._parts):04d}.tfrecord")

    def _begin(self) -> None:
        self._bytes = 0
        self._crc32c = 0
        # 16 + MAX_WBITS: a GZIP member, whose header zlib writes without time or name.
        self._compressor = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        # Rows behind the last value of a column are null in it, so that one which no row has costs nothing.
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        # Number of a row -> what is measured of it.
        self._unmeasured: dict[int, Any] = {}
        self._stream_bytes = 0
        self._records = 0

    def _index(self, columns: Mapping[str, Sequence[Any]], rows: slice) -> None:
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
        """Writes framed records; large ones without a copy."""
        is_large = len(frames) == 1 and len(frames[0][1]) > _SMALL_BYTES
        for piece in frames[0] if is_large else (b"".join(itertools.chain.from_iterable(frames)),):
            self._write(self._compressor.compress(piece) if self._gzip else piece)

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

    def _roll_if_full(self) -> None:
        full = self._policy.records is not None and self._records >= self._policy.records
        if full or self._bytes >= self._policy.bytes:
            self._roll()

    def _roll(self) -> None:
        if self._gzip:
            self._write(self._compressor.flush())
        self._finish(self._opened.pop_all().close)
        index, index_bytes, index_crc32c = None, 0, 0
        self._measure_rows()
        if self._columns["key"]:
            index = f"{self._uri}.parquet"
            rows = pa.BufferOutputStream()
            columns: dict[str, Any] = {}
            for field in INDEX_SCHEMA:
                values = self._columns.get(field.name, [])
                missing = [None] * (self._records - len(values))
                columns[field.name] = [*values, *missing] if values else pa.nulls(self._records, field.type)
            # A temporary file: what makes that of a shard smaller takes two thirds of the time to write it.
            table = pa.table(columns, schema=INDEX_SCHEMA)
            pq.write_table(table, rows, compression="none", use_dictionary=False, write_statistics=False)
            data = rows.getvalue().to_pybytes()
            index_bytes, index_crc32c = len(data), crc32c.value(data)
            self._finish(storage.write_bytes, index, data)
        part = Part(
            split=self._split,
            block=self._block,
            number=len(self._parts),
            uri=self._uri,
            bytes=self._bytes,
            stream_bytes=self._stream_bytes,
            records=self._records,
            crc32c=self._crc32c,
            index=index,
            index_bytes=index_bytes,
            index_crc32c=index_crc32c,
            hashes=pack_hashes(self._columns["content_hash"]),
        )
        self._parts.append(part)
        self._begin()


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
    """The index of a part: all columns, or the ones named.

    Raises:
      BuildError: it is damaged, or does not have a row for every record.
    """
    if part.index is None:
        raise BuildError(f"{part.uri} has no index beside it")
    with naming_damage(part.index):
        table = read_columns(storage.read_bytes(part.index), columns)
    if table.num_rows != part.records:
        raise BuildError(f"{part.index} has {table.num_rows} rows, but its part has {part.records} records")
    return table
