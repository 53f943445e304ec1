"""Reads the images with near hashes once per part, joins them with the groups of their hashes, and lists them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgpack
import numpy as np

from beam_tfrecords.escaping import write_json
from beam_tfrecords.transforms.duplicates.groups import DuplicatesFound, Group, place_image, write_lists
from beam_tfrecords.transforms.duplicates.near import count_near, find_range
from beam_tfrecords.transforms.duplicates.near_groups import unpack_rows
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch, Image, PartId, read_labels
from beam_tfrecords.transforms.parts import read_index

# Maximum number of images in the line of a group of crowded hashes. Each range of hashes sends at most this number.
MOST_CROWDED = 100

# (hash of images or first hash of a group, whether this is a group of crowded hashes)
GroupKey: TypeAlias = "tuple[int, bool]"


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
    lines: dict[str, list[str]] = {"across": [], "within": []}
    counts: Counter[str] = Counter()
    for (first, is_crowd), group in sorted(_merge(packed).items()):
        if group.distinct < 2:
            continue
        if is_crowd:
            group.shorten(MOST_CROWDED)
        line = {"kind": "near", "phash": f"{first:016x}", **group.to_json(**({"crowded": True} if is_crowd else {}))}
        lines["across" if line["across_splits"] else "within"].append(write_json(line) + "\n")
        counts["groups"] += 1
        counts["groups_across_splits"] += line["across_splits"]
        counts["groups_with_conflicting_labels"] += line["conflicting_labels"]
    return DuplicatesFound(
        write_lists(search, {f"{kind}_near": lines[kind] for kind in lines}, number), (), count_near(counts)
    )


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
