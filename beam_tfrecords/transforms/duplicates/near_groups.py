"""Forms groups of near hashes, before any image is read.

A hash and the higher hashes near it form a group, unless the group of a lower hash contains all of them. So every pair
is in a group. If most hashes are near each other, as for a fixed camera, there would be a group for almost every hash,
with almost all images in it. So crowded hashes, which have more than `MOST_NEAR` near ones, are connected: a connected
set of crowded hashes and all hashes near one of them form a single group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from beam_tfrecords.transforms.duplicates.near import MOST_PAIRS, count_bits, keep_lowest, split_rows
from beam_tfrecords.transforms.duplicates.search import MOST_NEAR, DuplicateSearch

# Maximum number of lower hashes whose groups are checked for containing a group.
_MOST_BELOW = 8
# Pairs of a crowded hash that are used to connect it with others.
_LINKS = 8


class Crowds(NamedTuple):
    """All crowded hashes.

    Attributes:
      hashes: [N] uint64, sorted.
      firsts: [N] uint64, the lowest crowded hash connected with each.
      is_whole: whether all their pairs were used.
    """

    hashes: np.ndarray
    firsts: np.ndarray
    is_whole: bool

    def find(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns which of [M] hashes are crowded, and the first hash of their groups; arbitrary for other hashes."""
        if not self.hashes.size:
            return np.zeros(hashes.size, bool), hashes
        places = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return self.hashes[places] == hashes, self.firsts[places]


def merge_pairs(bucket: tuple[int, Iterable[bytes]]) -> np.ndarray:
    """Merges the pairs of all bands whose first hash lies in one range: [N, 2] uint64; see `keep_lowest`."""
    return keep_lowest([unpack_rows(packed) for packed in bucket[1]])


def unpack_rows(packed: bytes, columns: int = 2) -> np.ndarray:
    """Unpacks rows of `split_rows`: [N, columns] uint64."""
    return np.frombuffer(packed, np.uint64).reshape(-1, columns)


def find_crowded(pairs: np.ndarray) -> bytes:
    """Returns the pairs of crowded hashes with their lowest near hashes, packed."""
    _, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    places = (starts[counts > MOST_NEAR][:, None] + np.arange(_LINKS)).reshape(-1)
    return pairs[places].tobytes()


def join_crowds(packed: bytes) -> Crowds:
    """Connects crowded hashes, from the joined results of `find_crowded`."""
    pairs = keep_lowest([unpack_rows(packed)])
    hashes = np.unique(pairs[:, 0])
    linked = pairs[:MOST_PAIRS]
    linked = linked[np.isin(linked[:, 1], hashes)]
    ones, others = np.searchsorted(hashes, linked.T)
    lowest = np.arange(hashes.size)
    while True:
        reached = lowest.copy()
        np.minimum.at(reached, ones, lowest[others])
        np.minimum.at(reached, others, lowest[ones])
        # Pointer jumping: long chains need only a few rounds.
        reached = reached[reached]
        if (reached == lowest).all():
            return Crowds(hashes, hashes[lowest], len(pairs) <= MOST_PAIRS)
        lowest = reached


def assign_groups(pairs: np.ndarray, crowds: Crowds, *, search: DuplicateSearch) -> Iterator[tuple[int, bytes]]:
    """Assigns hashes to groups; yields packed rows by the range of the hash.

    Yields:
      Range, and packed [N, 3] uint64: a hash, the first hash of its group, and whether it is a group of crowded hashes.
    """
    if not len(pairs):
        return
    owns, starts = np.unique(pairs[:, 0], return_index=True)
    own_is_crowded, own_firsts = crowds.find(owns)
    is_crowded, firsts = crowds.find(pairs[:, 1])
    rows = [np.stack([owns, own_firsts, own_is_crowded], axis=1)[own_is_crowded]]
    # A pair with a crowded hash belongs to the group of the crowded hash.
    outside = ~np.repeat(own_is_crowded, np.diff(np.append(starts, len(pairs))))
    joining = outside & is_crowded
    rows.append(np.stack([pairs[:, 0], firsts, is_crowded], axis=1)[joining])
    for number in np.flatnonzero(~own_is_crowded):
        begin, end = starts[number], starts[number + 1] if number + 1 < owns.size else len(pairs)
        near, own = pairs[begin:end, 1], owns[number]
        higher = near[(near >= own) & ~is_crowded[begin:end]]
        if not higher.size or _is_listed(higher, near[near < own], search.near_distance):
            continue
        members = np.unique(np.append(higher, own))
        rows.append(np.stack([members, np.full_like(members, own), np.zeros_like(members)], axis=1))
    found = np.unique(np.concatenate(rows).astype(np.uint64), axis=0)
    yield from split_rows(found, found[:, 0], search.near_buckets)


def _is_listed(higher: np.ndarray, below: np.ndarray, distance: int) -> bool:
    return any((count_bits(higher ^ lower) <= distance).all() for lower in below[:_MOST_BELOW])
