"""VerifyShards: shards in; everything that is wrong with them out, named by shard, record and offset."""

from __future__ import annotations

import apache_beam as beam

from beam_tfrecords.manifest import Shard
from transforms.processes.stage import MapInProcesses
from transforms.verifying.checks import Finding, ShardCheck


class VerifyShards(beam.PTransform):
    """Checks shards: Shard -> Finding."""

    def __init__(self, check: ShardCheck, *, processes: int) -> None:
        super().__init__()
        self._check = check
        self._processes = processes

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[Finding]:
        return (
            shards
            | "Spread" >> beam.Reshuffle()
            | "CheckRecords" >> MapInProcesses(self._check.find_all, processes=self._processes)
            | "Findings" >> beam.FlatMap(lambda findings: findings)
        )
