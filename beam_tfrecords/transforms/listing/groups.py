"""Groups: samples counted by what decisions look at."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgpack

from beam_tfrecords.transforms.listing.decisions import AssignSplits, RowDecision
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.sources.detect.path_splits import paths_of
from beam_tfrecords.transforms.splits import Splits

# With more groups, the totals after a decision are counted sample by sample.
_MOST_GROUPS = 100_000


class SampleGroup(NamedTuple):
    """What decisions look at.

    Attributes:
      at: key of a specimen.
      split: split of the samples.
      label: their label; several are a tuple.
      failed: whether they are rejected.
      has_objects: whether they have objects, whose labels count instead.
    """

    at: str
    split: str | None
    label: Any
    failed: bool
    has_objects: bool


@dataclasses.dataclass
class GroupTotals:
    """The totals of a group.

    Attributes:
      samples: number of samples.
      source_bytes: bytes of their images.
      ref_bytes: their share of `Listing.ref_bytes`.
      labels: label -> number of objects.
    """

    samples: int = 0
    source_bytes: int = 0
    ref_bytes: int = 0
    labels: Counter[Scalar] = dataclasses.field(default_factory=Counter)

    def add(self, other: GroupTotals) -> None:
        """Adds other totals."""
        self.samples += other.samples
        self.source_bytes += other.source_bytes
        self.ref_bytes += other.ref_bytes
        self.labels.update(other.labels)


@dataclasses.dataclass
class Groups:
    """Samples counted by folder, split, label and failure, in bounded memory.

    Samples of one group get the same label and split by every decision that looks at nothing else, so the totals after
    it follow from one specimen of each group.

    Attributes:
      totals: the totals of each group; None if there are too many.
      counted_by: decision that looks at each sample, and has assigned the splits of the groups, but not those in the
        chunk files.
    """

    totals: dict[SampleGroup, GroupTotals] | None = dataclasses.field(default_factory=dict)
    counted_by: AssignSplits | None = None

    def add(self, refs: RefColumns, ref_bytes: Sequence[int], *, by_image: bool, count_labels: bool) -> None:
        """Counts references.

        Args:
          refs: the references.
          ref_bytes: share of each in `Listing.ref_bytes`.
          by_image: as in `PathWords.add`.
          count_labels: whether groups differ in labels.
        """
        if (totals := self.totals) is None:
            return
        if self.counted_by is not None:
            words = refs.each("split")
            refs = self.counted_by.apply(refs)
            pairs = zip(ref_bytes, refs.each("split"), words, refs.each("failure"), strict=True)
            ref_bytes = [
                size if failure is not None else size + _packed_bytes(split) - _packed_bytes(word)
                for size, split, word, failure in pairs
            ]
        labels: Sequence[Any] = refs.labels if count_labels else [None] * len(refs)
        paths = paths_of(refs, by_image=by_image)
        of_each = map(refs.each, ("split", "failure", "objects", "size"))
        for path, label, packed, split, failure, objects, size in zip(paths, labels, ref_bytes, *of_each, strict=True):
            # The key of a failed sample may be the name of a container.
            at = path if failure is not None else path[: path.rfind("/") + 1]
            # A plain tuple is found as the group that it equals, and costs a quarter of one.
            group = at, split, _hashable(label), failure is not None, objects is not None
            found = totals.get(group)  # type: ignore[call-overload]
            if found is None:
                found = totals[SampleGroup(*group)] = GroupTotals()
            found.samples += 1
            found.source_bytes += size
            found.ref_bytes += packed
            if objects is not None and failure is None and count_labels:
                found.labels.update(Objects.unpack_labels(objects))
        self._bound()

    def merge(self, other: Groups) -> None:
        """Adds the samples of other groups."""
        if self.totals == {}:
            self.counted_by = other.counted_by
        if other.totals is None or (other.totals and other.counted_by != self.counted_by):
            self.totals = None
        elif self.totals is not None:
            for group, added in other.totals.items():
                self.totals.setdefault(group, GroupTotals()).add(added)
            self._bound()

    def _bound(self) -> None:
        if self.totals is not None and len(self.totals) > _MOST_GROUPS:
            self.totals = None

    def specimens(self) -> RefColumns:
        """Returns a reference for each group, in order, without objects."""
        groups = list(self.totals or ())
        return RefColumns.of_rows(
            [group.at for group in groups],
            [list(group.label) if isinstance(group.label, tuple) else group.label for group in groups],
            {},
            split=[group.split for group in groups],
            failure=[["", ""] if group.failed else None for group in groups],
        )

    def apply(self, step: RowDecision) -> Groups | None:
        """Returns the groups after a decision; None if they do not say what it decides."""
        if self.totals is None:
            return None
        if step == self.counted_by:
            return self
        if not step.by_group:
            return None
        before = self.specimens()
        after = step.apply(before)
        grown = [len(new) - len(old) for new, old in zip(after.identities(), before.identities(), strict=True)]
        decided: dict[SampleGroup, GroupTotals] = {}
        rows = zip(self.totals.items(), after.each("split"), after.labels, after.each("failure"), grown, strict=True)
        for (group, totals), split, label, failure, more in rows:
            failed = failure is not None
            if failed and not group.failed and group.has_objects:
                return None  # The totals of objects do not count failed samples.
            packed = 0 if failed else totals.ref_bytes + more * totals.samples
            changed = SampleGroup(group.at, split, _hashable(label), failed, group.has_objects)
            decided.setdefault(changed, GroupTotals()).add(dataclasses.replace(totals, ref_bytes=packed))
        return Groups(decided, self.counted_by)

    def pack(self) -> Any:
        """Converts the groups to plain values."""
        rule = self.counted_by
        packed_rule = None if rule is None else (list((rule.splits.fractions or {}).items()), rule.seed)
        if self.totals is None:
            return None, packed_rule
        rows = [
            (*group, found.samples, found.source_bytes, found.ref_bytes, list(found.labels.items()))
            for group, found in self.totals.items()
        ]
        return rows, packed_rule

    @classmethod
    def unpack(cls, packed: Any) -> Groups:
        """Makes groups from the values of `pack`."""
        rows, packed_rule = packed
        rule = None if packed_rule is None else AssignSplits(Splits(dict(packed_rule[0])), packed_rule[1])
        if rows is None:
            return cls(None, rule)
        totals = {}
        for at, split, label, failed, has_objects, samples, source_bytes, ref_bytes, labels in rows:
            group = SampleGroup(at, split, _hashable(label), failed, has_objects)
            totals[group] = GroupTotals(samples, source_bytes, ref_bytes, Counter(dict(labels)))
        return cls(totals, rule)


def _hashable(label: Any) -> Any:
    return tuple(label) if isinstance(label, list) else label


@functools.lru_cache(maxsize=256)
def _packed_bytes(split: str | None) -> int:
    """Returns the bytes of a split in `pack_identity`."""
    return len(msgpack.packb(split))
