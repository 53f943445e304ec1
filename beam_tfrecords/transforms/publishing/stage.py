"""OpenOutput and PublishDataset: publish a dataset with its metadata from counts and shards, `_SUCCESS` last.

FailUnpublished fails a job that nobody waits for, if the job has published nothing.
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.publishing.publish import Decision, explain_decision, open_output, publish_dataset
from beam_tfrecords.transforms.stats import Stats


class OpenOutput(beam.PTransform):
    """Decides whether a dataset is published, and prepares the output for it: Stats -> Decision.

    Args:
      publication: settings for publishing, or a side input with them.
    """

    def __init__(self, publication: Publication | AsSingleton) -> None:
        super().__init__()
        self._publication = publication

    def expand(self, stats: beam.PCollection[Stats]) -> beam.PCollection[Decision]:
        return stats | "Decide" >> beam.Map(storage.with_storage_options(open_output), publication=self._publication)


class PublishDataset(beam.PTransform):
    """Writes all files of a dataset except shards and indices: Shard -> nothing.

    Args:
      publication: settings for publishing, or a side input with them.
      stats: the counts of the build, one value.
      decision: decision of `OpenOutput`, one value.
      lists: (kind, path) of files with rejected samples, and of files with changes since the previous version.
      duplicates: files with groups of identical images.
    """

    def __init__(
        self,
        publication: Publication | AsSingleton,
        *,
        stats: beam.PCollection[Stats],
        decision: beam.PCollection[Decision],
        lists: beam.PCollection[tuple[str, str]],
        duplicates: beam.PCollection[str],
    ) -> None:
        super().__init__()
        self._publication = publication
        self._inputs = {
            "stats": beam.pvalue.AsSingleton(stats),
            "decision": beam.pvalue.AsSingleton(decision),
            "lists": beam.pvalue.AsIter(lists),
            "duplicates": beam.pvalue.AsIter(duplicates),
        }

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[None]:
        return (
            shards.pipeline
            | "Once" >> beam.Impulse()
            | "WriteMetadata"
            >> beam.Map(
                storage.with_storage_options(publish_dataset),
                publication=self._publication,
                shards=beam.pvalue.AsIter(shards),
                **self._inputs,
            )
        )


class FailUnpublished(beam.PTransform):
    """Fails if a limit or guard prevented publishing: any element, after publishing has finished -> nothing.

    Args:
      decision: decision of `OpenOutput`, one value.
      publication: settings for publishing, or a side input with them.
    """

    def __init__(self, decision: beam.PCollection[Decision], publication: Publication | AsSingleton) -> None:
        super().__init__()
        self._inputs = {"decision": beam.pvalue.AsSingleton(decision), "publication": publication}

    def expand(self, published: beam.PCollection[Any]) -> beam.PCollection[None]:
        # A runner retries a failed stage; the reshuffle keeps it from retrying publishing.
        return (
            published
            | "AfterPublishing" >> beam.Reshuffle()
            | "Fail" >> beam.Map(storage.with_storage_options(_fail), **self._inputs)
        )


def _fail(_: Any, *, decision: Decision, publication: Publication) -> None:
    if not decision.publishes:
        raise BuildError(explain_decision(decision, publication=publication))
