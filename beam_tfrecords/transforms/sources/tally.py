"""What a listing counts: skipped files, unmatched annotations, fields of the input, damage, and notes."""

from __future__ import annotations

import bisect
import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgpack

from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.names import skipped_kind
from beam_tfrecords.transforms.sources.selection import matches

_MOST_KINDS = 100
_MOST_EXAMPLES = 3
# Bounds the memory for fields whose names are data, such as the ids of images.
_MOST_FIELDS, _OTHER_FIELDS = 1000, "other fields"
_NOT_MERGED = ("folders", "globs")


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


@dataclasses.dataclass(frozen=True)
class Unmatched:
    """Annotations that match no image.

    Attributes:
      note: message about the annotations.
      count: number of annotations without an image.
      total: number of all annotations of this kind.
    """

    note: str
    count: int
    total: int


@dataclasses.dataclass
class Tally:
    """Counts what a listing skips or does not match, and collects notes and damage. Mergeable and picklable.

    The result does not depend on how the listing is divided among workers.

    Attributes:
      counts: kind ("hidden", or an extension in lower case such as ".txt") -> number of files. After a
        hundred kinds, all others count as "other", which bounds memory.
      examples: kind -> the first three keys in sorted order.
      folders: folders of the files; not merged.
      fields: (file, field) -> number of its values, of fields that the reader has seen; a file may be a glob.
      damaged: containers that could not be read to their end.
      unmatched: annotations, label files and masks without an image.
      notes: warnings about a valid but unusual input, one line each.
      classes: class that a file declares, in the order of the files -> its numbers, each with the first file that has
        it; None for a class without one.
      uses: fields of documents that the reader uses, as in `Description.uses`.
      has_splits: whether documents say the splits of their samples.
      globs: globs of the request that have matched no file so far; not merged.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    folders: FolderSummary = dataclasses.field(default_factory=FolderSummary)
    fields: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)
    damaged: list[Damage] = dataclasses.field(default_factory=list)
    unmatched: list[Unmatched] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    classes: dict[str, list[tuple[int | None, str]]] = dataclasses.field(default_factory=dict)
    uses: dict[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    has_splits: bool = False
    globs: set[str] = dataclasses.field(default_factory=set)

    def see(self, key: str) -> None:
        """Removes the globs that match a file or sample from `globs`."""
        if self.globs:
            self.globs -= {glob for glob in self.globs if matches(glob, key)}

    def add(self, kind: str, key: str) -> None:
        """Counts a skipped file."""
        self.see(key)
        self._count(kind, 1, [key])
        self.folders.add_other(key)

    def remove(self, key: str, left: Sequence[str]) -> None:
        """Removes a file that was counted as skipped, because the build reads it for another purpose.

        Args:
          key: key of the file.
          left: keys of files of its kind that are left.
        """
        kind = skipped_kind(key) or ""
        kind = kind if kind in self.counts else "other"
        self.counts -= Counter([kind])
        self.examples[kind] = sorted({*self.examples[kind], *left} - {key})[:_MOST_EXAMPLES]

    def see_field(self, file: str, field: str, count: int = 1) -> None:
        """Counts values of a field of the input, whether the build stores them or not."""
        is_new = (file, field) not in self.fields and len(self.fields) >= _MOST_FIELDS
        self.fields[(file, _OTHER_FIELDS) if is_new else (file, field)] += count

    def add_special(self, kind: str, key: str) -> None:
        """Counts an entry that is not a file, such as a link in an archive; no folder has it."""
        self.see(key)
        self._count(kind, 1, [key])

    def see_class(self, name: str, *numbers: tuple[int | None, str]) -> None:
        """Adds a class that a file declares, and its number in the file with the path of the file."""
        known = self.classes.setdefault(name, [])
        for number, file in numbers:
            if number not in [one for one, _ in known]:
                known.append((number, file))

    def class_numbers(self) -> dict[str, dict[Scalar, int]]:
        """Returns path of a file -> class -> its number there, as `Labels.numbers`."""
        numbers: defaultdict[str, dict[Scalar, int]] = defaultdict(dict)
        for name, several in self.classes.items():
            for number, file in several:
                if number is not None:
                    numbers[file][name] = number
        return numbers

    def add_unmatched(self, note: str, count: int, total: int) -> None:
        """Counts annotations of one kind that match no image, with a note on them."""
        self.unmatched.append(Unmatched(note, count, total))

    def merge(self, other: Tally) -> None:
        """Adds the counts of another listing, such as the listing of one container."""
        for kind, count in other.counts.items():
            self._count(kind, count, other.examples[kind])
        for (file, field), count in other.fields.items():
            self.see_field(file, field, count)
        self.damaged += other.damaged
        self.unmatched += other.unmatched
        self.notes += [note for note in other.notes if note not in self.notes]
        for name, numbers in other.classes.items():
            self.see_class(name, *numbers)
        self.uses |= other.uses
        self.has_splits |= other.has_splits

    def pack(self) -> bytes:
        """Packs what `merge` adds to bytes."""
        values = vars(self) | {
            "fields": [(*field, count) for field, count in self.fields.items()],
            "damaged": list(map(vars, self.damaged)),
            "unmatched": list(map(vars, self.unmatched)),
        }
        merged = {name: value for name, value in values.items() if name not in _NOT_MERGED}
        packed: bytes = msgpack.packb(merged, unicode_errors="surrogateescape")
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Tally:
        """Unpacks the output of `pack`."""
        found = msgpack.unpackb(packed, unicode_errors="surrogateescape")
        return cls(
            **{
                **found,
                "counts": Counter(found["counts"]),
                "fields": Counter({(file, field): count for file, field, count in found["fields"]}),
                "damaged": [Damage(**one) for one in found["damaged"]],
                "unmatched": [Unmatched(**one) for one in found["unmatched"]],
            }
        )

    def _count(self, kind: str, count: int, keys: Iterable[str]) -> None:
        if kind not in self.counts and len(self.counts) >= _MOST_KINDS:
            kind = "other"
        self.counts[kind] += count
        examples = self.examples.setdefault(kind, [])
        for key in keys:
            if len(examples) < _MOST_EXAMPLES or key < examples[-1]:
                bisect.insort(examples, key)
                del examples[_MOST_EXAMPLES:]
