"""PlanShards and ComposeShards: turn consecutive records into shards of about the requested size."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords.dataset.files import ShardNames
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.parts import Part
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.shards.compose import compose_shards
from beam_tfrecords.transforms.shards.plan import (
    GroupKey,
    PlacedPart,
    ShardPolicy,
    add_sizes,
    every_group,
    key_by_range,
    place_parts,
    size_of,
)


class PlanShards(beam.PTransform):
    """Places the parts of each split in its shards: Part -> (group of shards, [(bytes before the part, Part)])."""

    def __init__(self, policy: ShardPolicy) -> None:
        super().__init__()
        self._policy = policy

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[tuple[GroupKey, Iterable[PlacedPart | None]]]:
        by_range = parts | "KeyByRange" >> beam.Map(key_by_range)
        totals = beam.pvalue.AsDict(by_range | "Sizes" >> beam.MapTuple(size_of) | beam.CombinePerKey(add_sizes))
        # (split, range) -> [Part]
        placed = (
            by_range
            | "GroupRanges" >> beam.GroupByKey()
            | "PlaceParts" >> beam.FlatMap(place_parts, totals, policy=self._policy)
        )
        # A fixed number of shards may exceed the number of records; the empty shards are written too.
        every = (
            parts.pipeline
            | "Once" >> beam.Impulse()
            | "EveryGroup" >> beam.FlatMap(every_group, totals, policy=self._policy)
        )
        return (placed, every) | beam.Flatten() | "GroupParts" >> beam.GroupByKey()


class ComposeShards(beam.PTransform):
    """Concatenates pieces of parts to shards, and their index rows: elements of `PlanShards` -> Shard.

    Args:
      names: as in `compose_shards`, or a side input with it.
      with_index: as in `compose_shards`.
      fence: as in `compose_shards`, or a side input with it.
      processes: as in `MapInProcesses`.
    """

    def __init__(
        self,
        names: ShardNames | AsSingleton,
        *,
        with_index: bool = True,
        fence: Fence | AsSingleton | None = None,
        processes: int = 0,
    ) -> None:
        super().__init__()
        compose = functools.partial(compose_shards, with_index=with_index)
        self._compose = MapInProcesses(compose, processes=processes, names=names, fence=fence)

    def expand(self, groups: beam.PCollection[tuple[GroupKey, Iterable[PlacedPart | None]]]) -> beam.PCollection[Shard]:
        return groups | "Concatenate" >> self._compose | "EachShard" >> beam.FlatMap(iter)
