"""PlanShards and ComposeShards: consecutive parts become shards of about the size that was asked for."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import apache_beam as beam

from transforms.compose import ShardKey, ShardNames, compose_shard, part_order
from transforms.map_in_processes import MapInProcesses
from transforms.values import Part, Shard

# Totals are kept per range of so many blocks: a billion images are some three thousand ranges, which
# every worker can hold, and each range finds its own shards from a prefix sum.
RANGE_BLOCKS = 1024

RangeKey: TypeAlias = "tuple[str, int]"


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
            | "Once" >> beam.Impulse()
            | "EveryShard" >> beam.FlatMap(_every_shard, totals, **self._policy)
        )
        return (placed, every) | beam.Flatten() | "GroupShards" >> beam.GroupByKey()


class ComposeShards(beam.PTransform):
    """Concatenates parts to shards, and their indices likewise: ((split, shard, of), [Part]) -> Shard.

    Args:
      names: how shards are called and where they go.
      with_index: whether the parts have indices.
      processes: as in `MapInProcesses`.
      merging: as in `compose_shard`.
    """

    def __init__(
        self, names: ShardNames, *, with_index: bool = True, processes: int = 0, merging: str | None = None
    ) -> None:
        super().__init__()
        self._compose = functools.partial(compose_shard, names=names, with_index=with_index, merging=merging)
        self._processes = processes

    def expand(self, shards: beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]) -> beam.PCollection[Shard]:
        """Adds the composing step."""
        return shards | "Concatenate" >> MapInProcesses(self._compose, processes=self._processes)


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
    for part in sorted(parts, key=part_order):
        yield (split, find_shard(start=start, size=part.bytes, total=total, shards=shards), shards), part
        start += part.bytes


def _key_by_range(part: Part) -> tuple[RangeKey, Part]:
    return (part.split, part.block // RANGE_BLOCKS), part


def _size(key: RangeKey, part: Part) -> tuple[RangeKey, int]:
    return key, part.bytes


def _every_shard(
    _: bytes, totals: Mapping[RangeKey, int], *, shard_size: int, num_shards: int | None
) -> Iterator[tuple[ShardKey, Part | None]]:
    for split in {split for split, _ in totals}:
        total = sum(size for (other, _), size in totals.items() if other == split)
        shards = count_shards(total, shard_size=shard_size, num_shards=num_shards)
        for number in range(shards):
            yield (split, number, shards), None
