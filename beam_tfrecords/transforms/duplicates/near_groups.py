"""Forms groups of near hashes, then reads the images with these hashes, and lists them.

A hash and the higher hashes near it form a group, unless the group of a lower hash contains all of them. So every pair
is in a group. If most hashes are near each other, as for a fixed camera, there would be a group for almost every hash,
with almost all images in it. So crowded hashes, which have more than `MOST_NEAR` near ones, are connected: a connected
set of crowded hashes and all hashes near one of them form a single group.

The groups are formed before any image is read. The images are read once per part, and joined with the groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgpack
import numpy as np

from beam_tfrecords.transforms.duplicates.groups import DuplicatesFound, Group, place_image, write_groups
from beam_tfrecords.transforms.duplicates.near import (
    MOST_PAIRS,
    count_bits,
    count_near,
    find_range,
    keep_lowest,
    split_rows,
)
from beam_tfrecords.transforms.duplicates.search import MOST_NEAR, DuplicateSearch, Image, PartId, read_labels
from beam_tfrecords.transforms.parts import read_index

# Maximum number of lower hashes whose groups are checked for containing a group.
_MOST_BELOW = 8
# Pairs of a crowded hash that are used to connect it with others.
_LINKS = 8
# Maximum number of images in the line of a group of crowded hashes. Each range of hashes sends at most this number.
MOST_CROWDED = 100

# (hash of images or first hash of a group, whether this is a group of crowded hashes)
GroupKey: TypeAlias = "tuple[int, bool]"


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


def read_near_images(
    joined: tuple[PartId, Mapping[str, Iterable[Any]]], *, search: DuplicateSearch
) -> Iterator[tuple[int, bytes]]:
    """Reads the images of a part that have near hashes; yields (range of the hash, packed groups, one for each hash).

    Args:
      joined: the part's id; `parts` has the part, `hashes` its hashes with near ones.
    """
    identity, values = joined
    near = np.unique(np.frombuffer(b"".join(values["hashes"]), np.uint64))
    if not near.size:
        return
    (part,) = values["parts"]
    table = read_index(part, "phash", "content_hash", "key", "uri", "label")
    is_near = np.isin(table["phash"].fill_null(0).to_numpy(), near) & table["phash"].is_valid().to_numpy()
    rows = np.flatnonzero(is_near)
    found = dict(zip(rows.tolist(), table.take(rows).to_pylist(), strict=True))
    images = [Image(row, one["content_hash"], one["key"], one["uri"], one["label"], {}) for row, one in found.items()]
    if search.reads_records:
        images = list(read_labels(images, part, search=search))
    groups: defaultdict[GroupKey, Group] = defaultdict(Group)
    ranks = search.ranks
    for image in images:
        # The first of identical images stands for all of them, because these have their own line.
        place = place_image(ranks, identity, image)
        groups[found[image.row]["phash"], False].add(part.split, place, image, listed_as=image.content_hash)
    yield from _pack(groups, search)


def gather_images(
    joined: tuple[int, Mapping[str, Iterable[bytes]]], *, search: DuplicateSearch
) -> Iterator[tuple[int, bytes]]:
    """Packs the images of one range of hashes by group; yields (range of the group's first hash, packed groups).

    Args:
      joined: the range; `images` has results of `read_near_images`, `groups` the groups of its hashes.
    """
    _, values = joined
    by_hash = _merge(values["images"])
    groups: defaultdict[GroupKey, Group] = defaultdict(Group)
    for packed in values["groups"]:
        for phash, first, is_crowd in unpack_rows(packed, 3).tolist():
            groups[first, bool(is_crowd)].merge(by_hash[phash, False])
    yield from _pack(groups, search)


def describe_near(bucket: tuple[int, Iterable[bytes]], *, search: DuplicateSearch) -> DuplicatesFound:
    """Lists the groups whose first hash lies in one range."""
    number, packed = bucket
    lines = []
    for (first, is_crowd), group in sorted(_merge(packed).items()):
        if group.distinct < 2:
            continue
        if is_crowd:
            group.shorten(MOST_CROWDED)
        kept = {"crowded": True} if is_crowd else {}
        lines.append({"kind": "near", "phash": f"{first:016x}", **group.to_json(**kept)})
    files, counts = write_groups(search, number, lines, "_near")
    return DuplicatesFound(files, (), count_near(counts))


def _pack(groups: Mapping[GroupKey, Group], search: DuplicateSearch) -> Iterator[tuple[int, bytes]]:
    """Packs groups by the range of their first hash."""
    numbers = find_range(np.array([phash for phash, _ in groups], np.uint64), search.near_buckets).tolist()
    by_range: defaultdict[int, list[Any]] = defaultdict(list)
    for number, (key, group) in zip(numbers, groups.items(), strict=True):
        if key[1]:
            group.shorten(MOST_CROWDED)
        by_range[number].append((key, group.pack()))
    for number, found in by_range.items():
        yield number, msgpack.packb(found)


def _merge(packed: Iterable[bytes]) -> dict[GroupKey, Group]:
    groups: defaultdict[GroupKey, Group] = defaultdict(Group)
    for one in packed:
        for (phash, is_crowd), values in msgpack.unpackb(one):
            groups[phash, is_crowd].merge(Group.unpack(values))
    return groups
