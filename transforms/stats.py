"""Counts of a build, which any number of workers can add to."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Key: TypeAlias = "tuple[str, ...]"

# Counts of images with the same bytes: groups of them, their copies, and groups by what is wrong.
DUPLICATE_COUNTS = ("groups", "images", "groups_across_splits", "groups_with_conflicting_labels")

# Keys that are listed of each kind of change; all are counted.
MOST_KEYS = 1000


class Change(str, enum.Enum):
    """What became of a sample since the earlier dataset.

    COPIED: its record is taken over. RESERIALIZED: its image is taken over, in an example made anew. CHANGED: it is
    converted again. ADDED: the earlier dataset has no record of it. REMOVED: it is not listed any more. FAILED: it is
    rejected. MOVED: it is in another split; counted besides.
    """

    COPIED = "copied"
    RESERIALIZED = "reserialized"
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    FAILED = "failed"
    MOVED = "moved"


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counts by split, class and failure reason.

    Attributes:
      counts: ("written", split), ("dropped", split), ("class", split, class name) and
        ("failed", split, reason) -> samples; ("stored_as_png", format) -> images that were to be kept;
        ("duplicates", what) -> groups or images; ("source_bytes",) -> bytes read; ("bytes", split) -> bytes of the
        parts that become shards. Later stages correct counts with negative values.
    """

    counts: Mapping[Key, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def merge(cls, stats: Iterable[Stats]) -> Stats:
        """The sum of several; associative and commutative."""
        total: Counter[Key] = Counter()
        for one in stats:
            total.update(one.counts)
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


def count_record(split: str, class_names: Iterable[str], facts: Mapping[str, Any]) -> Counter[Key]:
    """What one record adds to the counts of its build, from its index row: what drops it takes the same away.

    Args:
      split: of the record.
      class_names: its classes.
      facts: its index row, or the part of it that converting has found.
    """
    counts: Counter[Key] = Counter({("written", split): 1})
    counts.update(("class", split, name) for name in class_names)
    if facts.get("height") and facts.get("width"):
        counts["pixels", str(_round_down(facts["height"] * facts["width"]))] += 1
    if facts.get("replaced_format"):
        counts["stored_as_png", facts["replaced_format"]] += 1
    return counts


def _round_down(pixels: int) -> int:
    """To the upper five bits, so that there are few different counts."""
    low = max(0, pixels.bit_length() - 5)
    return pixels >> low << low
