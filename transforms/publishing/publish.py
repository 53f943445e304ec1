"""OpenOutput and PublishDataset: counts and shards in; a dataset with its metadata out, `_SUCCESS` last."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset import Dataset
from beam_tfrecords.errors import BuildError
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.files import (
    CARD,
    CHANGES,
    CROISSANT,
    DUPLICATES,
    FAILURES,
    INDEX_FOLDER,
    MANIFEST,
    REPORT,
    SUCCESS,
    ShardNames,
    dali_index,
)
from beam_tfrecords.manifest import Shard
from beam_tfrecords.storage.lease import check_lease
from beam_tfrecords.versions import point_to, remove
from transforms.images.image_spec import ImageSpec
from transforms.publishing.card import write_card
from transforms.publishing.changes import History, describe_version, judge_version, repeats_earlier
from transforms.publishing.croissant import write_croissant
from transforms.publishing.dali_index import write_dali_indices
from transforms.publishing.guards import Verdict, trips
from transforms.publishing.manifest import dump_json, manifest_json
from transforms.publishing.tfds_metadata import write_metadata
from transforms.request.build_spec import Duplicates
from transforms.request.schedule_spec import GuardMode
from transforms.stats import Stats
from transforms.workspace.build_folder import BuildFolder, Workspace
from transforms.workspace.output_folder import claim_files, remove_old_files


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
      count_shards: the number of shards of a split, from its bytes and `records`.
      history: what a version follows; None if there are no versions.
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
    count_shards: Callable[..., int]
    history: History | None = None

    def claim(self, names: Iterable[str]) -> None:
        """Lists files as ours before they are written; the folder of a version is ours as a whole."""
        if not self.history:
            claim_files(self.root, names)

    def name_shards(self, stats: Stats) -> Iterator[str]:
        """The files of all shards."""
        names = ShardNames(self.output, self.name, staging=self.folder)
        for split in filter(None, self.listed):
            shards = self.count_shards(stats.total("bytes", split), records=stats.total("written", split))
            for number in range(shards):
                key = split, number, shards
                yield from (names.shard(key), names.index(key), dali_index(names.index(key)))

    def check_lease(self) -> None:
        """Checks, before a file of the dataset is written or removed, that no other build has taken the lease.

        Raises:
          BuildError: another build has it.
        """
        check_lease(Workspace(self.root).lease, self.folder)

    @property
    def root(self) -> str:
        """The folder that was given to `convert`."""
        return self.history.root if self.history else self.output

    def is_within_limits(self, stats: Stats) -> bool:
        """Whether there are records, and no more failures or duplicates than allowed."""
        if self.duplicates is Duplicates.FAIL and stats.total("duplicates", "groups"):
            return False
        return stats.total("written") > 0 and stats.total("failed") <= self.max_failures * sum(self.listed.values())

    def describe(self, stats: Stats, **files: Any) -> dict[str, Any]:
        """The manifest; `files` are its shards and files, once there are some."""
        return manifest_json(
            name=self.name, listed=self.listed, class_names=self.class_names, facts=self.facts, stats=stats, **files
        )


@dataclasses.dataclass(frozen=True)
class Decision:
    """Whether a dataset is published.

    Attributes:
      publishes: whether it is.
      verdicts: what the guards have found.
      tripped: those of them that do not allow it.
    """

    publishes: bool
    verdicts: tuple[Verdict, ...] = ()
    tripped: tuple[Verdict, ...] = ()


def open_output(stats: Stats, *, publication: Publication) -> Decision:
    """Checks that no sample is lost, judges limits and guards, and removes the dataset that the new one replaces.

    Raises:
      BuildError: the samples listed are not the records written plus failures plus dropped duplicates.
    """
    check_counts(stats, listed=publication.listed)
    if not publication.is_within_limits(stats):
        return Decision(publishes=False)
    history = publication.history
    verdicts = judge_version(history, publication.describe(stats), stats) if history else []
    is_strict = history is not None and history.schedule.guard is GuardMode.STRICT
    tripped = tuple(trips(verdicts)) if is_strict else ()
    if not tripped:
        publication.check_lease()
        publication.claim(publication.name_shards(stats))
        remove_old_files(publication.output)
    return Decision(not tripped, tuple(verdicts), tripped)


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Checks that nothing is lost: listed = written + failed + dropped + merged, for every split.

    Raises:
      BuildError: something is lost.
    """
    for split, expected in listed.items():
        counts = {what: stats.total(what, split) for what in ("written", "failed", "dropped", "merged")}
        if lost := expected - sum(counts.values()):
            found = ", ".join(f"{count} {what}" for what, count in counts.items())
            raise BuildError(f"split {split or '(none)'}: {expected} samples were listed, and {found}; {lost} are lost")


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
    decision: Decision,
    failures: Iterable[str],
    duplicates: Iterable[str],
    changes: Iterable[str] = (),
) -> None:
    """Writes failures and duplicates and, if the dataset is to be published, metadata, manifest and `_SUCCESS`.

    Of a version that is not published, the lists and `changes.json` are in the build's folder.

    Raises:
      BuildError: the shards do not hold the records that were written, or the lists not what was counted.
    """
    shards = sorted(shards, key=lambda shard: (shard.split, shard.number))
    history = publication.history
    # A finished dataset that is not replaced keeps its own lists.
    stays = not decision.publishes and (history or storage.exists(storage.join(publication.output, SUCCESS)))
    folder = publication.folder if stays else publication.output
    if not stays:
        publication.claim([FAILURES, DUPLICATES])
    files = _write_lists(publication, stats, folder, failures=failures, duplicates=duplicates)
    if history and (decision.publishes or decision.tripped):
        splits = [split for split in publication.listed if split]
        content = dump_json(describe_version(history, decision.verdicts, stats, splits=splits, files=changes))
        storage.write_bytes(storage.join(folder, CHANGES), content, staging=publication.folder)
        files[CHANGES] = hashlib.sha256(content).hexdigest()
    if not decision.publishes:
        _write_outcome(publication, stats, folder=folder, tripped=decision.tripped)
        return
    check_shards(shards, stats, splits=publication.listed)
    metadata = write_metadata(
        name=publication.name,
        layout=publication.layout,
        image=publication.image,
        class_names=publication.class_names,
        shards=shards,
    )
    described = publication.describe(stats, shards=shards)
    dataset = Dataset(publication.output, described, "", "")
    metadata |= {CARD: write_card(dataset), CROISSANT: write_croissant(dataset)}
    publication.claim([*metadata, MANIFEST, SUCCESS, REPORT])
    for name, content in sorted(metadata.items()):
        storage.write_bytes(storage.join(publication.output, name), content, staging=publication.folder)
        files[name] = hashlib.sha256(content).hexdigest()
    if described["spec"]["dali_index"]:
        files |= write_dali_indices(dataset, staging=publication.folder)
    values = {**described, "files": files}
    if history and repeats_earlier(history, values, stats):
        _write_outcome(publication, stats, folder=folder, is_unchanged=True)
        return
    publication.check_lease()
    manifest = dump_json(values)
    storage.write_once(storage.join(publication.output, MANIFEST), manifest, staging=publication.folder)
    # A power cut must not leave `_SUCCESS` without what it stands for.
    storage.sync_folder(storage.join(publication.output, INDEX_FOLDER))
    # It names the manifest it belongs to, so that `verify` finds an edited one.
    success = dump_json({"manifest_sha256": hashlib.sha256(manifest).hexdigest()})
    storage.write_once(storage.join(publication.output, SUCCESS), success, staging=publication.folder)
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
        (DUPLICATES, duplicates, stats.total("duplicates", "groups") + stats.total("near", "groups")),
    ):
        lists[name], lines = _compose_lines(sorted(sources), storage.join(folder, name), staging=publication.folder)
        if lines != counted:
            raise BuildError(f"{name} has {lines} lines, but {counted} were counted")
    return lists


def _write_outcome(
    publication: Publication,
    stats: Stats,
    *,
    folder: str,
    tripped: Iterable[Verdict] = (),
    is_unchanged: bool = False,
) -> None:
    """Writes for the launcher why nothing is published, and removes what there is of the version."""
    if publication.history:
        publication.check_lease()
        remove(publication.root, publication.history.version)
    outcome = {
        "listed": dict(publication.listed),
        "stats": stats.to_json(),
        "folder": folder,
        "tripped": [str(verdict) for verdict in tripped],
        "guards": sorted({verdict.guard.value for verdict in tripped}),
        "is_unchanged": is_unchanged,
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
