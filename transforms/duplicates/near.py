"""The search for near-duplicates: images whose perceptual hashes differ in a few of their 64 bits.

Two hashes that differ in at most D bits agree in at least one of D + 1 bands of bits. So hashes are shuffled once per
band, and compared with those that agree in it; many of these are told apart by bands of the other bits in turn. Whole
index rows are read for the hashes of pairs alone.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgpack
import numpy as np

from beam_tfrecords.transforms.duplicates.groups import DuplicatesFound, Group, place_image, write_lists
from beam_tfrecords.transforms.duplicates.search import (
    IMAGE_COLUMNS,
    DuplicateSearch,
    Image,
    PartId,
    find_bucket,
    part_id,
    read_labels,
)
from beam_tfrecords.transforms.parts import Part, read_index
from beam_tfrecords.transforms.stats import Stats

# Band and range of its values.
Range: TypeAlias = "tuple[int, int]"

# What one worker compares at most; a range has more where most images look alike.
MOST_HASHES = 1 << 22
MOST_COMPARISONS = 2_000_000_000
MOST_PAIRS = 1_000_000
# More hashes than these that agree in a band are told apart by the other bits.
_FEW_HASHES = 512
# How often. Where hashes still agree then, most are near to each other, and it would only repeat them.
_LEVELS = 2
# Hashes below the first of a group that may have listed the group already.
_MOST_BELOW = 8
_COMPACTED_AT = 1 << 20
# Spreads neighbouring values over all ranges (2**64 divided by the golden ratio).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ONES = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(axis=1, dtype="u1")


def count_bits(values: np.ndarray) -> np.ndarray:
    """The number of ones in each of [N] uint64."""
    return _ONES[values.view(np.uint16).reshape(-1, 4)].sum(axis=1, dtype=np.uint8)


def read_phashes(part: Part, *, search: DuplicateSearch) -> tuple[list[tuple[Range, tuple[PartId, bytes]]], Stats]:
    """A part's hashes by band and range of its values; and how many images have none."""
    table = read_index(part, "phash", "content_hash")
    images = sum(bool(content_hash) for content_hash in table["content_hash"].to_pylist())
    hashes = table["phash"].drop_null().to_numpy().astype(np.uint64)
    pieces = []
    for number, band in enumerate(_split_bits(range(64), search.near_distance + 1)):
        ranges = find_bucket((hashes & _mask(band)) * _SPREAD, search.buckets)
        order = np.argsort(ranges, kind="stable")
        found, starts = np.unique(ranges[order], return_index=True)
        for one, piece in zip(found, np.split(hashes[order], starts[1:]), strict=False):
            pieces.append(((number, int(one)), (part_id(part), piece.tobytes())))
    return pieces, _count({"not_hashed": images - hashes.size})


def find_near(
    bucket: tuple[Range, Iterable[tuple[PartId, bytes]]], *, search: DuplicateSearch
) -> tuple[list[tuple[PartId, bytes]], Stats]:
    """Pairs of near hashes that agree in a band, by the parts that have them: [N, 2] uint64, the part's hash first.

    A pair that agrees in an earlier band too is left to that one. A hash that occurs twice is a pair of its own.
    """
    (number, _), packed = bucket
    bands = _split_bits(range(64), search.near_distance + 1)
    hashes, repeated, is_whole = _collect_hashes(packed)
    pairs = [np.stack([repeated, repeated], axis=1)] if number == 0 else []
    compared = found = 0
    for ones, others, comparisons in _compare(hashes, bands, number, search.near_distance):
        compared += comparisons
        found += ones.size
        if compared > MOST_COMPARISONS or found > MOST_PAIRS:
            is_whole = False
            break
        pairs += [np.stack([ones, others], axis=1), np.stack([others, ones], axis=1)]
    near = np.concatenate([np.empty((0, 2), np.uint64), *pairs])
    near = near[np.argsort(near[:, 0], kind="stable")]
    return list(_find_parts(packed, near)) if near.size else [], _count({"ranges_cut": not is_whole})


