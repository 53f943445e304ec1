"""`changes.json`: the differences from the previous version, and the results of the guards.

A guard is a condition between a version and the previous one, evaluated from their manifests alone.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import DatasetRef, StoredDataset
from beam_tfrecords.dataset.files import CHANGES, SHARDS
from beam_tfrecords.dataset.manifest import CHANGES_FORMAT, Shard
from beam_tfrecords.transforms.request.schedule_spec import Guard, GuardMode, ScheduleSpec
from beam_tfrecords.transforms.stats import MOST_KEYS, Change, Stats
from beam_tfrecords.transforms.workspace.state_files import naming_damage

Manifest = Mapping[str, Any]
# Settings that decide bytes but usually change with the data of a nightly build, so the guards ignore them.
_DATA_SETTINGS = frozenset({"input", "image_root", "limit", "class_names", "class_order"})
# Maximum number of classes that a guard result names.
_MOST_CLASSES = 10


@dataclasses.dataclass(frozen=True)
class GuardResult:
    """The result of a guard.

    Attributes:
      guard: the guard.
      what: the compared quantity, in words.
      old: value in the previous version.
      new: value in the new version.
      limit: the allowed values, in words.
      holds: whether the new value is allowed.
      accepted: whether the user accepts a violation.
    """

    guard: Guard
    what: str
    old: Any
    new: Any
    limit: str
    holds: bool
    accepted: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {**dataclasses.asdict(self), "guard": self.guard.value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> GuardResult:
        """Makes a result from the output of `to_json`."""
        return cls(**{**values, "guard": Guard(values["guard"])})

    def __str__(self) -> str:
        new, old = (_show(value) if isinstance(value, list) else value for value in (self.new, self.old))
        return f"{self.guard.value}: {self.what}: {new}; before: {old}; allowed: {self.limit}"


def evaluate(
    old: Manifest, new: Manifest, *, moved: int, spec: ScheduleSpec, decisive: Iterable[str]
) -> list[GuardResult]:
    """Evaluates all guards; returns all results, also of guards that hold.

    Args:
      old: manifest of the previous version.
      new: manifest of the new version.
      moved: number of samples that changed their split.
      spec: limits, and guards whose violation is accepted.
      decisive: names of the settings that decide the bytes of the shards.
    """
    if spec.guard is GuardMode.OFF:
        return []
    guard_results = [
        *_compare_counts(old, new, spec),
        *_compare_failures(old, new, spec),
        *_compare_classes(old, new),
        *_compare_shares(old, new, spec),
        *_compare_settings(old, new, decisive),
        *_compare_sizes(old, new, spec),
        *_compare_splits(old, new, moved),
    ]
    return [dataclasses.replace(result, accepted=result.guard in spec.accept) for result in guard_results]


def find_violated(guard_results: Iterable[GuardResult]) -> list[GuardResult]:
    """Returns the results that do not hold and are not accepted."""
    return [result for result in guard_results if not (result.holds or result.accepted)]


def _compare_counts(old: Manifest, new: Manifest, spec: ScheduleSpec) -> Iterator[GuardResult]:
    limits = (spec.min_count_ratio, spec.max_count_ratio)
    yield _ratio(Guard.COUNT, "records", old["records"], new["records"], limits)
    for split in _union(old["splits"], new["splits"]):
        before, now = (manifest["splits"].get(split, {}).get("records", 0) for manifest in (old, new))
        yield _ratio(Guard.COUNT, f"records of split {split}", before, now, limits)


def _compare_failures(old: Manifest, new: Manifest, spec: ScheduleSpec) -> Iterator[GuardResult]:
    before, now = map(_share_failed, (old, new))
    limit = f"at most {spec.max_failure_rise:g} more"
    holds = now <= before + spec.max_failure_rise
    yield GuardResult(Guard.FAILURES, "share of failed samples", round(before, 6), round(now, 6), limit, holds)


def _share_failed(manifest: Manifest) -> float:
    """Returns the share of failed samples: rows of one image count as one, and replaced members do not count."""
    samples = manifest["listed"] - manifest.get("merged_rows", 0) - manifest.get("replaced_members", 0)
    share: float = manifest["failures"] / max(1, samples)
    return share


def _compare_classes(old: Manifest, new: Manifest) -> Iterator[GuardResult]:
    for head in (None, *_heads(old, new)):
        of = "" if head is None else f" of {head}"
        before, now = (set(_classes(manifest, head)) for manifest in (old, new))
        known = sorted(before)[:_MOST_CLASSES]
        for what, names in (("vanished", sorted(before - now)), ("appeared", sorted(now - before))):
            yield GuardResult(
                Guard.CLASSES, f"classes{of} that {what}", known, names[:_MOST_CLASSES], "none", not names
            )


def _compare_shares(old: Manifest, new: Manifest, spec: ScheduleSpec) -> Iterator[GuardResult]:
    # Compares only classes of both versions; another guard reports classes that vanished or appeared.
    common = set(_classes(old)) & set(_classes(new))
    for split in sorted(set(old["splits"]) & set(new["splits"])):
        shares = [_shares(manifest["splits"][split]["classes"], common) for manifest in (old, new)]
        changes = {name: abs(shares[1].get(name, 0) - shares[0].get(name, 0)) for name in _union(*shares)}
        if changes:
            name = max(changes, key=lambda name: changes[name])
            before, now = (round(share.get(name, 0), 4) for share in shares)
            holds = changes[name] <= spec.max_share_change
            limit = f"at most {spec.max_share_change:g} more or less"
            yield GuardResult(Guard.CLASS_SHARES, f"share of {name} in split {split}", before, now, limit, holds)


def _compare_settings(old: Manifest, new: Manifest, decisive: Iterable[str]) -> Iterator[GuardResult]:
    for name in sorted(set(decisive) - _DATA_SETTINGS):
        before, now = (manifest["spec"].get(name) for manifest in (old, new))
        if before != now:
            yield GuardResult(Guard.SETTINGS, name, before, now, "no change", False)
    pairs = {"": (old["class_names"], new["class_names"])}
    pairs |= {f" of {name}": (old["heads"][name], new["heads"][name]) for name in _heads(old, new)}
    for of, (classes, present) in pairs.items():
        moved, known = list(_find_moved(classes, present)), classes[:_MOST_CLASSES]
        yield GuardResult(Guard.SETTINGS, f"class indices{of} that move", known, moved, "none", not moved)


def _find_moved(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yields every class whose index changed, and every index of a vanished class that now has a new class."""
    indices, earlier = {name: index for index, name in enumerate(now)}, set(before)
    for index, name in enumerate(before):
        if name in indices:
            if indices[name] != index:
                yield f"{name} {index} -> {indices[name]}"
        elif index < len(now) and now[index] not in earlier:
            yield f"index {index}: {name} -> {now[index]}"


