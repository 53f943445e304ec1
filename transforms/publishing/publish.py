"""OpenOutput and PublishDataset: counts and shards in; a dataset with its metadata out, `_SUCCESS` last."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.files import CHANGES, DUPLICATES, FAILURES, INDEX_FOLDER, MANIFEST, SUCCESS
from beam_tfrecords.manifest import Shard
from beam_tfrecords.storage.lease import check_lease
from beam_tfrecords.versions import point_to
from transforms.images.image_spec import ImageSpec
from transforms.publishing.changes import Comparison, History, compare
from transforms.publishing.manifest import dump_json, manifest_json
from transforms.publishing.tfds_metadata import write_metadata
from transforms.request.build_spec import Duplicates
from transforms.stats import Stats
from transforms.workspace.build_folder import BuildFolder, Workspace
from transforms.workspace.output_folder import remove_old_files


@dataclasses.dataclass(frozen=True)
class Publication:
    """What publishing needs to know besides the shards.

    Attributes:
      output: the dataset's folder.
      folder: the build's folder for temporary files.
      name: the dataset's name.
      layout: features of an example.
      image: how images were converted.
      class_names: classes in index order.
      listed: split -> samples listed; "" holds those without a valid split.
      max_failures: share of the samples that may fail.
      duplicates: what happens to images with the same bytes.
      facts: what the manifest says besides the results: spec, versions, input fingerprint, skipped files.
      history: what a version follows; None if there are no versions.
      lease: identifies the lease on an output in an object store; "" without one.
    """

    output: str
    folder: str
    name: str
    layout: Layout
    image: ImageSpec
    class_names: tuple[str, ...]
    listed: Mapping[str, int]
    max_failures: float
    duplicates: Duplicates
    facts: Mapping[str, Any]
    history: History | None = None
    lease: str = ""

    def check_lease(self) -> None:
        """Checks, before a file of the dataset is written or removed, that no other build has taken the lease.

        Raises:
          BuildError: another build has it.
        """
        if self.lease:
            check_lease(Workspace(self.root).lease, self.lease)

    @property
    def root(self) -> str:
        """The folder that was given to `convert`."""
        return self.history.root if self.history else self.output

    def is_publishable(self, stats: Stats) -> bool:
        """Whether there are records, and no more failures or duplicates than allowed."""
        if self.duplicates is Duplicates.FAIL and stats.total("duplicates", "groups"):
            return False
        return stats.total("written") > 0 and stats.total("failed") <= self.max_failures * sum(self.listed.values())


def open_output(stats: Stats, *, publication: Publication) -> bool:
    """Checks that no sample is lost, and removes the dataset that the new one replaces.

    Raises:
      BuildError: the samples listed are not the records written plus failures plus dropped duplicates.
    """
    check_counts(stats, listed=publication.listed)
    if not publication.is_publishable(stats):
        return False
    publication.check_lease()
    remove_old_files(publication.output)
    return True


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Checks that nothing is lost: listed = written + failed + dropped, for every split.

    Raises:
      BuildError: something is lost.
    """
    for split, expected in listed.items():
        written, failed, dropped = (stats.total(what, split) for what in ("written", "failed", "dropped"))
        if written + failed + dropped != expected:
            raise BuildError(
                f"split {split or '(none)'}: {expected} samples were listed, but {written} were written, {failed} "
                f"rejected and {dropped} dropped; the build lost {expected - written - failed - dropped}"
            )


def check_shards(shards: Iterable[Shard], stats: Stats, *, splits: Iterable[str]) -> None:
    """Checks that the shards of every split hold the records that were written, and no other split has any.

    Raises:
      BuildError: they do not.
    """
    records = Counter(dict.fromkeys(splits, 0))
    for shard in shards:
        records[shard.split] += shard.records
    for split, found in records.items():
        written = stats.total("written", split)
        if found != written:
            raise BuildError(f"split {split or '(none)'}: {written} records were written, but its shards hold {found}")


