"""Counts of a build, which can be added up over any number of workers."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from beam_tfrecords.dataset.schema import listed, plain, text, whole

Key: TypeAlias = "tuple[str, ...]"

# Counts of images with the same bytes: groups, images in them, and groups with problems.
DUPLICATE_COUNTS = ("groups", "images", "groups_across_splits", "groups_with_conflicting_labels")

# Index column -> key under which a record with a value in this column is counted.
_COUNTED_AS: Mapping[str, Callable[[Any], Key]] = {
    "replaced_format": lambda value: ("stored_as_png", value),
    "kept_orientation": lambda _: ("kept_turned",),
    "stored_maximum": lambda value: ("stored_maximum", str(value)),
}
# Index column with a number of annotated objects -> key of the count that it is added to.
_ADDED_TO: Mapping[str, Key] = {
    "objects": ("objects", "written"),
    "objects_clipped": ("objects", "clipped"),
    "objects_outside": ("objects", "outside"),
    "objects_invalid": ("objects", "invalid"),
}
_SIDES = ("height", "width")
# Index columns that `count_records` counts, besides classes.
COUNTED = (*_SIDES, *_COUNTED_AS, *_ADDED_TO)

# Maximum number of keys that are listed for each kind of change; all changes are counted.
MOST_KEYS = 1000

# Parts of the key of a failure: "failed", split, reason.
_FAILURE_PARTS = 3


class Change(str, enum.Enum):
    """The change of a sample since the previous dataset.

    COPIED: its record is reused. RESERIALIZED: its image is reused in a new example. CHANGED: it is converted again.
    DROPPED: the previous dataset dropped it as a duplicate. ADDED: the previous dataset lacks it. REMOVED: it is no
    longer listed. FAILED: it is rejected. MOVED: it is in another split; counted in addition to the others.
    """

    COPIED = "copied"
    RESERIALIZED = "reserialized"
    CHANGED = "changed"
    DROPPED = "dropped"
    ADDED = "added"
    REMOVED = "removed"
    FAILED = "failed"
    MOVED = "moved"


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counts by split, class and failure reason.

    Attributes:
      counts: ("written", split), ("filtered", split), ("dropped", split), ("merged", split), ("replaced", split),
        ("class", split, class name), ("head", split, feature, class name) and ("failed", split, reason) -> samples;
        ("stored_as_png", format) -> images that should be kept but are stored as PNG;
        ("kept_turned",) -> kept files with an EXIF orientation; ("stored_maximum", value) -> images with more than
        8 bits that are stored with 8;
        ("objects", what) -> annotated objects, see `_ADDED_TO`, which ("class", …) counts instead of samples if there
        are any; ("duplicates", what) -> groups or images; ("near", what) -> groups of near-duplicates, images without a
        hash, and ranges of hashes not compared completely; ("sides", side) and ("squares", side) -> sum of the heights
        or widths of stored images, and of their squares; ("source_bytes",) -> bytes read; ("bytes", split) -> bytes
        of the parts that become shards. Later stages correct counts with negative values.
    """

    counts: Mapping[Key, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def merge(cls, stats: Iterable[Stats]) -> Stats:
        """Returns the sum of several counts; associative and commutative."""
        total: Counter[Key] = Counter()
        for other in stats:
            total.update(other.counts)
        return cls(dict(total))

    def total(self, *prefix: str) -> int:
        """Returns the sum of all counts whose key starts with `prefix`."""
        return sum(count for key, count in self.counts.items() if key[: len(prefix)] == prefix)

    def by(self, *prefix: str) -> dict[str, int]:
        """Returns the counts below `prefix` by the next part of the key, sorted by this part."""
        totals: Counter[str] = Counter()
        for key, count in self.counts.items():
            if key[: len(prefix)] == prefix and len(key) > len(prefix):
                totals[key[len(prefix)]] += count
        return {part: count for part, count in sorted(totals.items()) if count}

    def failure_reasons(self) -> dict[str, int]:
        """Returns reason -> number of rejected samples in all splits, sorted by reason."""
        reasons: Counter[str] = Counter()
        for (kind, *rest), count in self.counts.items():
            if kind == "failed":
                reasons[rest[1]] += count
        return {reason: count for reason, count in sorted(reasons.items()) if count}

    def by_split(self, splits: Iterable[str]) -> dict[str, Stats]:
        """Returns split -> its counts, in one pass over all counts."""
        found: dict[str, dict[Key, int]] = {split: {} for split in splits}
        for key, count in self.counts.items():
            if len(key) > 1 and key[1] in found:
                found[key[1]][key] = count
        return {split: Stats(counts) for split, counts in found.items()}

    def to_json(self) -> list[list[Any]]:
        """Returns a sorted list of [*key, count]."""
        return [[*key, count] for key, count in sorted(self.counts.items())]

    @classmethod
    def from_json(cls, rows: Iterable[list[Any]]) -> Stats:
        """Makes counts from the output of `to_json`."""
        return cls({tuple(key): count for *key, count in rows})


def stats_row(value: Any, where: str) -> None:
    """Checks a row of `Stats.to_json`: the parts of a key, then a number, which may be negative.

    Raises:
      ValueError: the row is invalid.
    """
    listed(plain)(value, where)
    least = _FAILURE_PARTS if value[:1] == ["failed"] else 1
    if len(value) <= least:
        raise ValueError(f"{where} is {len(value)} values, not a key and a number")
    for part in value[:-1]:
        text(part, where)
    whole(value[-1], where)


@dataclasses.dataclass(frozen=True)
class BuildMetric:
    """A metric that is derived from the counts of a build.

    Attributes:
      read: returns the metric from the counts, and from the name of the split for a metric of a split.
      of_build: whether the manifest has the metric for the build.
      of_splits: whether the manifest has the metric for every split.
    """

    read: Callable[..., Any]
    of_build: bool = True
    of_splits: bool = False


def _total(kind: str) -> Callable[..., int]:
    return lambda stats, *split: int(stats.total(kind, *split))


def _by(kind: str) -> Callable[..., dict[str, int]]:
    return lambda stats, *split: dict(stats.by(kind, *split))


def _count_origins(stats: Stats) -> dict[str, int]:
    taken = {change.value: stats.total("change", change.value) for change in (Change.COPIED, Change.RESERIALIZED)}
    return {**taken, "converted": stats.total("written") + stats.total("dropped") - sum(taken.values())}


def _count_reduced(stats: Stats) -> dict[str, int]:
    """Counts the images that were reduced to 8 bits, and finds their largest value; returns {} if there are none.

    Sensors with 10 to 14 bits leave the upper bits of 16 empty, so that their images become nearly black.
    """
    found = {int(value): count for value, count in stats.by("stored_maximum").items()}
    return {"images": sum(found.values()), "maximum": max(found)} if found else {}


def _median(counts: Mapping[str, int]) -> int | None:
    """Returns the lower median of numbers, given as number -> frequency; None if there are none."""
    total = 0
    for number in sorted(counts, key=int):
        total += counts[number]
        if 2 * total >= sum(counts.values()):
            return int(number)
    return None


# Name in the manifest -> metric. `summary` and `run_summary` contain the wording.
BUILD_METRICS: Mapping[str, BuildMetric] = {
    "records": BuildMetric(_total("written"), of_splits=True),
    "failures": BuildMetric(_total("failed"), of_splits=True),
    "filtered": BuildMetric(_total("filtered"), of_splits=True),
    "dropped_duplicates": BuildMetric(_total("dropped"), of_splits=True),
    "merged_rows": BuildMetric(_total("merged")),
    "replaced_members": BuildMetric(_total("replaced")),
    "bytes": BuildMetric(_total("bytes"), of_build=False, of_splits=True),
    "classes": BuildMetric(_by("class"), of_build=False, of_splits=True),
    "failure_reasons": BuildMetric(Stats.failure_reasons),
    "stored_as_png": BuildMetric(_by("stored_as_png")),
    "kept_turned": BuildMetric(_total("kept_turned")),
    "dim_images": BuildMetric(_count_reduced),
    "objects": BuildMetric(_by("objects")),
    "duplicates": BuildMetric(lambda stats: {what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS}),
    "near_duplicates": BuildMetric(_by("near")),
    "source_bytes": BuildMetric(_total("source_bytes")),
    "median_pixels": BuildMetric(lambda stats: _median(stats.by("pixels"))),
    "reuse": BuildMetric(_count_origins),
}


def find_size(stats: Stats) -> tuple[int, ...] | None:
    """Returns (height, width) of all stored images in pixels; None if they differ, so that their variance is not 0."""
    number, sums, squares = stats.total("written"), stats.by("sides"), stats.by("squares")
    are_equal = all(number * squares.get(side, 0) == sums.get(side, 0) ** 2 > 0 for side in _SIDES)
    return tuple(sums[side] // number for side in _SIDES) if are_equal else None


def share_above(count: int, total: int) -> float:
    """Returns a share of a total with few digits that is not smaller than a count, for a limit."""
    digits = max(2, math.ceil(-math.log10(count / total)))
    return math.ceil(10**digits * count / total) / 10**digits


def find_metric(manifest: Mapping[str, Any], name: str) -> Any:
    """Returns a metric of the build from a manifest; None if the manifest lacks it."""
    if BUILD_METRICS[name].of_build or "splits" not in manifest:
        return manifest.get(name)
    return sum(split[name] for split in manifest["splits"].values())


def count_records(
    counts: Counter[Key],
    split: str,
    class_names: Sequence[Sequence[str]],
    columns: Mapping[str, Sequence[Any]],
    *,
    heads: Mapping[str, Sequence[str]] = MappingProxyType({}),
    times: int = 1,
) -> None:
    """Adds the records of a batch to the counts of a build.

    Args:
      class_names: class names of each record.
      columns: the `COUNTED` index columns that have values.
      heads: feature -> class name of each record, of the layout's heads.
      times: -1 subtracts records that are dropped.
    """
    counts["written", split] += times * len(class_names)
    for name in itertools.chain.from_iterable(class_names):
        counts["class", split, name] += times
    for feature, names in heads.items():
        for name in names:
            counts["head", split, feature, name] += times
    for height, width in zip(columns.get("height", ()), columns.get("width", ()), strict=True):
        if height and width:
            counts["pixels", str(_round_down(height * width))] += times
    for side in _SIDES:
        sizes = list(filter(None, columns.get(side, ())))
        counts["sides", side] += times * sum(sizes)
        counts["squares", side] += times * sum(size * size for size in sizes)
    for column, key_of in _COUNTED_AS.items():
        for value in columns.get(column, ()):
            if value is not None:
                counts[key_of(value)] += times
    for column, key in _ADDED_TO.items():
        for value in filter(None, columns.get(column, ())):
            counts[key] += times * value


def _round_down(pixels: int) -> int:
    """Keeps only the upper five bits, so that there are few different keys of counts."""
    low = max(0, pixels.bit_length() - 5)
    return pixels >> low << low
