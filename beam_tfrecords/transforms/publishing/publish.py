"""Decides whether a dataset is published, and writes its files from counts and shards, `_SUCCESS` last."""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import CHANGES, DUPLICATES, FAILURES, INDEX_FOLDER, MANIFEST, SHARDS, SUCCESS
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.dataset.pointers import point_to
from beam_tfrecords.errors import BuildError
from beam_tfrecords.escaping import json_file
from beam_tfrecords.transforms.publishing.changes import GuardResult, find_violated
from beam_tfrecords.transforms.publishing.lists import find_examples, read_outcome, write_lists, write_outcome
from beam_tfrecords.transforms.publishing.metadata import write_files
from beam_tfrecords.transforms.publishing.publication import Publication, WrittenFile
from beam_tfrecords.transforms.request.schedule_spec import GuardMode
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.counts import PAUSE_SECONDS, add_step
from beam_tfrecords.transforms.workspace.output_folder import replace_files

# Maximum number of failures in a message.
_MOST_SHOWN = 3


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision whether a dataset is published.

    Attributes:
      publishes: whether the dataset is published.
      causes: exceeded limits that prevent publishing, in words.
      guard_results: results of all guards.
      violated: results of guards that prevent publishing.
      reasons: reason -> number of rejected samples, if something prevents publishing.
    """

    publishes: bool
    causes: tuple[str, ...]
    guard_results: tuple[GuardResult, ...]
    violated: tuple[GuardResult, ...]
    reasons: Mapping[str, int]


def open_output(stats: Stats, *, publication: Publication) -> Decision:
    """Checks that no sample is lost, evaluates limits and guards, and removes the dataset that the new one replaces.

    Raises:
      BuildError: samples are lost, see `check_counts`; or another build has taken over.
    """
    add_step(publication.folder, evaluated=1, pause=PAUSE_SECONDS if storage.has_scheme(publication.folder) else 0)
    check_counts(stats, listed=publication.listed)
    causes = tuple(publication.find_causes(stats))
    history = None if causes else publication.history
    guard_results = history.evaluate(publication.describe(stats), stats) if history else []
    is_strict = history is not None and history.schedule.guard is GuardMode.STRICT
    violated = tuple(find_violated(guard_results)) if is_strict else ()
    reasons = stats.failure_reasons() if causes else {}
    decision = Decision(not (causes or violated), causes, tuple(guard_results), violated, reasons)
    publication.fence.check()
    # The whole folder of a version is ours.
    if not (publication.history or keeps_dataset(publication, decision)):
        names = [*publication.name_shards(stats), *publication.name_metadata()] if decision.publishes else []
        names += FAILURES, DUPLICATES
        replace_files(publication.output, names, is_new=publication.is_new, delete=publication.delete)
    return decision


def keeps_dataset(publication: Publication, decision: Decision) -> bool:
    """Whether an existing dataset stays, so that the lists of an unpublished build go to the build's folder."""
    if decision.publishes:
        return False
    return publication.history is not None or storage.exists(storage.join(publication.output, SUCCESS))


def check_counts(stats: Stats, *, listed: Mapping[str, int]) -> None:
    """Checks that no sample is lost: listed = written + failed + filtered + dropped + merged + replaced, per split.

    Raises:
      BuildError: samples are lost.
    """
    for split, own in stats.by_split(listed).items():
        expected = listed[split]
        counts = {what: own.total(what, split) for what in ("written", "failed", "dropped", "merged")}
        # The message names these counts only if they are not 0.
        rare = {what: own.total(what, split) for what in ("filtered", "replaced")}
        counts |= {what: count for what, count in rare.items() if count}
        if lost := expected - sum(counts.values()):
            found = ", ".join(f"{count} {what}" for what, count in counts.items())
            raise BuildError(f"split {split or '(none)'}: {expected} samples were listed, and {found}; {lost} are lost")


def explain_decision(decision: Decision, *, publication: Publication) -> str:
    """Returns the message of a job that published nothing, with a few of the rejected samples."""
    rejected = ", ".join(f"{reason} {count:,}" for reason, count in decision.reasons.items())
    why = [*decision.causes, *([f"rejected: {rejected}"] if rejected else [])]
    outcome = read_outcome(publication.folder)
    failures = "" if outcome is None else storage.join(outcome["folder"], FAILURES)
    if failures and storage.exists(failures):
        examples = find_examples(failures, decision.reasons)
        why += [f"for example {key}: {detail}" for key, detail in itertools.islice(examples.values(), _MOST_SHOWN)]
    why += [f"guard {result}" for result in decision.violated]
    command = f"beam-tfrecords status --output={shlex.quote(publication.root)}"
    return f"nothing was published: {'; '.join(why)}; `{command}` says more"


