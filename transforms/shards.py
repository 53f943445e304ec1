"""PlanShards and ComposeShards: consecutive parts become shards of about the requested size."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq

from transforms import storage
from transforms.dataset import Shard
from transforms.errors import BuildError
from transforms.parts import INDEX_SCHEMA, Part, read_index
from transforms.processes.map_in_processes import MapInProcesses

# Totals are kept per range of this many blocks: a billion images are some three thousand ranges, which every
# worker can hold, and each range finds its own shards from a prefix sum.
RANGE_BLOCKS = 1024

RangeKey: TypeAlias = "tuple[str, int]"
# (bytes, records)
Size: TypeAlias = "tuple[int, int]"
# (split, number, of)
ShardKey: TypeAlias = "tuple[str, int, int]"


@dataclasses.dataclass(frozen=True)
class ShardNames:
    """File names of shards and their indices, as TFDS has them.

    Attributes:
      folder: the dataset's folder.
      prefix: what comes before the split.
      staging: folder for unfinished files.
      suffix: what comes between the split and the numbers.
    """

    folder: str
    prefix: str
    staging: str
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


@dataclasses.dataclass(frozen=True)
class ShardPolicy:
    """How many shards a split has.

    Attributes:
      shard_size: bytes of a shard.
      num_shards: fixed number of shards per split, or None.
    """

    shard_size: int
    num_shards: int | None = None

    def count(self, total: int, *, records: int) -> int:
        """The number of shards of a split of `total` bytes: never more than records, unless it is fixed."""
        return self.num_shards or max(1, min(records, round(total / self.shard_size)))


class PlanShards(beam.PTransform):
    """Cuts each split into shards: Part -> ((split, number, of), [Part]).

    Args:
      policy: how many shards a split has.
    """

    def __init__(self, policy: ShardPolicy) -> None:
        super().__init__()
        self._policy = policy

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]:
        by_range = parts | "KeyByRange" >> beam.Map(_key_by_range)
        totals = beam.pvalue.AsDict(by_range | "Sizes" >> beam.MapTuple(_size) | beam.CombinePerKey(_add_sizes))
        # (split, range) -> [Part]
        placed = (
            by_range
            | "GroupRanges" >> beam.GroupByKey()
            | "PlaceParts" >> beam.FlatMap(place_parts, totals, policy=self._policy)
        )
        # A fixed number of shards may exceed the number of parts; the empty shards are written too.
        every = (
            parts.pipeline
            | "Once" >> beam.Impulse()
            | "EveryShard" >> beam.FlatMap(_every_shard, totals, policy=self._policy)
        )
        return (placed, every) | beam.Flatten() | "GroupShards" >> beam.GroupByKey()


class ComposeShards(beam.PTransform):
    """Concatenates parts to shards, and their indices likewise: ((split, number, of), [Part]) -> Shard.

    Args:
      names: file names of the shards.
      with_index: whether the parts have indices.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, names: ShardNames, *, with_index: bool = True, processes: int = 0) -> None:
        super().__init__()
        self._compose = functools.partial(compose_shard, names=names, with_index=with_index)
        self._processes = processes

    def expand(self, shards: beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]) -> beam.PCollection[Shard]:
        return shards | "Concatenate" >> MapInProcesses(self._compose, processes=self._processes)


def find_shard(*, start: int, size: int, total: int, shards: int) -> int:
    """The shard of a part that takes [start, start + size) of its split's `total` bytes.

    Cuts are at i * total / shards, moved to the nearest end of a part, so that every shard is within
    one part of total / shards.
    """
    return min(shards - 1, (2 * start + size) * shards // (2 * total)) if total else 0


def place_parts(
    keyed: tuple[RangeKey, Iterable[Part]], totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[ShardKey, Part | None]]:
    """Assigns every part of one range of blocks to its shard."""
    (split, number), parts = keyed
    total, records = _add_sizes(size for (other, _), size in totals.items() if other == split)
    start, _ = _add_sizes(size for (other, earlier), size in totals.items() if other == split and earlier < number)
    shards = policy.count(total, records=records)
    for part in sorted(parts, key=_part_order):
        yield (split, find_shard(start=start, size=part.bytes, total=total, shards=shards), shards), part
        start += part.bytes


def compose_shard(keyed: tuple[ShardKey, Iterable[Part | None]], *, names: ShardNames, with_index: bool) -> Shard:
    """Writes one shard from its parts, and leaves the parts as they are.

    Args:
      keyed: the key of the shard, and its parts in any order.
      names: file names of the shards.
      with_index: whether the parts have indices.

    Raises:
      BuildError: a part does not have its bytes, or the shard does not.
    """
    key, found = keyed
    parts = sorted((part for part in found if part is not None), key=_part_order)
    index = names.index(key) if with_index else None
    index_sha256 = first_key = None
    if index:
        index_sha256, first_key = _compose_index(parts, storage.join(names.folder, index), staging=names.staging)
    return Shard(
        split=key[0],
        number=key[1],
        of=key[2],
        file=names.shard(key),
        records=sum(part.records for part in parts),
        bytes=sum(part.bytes for part in parts),
        sha256=_compose_records(parts, storage.join(names.folder, names.shard(key)), staging=names.staging),
        index=index,
        index_sha256=index_sha256,
        first_key=first_key,
    )


def _compose_records(parts: Iterable[Part], path: str, *, staging: str) -> str:
    """Concatenates the files of parts; returns the hex SHA-256 of the result."""
    size = 0
    digest = hashlib.sha256()
    with storage.open_write(path, staging=staging) as target:
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


def _compose_index(parts: Iterable[Part], path: str, *, staging: str) -> tuple[str, str | None]:
    """Concatenates the indices of parts, offsets moved; returns the hex SHA-256 of the result and its first key."""
    begin = 0
    first_key = None
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for part in parts:
            table = read_index(part)
            first_key = first_key or table["key"][0].as_py()
            column = table.schema.get_field_index("offset")
            # Importing Arrow's compute functions, or what pa.array needs of NumPy, takes longer than this does.
            offsets = table["offset"].to_numpy() + begin
            moved = pa.Array.from_buffers(pa.int64(), len(offsets), [None, pa.py_buffer(offsets)])
            writer.write_table(table.set_column(column, INDEX_SCHEMA.field("offset"), moved))
            begin += part.stream_bytes
    data = sink.getvalue()
    storage.write_bytes(path, memoryview(data), staging=staging)
    digest = hashlib.sha256(data).hexdigest()
    # Arrow would keep the memory of one shard, and with the next one take more.
    pa.default_memory_pool().release_unused()
    return digest, first_key


def _part_order(part: Part) -> tuple[int, int, str]:
    return part.block, part.number, part.uri


def _key_by_range(part: Part) -> tuple[RangeKey, Part]:
    return (part.split, part.block // RANGE_BLOCKS), part


def _size(key: RangeKey, part: Part) -> tuple[RangeKey, Size]:
    return key, (part.bytes, part.records)


def _add_sizes(sizes: Iterable[Size]) -> Size:
    size_bytes = records = 0
    for size in sizes:
        size_bytes, records = size_bytes + size[0], records + size[1]
    return size_bytes, records


def _every_shard(
    _: bytes, totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[ShardKey, Part | None]]:
    for split in {split for split, _ in totals}:
        total, records = _add_sizes(size for (other, _), size in totals.items() if other == split)
        shards = policy.count(total, records=records)
        for number in range(shards):
            yield (split, number, shards), None
