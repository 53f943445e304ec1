"""Counts of a build, which any number of workers can add to."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

Key: TypeAlias = "tuple[str, ...]"

# Counts of images with the same bytes: groups of them, their copies, and groups by what is wrong.
DUPLICATE_COUNTS = ("groups", "images", "groups_across_splits", "groups_with_conflicting_labels")

# Column of the index -> what is counted of the annotated objects.
OBJECT_COUNTS = {
    "objects": "written",
    "objects_clipped": "clipped",
    "objects_outside": "outside",
    "objects_invalid": "invalid",
}

# Columns of the index that `count_record` counts, besides those of classes.
COUNTED = ("height", "width", "replaced_format", "kept_orientation", "stored_maximum", *OBJECT_COUNTS)

# Keys that are listed of each kind of change; all are counted.
MOST_KEYS = 1000

# Of 255: what 14 bits leave of 16.
_DIM = 64


class Change(str, enum.Enum):
    """What became of a sample since the earlier dataset.

    COPIED: its record is taken over. RESERIALIZED: its image is taken over, in an example made anew. CHANGED: it is
    converted again. DROPPED: the earlier dataset had dropped it as a copy. ADDED: the earlier dataset knows nothing of
    it. REMOVED: it is not listed any more. FAILED: it is rejected. MOVED: it is in another split; counted besides.
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
      counts: ("written", split), ("dropped", split), ("merged", split), ("replaced", split),
        ("class", split, class name) and ("failed", split, reason) -> samples;
        ("stored_as_png", format) -> images that were to be kept;
        ("kept_turned",) -> kept files with an EXIF orientation; ("stored_maximum", value) -> images that had more than
        8 bits and are stored with 8;
        ("objects", what) -> annotated objects, see `OBJECT_COUNTS`; ("class", …) counts these, where there are some;
        ("duplicates", what) -> groups or images; ("near", what) -> groups of near-duplicates, images without a hash and
        ranges of hashes not compared in full; ("source_bytes",) -> bytes read; ("bytes", split) -> bytes of the
        parts that become shards. Later stages correct counts with negative values.
    """

    counts: Mapping[Key, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def merge(cls, stats: Iterable[Stats]) -> Stats:
        """The sum of several; associative and commutative."""
        total: Counter[Key] = Counter()
        for other in stats:
            total.update(other.counts)
        return cls(dict(total))

    def total(self, *prefix: str) -> int:
        """The sum of all counts whose key begins with `prefix`."""
        return sum(count for key, count in self.counts.items() if key[: len(prefix)] == prefix)

    def by(self, *prefix: str) -> dict[str, int]:
        """Counts below `prefix` by the key's next part, sorted by it."""
        totals: Counter[str] = Counter()
        for key, count in self.counts.items():
            if key[: len(prefix)] == prefix and len(key) > len(prefix):
                totals[key[len(prefix)]] += count
        return {part: count for part, count in sorted(totals.items()) if count}

    def failure_reasons(self) -> dict[str, int]:
        """Reason -> samples rejected, over all splits, sorted by reason."""
        reasons: Counter[str] = Counter()
        for split in self.by("failed"):
            reasons.update(self.by("failed", split))
        return dict(sorted(reasons.items()))

    def to_json(self) -> list[list[Any]]:
        """As a list of [*key, count], sorted."""
        return [[*key, count] for key, count in sorted(self.counts.items())]

    @classmethod
    def from_json(cls, rows: Iterable[list[Any]]) -> Stats:
        """The reverse of `to_json`."""
        return cls({tuple(key): count for *key, count in rows})


@dataclasses.dataclass(frozen=True)
class Fact:
    """What the counts of a build tell, and where it is shown.

    A new one is an entry of `FACTS`, and a key in `Stats.counts` where it is measured.

    Attributes:
      name: in the manifest, and in the summary for machines.
      read: from the counts, and the split if it is asked of one.
      of_build: whether the manifest says it of the build.
      of_splits: whether the manifest says it of every split.
      in_summary: whether the summary for machines has it.
      column: header in the tables of the summary for people; "" if it is in none.
      is_size: whether it is a number of bytes.
      in_status: whether `status` shows it of a version.
      line: of the summary for people, with `{}` for the number or the counts by name, or `{name}` for one of these; ""
        if none is made of it alone.
      metric: name in the metrics; "" if it is not there.
      help: of the metric.
      label: what the metric counts by; "" if it is one number.
    """

    name: str
    read: Callable[..., Any]
    of_build: bool = True
    of_splits: bool = False
    in_summary: bool = False
    column: str = ""
    is_size: bool = False
    in_status: bool = False
    line: str = ""
    metric: str = ""
    help: str = ""
    label: str = ""

    def value_of(self, manifest: Mapping[str, Any]) -> Any:
        """What a manifest says of the build; None if it does not."""
        if self.of_build or "splits" not in manifest:
            return manifest.get(self.name)
        return sum(split[self.name] for split in manifest["splits"].values())


