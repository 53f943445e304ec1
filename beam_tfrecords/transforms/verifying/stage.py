"""VerifyShards: checks shards, and reports all problems by shard, record and offset."""

from __future__ import annotations

import apache_beam as beam

from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck


class VerifyShards(beam.PTransform):
    """Checks shards: Shard -> Finding.

    Args:
      check: checks one shard.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, check: ShardCheck, *, processes: int) -> None:
        super().__init__()
        self._check = MapInProcesses(check.find_all, processes=processes)

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[Finding]:
        return shards | "Spread" >> beam.Reshuffle() | "CheckRecords" >> self._check | "Findings" >> beam.FlatMap(iter)
