"""PlanShards and ComposeShards: consecutive parts become shards of about the size that was asked for."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from transforms import storage
from transforms.errors import BuildError
from transforms.parts import INDEX_SCHEMA
from transforms.values import Part, Shard

# Totals are kept per range of so many blocks: a billion images are some three thousand ranges, which
# every worker can hold, and each range finds its own shards from a prefix sum.
RANGE_BLOCKS = 1024

RangeKey: TypeAlias = "tuple[str, int]"
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


class PlanShards(beam.PTransform):
    """Cuts each split into shards: Part -> ((split, shard, of), [Part]).

    Args:
      shard_size: bytes of a shard.
      num_shards: fixed number of shards per split, or None.
    """

    def __init__(self, *, shard_size: int, num_shards: int | None = None) -> None:
        super().__init__()
        self._policy = {"shard_size": shard_size, "num_shards": num_shards}

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]:
        """Adds the planning steps."""
        by_range = parts | "KeyByRange" >> beam.Map(_key_by_range)
        totals = beam.pvalue.AsDict(by_range | "Sizes" >> beam.MapTuple(_size) | beam.CombinePerKey(sum))
        # (split, range) -> [Part]
        placed = (
            by_range
            | "GroupRanges" >> beam.GroupByKey()
            | "PlaceParts" >> beam.FlatMap(place_parts, totals, **self._policy)
        )
        # A fixed number of shards may be more than there are parts; the empty ones are written too.
        every = (
            parts.pipeline
            | "Once" >> beam.Create([None])
            | "EveryShard" >> beam.FlatMap(_every_shard, totals, **self._policy)
        )
        return (placed, every) | beam.Flatten() | "GroupShards" >> beam.GroupByKey()


class ComposeShards(beam.PTransform):
    """Concatenates parts to shards, and their indices likewise: ((split, shard, of), [Part]) -> Shard.

    Args:
      names: how shards are called and where they go.
      with_index: whether the parts have indices.
    """

    def __init__(self, names: ShardNames, *, with_index: bool = True) -> None:
        super().__init__()
        self._names = names
        self._with_index = with_index

    def expand(self, shards: beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]) -> beam.PCollection[Shard]:
        """Adds the composing step."""
        return shards | "Concatenate" >> beam.Map(compose_shard, names=self._names, with_index=self._with_index)


def count_shards(total: int, *, shard_size: int, num_shards: int | None) -> int:
    """The number of shards of a split of `total` bytes."""
    return num_shards or max(1, round(total / shard_size))


def find_shard(*, start: int, size: int, total: int, shards: int) -> int:
    """The shard of a part that takes [start, start + size) of its split's `total` bytes.

    Cuts are at i * total / shards, moved to the nearest end of a part, so that every shard is within
    one part of total / shards.
    """
    return min(shards - 1, (2 * start + size) * shards // (2 * total)) if total else 0


def place_parts(
    keyed: tuple[RangeKey, Iterable[Part]],
    totals: Mapping[RangeKey, int],
    *,
    shard_size: int,
    num_shards: int | None,
) -> Iterator[tuple[ShardKey, Part | None]]:
    """Gives every part of one range of blocks its shard."""
    (split, number), parts = keyed
    total = sum(size for (other, _), size in totals.items() if other == split)
    start = sum(size for (other, earlier), size in totals.items() if other == split and earlier < number)
    shards = count_shards(total, shard_size=shard_size, num_shards=num_shards)
    for part in sorted(parts, key=_part_order):
        yield (split, find_shard(start=start, size=part.bytes, total=total, shards=shards), shards), part
        start += part.bytes


def compose_shard(keyed: tuple[ShardKey, Iterable[Part | None]], *, names: ShardNames, with_index: bool) -> Shard:
    """Writes one shard from its parts.

    Raises:
      BuildError: if a part has not the size that its marker says.
    """
    key, parts = keyed
    ordered = sorted((part for part in parts if part is not None), key=_part_order)
    file = names.shard(key)
    size = 0
    digest = hashlib.sha256()
    with storage.open_write(storage.join(names.folder, file)) as target:
        for part in ordered:
            begin = size
            with storage.open_read(part.uri) as source:
                for chunk in storage.copy_chunks(source):
                    target.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
            if size - begin != part.bytes:
                raise BuildError(f"{part.uri} has {size - begin} bytes, but {part.bytes} were written to it")
    index = names.index(key) if with_index else None
    return Shard(
        split=key[0],
        number=key[1],
        of=key[2],
        file=file,
        records=sum(part.records for part in ordered),
        bytes=size,
        sha256=digest.hexdigest(),
        index=index,
        index_sha256=_compose_index(ordered, storage.join(names.folder, index)) if index else None,
    )


def _compose_index(parts: Iterable[Part], path: str) -> str:
    begin = 0
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, INDEX_SCHEMA) as writer:
        for part in parts:
            if part.index is None:
                raise BuildError(f"{part.uri} has no index beside it")
            with storage.open_read(part.index) as source:
                table = pq.read_table(pa.BufferReader(source.read()), schema=INDEX_SCHEMA)
            column = table.schema.get_field_index("offset")
            moved = pc.add(table["offset"], pa.scalar(begin, pa.int64()))
            writer.write_table(table.set_column(column, INDEX_SCHEMA.field("offset"), moved))
            begin += part.stream_bytes
    data = sink.getvalue()
    storage.write_bytes(path, memoryview(data))
    return hashlib.sha256(data).hexdigest()


def _part_order(part: Part) -> tuple[int, int, str]:
    return part.block, part.number, part.uri


def _key_by_range(part: Part) -> tuple[RangeKey, Part]:
    return (part.split, part.block // RANGE_BLOCKS), part


def _size(key: RangeKey, part: Part) -> tuple[RangeKey, int]:
    return key, part.bytes


def _every_shard(
    _: None, totals: Mapping[RangeKey, int], *, shard_size: int, num_shards: int | None
) -> Iterator[tuple[ShardKey, Part | None]]:
    for split in {split for split, _ in totals}:
        total = sum(size for (other, _), size in totals.items() if other == split)
        shards = count_shards(total, shard_size=shard_size, num_shards=num_shards)
        for number in range(shards):
            yield (split, number, shards), None
