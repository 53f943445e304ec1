"""`changes.json`: the differences from the previous version, and the results of the guards."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import DatasetRef, StoredDataset
from beam_tfrecords.dataset.files import CHANGES, SHARDS
from beam_tfrecords.dataset.manifest import CHANGES_FORMAT, Shard
from beam_tfrecords.transforms.publishing.guards import GuardResult, evaluate
from beam_tfrecords.transforms.request.schedule_spec import ScheduleSpec
from beam_tfrecords.transforms.stats import MOST_KEYS, Change, Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

# Manifest keys that describe the build instead of the dataset; the relevant fingerprints are in the index.
_OF_THE_BUILD = ("reuse", "input_fingerprint", "read_with")
# Manifest keys that depend on where the shards are listed; the shards themselves are compared one by one, and the sizes
# of files by their digests.
_OF_THE_LIST = ("shards", "sizes")


@dataclasses.dataclass(frozen=True)
class History:
    """The versions that precede a new version.

    Attributes:
      root: the folder of the versions.
      version: name of the new version.
      previous: the version to compare with, either the newest or the pinned one; None for the first version.
      newest: names the newest existing version; None for the first version.
      names: names of the existing versions.
      compared: whether blocks look up their samples in the previous version.
      nothing_reused_because: why no record of the previous version can be reused; "" if some can.
      notes: versions that were ignored because they are damaged, one line each.
      schedule: limits of the guards.
      settings: settings of the previous version, with defaults for the settings that its manifest lacks.
      decisive: names of the settings that decide the bytes of the shards.
    """

    root: str
    version: str
    previous: DatasetRef | None
    newest: DatasetRef | None
    names: tuple[str, ...]
    compared: bool
    nothing_reused_because: str
    notes: tuple[str, ...]
    schedule: ScheduleSpec
    settings: Mapping[str, Any]
    decisive: tuple[str, ...]

    def evaluate(self, manifest: Mapping[str, Any], stats: Stats) -> list[GuardResult]:
        """Evaluates the guards for a new version; returns all results, violated ones first.

        Args:
          manifest: manifest of the new version; needs neither shards nor files.
          stats: the counts of its build.
        """
        if self.previous is None:
            return []
        old = {**self.previous.open().manifest, "spec": self.settings}
        moved = stats.total("change", Change.MOVED.value) if self.compared else 0
        guard_results = evaluate(old, manifest, moved=moved, spec=self.schedule, decisive=self.decisive)
        return sorted(guard_results, key=lambda result: result.holds)

    def describe(
        self, guard_results: Iterable[GuardResult], stats: Stats, *, splits: Iterable[str], files: Iterable[str]
    ) -> dict[str, Any]:
        """Returns the content of `changes.json`.

        Args:
          guard_results: results of `evaluate`.
          stats: the counts of the build.
          splits: splits of the new version.
          files: the lists of changes that blocks have written.
        """
        damaged = stats.by("damaged").items()
        notes = [*self.notes, *(f"{file} is damaged: {count:,} samples converted again" for file, count in damaged)]
        common = {"notes": notes, "versions": list(self.names)}
        previous = self.previous
        if previous is None:
            why = "no earlier version is whole" if self.notes else "the first version"
            note = f"{why}: there is nothing to compare it with"
            return {**CHANGES_FORMAT, "compared_with": None, "note": note, **common}
        changes: dict[str, Any] = {
            **CHANGES_FORMAT,
            "compared_with": storage.basename(previous.path),
            "nothing_reused_because": self.nothing_reused_because or None,
            **common,
        }
        if self.compared:
            changes["changes"] = describe_changes(stats, previous=previous.open(), files=files, splits=splits)
        changes["guards"] = [result.to_json() for result in guard_results]
        return changes

    def is_repeated_by(self, manifest: Mapping[str, Any], shards: Sequence[Shard], stats: Stats) -> bool:
        """Whether a version equals the newest one. False if the newest has damaged files, so that it is replaced.

        Args:
          manifest: manifest of the version.
          shards: its shards, by split and number.
          stats: the counts of its build.
        """
        if self.newest is None or stats.by("damaged"):
            return False
        previous = self.newest.open()
        return (
            bool(_content(previous.manifest) == _content(manifest))
            and len(previous.shards) == len(shards)
            and all(map(Shard.__eq__, previous.shards, shards))
            and not previous.find_missing()
        )


def describe_changes(
    stats: Stats, *, previous: StoredDataset, files: Iterable[str], splits: Iterable[str]
) -> dict[str, Any]:
    """Describes how the samples changed since a previous dataset.

    Args:
      stats: the counts of the build.
      previous: the previous dataset.
      files: the lists of changes that blocks have written.
      splits: splits of the new dataset.

    Returns:
      Per kind of change: counts by split and class, and the first keys.
    """
    keys = _collect_keys(files)
    changes: dict[str, Any] = {}
    for change in Change:
        counts = {split: stats.by("change", change.value, split) for split in sorted(splits)}
        if change is Change.REMOVED:
            counts = _count_removed(stats, previous.manifest)
        changes[change.value] = {
            "samples": sum(sum(classes.values()) for classes in counts.values()),
            "by_split_and_class": {split: classes for split, classes in counts.items() if classes},
            "keys": keys.get(change.value, []),
        }
    return changes


def _content(manifest: Mapping[str, Any]) -> Any:
    """Returns the part of a manifest that describes the dataset, except its shards, as plain JSON values."""
    values = {name: value for name, value in manifest.items() if name not in (*_OF_THE_BUILD, *_OF_THE_LIST)}
    values["files"] = {name: digest for name, digest in manifest["files"].items() if name not in (CHANGES, SHARDS)}
    return json.loads(json.dumps(values))


def _count_removed(stats: Stats, manifest: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Counts records of the previous dataset whose keys are no longer listed; by class if each record has one class."""
    removed = {}
    for split, entry in manifest["splits"].items():
        listed = Counter(stats.by("earlier", split))
        records = entry["records"] - sum(listed.values())
        if sum(entry["classes"].values()) == entry["records"]:
            removed[split] = dict(Counter(entry["classes"]) - listed)
        elif records:
            removed[split] = {"": records}
    return removed


def _collect_keys(files: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    """Returns kind of change -> its first samples, in the order of the dataset."""
    keys: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(files):
        with naming_damage(file):
            for line in storage.read_bytes(file).splitlines():
                change = json.loads(line)
                keys.setdefault(change.pop("change"), []).append(change)
    # A key that moved to another split is not removed.
    moved = {change["key"] for change in keys.get(Change.MOVED.value, [])}
    removed = [change for change in keys.get(Change.REMOVED.value, []) if change["key"] not in moved]
    return {kind: found[:MOST_KEYS] for kind, found in {**keys, Change.REMOVED.value: removed}.items()}
