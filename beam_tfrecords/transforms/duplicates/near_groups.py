"""Groups of near hashes, before any image is read.

A hash and the higher ones near to it are a group, unless all of it is near to a lower hash, whose group has it. So
every pair is in a group. Where most hashes are near to each other, as those of a fixed camera, that would be a group
for almost each hash, with almost all images in it. Crowded hashes, which have more than `MOST_NEAR` near to them, make
one group with all that they lead to by hashes that are crowded too, and with the hashes near to one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from beam_tfrecords.transforms.duplicates.near import MOST_PAIRS, count_bits, keep_lowest, split_rows
from beam_tfrecords.transforms.duplicates.search import MOST_NEAR, DuplicateSearch

# Lower hashes near to the first of a group that may have listed the group already.
_MOST_BELOW = 8
# Pairs of a crowded hash that are looked at to find out to which others it leads.
_LINKS = 8


class Crowds(NamedTuple):
    """All crowded hashes.

    Attributes:
      hashes: [N] uint64, sorted.
      firsts: [N] uint64, the lowest of those that each leads to.
      is_whole: whether all pairs of them were looked at.
    """

    hashes: np.ndarray
    firsts: np.ndarray
    is_whole: bool

    def find(self, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of [M] hashes are crowded, and the first of their groups; any number where they are not."""
        if not self.hashes.size:
            return np.zeros(hashes.size, bool), hashes
        places = np.minimum(np.searchsorted(self.hashes, hashes), self.hashes.size - 1)
        return self.hashes[places] == hashes, self.firsts[places]


def merge_pairs(bucket: tuple[int, Iterable[bytes]]) -> np.ndarray:
    """The pairs of all bands whose first hash is in one range: [N, 2] uint64; see `keep_lowest`."""
    return keep_lowest([unpack_rows(packed) for packed in bucket[1]])


def unpack_rows(packed: bytes, columns: int = 2) -> np.ndarray:
    """Rows as `split_rows` packs them: [N, columns] uint64."""
    return np.frombuffer(packed, np.uint64).reshape(-1, columns)


def find_crowded(pairs: np.ndarray) -> bytes:
    """The pairs of crowded hashes with the lowest of those near to them, packed."""
    _, starts, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    places = (starts[counts > MOST_NEAR][:, None] + np.arange(_LINKS)).reshape(-1)
    return pairs[places].tobytes()


def join_crowds(packed: bytes) -> Crowds:
    """Joins crowded hashes that lead to each other, from what `find_crowded` says of all."""
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
        # Each goes on from where it leads to, so that a long way takes few rounds.
        reached = reached[reached]
        if (reached == lowest).all():
            return Crowds(hashes, hashes[lowest], len(pairs) <= MOST_PAIRS)
        lowest = reached


def assign_groups(pairs: np.ndarray, crowds: Crowds, *, search: DuplicateSearch) -> Iterator[tuple[int, bytes]]:
    """The groups of hashes, by the range of the hash.

    Returns:
      [N, 3] uint64: a hash, the first hash of a group that has it, and whether that is a group of crowded hashes.
    """
    if not len(pairs):
        return
    owns, starts = np.unique(pairs[:, 0], return_index=True)
    own_is_crowded, own_firsts = crowds.find(owns)
    is_crowded, firsts = crowds.find(pairs[:, 1])
    rows = [np.stack([owns, own_firsts, own_is_crowded], axis=1)[own_is_crowded]]
    # A pair with a crowded hash is in the group of that.
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
