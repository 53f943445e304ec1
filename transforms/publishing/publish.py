"""OpenOutput and PublishDataset: counts and shards in; a dataset with its metadata out, `_SUCCESS` last."""

from __future__ import annotations

import dataclasses
import glob
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.publishing.card import write_card
from beam_tfrecords.transforms.publishing.changes import History, describe_version, judge_version, repeats_earlier
from beam_tfrecords.transforms.publishing.croissant import write_croissant
from beam_tfrecords.transforms.publishing.dali_index import write_dali_indices
from beam_tfrecords.transforms.publishing.guards import Verdict, trips
from beam_tfrecords.transforms.publishing.manifest import dump_json, manifest_json
from beam_tfrecords.transforms.publishing.tfds_metadata import write_metadata
from beam_tfrecords.transforms.request.build_spec import Duplicates
from beam_tfrecords.transforms.request.schedule_spec import GuardMode
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.output_folder import claim_files, remove_old_files
from beam_tfrecords.versions import point_to, remove


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
      fence: the right to publish.
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
    fence: Fence
    history: History | None = None

    @property
    def root(self) -> str:
        """The folder that was given to `convert`."""
        return self.history.root if self.history else self.output

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

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files of the output, but none of a build that has taken over.

        Raises:
          BuildError: another build has.
        """
        storage.delete_checked(paths, staging=self.folder, check=self.fence.check)

    def write(self, name: str, content: bytes) -> str:
        """Writes a file of the dataset; returns its hex SHA-256.

        Raises:
          BuildError: another build has taken over, or has written the file.
        """
        path = storage.join(self.output, name)
        storage.write_once(path, content, staging=self.folder, check=self.fence.check)
        return hashlib.sha256(content).hexdigest()

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
        return _open(publication, stats, Decision(publishes=False))
    history = publication.history
    verdicts = judge_version(history, publication.describe(stats), stats) if history else []
    is_strict = history is not None and history.schedule.guard is GuardMode.STRICT
    tripped = tuple(trips(verdicts)) if is_strict else ()
    return _open(publication, stats, Decision(not tripped, tuple(verdicts), tripped))


def _open(publication: Publication, stats: Stats, decision: Decision) -> Decision:
    """Makes room for what is written to the output, and lists it as ours."""
    publication.fence.check()
    if decision.publishes:
        publication.claim(publication.name_shards(stats))
    if not _keeps_dataset(publication, decision):
        publication.claim([FAILURES, DUPLICATES])
        remove_old_files(publication.output, delete=publication.delete)
    return decision


def _keeps_dataset(publication: Publication, decision: Decision) -> bool:
    """Whether a finished dataset stays, so that the lists of what is not published are in the build's folder."""
    if decision.publishes:
        return False
    return publication.history is not None or storage.exists(storage.join(publication.output, SUCCESS))


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Checks that nothing is lost: listed = written + failed + dropped + merged + replaced, for every split.

    Raises:
      BuildError: something is lost.
    """
    for split, expected in listed.items():
        counts = {what: stats.total(what, split) for what in ("written", "failed", "dropped", "merged")}
        # Of archives alone.
        counts |= {"replaced": replaced} if (replaced := stats.total("replaced", split)) else {}
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
    publication.fence.check()
    folder = publication.folder if _keeps_dataset(publication, decision) else publication.output
    files = _write_lists(publication, stats, folder, failures=failures, duplicates=duplicates)
    if history and (decision.publishes or decision.tripped):
        splits = [split for split in publication.listed if split]
        content = dump_json(describe_version(history, decision.verdicts, stats, splits=splits, files=changes))
        if decision.publishes:
            files[CHANGES] = publication.write(CHANGES, content)
        else:
            storage.write_bytes(storage.join(folder, CHANGES), content)
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
        files[name] = publication.write(name, content)
    if described["spec"]["dali_index"]:
        files |= write_dali_indices(dataset, write=publication.write)
    values = {**described, "files": files}
    if history and repeats_earlier(history, values, stats):
        _write_outcome(publication, stats, folder=folder, is_unchanged=True)
        return
    check_sizes(publication, shards)
    publication.fence.check()
    manifest_sha256 = publication.write(MANIFEST, dump_json(values))
    # A power cut must not leave `_SUCCESS` without what it stands for.
    storage.sync_folder(storage.join(publication.output, INDEX_FOLDER))
    # It names the manifest it belongs to, so that `verify` finds an edited one.
    publication.write(SUCCESS, dump_json({"manifest_sha256": manifest_sha256}))
    storage.sync_folder(publication.output)
    if history:
        publication.fence.check()
        point_to(history.root, history.version, staging=publication.folder)


def check_sizes(publication: Publication, shards: Iterable[Shard]) -> None:
    """Checks by one listing that all shards are there with their sizes.

    Raises:
      BuildError: they are not.
    """
    pattern = storage.join(glob.escape(publication.output), f"{glob.escape(publication.name)}*.tfrecord-*")
    sizes = {storage.basename(entry.path): entry.size for entry in storage.list_files(pattern)}
    for shard in shards:
        if sizes.get(shard.file) != shard.bytes:
            found = f"has {sizes[shard.file]} bytes" if shard.file in sizes else "is not there"
            path = storage.join(publication.output, shard.file)
            raise BuildError(f"{path} {found}, but {shard.bytes} bytes were written to it")


def _write_lists(
    publication: Publication, stats: Stats, folder: str, *, failures: Iterable[str], duplicates: Iterable[str]
) -> dict[str, str]:
    """Writes the lists of failures and duplicates; returns their names and hex SHA-256."""
    lists = {}
    for name, sources, counted in (
        (FAILURES, failures, stats.total("failed")),
        (DUPLICATES, duplicates, stats.total("duplicates", "groups") + stats.total("near", "groups")),
    ):
        lists[name], lines = _compose_lines(sorted(sources), storage.join(folder, name), publication=publication)
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
        remove(publication.root, publication.history.version, delete=publication.delete)
    outcome = {
        "listed": dict(publication.listed),
        "stats": stats.to_json(),
        "folder": folder,
        "tripped": [str(verdict) for verdict in tripped],
        "guards": sorted({verdict.guard.value for verdict in tripped}),
        "is_unchanged": is_unchanged,
    }
    storage.write_bytes(BuildFolder(publication.folder).outcome, dump_json(outcome))


def _compose_lines(files: Iterable[str], path: str, *, publication: Publication) -> tuple[str, int]:
    """Concatenates lists; returns the hex SHA-256 and the number of lines of the result."""
    digest = hashlib.sha256()
    lines = 0
    is_temporary = storage.dirname(path) == publication.folder
    opened = (
        storage.open_write(path)
        if is_temporary
        else storage.open_new(path, staging=publication.folder, check=publication.fence.check)
    )
    try:
        with opened as target:
            for file in files:
                with storage.open_read(file) as source:
                    for chunk in storage.read_chunks(source):
                        target.write(chunk)
                        digest.update(chunk)
                        lines += bytes(chunk).count(b"\n")
    except FileExistsError as error:
        publication.fence.check()
        if storage.sha256(path) != digest.hexdigest():
            raise storage.written_by_another(path) from error
    return digest.hexdigest(), lines
