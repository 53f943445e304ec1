"""PublishDataset: the files that make shards a dataset, `_SUCCESS` last."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam

from transforms import storage
from transforms.dataset import BUILD_FOLDER, FAILURES, MANIFEST, SUCCESS, open_dataset
from transforms.errors import BuildError
from transforms.examples.layouts import Layout
from transforms.images.spec import ImageSpec
from transforms.stats import Stats
from transforms.tfds_metadata import write_metadata
from transforms.values import Shard

OUTCOME = "outcome.json"
_OLD_FILES = "old_files.json"


@dataclasses.dataclass(frozen=True)
class Publication:
    """What publishing needs to know beside the shards.

    Attributes:
      output: the dataset's folder.
      folder: the build's folder for temporary files.
      name: the dataset's name.
      layout: features of an example.
      image: how images were converted.
      class_names: classes in index order.
      listed: split -> samples listed; "" holds those without a valid split.
      max_failures: share of the samples that may fail.
      facts: what the manifest says beside the results: spec, versions, input fingerprint, skipped files.
    """

    output: str
    folder: str
    name: str
    layout: Layout
    image: ImageSpec
    class_names: tuple[str, ...]
    listed: Mapping[str, int]
    max_failures: float
    facts: Mapping[str, Any]

    def is_publishable(self, stats: Stats) -> bool:
        """Whether there are records, and no more failures than allowed."""
        return stats.total("written") > 0 and stats.total("failed") <= self.max_failures * sum(self.listed.values())


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
    """

    def __init__(
        self, publication: Publication, *, stats: beam.PCollection[Stats], failures: beam.PCollection[str]
    ) -> None:
        super().__init__()
        self._publication = publication
        self._stats = stats
        self._failures = failures

    def expand(self, shards: beam.PCollection[Shard]) -> beam.PCollection[None]:
        """Adds the publishing step."""
        return (
            shards.pipeline
            | "Once" >> beam.Create([None])
            | "WriteMetadata"
            >> beam.Map(
                lambda _, shards, stats, failures, publication: publish_dataset(
                    publication, shards=list(shards), stats=stats, failures=list(failures)
                ),
                shards=beam.pvalue.AsIter(shards),
                stats=beam.pvalue.AsSingleton(self._stats),
                failures=beam.pvalue.AsIter(self._failures),
                publication=self._publication,
            )
        )


def open_output(stats: Stats, *, publication: Publication) -> bool:
    """Checks that no sample was lost; removes an older dataset if the new one is to take its place.

    Raises:
      BuildError: if samples listed are not records written plus failures.
    """
    check_counts(stats, listed=publication.listed)
    if not publication.is_publishable(stats):
        return False
    # Written down first: if this attempt dies half-way, the next one finds what is left to remove, and
    # never removes what has been composed under the same name since.
    note = storage.join(publication.folder, _OLD_FILES)
    success = storage.join(publication.output, SUCCESS)
    if storage.exists(success):
        storage.write_bytes(note, json.dumps(list(open_dataset(publication.output).files)).encode())
        storage.delete_files([success])
    if storage.exists(note):
        files = json.loads(storage.read_bytes(note))
        storage.delete_files(storage.join(publication.output, file) for file in files)
        storage.delete_files([note])
    return True


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Holds the rule that nothing is lost: listed = written + failed, for every split.

    Raises:
      BuildError: if it is broken; the message has both numbers.
    """
    for split, expected in listed.items():
        written, failed = stats.total("written", split), stats.total("failed", split)
        if written + failed != expected:
            raise BuildError(
                f"split {split or '(none)'}: {expected} samples were listed, but {written} were written and "
                f"{failed} refused; the build lost {expected - written - failed}"
            )


def publish_dataset(publication: Publication, *, shards: list[Shard], stats: Stats, failures: list[str]) -> None:
    """Writes failures and, if there are not too many, metadata, manifest and `_SUCCESS`.

    Raises:
      BuildError: if the shards do not hold the records that were written.
    """
    publishable = publication.is_publishable(stats)
    # A finished dataset that stays keeps its own list of failures.
    stays = not publishable and storage.exists(storage.join(publication.output, SUCCESS))
    failures_path = storage.join(publication.folder if stays else publication.output, FAILURES)
    _compose_failures(sorted(failures), failures_path)
    if not publishable:
        outcome = {"listed": dict(publication.listed), "stats": stats.to_json(), "failures": failures_path}
        storage.write_bytes(storage.join(publication.folder, OUTCOME), dump_json(outcome))
        return
    for split, written in stats.by("written").items():
        records = sum(shard.records for shard in shards if shard.split == split)
        if records != written:
            raise BuildError(f"split {split}: {written} records were written, but its shards hold {records}")
    shards = sorted(shards, key=lambda shard: (shard.split, shard.number))
    metadata = write_metadata(
        name=publication.name,
        layout=publication.layout,
        image=publication.image,
        class_names=publication.class_names,
        shards=shards,
    )
    for name, content in metadata.items():
        storage.write_bytes(storage.join(publication.output, name), content)
    manifest = dump_json(manifest_json(publication, shards=shards, stats=stats, files=sorted(metadata)))
    storage.write_bytes(storage.join(publication.output, MANIFEST), manifest)
    # It names the manifest it belongs to, so that an edited one is found out.
    success = dump_json({"manifest_sha256": hashlib.sha256(manifest).hexdigest()})
    storage.write_bytes(storage.join(publication.output, SUCCESS), success)
    storage.delete_tree(storage.join(publication.output, BUILD_FOLDER))


def manifest_json(publication: Publication, *, shards: list[Shard], stats: Stats, files: list[str]) -> dict[str, Any]:
    """The manifest: the same for the same data and spec, whoever built it, so it has no times in it."""
    splits = {
        split: {
            "listed": listed,
            "records": stats.total("written", split),
            "failures": stats.total("failed", split),
            "bytes": sum(shard.bytes for shard in shards if shard.split == split),
            "shards": sum(shard.split == split for shard in shards),
            "classes": stats.by("class", split),
        }
        for split, listed in sorted(publication.listed.items())
        if split
    }
    reasons: dict[str, int] = {}
    for split in publication.listed:
        for reason, count in stats.by("failed", split).items():
            reasons[reason] = reasons.get(reason, 0) + count
    return {
        "name": publication.name,
        "listed": sum(publication.listed.values()),
        "records": stats.total("written"),
        "failures": stats.total("failed"),
        "failure_reasons": dict(sorted(reasons.items())),
        "source_bytes": stats.total("source_bytes"),
        "class_names": list(publication.class_names),
        "splits": splits,
        "shards": [shard.to_json() for shard in shards],
        "files": [*files, FAILURES],
        **publication.facts,
    }


def dump_json(value: Any) -> bytes:
    """JSON as a person can read it."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _compose_failures(files: Iterable[str], path: str) -> None:
    with storage.open_write(path) as target:
        for file in files:
            with storage.open_read(file) as source:
                for chunk in storage.copy_chunks(source):
                    target.write(chunk)
