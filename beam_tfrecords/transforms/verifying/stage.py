"""VerifyShards: checks shards, and reports all problems by shard, record and offset."""

from __future__ import annotations

import apache_beam as beam

from beam_tfrecords.dataset.files import MANIFEST
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.verifying.checks import Finding, ShardCheck
from beam_tfrecords.transforms.verifying.classes import ClassCounts, add_counts, compare_counts


class VerifyShards(beam.PTransform):
    """Checks shards: Shard -> Finding.

    Args:
      check: checks one shard.
      classes: class counts of the manifest; None if only some of the shards are checked.
      processes: as in `MapInProcesses`.
    """

    def __init__(self, check: ShardCheck, *, classes: ClassCounts | None, processes: int) -> None:
        super().__init__()
        self._check = check
        self._classes = classes
        self._processes = processes

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[Finding]:
        checked = (
            shards
            | "Spread" >> beam.Reshuffle()
            | "CheckRecords" >> MapInProcesses(self._check.find_all, processes=self._processes)
        )
        findings = checked | "Findings" >> beam.FlatMap(lambda shard: shard.findings)
        if self._classes is None:
            return findings
        miscounted = (
            checked
            | "Classes" >> beam.Map(lambda shard: shard.classes)
            | "AddClasses" >> beam.CombineGlobally(add_counts)
            | "CompareClasses" >> beam.FlatMap(compare_counts, self._classes)
            | "Miscounted" >> beam.Map(lambda problem: Finding(MANIFEST, problem))
        )
        return (findings, miscounted) | "Join" >> beam.Flatten()
