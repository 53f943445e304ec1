"""Files that a listing skips and counts, and damaged containers."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter
from collections.abc import Iterable

from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.selection import matches

_MOST_KINDS = 100
_MOST_EXAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Damage:
    """A container that could not be read to its end: nobody knows how many samples it has lost.

    Attributes:
      uri: the file.
      samples: listed before the damage.
      detail: where it is, and what was found.
    """

    uri: str
    samples: int
    detail: str


@dataclasses.dataclass
class Skipped:
    """What is not listed. Files that are not samples are counted by kind, with a few keys of each kind.

    It is the same however the input is listed.

    Attributes:
      counts: kind ("hidden", or an extension in lower case such as ".txt") -> number of files. After a
        hundred kinds all others are "other", which bounds the memory.
      examples: kind -> the first few keys, sorted.
      folders: the folders that the files are in; not merged.
      damaged: the containers that could not be read to their end.
      unmatched: the globs of the request that match no file so far; not merged.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    folders: FolderSummary = dataclasses.field(default_factory=FolderSummary)
    damaged: list[Damage] = dataclasses.field(default_factory=list)
    unmatched: set[str] = dataclasses.field(default_factory=set)

    def see(self, key: str) -> None:
        """Looks which globs match a file, or a sample."""
        if self.unmatched:
            self.unmatched -= {glob for glob in self.unmatched if matches(glob, key)}

    def add(self, kind: str, key: str) -> None:
        """Counts one file."""
        self.see(key)
        self._count(kind, 1, [key])
        self.folders.add_other(key)

    def merge(self, other: Skipped) -> None:
        """Adds the counts of another listing, such as that of one container."""
        for kind, count in other.counts.items():
            self._count(kind, count, other.examples[kind])
        self.damaged += other.damaged

    def _count(self, kind: str, count: int, keys: Iterable[str]) -> None:
        if kind not in self.counts and len(self.counts) >= _MOST_KINDS:
            kind = "other"
        self.counts[kind] += count
        examples = self.examples.setdefault(kind, [])
        for key in keys:
            if len(examples) < _MOST_EXAMPLES or key < examples[-1]:
                bisect.insort(examples, key)
                del examples[_MOST_EXAMPLES:]
