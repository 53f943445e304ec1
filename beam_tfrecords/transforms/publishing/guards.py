"""Guards: conditions between a version and the previous one, evaluated from their manifests alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.request.schedule_spec import Guard, GuardMode, ScheduleSpec

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
    before, now = (manifest["failures"] / max(1, manifest["listed"]) for manifest in (old, new))
    limit = f"at most {spec.max_failure_rise:g} more"
    holds = now <= before + spec.max_failure_rise
    yield GuardResult(Guard.FAILURES, "share of failed samples", round(before, 6), round(now, 6), limit, holds)


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