def publish_dataset(
    publication: Publication,
    *,
    shards: Iterable[Shard],
    stats: Stats,
    failures: Iterable[str],
    duplicates: Iterable[str],
    changes: Iterable[str] = (),
) -> None:
    """Writes failures and duplicates and, if there are not too many, metadata, manifest and `_SUCCESS`.

    Of a version that is not published, the lists and `changes.json` are in the build's folder.

    Raises:
      BuildError: the shards do not hold the records that were written, or the lists not what was counted.
    """
    shards = sorted(shards, key=lambda shard: (shard.split, shard.number))
    publishable = publication.is_publishable(stats)
    # A finished dataset that is not replaced keeps its own lists.
    history = publication.history
    stays = not publishable and (history or storage.exists(storage.join(publication.output, SUCCESS)))
    folder = publication.folder if stays else publication.output
    write_lists = functools.partial(_write_lists, publication, stats, failures=failures, duplicates=duplicates)
    lists = write_lists(folder)
    if not publishable:
        _write_outcome(publication, stats, folder=folder)
        return
    check_shards(shards, stats, splits=publication.listed)
    metadata = write_metadata(
        name=publication.name,
        layout=publication.layout,
        image=publication.image,
        class_names=publication.class_names,
        shards=shards,
    )
    files = {}
    for name, content in sorted(metadata.items()):
        storage.write_bytes(storage.join(publication.output, name), content, staging=publication.folder)
        files[name] = hashlib.sha256(content).hexdigest()
    files.update(lists)
    values = manifest_json(
        name=publication.name,
        listed=publication.listed,
        class_names=publication.class_names,
        facts=publication.facts,
        shards=shards,
        stats=stats,
        files=files,
    )
    if history:
        comparison = compare(history, values, stats, changes)
        content = dump_json(comparison.changes)
        if comparison.tripped or comparison.is_unchanged:
            write_lists(publication.folder)
            storage.write_bytes(storage.join(publication.folder, CHANGES), content)
            _write_outcome(publication, stats, folder=publication.folder, comparison=comparison)
            return
        storage.write_bytes(storage.join(publication.output, CHANGES), content, staging=publication.folder)
        files[CHANGES] = hashlib.sha256(content).hexdigest()
    publication.check_lease()
    manifest = dump_json(values)
    storage.write_bytes(storage.join(publication.output, MANIFEST), manifest, staging=publication.folder)
    # A power cut must not leave `_SUCCESS` without what it stands for.
    storage.sync_folder(storage.join(publication.output, INDEX_FOLDER))
    # It names the manifest it belongs to, so that `verify` finds an edited one.
    success = dump_json({"manifest_sha256": hashlib.sha256(manifest).hexdigest()})
    storage.write_bytes(storage.join(publication.output, SUCCESS), success, staging=publication.folder)
    storage.sync_folder(publication.output)
    if history:
        point_to(history.root, history.version, staging=publication.folder)


def _write_lists(
    publication: Publication, stats: Stats, folder: str, *, failures: Iterable[str], duplicates: Iterable[str]
) -> dict[str, str]:
    """Writes the lists of failures and duplicates; returns their names and hex SHA-256."""
    lists = {}
    for name, sources, counted in (
        (FAILURES, failures, stats.total("failed")),
        (DUPLICATES, duplicates, stats.total("duplicates", "groups")),
    ):
        lists[name], lines = _compose_lines(sorted(sources), storage.join(folder, name), staging=publication.folder)
        if lines != counted:
            raise BuildError(f"{name} has {lines} lines, but {counted} were counted")
    return lists


def _write_outcome(
    publication: Publication, stats: Stats, *, folder: str, comparison: Comparison | None = None
) -> None:
    """Writes for the launcher why nothing is published."""
    outcome = {
        "listed": dict(publication.listed),
        "stats": stats.to_json(),
        "folder": folder,
        "tripped": [str(verdict) for verdict in comparison.tripped] if comparison else [],
        "guards": sorted({verdict.guard.value for verdict in comparison.tripped}) if comparison else [],
        "is_unchanged": bool(comparison and comparison.is_unchanged),
    }
    storage.write_bytes(BuildFolder(publication.folder).outcome, dump_json(outcome))


def _compose_lines(files: Iterable[str], path: str, *, staging: str) -> tuple[str, int]:
    digest = hashlib.sha256()
    lines = 0
    with storage.open_write(path, staging=staging) as target:
        for file in files:
            with storage.open_read(file) as source:
                for chunk in storage.read_chunks(source):
                    target.write(chunk)
                    digest.update(chunk)
                    lines += bytes(chunk).count(b"\n")
    return digest.hexdigest(), lines
