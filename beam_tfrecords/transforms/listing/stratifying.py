"""Stratified splits: every class is split by the fractions, exactly for single samples, as well as groups allow."""

from __future__ import annotations

import dataclasses
import itertools
import math
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeAlias

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.hashing import split_hashes
from beam_tfrecords.transforms.listing.listing import Listing, read_batches
from beam_tfrecords.transforms.refs.ref_columns import RefColumns

# Classes of a sample: its label or labels, and a pair (column, class) for each column of classes.
Stratum: TypeAlias = tuple[Hashable, ...]
# Stands for all samples, because the splits have fractions of these as well.
_ALL = ()
# Groups of samples that a worker receives.
_MOST_GROUPS = 100_000


@dataclasses.dataclass(frozen=True)
class Strata:
    """The split of each class: a decision about each reference.

    Attributes:
      fractions: split -> its fraction.
      seed: seed of the split hashes.
      heads: columns with classes.
      cuts: classes of a sample -> the split hash at which each split but the first starts.
      of_group: group -> number of its split.
    """

    fractions: Mapping[str, float]
    seed: int
    heads: Sequence[str]
    # The listing and the other attributes determine these.
    cuts: Mapping[Stratum, Sequence[int]] = dataclasses.field(compare=False)
    of_group: Mapping[str, int] = dataclasses.field(compare=False)

    by_group = by_key = False

    @property
    def is_large(self) -> bool:
        """See `RowDecision.is_large`."""
        return len(self.of_group) > _MOST_GROUPS

    def apply(self, refs: RefColumns) -> RefColumns:
        """Returns the references with their splits, and without their groups."""
        splits = list(self.fractions)
        found = [
            bisect_right(self.cuts[stratum], value) if group is None else self.of_group[group]
            for stratum, group, value in _rows(refs, self.heads, self.seed)
        ]
        return refs.replace(split=[splits[number] for number in found], group=None)


def find_strata(listing: Listing, *, fractions: Mapping[str, float], seed: int) -> Strata:
    """Finds the split of every listed sample so that each split has its fraction of each class.

    The samples of a class are sorted by their split hash, and the sorted list is cut at the fractions. Unstratified
    splits cut the hash range instead: there a new sample moves no other sample, but the counts are approximate.

    Groups stay whole. Those with the largest shares of their classes are placed first, each in the split where it adds
    least to the sum of (samples - expected)^2 / expected over all classes and splits.

    Args:
      listing: the samples. Needs 8 bytes of memory per sample, or the class counts of each group.

    Raises:
      RequestError: no sample has a label.
    """
    heads = [*listing.column_labels]
    hashes: defaultdict[Stratum, array[int]] = defaultdict(lambda: array("Q"))
    groups: defaultdict[str, Counter[Hashable]] = defaultdict(Counter)
    totals: Counter[Hashable] = Counter()
    for refs in read_batches(listing):
        for stratum, group, value in _rows(refs, heads, seed):
            totals.update(_classes(stratum))
            if group is None:
                hashes[stratum].append(value)
            else:
                groups[group].update(_classes(stratum))
    if totals and totals.keys() <= {None, _ALL}:
        raise RequestError("`stratify`: the samples have no labels to stratify by", code="setting_not_applicable")
    filling = _Filling([*fractions.values()], totals)
    cuts = {}
    for stratum, values in sorted(hashes.items(), key=lambda item: (-len(item[1]), min(item[1]))):
        ends = itertools.accumulate(filling.divide(stratum, len(values), has_heads=bool(heads)))
        by_hash = sorted(values)
        # A split that gets no sample of the class, and all after it, need no start.
        cuts[stratum] = [by_hash[end] for end in [*ends][:-1] if end < len(by_hash)]
    order = dict(zip(groups, split_hashes(seed=seed, keys=groups), strict=True))
    of_group = {}
    for group in sorted(groups, key=lambda group: (-filling.weight(groups[group]), order[group])):
        of_group[group] = filling.place(groups[group])
    return Strata(dict(fractions), seed, heads, cuts, of_group)


def _rows(refs: RefColumns, heads: Sequence[str], seed: int) -> Iterator[tuple[Stratum, str | None, int]]:
    """Yields stratum, group and split hash of each reference."""
    return zip(_strata(refs, heads), refs.each("group"), split_hashes(seed=seed, keys=refs.keys), strict=True)


class _Filling:
    """Counts the samples of each class in each split while groups and remainders are placed.

    Sums are rounded once (`math.fsum`), so they do not depend on the order of the classes, and are the same everywhere.

    Args:
      fractions: fraction of each split.
      totals: class -> number of its samples.
    """

    def __init__(self, fractions: Sequence[float], totals: Mapping[Hashable, int]) -> None:
        self._fractions = fractions
        self._totals = totals
        self._filled: list[Counter[Hashable]] = [Counter() for _ in fractions]

    def weight(self, counts: Mapping[Hashable, int]) -> float:
        """Returns a number that is large for groups that are hard to place: sum of squares over expected counts."""
        return math.fsum(count * count / self._totals[name] for name, count in counts.items())

    def place(self, counts: Mapping[Hashable, int]) -> int:
        """Places samples in the split where they fit best; returns its number."""

        def cost(split: int) -> float:
            filled, fraction = self._filled[split], self._fractions[split]
            added = (count * (2 * filled[name] + count) / self._totals[name] for name, count in counts.items())
            return math.fsum(added) / fraction

        best = min(range(len(self._fractions)), key=cost)
        self._filled[best].update(counts)
        return best

    def divide(self, stratum: Stratum, samples: int, *, has_heads: bool) -> list[int]:
        """Places single samples; returns the number for each split.

        Args:
          stratum: the classes of each of them.
          samples: number of samples.
          has_heads: whether samples have classes of several kinds. Their combinations may be rare, so that rounding
            each by itself would leave small splits empty: what is left of it goes where it fits best.
        """
        one = dict.fromkeys(_classes(stratum), 1)
        if has_heads:
            counts = [int(samples * fraction) for fraction in self._fractions]
        else:
            shares = itertools.accumulate(self._fractions[:-1])
            ends = [0, *(int(share * samples + 0.5) for share in shares), samples]
            counts = [end - start for start, end in itertools.pairwise(ends)]
        for filled, count in zip(self._filled, counts, strict=True):
            filled.update(dict.fromkeys(one, count))
        for _ in range(samples - sum(counts)):
            counts[self.place(one)] += 1
        return counts


def _classes(stratum: Stratum) -> tuple[Hashable, ...]:
    return (*dict.fromkeys(stratum), _ALL)


def _strata(refs: RefColumns, heads: Sequence[str]) -> Iterator[Stratum]:
    """Yields the stratum of each reference."""
    columns = [refs.columns.get(name, [None] * len(refs)) for name in heads]
    for label, *values in zip(refs.labels, *columns, strict=True):
        yield (*(label if isinstance(label, list) else [label]), *zip(heads, values, strict=True))
