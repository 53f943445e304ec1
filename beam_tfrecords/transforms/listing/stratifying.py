"""Stratified splits: the fractions hold within each class, to the sample."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from beam_tfrecords.transforms.hashing import split_hashes
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_batches, write_listing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Value


def stratify(listing: Listing, folder: str, *, fractions: Mapping[str, float], seed: int) -> Listing:
    """Gives every listed sample its split by its rank among the samples of its class.

    The samples of a class are ordered by the hash that fractions are cut from, and the order is cut at the fractions of
    their number. Without this, the hash itself is cut: a new sample then moves no other, but counts are only close.

    Args:
      listing: the samples. Memory: 8 bytes for each.
      folder: where the new chunk files go; they replace those of the listing.
    """
    hashes: defaultdict[object, array[int]] = defaultdict(lambda: array("Q"))
    for refs in read_batches(listing):
        for label, value in zip(refs.labels, split_hashes(seed=seed, keys=refs.keys), strict=True):
            hashes[_stratum(label)].append(value)
    cuts = {stratum: _cuts(sorted(values), fractions) for stratum, values in hashes.items()}
    splits = list(fractions)

    def assign(refs: RefColumns) -> RefColumns:
        values = zip(refs.labels, split_hashes(seed=seed, keys=refs.keys), strict=True)
        return refs.replace(split=[splits[bisect_right(cuts[_stratum(label)], value)] for label, value in values])

    plan = ListPlan(None, seed, count_labels=bool(listing.labels))
    return write_listing(map(assign, read_batches(listing)), folder, plan=plan, stem="stratified-")


def _cuts(hashes: Sequence[int], fractions: Mapping[str, float]) -> list[int]:
    """The hashes at which each split but the first begins; past the largest where it has no sample."""
    cuts, share = [], 0.0
    for fraction in list(fractions.values())[:-1]:
        share += fraction
        rank = int(share * len(hashes) + 0.5)
        cuts.append(hashes[rank] if rank < len(hashes) else 1 << 64)
    return cuts


def _stratum(label: Value) -> object:
    return tuple(label) if isinstance(label, list) else label
