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
# Bounds the memory for fields whose names are data, such as the ids of images.
_MOST_FIELDS, _OTHER_FIELDS = 1000, "other fields"


@dataclasses.dataclass(frozen=True)
class Damage:
    """A container that could not be read to its end, with an unknown number of lost samples.

    Attributes:
      uri: the file.
      samples: number of samples listed before the damage.
      detail: position and description of the damage.
    """

    uri: str
    samples: int
    detail: str


@dataclasses.dataclass
class Skipped:
    """Counts skipped files by kind, with a few keys of each kind, and collects damaged containers.

    The result does not depend on how the listing is divided among workers.

    Attributes:
      counts: kind ("hidden", or an extension in lower case such as ".txt") -> number of files. After a
        hundred kinds, all others count as "other", which bounds memory.
      examples: kind -> the first three keys in sorted order.
      folders: folders of the files; not merged.
      fields: (file, field) -> number of its values, of fields that the reader has seen; a file may be a glob.
      damaged: containers that could not be read to their end.
      unmatched: globs of the request that have matched no file so far; not merged.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    folders: FolderSummary = dataclasses.field(default_factory=FolderSummary)
    fields: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    damaged: list[Damage] = dataclasses.field(default_factory=list)
    unmatched: set[str] = dataclasses.field(default_factory=set)

    def see(self, key: str) -> None:
        """Removes the globs that match a file or sample from `unmatched`."""
        if self.unmatched:
            self.unmatched -= {glob for glob in self.unmatched if matches(glob, key)}

    def add(self, kind: str, key: str) -> None:
        """Counts a skipped file."""
        self.see(key)
        self._count(kind, 1, [key])
        self.folders.add_other(key)

    def see_field(self, file: str, field: str, count: int = 1) -> None:
        """Counts values of a field of the input, whether the build stores them or not."""
        is_new = (file, field) not in self.fields and len(self.fields) >= _MOST_FIELDS
        self.fields[(file, _OTHER_FIELDS) if is_new else (file, field)] += count

    def add_special(self, kind: str, key: str) -> None:
        """Counts an entry that is no file, such as a link in an archive; no folder has it."""
        self.see(key)
        self._count(kind, 1, [key])

    def merge(self, other: Skipped) -> None:
        """Adds the counts of another listing, such as the listing of one container."""
        for kind, count in other.counts.items():
            self._count(kind, count, other.examples[kind])
        for (file, field), count in other.fields.items():
            self.see_field(file, field, count)
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