def _find_parts(packed: Iterable[tuple[PartId, bytes]], near: np.ndarray) -> Iterator[tuple[PartId, bytes]]:
    for part, piece in packed:
        hashes = np.unique(np.frombuffer(piece, np.uint64))
        begins, ends = (np.searchsorted(near[:, 0], hashes, side) for side in ("left", "right"))
        if (begins < ends).any():
            yield part, b"".join(near[begin:end].tobytes() for begin, end in zip(begins, ends, strict=True))


def _collect_hashes(packed: Iterable[tuple[PartId, bytes]]) -> tuple[np.ndarray, np.ndarray, bool]:
    """The hashes of a range, each once; those that occur twice; and whether these are all.

    If there are too many, the highest are left out, so that it does not matter in which order they come.
    """
    hashes = repeated = np.empty(0, np.uint64)
    is_whole = True
    for pieces in _batch(np.frombuffer(piece, np.uint64) for _, piece in packed):
        # Those that are known to occur twice count twice again.
        hashes, counts = np.unique(np.concatenate([hashes, repeated, *pieces]), return_counts=True)
        is_whole &= hashes.size <= MOST_HASHES
        hashes, counts = hashes[:MOST_HASHES], counts[:MOST_HASHES]
        repeated = hashes[counts > 1]
    return hashes, repeated, is_whole


def _batch(pieces: Iterable[np.ndarray]) -> Iterator[list[np.ndarray]]:
    waiting: list[np.ndarray] = []
    count = 0
    for piece in pieces:
        waiting.append(piece)
        count += piece.size
        if count >= _COMPACTED_AT:
            yield waiting
            waiting, count = [], 0
    yield waiting


