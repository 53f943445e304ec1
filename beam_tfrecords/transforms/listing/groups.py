"""Groups: samples counted by what decisions look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from beam_tfrecords.transforms.listing.decisions import Decision
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.detect.path_splits import paths_of

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
    """

    totals: dict[GroupKey, GroupTotals] | None = dataclasses.field(default_factory=dict)

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
        if other.totals is None:
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

    def apply(self, step: Decision) -> Groups:
        """Returns the groups after a decision that leaves out no sample."""
        before = self.specimens()
        after = step.apply(before)
        grown = [len(new) - len(old) for new, old in zip(after.identities(), before.identities(), strict=True)]
        decided = Groups()
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
        return None if self.totals is None else [(*group, *totals) for group, totals in self.totals.items()]

    @classmethod
    def unpack(cls, packed: Any) -> Groups:
        """Makes groups from the values of `pack`."""
        if packed is None:
            return cls(None)
        rows: Iterator[Any] = iter(packed)
        return cls(
            {
                (at, split, tuple(label) if isinstance(label, list) else label, failed): GroupTotals(*counts)
                for at, split, label, failed, *counts in rows
            }
        )
