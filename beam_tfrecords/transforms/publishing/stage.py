"""OpenOutput and PublishDataset: counts and shards in; a dataset with its metadata out, `_SUCCESS` last.

FailUnpublished lets a job fail that nobody waits for, if it has published nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import apache_beam as beam

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.transforms.publishing.decide import Decision, open_output
from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.publishing.publish import publish_dataset
from beam_tfrecords.transforms.stats import Stats


class OpenOutput(beam.PTransform):
    """Decides whether a dataset is to be published, and if so makes room for it: Stats -> Decision.

    Args:
      publication: what publishing needs to know.
    """

    def __init__(self, publication: Publication) -> None:
        super().__init__()
        self._publication = publication

    def expand(self, stats: beam.PCollection[Stats]) -> beam.PCollection[Decision]:
        return stats | "Decide" >> beam.Map(storage.with_storage_options(open_output), publication=self._publication)


class PublishDataset(beam.PTransform):
    """Writes everything that is not a shard or an index: Shard -> nothing.

    Args:
      publication: what publishing needs to know.
      stats: the counts of the build, one value.
      decision: of `OpenOutput`, one value.
      lists: kind and path of files with rejected samples, and with what has changed since the version before.
      duplicates: files with groups of identical images.
    """

    def __init__(
        self,
        publication: Publication,
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
                storage.with_storage_options(_publish),
                publication=self._publication,
                shards=beam.pvalue.AsIter(shards),
                **self._inputs,
            )
        )


class FailUnpublished(beam.PTransform):
    """Fails if a limit or guard did not allow to publish: anything, once publishing is done -> nothing.

    Args:
      decision: of `OpenOutput`, one value.
    """

    def __init__(self, decision: beam.PCollection[Decision]) -> None:
        super().__init__()
        self._decision = beam.pvalue.AsSingleton(decision)

    def expand(self, published: beam.PCollection[Any]) -> beam.PCollection[None]:
        # A runner tries again what fails: this, and not publishing.
        return published | "AfterPublishing" >> beam.Reshuffle() | "Fail" >> beam.Map(_fail, decision=self._decision)


def _publish(_: bytes, *, publication: Publication, lists: Iterable[tuple[str, str]], **found: Any) -> None:
    files = defaultdict[str, list[str]](list)
    for kind, file in lists:
        files[kind].append(file)
    publish_dataset(publication, failures=files["failures"], changes=files["changes"], **found)


def _fail(_: Any, decision: Decision) -> None:
    if not decision.publishes:
        why = "; ".join([*decision.causes, *(f"guard {result}" for result in decision.violated)])
        raise BuildError(f"nothing was published: {why}; `status` says more")
