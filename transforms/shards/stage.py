"""PlanShards and ComposeShards: consecutive parts become shards of about the requested size."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import apache_beam as beam

from beam_tfrecords.files import ShardKey, ShardNames
from beam_tfrecords.manifest import Shard
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.parts import Part
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.shards.compose import compose_shard
from beam_tfrecords.transforms.shards.plan import (
    ShardPolicy,
    add_sizes,
    every_shard,
    key_by_range,
    place_parts,
    size_of,
)


class PlanShards(beam.PTransform):
    """Cuts each split into shards: Part -> ((split, number, of), [Part])."""

    def __init__(self, policy: ShardPolicy) -> None:
        super().__init__()
        self._policy = policy

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]:
        by_range = parts | "KeyByRange" >> beam.Map(key_by_range)
        totals = beam.pvalue.AsDict(by_range | "Sizes" >> beam.MapTuple(size_of) | beam.CombinePerKey(add_sizes))
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
            | "EveryShard" >> beam.FlatMap(every_shard, totals, policy=self._policy)
        )
        return (placed, every) | beam.Flatten() | "GroupShards" >> beam.GroupByKey()


class ComposeShards(beam.PTransform):
    """Concatenates parts to shards, and their indices likewise: ((split, number, of), [Part]) -> Shard.

    Args:
      with_index: whether the parts have indices.
      fence: as in `compose_shard`.
      processes: as in `MapInProcesses`.
    """

    def __init__(
        self, names: ShardNames, *, with_index: bool = True, fence: Fence | None = None, processes: int = 0
    ) -> None:
        super().__init__()
        self._compose = functools.partial(compose_shard, names=names, with_index=with_index, fence=fence)
        self._processes = processes

    def expand(self, shards: beam.PCollection[tuple[ShardKey, Iterable[Part | None]]]) -> beam.PCollection[Shard]:
        return shards | "Concatenate" >> MapInProcesses(self._compose, processes=self._processes)
