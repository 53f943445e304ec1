"""Finds samples that are in several splits, in bounded memory."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from beam_tfrecords.transforms.hashing import SPACE, order_hashes
from beam_tfrecords.transforms.listing.listing import Listing, read_light
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import MASK, name_of_place

# Most hashes in memory, 8 bytes each; for more samples, the listing is read several times.
_MOST_HASHES = 10_000_000
# Most keys to look up.
_MOST_KEYS = 100


def find_shared_key(listing: Listing, *, by_image: bool = False) -> tuple[str, list[str]] | None:
    """Returns a key that samples of several splits have, and these splits; None if there is none.

    Args:
      listing: the samples.
      by_image: whether to compare the files of the images, which rows may write in several ways, instead of keys.
    """
    passes = -(-listing.total // _MOST_HASHES)
    for number in range(passes):
        start, end = (SPACE * at // passes for at in (number, number + 1))
        found: dict[str, list[Any]] = {}
        for split, _, hashes in _read(listing, by_image=by_image):
            found.setdefault(split, []).append(hashes[(hashes >= start) & (hashes <= end - 1)])
        if not found:
            return None
        distinct = np.concatenate([np.unique(np.concatenate(parts)) for parts in found.values()])
        hashes, counts = np.unique(distinct, return_counts=True)
        if (counts > 1).any() and (
            shared := _find_splits(listing, {*hashes[counts > 1][:_MOST_KEYS].tolist()}, by_image=by_image)
        ):
            return shared
    return None


def _find_splits(listing: Listing, candidates: Collection[int], *, by_image: bool) -> tuple[str, list[str]] | None:
    """Returns the alphabetically first key in several splits, by the keys: candidates of one hash may differ."""
    splits: dict[str, set[str]] = {}
    for split, keys, hashes in _read(listing, by_image=by_image):
        for key, hashed in zip(keys, hashes.tolist(), strict=True):
            if hashed in candidates:
                splits.setdefault(key, set()).add(split)
    shared = sorted(key for key, found in splits.items() if len(found) > 1)
    return (shared[0], sorted(splits[shared[0]])) if shared else None


def _read(listing: Listing, *, by_image: bool) -> Iterator[tuple[str, list[str], Any]]:
    """Yields split, keys and hashes of the keys, of the samples that are not rejected."""
    for refs in read_light(listing):
        by_split: dict[str, list[str]] = {}
        for key, split, failure in zip(
            _names_of_images(refs) if by_image else refs.keys, refs.each("split"), refs.each("failure"), strict=True
        ):
            if failure is None and split:
                by_split.setdefault(split, []).append(key)
        for split, keys in by_split.items():
            yield split, keys, np.asarray(order_hashes(seed=0, keys=keys))


def _names_of_images(refs: RefColumns) -> list[str]:
    """Returns the paths of each sample's images; the key of a sample without images."""
    paths = (
        [_plain(name_of_place(place)) for name, place in images.items() if name != MASK]
        for images in refs.each("images")
    )
    return [" and ".join(of_one) or key for of_one, key in zip(paths, refs.keys, strict=True)]


def _plain(path: str) -> str:
    """Returns a path without `./` and `../` in it."""
    return posixpath.normpath(path) if "/." in path else path
