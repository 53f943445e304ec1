"""Finds samples that are in several splits, in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from beam_tfrecords.transforms.hashing import SPACE, order_hashes
from beam_tfrecords.transforms.listing.listing import Listing, read_light

# Most hashes in memory, 8 bytes each; for more samples, the listing is read several times.
_MOST_HASHES = 10_000_000
# Most keys to look up.
_MOST_KEYS = 100


def find_shared_key(listing: Listing) -> tuple[str, list[str]] | None:
    """Returns a key that samples of several splits have, and these splits; None if there is none."""
    passes = -(-listing.total // _MOST_HASHES)
    for number in range(passes):
        start, end = (SPACE * at // passes for at in (number, number + 1))
        found: dict[str, list[Any]] = {}
        for split, _, hashes in _read(listing):
            found.setdefault(split, []).append(hashes[(hashes >= start) & (hashes <= end - 1)])
        if not found:
            return None
        distinct = np.concatenate([np.unique(np.concatenate(parts)) for parts in found.values()])
        hashes, counts = np.unique(distinct, return_counts=True)
        if (counts > 1).any() and (shared := _find_splits(listing, {*hashes[counts > 1][:_MOST_KEYS].tolist()})):
            return shared
    return None


def _find_splits(listing: Listing, candidates: Collection[int]) -> tuple[str, list[str]] | None:
    """Returns the alphabetically first key in several splits, by the keys: candidates of one hash may differ."""
    splits: dict[str, set[str]] = {}
    for split, keys, hashes in _read(listing):
        for key, hashed in zip(keys, hashes.tolist(), strict=True):
            if hashed in candidates:
                splits.setdefault(key, set()).add(split)
    shared = sorted(key for key, found in splits.items() if len(found) > 1)
    return (shared[0], sorted(splits[shared[0]])) if shared else None


def _read(listing: Listing) -> Iterator[tuple[str, list[str], Any]]:
    """Yields split, keys and hashes of the keys, of the samples that are not rejected."""
    for refs in read_light(listing):
        by_split: dict[str, list[str]] = {}
        for key, split, failure in zip(refs.keys, refs.each("split"), refs.each("failure"), strict=True):
            if failure is None and split:
                by_split.setdefault(split, []).append(key)
        for split, keys in by_split.items():
            yield split, keys, np.asarray(order_hashes(seed=0, keys=keys))
