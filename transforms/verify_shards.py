"""VerifyShards: shards in, what is wrong with them out."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from transforms.map_in_processes import MapInProcesses
from transforms.values import Shard
from transforms.verifying import Finding, ShardCheck


class VerifyShards(beam.PTransform):
    """Checks shards wherever the runner likes: Shard -> Finding.

    Args:
      check: what is checked.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, check: ShardCheck, *, processes: int) -> None:
        super().__init__()
        self._check = check
        self._processes = processes

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[Finding]:
        """Adds the checking steps."""
        return (
            shards
            | "Spread" >> beam.Reshuffle()
            | "CheckRecords" >> MapInProcesses(self._check.find_all, processes=self._processes)
            | "Findings" >> beam.FlatMap(_each)
        )


def _each(findings: Iterable[Finding]) -> Iterable[Finding]:
    return findings