def _compare_sizes(old: Manifest, new: Manifest, spec: ScheduleSpec) -> Iterator[GuardResult]:
    limits = (spec.min_size_ratio, spec.max_size_ratio)
    yield _ratio(Guard.SIZES, "mean bytes of a record", _mean_bytes(old), _mean_bytes(new), limits)
    before, now = (manifest.get("median_pixels") for manifest in (old, new))
    if before and now:
        yield _ratio(Guard.SIZES, "median pixels of an image", before, now, limits)


def _compare_splits(old: Manifest, new: Manifest, moved: int) -> Iterator[GuardResult]:
    yield GuardResult(Guard.SPLITS, "samples that changed their split", 0, moved, "none", not moved)
    before, now = (manifest["duplicates"]["groups_across_splits"] for manifest in (old, new))
    yield GuardResult(Guard.SPLITS, "images that are in several splits", before, now, "no more", now <= before)
    searched = [manifest["spec"].get("near_duplicates") for manifest in (old, new)]
    if searched[0] and searched[0] == searched[1]:
        before, now = (manifest["near_duplicates"].get("groups_across_splits", 0) for manifest in (old, new))
        yield GuardResult(Guard.SPLITS, "near-duplicates in several splits", before, now, "no more", now <= before)


def _show(values: Sequence[Any]) -> str:
    more = [f"… ({len(values):,} in all)"] if len(values) > _MOST_CLASSES else []
    return ", ".join([*map(str, values[:_MOST_CLASSES]), *more]) or "none"


def _ratio(guard: Guard, what: str, old: float, new: float, limits: tuple[float, float]) -> GuardResult:
    low, high = limits
    return GuardResult(guard, what, old, new, f"{low:g} to {high:g} times as many", old * low <= new <= old * high)


def _mean_bytes(manifest: Manifest) -> int:
    return int(sum(split["bytes"] for split in manifest["splits"].values()) // max(1, manifest["records"]))


def _heads(old: Manifest, new: Manifest) -> list[str]:
    """Returns the features with classes of their own in both versions; the guard of settings reports others."""
    return sorted({*old.get("heads", {})} & {*new.get("heads", {})})


def _classes(manifest: Manifest, head: str | None = None) -> Iterator[str]:
    """Yields the classes that occur, of the labels or of a head."""
    for split in manifest["splits"].values():
        counts = split["classes"] if head is None else split.get("heads", {}).get(head, {})
        yield from (name for name, count in counts.items() if count)


def _shares(counts: Mapping[str, int], names: Collection[str]) -> dict[str, float]:
    counts = {name: count for name, count in counts.items() if name in names}
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items() if total}


def _union(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return sorted({*old, *new})


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
