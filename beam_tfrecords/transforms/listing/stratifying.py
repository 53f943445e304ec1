"""Stratified splits: every class is split by the exact fractions, up to rounding to whole samples."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.hashing import split_hashes
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_batches, write_listing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Value


def stratify(listing: Listing, folder: str, *, fractions: Mapping[str, float], seed: int) -> Listing:
    """Assigns every listed sample a split by its rank among the samples of its class.

    The samples of a class are sorted by their split hash, and the sorted list is cut at the fractions. Unstratified
    splits cut the hash range instead: there a new sample moves no other sample, but the counts are approximate.

    Args:
      listing: the samples. Needs 8 bytes of memory per sample.
      folder: where the new chunk files go, which replace those of the listing.

    Raises:
      RequestError: no sample has a label.
    """
    hashes: defaultdict[object, array[int]] = defaultdict(lambda: array("Q"))
    for refs in read_batches(listing):
        for label, value in zip(refs.labels, split_hashes(seed=seed, keys=refs.keys), strict=True):
            hashes[_stratum(label)].append(value)
    if hashes and hashes.keys() <= {None}:
        raise RequestError("`stratify`: the samples have no labels to stratify by", code="setting_not_applicable")
    cuts = {stratum: _cuts(sorted(values), fractions) for stratum, values in hashes.items()}
    splits = list(fractions)

    def assign(refs: RefColumns) -> RefColumns:
        values = zip(refs.labels, split_hashes(seed=seed, keys=refs.keys), strict=True)
        return refs.replace(split=[splits[bisect_right(cuts[_stratum(label)], value)] for label, value in values])

    plan = ListPlan(None, seed, count_labels=bool(listing.labels), class_columns=[*listing.column_labels])
    return write_listing(map(assign, read_batches(listing)), folder, plan=plan, stem="stratified-")


def _cuts(hashes: Sequence[int], fractions: Mapping[str, float]) -> list[int]:
    """Returns the hash at which each split but the first starts; 2**64 for a split without samples."""
    cuts, share = [], 0.0
    for fraction in list(fractions.values())[:-1]:
        share += fraction
        rank = int(share * len(hashes) + 0.5)
        cuts.append(hashes[rank] if rank < len(hashes) else 1 << 64)
    return cuts


def _stratum(label: Value) -> object:
    return tuple(label) if isinstance(label, list) else label
