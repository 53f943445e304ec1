"""`changes.json`: what is different from the version before, and what the guards say about it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.output.files import CHANGES
from beam_tfrecords.reading.dataset import Dataset, DatasetRef
from beam_tfrecords.transforms.publishing.guards import GuardResult, evaluate
from beam_tfrecords.transforms.request.schedule_spec import ScheduleSpec
from beam_tfrecords.transforms.stats import MOST_KEYS, Change, Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

# What a manifest says about its own build, and not about the dataset: the index has the fingerprints that matter.
_OF_THE_BUILD = ("reuse", "input_fingerprint", "read_with")
# Digests say more, and earlier versions of beam-tfrecords did not note them.
_SIZES = ("sizes", "index_bytes")


@dataclasses.dataclass(frozen=True)
class History:
    """What a new version follows.

    Attributes:
      root: the folder of the versions.
      version: name of the new one.
      previous: the version to compare with: the one before, or the pinned one; None for the first version.
      newest: names the version before; None if this is the first.
      names: of the versions that are there.
      compared: whether blocks look their samples up in the version before.
      nothing_reused_because: why none of its records can be reused; "" if some can.
      notes: datasets that were passed over because they are damaged, one line each.
      schedule: limits of the guards.
      settings: of the version before, as a manifest of this version of beam-tfrecords would have them.
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


def evaluate_version(history: History, manifest: Mapping[str, Any], stats: Stats) -> list[GuardResult]:
    """What the guards find in a new version, those that hold last.

    Args:
      history: what the new version follows.
      manifest: of the new version; it needs neither shards nor files.
      stats: the counts of its build.
    """
    if history.previous is None:
        return []
    old = {**history.previous.open().manifest, "spec": history.settings}
    moved = stats.total("change", Change.MOVED.value) if history.compared else 0
    guard_results = evaluate(old, manifest, moved=moved, spec=history.schedule, decisive=history.decisive)
    return sorted(guard_results, key=lambda result: result.holds)


def describe_version(
    history: History, guard_results: Iterable[GuardResult], stats: Stats, *, splits: Iterable[str], files: Iterable[str]
) -> dict[str, Any]:
    """The content of `changes.json`.

    Args:
      history: what the new version follows.
      guard_results: of `evaluate_version`.
      stats: the counts of its build.
      splits: its splits.
      files: the lists of changes that blocks have written.
    """
    damaged = stats.by("damaged").items()
    notes = [*history.notes, *(f"{file} is damaged: {count:,} samples converted again" for file, count in damaged)]
    if history.previous is None:
        why = "no earlier version is whole" if history.notes else "the first version"
        return {
            "compared_with": None,
            "note": f"{why}: there is nothing to compare it with",
            "notes": notes,
            "versions": list(history.names),
        }
    changes: dict[str, Any] = {
        "compared_with": history.previous.path,
        "nothing_reused_because": history.nothing_reused_because or None,
        "notes": notes,
        "versions": list(history.names),
    }
    if history.compared:
        changes["changes"] = describe_changes(stats, previous=history.previous.open(), files=files, splits=splits)
    changes["guards"] = [result.to_json() for result in guard_results]
    return changes


def repeats_newest(history: History, manifest: Mapping[str, Any], stats: Stats) -> bool:
    """Whether a version holds the same as the one before it; one with damaged files is replaced by one without."""
    if history.newest is None or stats.by("damaged"):
        return False
    previous = history.newest.open()
    return bool(_content(previous.manifest) == _content(manifest)) and not previous.find_missing()


def describe_changes(stats: Stats, *, previous: Dataset, files: Iterable[str], splits: Iterable[str]) -> dict[str, Any]:
    """What became of the samples since a previous dataset.

    Args:
      stats: the counts of the build.
      previous: the previous dataset.
      files: the lists of changes that blocks have written.
      splits: those of the new dataset.

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
    """What a manifest says about the dataset, as JSON has it."""
    values = {name: value for name, value in manifest.items() if name not in (*_OF_THE_BUILD, *_SIZES)}
    values["shards"] = [{name: shard[name] for name in shard.keys() - _SIZES} for shard in manifest["shards"]]
    values["files"] = {name: digest for name, digest in manifest["files"].items() if name != CHANGES}
    return json.loads(json.dumps(values))


def _count_removed(stats: Stats, manifest: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Records of the previous dataset that no listed sample has the key of; their classes if they have one each."""
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
    """Kind of change -> the first of its samples, in the order of the dataset."""
    keys: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(files):
        with naming_damage(file):
            for line in storage.read_bytes(file).splitlines():
                change = json.loads(line)
                keys.setdefault(change.pop("change"), []).append(change)
    # A key that left a split for another one is not removed.
    moved = {change["key"] for change in keys.get(Change.MOVED.value, [])}
    removed = [change for change in keys.get(Change.REMOVED.value, []) if change["key"] not in moved]
    return {kind: found[:MOST_KEYS] for kind, found in {**keys, Change.REMOVED.value: removed}.items()}