def check_shards(shards: Iterable[Shard], stats: Stats, *, splits: Iterable[str]) -> None:
    """Checks that the shards of every split contain all written records, and that no other split has shards.

    Raises:
      BuildError: the numbers of records differ.
    """
    records = Counter(dict.fromkeys(splits, 0))
    for shard in shards:
        records[shard.split] += shard.records
    all_written = stats.by("written")
    for split, found in records.items():
        written = all_written.get(split, 0)
        if found != written:
            raise BuildError(f"split {split or '(none)'}: {written} records were written, but its shards hold {found}")


def publish_dataset(
    _: bytes,
    *,
    publication: Publication,
    shards: Iterable[Shard],
    stats: Stats,
    decision: Decision,
    lists: Iterable[tuple[str, str]],
    duplicates: Iterable[str],
) -> None:
    """Writes failures and duplicates and, if the decision allows, metadata, manifest and `_SUCCESS`.

    The lists and `changes.json` of an unpublished version go to the build's folder.

    Raises:
      BuildError: the shards do not contain all written records, or the lists do not match the counts.
    """
    shards = sorted(shards, key=lambda shard: (shard.split, shard.number))
    history = publication.history
    publication.fence.check()
    folder = publication.folder if keeps_dataset(publication, decision) else publication.output
    check = storage.SharedCall(publication.fence.check)
    # Reads the iterables in this thread, because a runner may only read side inputs here.
    of_blocks = list(lists)
    failures = sorted(file for kind, file in of_blocks if kind == "failures")
    write = functools.partial(
        write_lists, publication, stats, folder, failures=failures, duplicates=sorted(duplicates), check=check
    )
    changed: dict[str, bytes] = {}
    if history and (decision.publishes or decision.violated):
        splits = [split for split in publication.listed if split]
        changes = [file for kind, file in of_blocks if kind == "changes"]
        changed[CHANGES] = json_file(history.describe(decision.guard_results, stats, splits=splits, files=changes))
    if not decision.publishes:
        write()
        for name, content in changed.items():
            storage.write_bytes(storage.join(folder, name), content)
        write_outcome(publication, stats, folder=folder, causes=decision.causes, violated=decision.violated)
        return
    check_shards(shards, stats, splits=publication.listed)
    described = publication.describe(stats, shards)
    written = storage.run_concurrently(
        folder,
        write,
        lambda: {name: publication.write(name, content, check=check) for name, content in changed.items()},
        functools.partial(write_files, publication, described, shards, check=check),
        functools.partial(_write_shards, publication, described, shards, check=check),
    )
    files: dict[str, WrittenFile] = {name: file for some in written for name, file in some.items()}
    values = {
        **described,
        "files": {name: file.sha256 for name, file in files.items()},
        "sizes": {name: file.bytes for name, file in files.items()},
    }
    if history and history.is_repeated_by(values, shards, stats):
        write_outcome(publication, stats, folder=folder, is_unchanged=True)
        return
    check_sizes(publication, shards)
    _finish(publication, values)


def _write_shards(
    publication: Publication, described: Mapping[str, Any], shards: Sequence[Shard], *, check: storage.Check
) -> dict[str, WrittenFile]:
    """Writes the list of the shards, if the manifest has none; returns name -> written file."""
    if "shards" in described:
        return {}
    from beam_tfrecords.dataset.shard_list import write_rows

    return {SHARDS: publication.write(SHARDS, write_rows(shards), check=check)}


def _finish(publication: Publication, values: Mapping[str, Any]) -> None:
    """Writes the manifest, and `_SUCCESS` last."""
    manifest_sha256 = publication.write(MANIFEST, json_file(values)).sha256
    # After a power loss, `_SUCCESS` must not exist without the other files.
    storage.sync_folder(storage.join(publication.output, INDEX_FOLDER))
    # `_SUCCESS` contains the digest of the manifest, so that `verify` detects an edited manifest.
    success = {"manifest_sha256": manifest_sha256}
    if publication.history:
        # `_SUCCESS` also contains the version's name, because a copied or renamed version does not count as one. The
        # next version trusts sizes and times of files only if its input is where this one's was.
        location = publication.paths.location(manifest_sha256)
        success |= {"version": publication.history.version, **({"location": location} if location else {})}
    publication.fence.check(is_new=True)
    publication.write(SUCCESS, json_file(success))
    storage.sync_folder(publication.output)
    if publication.history:
        publication.fence.check()
        point_to(publication.history.root, publication.history.version, staging=publication.folder)


def check_sizes(publication: Publication, shards: Iterable[Shard]) -> None:
    """Checks with one listing that all shards exist and have the right sizes.

    Raises:
      BuildError: a shard is missing or has another size.
    """
    pattern = storage.join(glob.escape(publication.output), f"{glob.escape(publication.name)}*.tfrecord-*")
    sizes = {storage.basename(entry.path): entry.size for entry in storage.list_files(pattern)}
    for shard in shards:
        if sizes.get(shard.file) != shard.bytes:
            found = f"has {sizes[shard.file]} bytes" if shard.file in sizes else "is not there"
            path = storage.join(publication.output, shard.file)
            raise BuildError(f"{path} {found}, but {shard.bytes} bytes were written to it")
