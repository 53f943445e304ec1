"""OpenOutput and PublishDataset: counts and shards in, a dataset with its metadata out."""

from __future__ import annotations

import apache_beam as beam

from transforms.publication import Publication, open_output, publish_dataset
from transforms.stats import Stats
from transforms.values import Shard


class OpenOutput(beam.PTransform):
    """Decides whether a dataset is to be published, and if so makes room for it: Stats -> bool.

    Args:
      publication: what publishing needs to know.
    """

    def __init__(self, publication: Publication) -> None:
        super().__init__()
        self._publication = publication

    def expand(self, stats: beam.PCollection[Stats]) -> beam.PCollection[bool]:
        """Adds the deciding step."""
        return stats | "Decide" >> beam.Map(open_output, publication=self._publication)


class PublishDataset(beam.PTransform):
    """Writes everything that is not a shard or an index: Shard -> nothing.

    Args:
      publication: what publishing needs to know.
      stats: the build's counts, one value.
      failures: files with refused samples.
      duplicates: files with groups of identical images.
    """

    def __init__(
        self,
        publication: Publication,
        *,
        stats: beam.PCollection[Stats],
        failures: beam.PCollection[str],
        duplicates: beam.PCollection[str],
    ) -> None:
        super().__init__()
        self._publication = publication
        self._stats = stats
        self._failures = failures
        self._duplicates = duplicates

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[None]:
        """Adds the publishing step."""
        return (
            shards.pipeline
            | "Once" >> beam.Impulse()
            | "WriteMetadata"
            >> beam.Map(
                lambda _, shards, stats, failures, duplicates, publication: publish_dataset(
                    publication,
                    shards=list(shards),
                    stats=stats,
                    failures=list(failures),
                    duplicates=list(duplicates),
                ),
                shards=beam.pvalue.AsIter(shards),
                stats=beam.pvalue.AsSingleton(self._stats),
                failures=beam.pvalue.AsIter(self._failures),
                duplicates=beam.pvalue.AsIter(self._duplicates),
                publication=self._publication,
            )
        )
