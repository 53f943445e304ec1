"""Forms groups of near hashes, then reads the images with these hashes, and lists them.

A hash and the higher hashes near it form a group, unless the group of a lower hash contains all of them. So every pair
is in a group. If most hashes are near each other, as for a fixed camera, there would be a group for almost every hash,
with almost all images in it. So a crowded hash, which has more than `MOST_NEAR` near ones, is only in the group of the
lowest of them, unless it is the lowest itself.

The groups are formed before any image is read. The images are read once per part, and joined with the groups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgpack
import numpy as np

from beam_tfrecords.transforms.duplicates.groups import DuplicatesFound, Group, place_image, write_groups
from beam_tfrecords.transforms.duplicates.near import (
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


def merge_pairs(bucket: tuple[int, Iterable[bytes]]) -> np.ndarray:
    """Merges the pairs of all bands whose first hash lies in one range: [N, 2] uint64; see `keep_lowest`."""
    return keep_lowest([unpack_rows(packed) for packed in bucket[1]])


def unpack_rows(packed: bytes) -> np.ndarray:
    """Unpacks rows of `split_rows`: [N, 2] uint64."""
    return np.frombuffer(packed, np.uint64).reshape(-1, 2)


def assign_groups(pairs: np.ndarray, *, search: DuplicateSearch) -> Iterator[tuple[int, bytes]]:
    """Assigns hashes to groups; yields packed rows by the range of the hash.

    Yields:
      Range, and packed [N, 2] uint64: a hash, and the first hash of its group.
    """
    if not len(pairs):
        return
    owns, starts = np.unique(pairs[:, 0], return_index=True)
    rows = []
    for own, near in zip(owns, np.split(pairs[:, 1], starts[1:]), strict=True):
        lower, higher = near[near < own], near[near >= own]
        if lower.size:
            # The group of the lowest hash may be that of a crowded one, which does not list all near ones itself.
            rows.append(np.array([[own, lower[0]], [lower[0], lower[0]]]))
        is_crowded = near.size > MOST_NEAR and lower.size
        if higher.size and not is_crowded and not _is_listed(higher, lower, search.near_distance):
            members = np.unique(np.append(higher, own))
            rows.append(np.stack([members, np.full_like(members, own)], axis=1))
    found = np.unique(np.concatenate(rows), axis=0)
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
    groups: defaultdict[int, Group] = defaultdict(Group)
    ranks = search.ranks
    for image in images:
        # The first of identical images stands for all of them, because these have their own line.
        place = place_image(ranks, identity, image)
        groups[found[image.row]["phash"]].add(part.split, place, image, listed_as=image.content_hash)
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
    groups: defaultdict[int, Group] = defaultdict(Group)
    # Several ranges may add the first hash to its group.
    for phash, first in np.unique(unpack_rows(b"".join(values["groups"])), axis=0).tolist():
        groups[first].merge(by_hash[phash])
    yield from _pack(groups, search)


def describe_near(bucket: tuple[int, Iterable[bytes]], *, search: DuplicateSearch) -> DuplicatesFound:
    """Lists the groups whose first hash lies in one range."""
    number, packed = bucket
    lines = [
        {"kind": "near", "phash": f"{first:016x}", **group.to_json()}
        for first, group in sorted(_merge(packed).items())
        if group.distinct > 1
    ]
    files, counts = write_groups(search, number, lines, "_near")
    return DuplicatesFound(files, (), count_near(counts))


def _pack(groups: Mapping[int, Group], search: DuplicateSearch) -> Iterator[tuple[int, bytes]]:
    """Packs groups by the range of their first hash."""
    numbers = find_range(np.array([*groups], np.uint64), search.near_buckets).tolist()
    by_range: defaultdict[int, list[Any]] = defaultdict(list)
    for number, (first, group) in zip(numbers, groups.items(), strict=True):
        by_range[number].append((first, group.pack()))
    for number, found in by_range.items():
        yield number, msgpack.packb(found)


def _merge(packed: Iterable[bytes]) -> dict[int, Group]:
    groups: defaultdict[int, Group] = defaultdict(Group)
    for one in packed:
        for first, values in msgpack.unpackb(one):
            groups[first].merge(Group.unpack(values))
    return groups
