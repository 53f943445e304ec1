"""Groups: samples counted by what decisions look at."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import msgpack

from beam_tfrecords.transforms.listing.decisions import AssignSplits, Decision
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.detect.path_splits import paths_of
from beam_tfrecords.transforms.splits import Splits

# With more groups, the totals after a decision are counted sample by sample.
_MOST_GROUPS = 100_000

# (key of a specimen, split, label, whether the samples failed); a list of labels is a tuple.
GroupKey: TypeAlias = "tuple[str, str | None, Any, bool]"


class GroupTotals(NamedTuple):
    """The totals of a group.

    Attributes:
      samples: number of samples.
      source_bytes: bytes of their images.
      ref_bytes: their share of `Listing.ref_bytes`.
    """

    samples: int
    source_bytes: int
    ref_bytes: int


@dataclasses.dataclass
class Groups:
    """Samples counted by folder, split, label and failure, in bounded memory.

    Samples of one group get the same label and split by every decision that looks at nothing else, so the totals after
    it follow from one specimen of each group.

    Attributes:
      totals: key of a group -> its totals; None if there are too many groups, or samples have objects.
      counted_by: decision that looks at each sample, and has assigned the splits of the groups, but not those in the
        chunk files.
    """

    totals: dict[GroupKey, GroupTotals] | None = dataclasses.field(default_factory=dict)
    counted_by: AssignSplits | None = None

    def add(self, refs: RefColumns, ref_bytes: Sequence[int], *, by_image: bool, count_labels: bool) -> None:
        """Counts references.

        Args:
          refs: the references.
          ref_bytes: share of each in `Listing.ref_bytes`.
          by_image: as in `PathWords.add`.
          count_labels: whether groups differ in labels.
        """
        if self.totals is None:
            return
        if any(refs.each("objects")):
            self.totals = None
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
        of_each = zip(
            paths_of(refs, by_image=by_image), refs.each("split"), labels, refs.each("failure"),
            refs.each("size"), ref_bytes, strict=True,
        )  # fmt: skip
        found: dict[GroupKey, list[int]] = {}
        for path, split, label, failure, size, packed in of_each:
            # The key of a failed sample may be the name of a container.
            at = path if failure is not None else path[: path.rfind("/") + 1]
            group = at, split, tuple(label) if isinstance(label, list) else label, failure is not None
            counts = found.setdefault(group, [0, 0, 0])
            counts[0] += 1
            counts[1] += size
            counts[2] += packed
        self._add({group: GroupTotals(*counts) for group, counts in found.items()})

    def merge(self, other: Groups) -> None:
        """Adds the samples of other groups."""
        if self.totals == {}:
            self.counted_by = other.counted_by
        if other.totals is None or (other.totals and other.counted_by != self.counted_by):
            self.totals = None
        else:
            self._add(other.totals)

    def _add(self, others: dict[GroupKey, GroupTotals]) -> None:
        totals = self.totals
        if totals is None:
            return
        for group, added in others.items():
            before = totals.get(group)
            totals[group] = added if before is None else GroupTotals(*map(sum, zip(before, added, strict=True)))
        if len(totals) > _MOST_GROUPS:
            self.totals = None

    def specimens(self) -> RefColumns:
        """Returns a reference for each group, in order."""
        groups = list(self.totals or ())
        return RefColumns.of_rows(
            [at for at, *_ in groups],
            [list(label) if isinstance(label, tuple) else label for _, _, label, _ in groups],
            {},
            split=[split for _, split, _, _ in groups],
            failure=[["", ""] if failed else None for *_, failed in groups],
        )

    def apply(self, step: Decision) -> Groups | None:
        """Returns the groups after a decision; None if it does not decide all samples of a group alike."""
        if self.totals is None:
            return None
        if step == self.counted_by:
            return self
        if not step.by_group:
            return None
        before = self.specimens()
        after = step.apply(before)
        grown = [len(new) - len(old) for new, old in zip(after.identities(), before.identities(), strict=True)]
        decided = Groups(counted_by=self.counted_by)
        failed = [failure is not None for failure in after.each("failure")]
        rows = zip(self.values(), after.keys, after.each("split"), after.labels, failed, grown, strict=True)
        for totals, at, split, label, is_failed, more in rows:
            packed = 0 if is_failed else totals.ref_bytes + more * totals.samples
            group = at, split, tuple(label) if isinstance(label, list) else label, is_failed
            decided._add({group: totals._replace(ref_bytes=packed)})
        return decided

    def values(self) -> Sequence[GroupTotals]:
        """Returns the totals of each group."""
        return list((self.totals or {}).values())

    def pack(self) -> Any:
        """Converts the groups to plain values."""
        rule = self.counted_by
        packed_rule = None if rule is None else (list((rule.splits.fractions or {}).items()), rule.seed)
        totals = None if self.totals is None else [(*group, *found) for group, found in self.totals.items()]
        return totals, packed_rule

    @classmethod
    def unpack(cls, packed: Any) -> Groups:
        """Makes groups from the values of `pack`."""
        rows, packed_rule = packed
        rule = None if packed_rule is None else AssignSplits(Splits(dict(packed_rule[0])), packed_rule[1])
        if rows is None:
            return cls(None, rule)
        totals = {
            (at, split, tuple(label) if isinstance(label, list) else label, failed): GroupTotals(*counts)
            for at, split, label, failed, *counts in rows
        }
        return cls(totals, rule)


@functools.lru_cache(maxsize=256)
def _packed_bytes(split: str | None) -> int:
    """Returns the bytes of a split in `pack_identity`."""
    return len(msgpack.packb(split))