def _compare(
    hashes: np.ndarray, bands: Sequence[Sequence[int]], number: int, distance: int, levels: int = _LEVELS
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Pairs of different hashes up to a distance apart that agree in a band and in none before it; what was compared.

    Args:
      hashes: [N] uint64, each once.
      bands: the bits in which they may differ.
      number: of the band.
      levels: how often they may be told apart by other bits.
    """
    values = hashes & _mask(bands[number])
    order = np.argsort(values, kind="stable")
    hashes, values = hashes[order], values[order]
    starts = np.append(np.flatnonzero(np.append(True, values[1:] != values[:-1])), values.size)
    sizes = np.diff(starts)
    rest = [bit for band in bands if band is not bands[number] for bit in band]
    # With fewer bits than bands, there is nothing to tell them apart by.
    few = sizes <= (_FEW_HASHES if levels and len(rest) > distance else hashes.size)
    found = [_compare_runs(hashes[np.repeat(few, sizes)], values[np.repeat(few, sizes)], distance)]
    inner = _split_bits(rest, distance + 1) if not few.all() else []
    for run in np.flatnonzero(~few):
        alike = hashes[starts[run] : starts[run + 1]]
        found += [_compare(alike, inner, one, distance, levels - 1) for one in range(len(inner))]
    for pairs in found:
        for ones, others, compared in pairs:
            later = np.ones(ones.size, bool)
            for band in bands[:number]:
                later &= (ones ^ others) & _mask(band) != 0
            yield ones[later], others[later], compared


def _compare_runs(
    hashes: np.ndarray, values: np.ndarray, distance: int
) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Compares each hash with those behind it that have the same value."""
    places = np.arange(hashes.size)
    for step in range(1, hashes.size):
        places = places[places + step < hashes.size]
        places = places[values[places] == values[places + step]]
        if not places.size:
            return
        ones, others = hashes[places], hashes[places + step]
        near = count_bits(ones ^ others) <= distance
        yield ones[near], others[near], places.size


def read_near_images(
    joined: tuple[PartId, Mapping[str, Iterable[Any]]], *, search: DuplicateSearch
) -> Iterator[tuple[int, bytes]]:
    """The images of a part that have near hashes, packed, by range of the hash that begins their group.

    Args:
      joined: the part's id; under `parts` the part, under `hashes` its pairs.
    """
    identity, values = joined
    near: defaultdict[int, set[int]] = defaultdict(set)
    for packed in values["hashes"]:
        for own, other in np.frombuffer(packed, np.uint64).reshape(-1, 2).tolist():
            near[own].add(other)
    if not near:
        return
    (part,) = values["parts"]
    table = read_index(part, "phash", *IMAGE_COLUMNS)
    phashes = table["phash"].to_pylist()
    rows = table.drop_columns(["phash"]).to_pylist()
    images = [Image.of_row(number, row) for number, row in enumerate(rows) if phashes[number] in near]
    if search.reads_records:
        images = list(read_labels(images, part, search=search))
    by_bucket: defaultdict[int, list[Any]] = defaultdict(list)
    for image in images:
        phash = phashes[image.row]
        below = sorted(other for other in near[phash] if other < phash)
        for first in (phash, *below):
            by_bucket[find_bucket(first, search.buckets)].append(
                (first, phash, below[:_MOST_BELOW] if first == phash else (), image)
            )
    for bucket, found in by_bucket.items():
        yield bucket, msgpack.packb((identity, found))


class _NearGroup(Group):
    """The images with one perceptual hash, and with hashes near to it that are higher."""

    def __init__(self) -> None:
        super().__init__()
        self.phashes: dict[str, int] = {}
        self.hashes: set[int] = set()
        self.below: set[int] = set()
        # No more than two are kept, because two are not the same image.
        self.contents: set[str] = set()


def describe_near(bucket: tuple[int, Iterable[bytes]], *, search: DuplicateSearch) -> DuplicatesFound:
    """Lists the groups whose first hash is in one range.

    Every pair is in a group. A group is left out if all of it is near to a lower hash, whose group has it.
    """
    number, packed = bucket
    groups: defaultdict[int, _NearGroup] = defaultdict(_NearGroup)
    ranks = search.ranks
    for one in packed:
        part, found = msgpack.unpackb(one)
        for first, phash, below, values in found:
            group, image = groups[first], Image(*values)
            group.hashes.add(phash)
            group.below.update(below)
            if len(group.contents) < 2:
                group.contents.add(image.content_hash)
            # Of identical images, which have a line of their own, the first stands for all.
            group.add(part[0], place_image(ranks, part, image), image, listed_as=image.content_hash)
    lines: dict[str, list[str]] = {"across": [], "within": []}
    counts: Counter[str] = Counter()
    for first, group in sorted(groups.items()):
        if len(group.contents) < 2 or _is_listed(group, search.near_distance):
            continue
        line = {"kind": "near", "phash": f"{first:016x}", **group.to_json()}
        lines["across" if line["across_splits"] else "within"].append(json.dumps(line, ensure_ascii=False) + "\n")
        counts["groups"] += 1
        counts["groups_across_splits"] += line["across_splits"]
        counts["groups_with_conflicting_labels"] += line["conflicting_labels"]
    return DuplicatesFound(
        write_lists(search, {f"{kind}_near": lines[kind] for kind in lines}, number), (), _count(counts)
    )


def _is_listed(group: _NearGroup, distance: int) -> bool:
    hashes = np.array(sorted(group.hashes), np.uint64)
    return any((count_bits(hashes ^ np.uint64(lower)) <= distance).all() for lower in sorted(group.below)[:_MOST_BELOW])


def _split_bits(bits: Sequence[int], bands: int) -> list[Sequence[int]]:
    cuts = [number * len(bits) // bands for number in range(bands + 1)]
    return [bits[begin:end] for begin, end in itertools.pairwise(cuts)]


def _mask(bits: Iterable[int]) -> np.uint64:
    return np.uint64(sum(1 << bit for bit in bits))


def _count(counts: Mapping[str, int]) -> Stats:
    return Stats({("near", what): int(count) for what, count in counts.items() if count})