def _total(kind: str) -> Callable[..., int]:
    return lambda stats, *split: int(stats.total(kind, *split))


def _by(kind: str) -> Callable[..., dict[str, int]]:
    return lambda stats, *split: dict(stats.by(kind, *split))


def _count_origins(stats: Stats) -> dict[str, int]:
    taken = {change.value: stats.total("change", change.value) for change in (Change.COPIED, Change.RESERIALIZED)}
    return {**taken, "converted": stats.total("written") + stats.total("dropped") - sum(taken.values())}


def _find_dim(stats: Stats) -> dict[str, int]:
    """Images that lost most of their range, if they are most of those that could; {} otherwise.

    Sensors of 10 to 14 bits leave the upper ones empty, and their images become nearly black in 8 bits.
    """
    found = {int(value): count for value, count in stats.by("stored_maximum").items()}
    dim = {value: count for value, count in found.items() if value <= _DIM}
    if 2 * sum(dim.values()) <= sum(found.values()):
        return {}
    return {"images": sum(dim.values()), "maximum": max(dim)}


def _median(counts: Mapping[str, int]) -> int | None:
    """The lower median of numbers: number -> how often."""
    total = 0
    for number in sorted(counts, key=int):
        total += counts[number]
        if 2 * total >= sum(counts.values()):
            return int(number)
    return None


FACTS = (
    Fact(
        "records",
        _total("written"),
        of_splits=True,
        in_summary=True,
        column="records",
        in_status=True,
        metric="records",
        help="Records of the dataset.",
    ),
    Fact("failures", _total("failed"), of_splits=True, in_summary=True, column="failures", in_status=True),
    Fact("dropped_duplicates", _total("dropped"), of_splits=True, in_summary=True),
    Fact("merged_rows", _total("merged"), in_summary=True),
    Fact(
        "replaced_members",
        _total("replaced"),
        in_summary=True,
        line="members of archives that a later one of the same name replaced: {}",
    ),
    Fact(
        "bytes",
        _total("bytes"),
        of_build=False,
        of_splits=True,
        column="size",
        is_size=True,
        in_status=True,
        metric="dataset_bytes",
        help="Size of the shards.",
    ),
    Fact("classes", _by("class"), of_build=False, of_splits=True),
    Fact(
        "failure_reasons",
        Stats.failure_reasons,
        in_summary=True,
        metric="failures",
        help="Samples rejected, by reason.",
        label="reason",
    ),
    Fact(
        "stored_as_png",
        _by("stored_as_png"),
        line="stored as PNG, because tf.io.decode_image does not read them: {}",
    ),
    Fact(
        "kept_turned",
        _total("kept_turned"),
        line="note: kept files with an EXIF orientation, which no reader of the dataset applies: {}; "
        "`image_encoding=jpeg` stores them upright, `orientation=ignore` says that they are meant as they are",
    ),
    Fact(
        "dim_images",
        _find_dim,
        line="note: images of 16 bits that are nearly black in 8: {images:,}, with {maximum} of 255 as the largest "
        "stored value; `image_encoding=png` `bit_depth=16` stores their values as they are",
    ),
    Fact("objects", _by("objects"), line="objects: {}"),
    Fact("duplicates", lambda stats: {what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS}),
    Fact("near_duplicates", _by("near"), in_summary=True),
    Fact("source_bytes", _total("source_bytes")),
    Fact("median_pixels", lambda stats: _median(stats.by("pixels"))),
    Fact(
        "reuse",
        _count_origins,
        in_summary=True,
        metric="records_by_origin",
        help="Records copied, reserialized or converted.",
        label="origin",
    ),
)


def count_record(
    counts: Counter[Key], split: str, class_names: Iterable[str], facts: Mapping[str, Any], *, times: int = 1
) -> None:
    """Adds what one record adds to the counts of its build, from its index row.

    Args:
      facts: `COUNTED` of its index row, as far as it has them.
      times: -1 takes the same away, for a record that is dropped.
    """
    counts["written", split] += times
    for name in class_names:
        counts["class", split, name] += times
    if facts.get("height") and facts.get("width"):
        counts["pixels", str(_round_down(facts["height"] * facts["width"]))] += times
    if facts.get("replaced_format"):
        counts["stored_as_png", facts["replaced_format"]] += times
    if facts.get("kept_orientation"):
        counts["kept_turned",] += times
    if facts.get("stored_maximum") is not None:
        counts["stored_maximum", str(facts["stored_maximum"])] += times
    if facts.get("objects") is not None:
        for column, what in OBJECT_COUNTS.items():
            if facts.get(column):
                counts["objects", what] += times * facts[column]


def _round_down(pixels: int) -> int:
    """To the upper five bits, so that there are few different counts."""
    low = max(0, pixels.bit_length() - 5)
    return pixels >> low << low
