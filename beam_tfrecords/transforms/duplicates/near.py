"""Searches for near-duplicates: images whose perceptual hashes differ in a few of their 64 bits.

Two hashes that differ in at most D bits agree in at least one of D + 1 bands of bits. So hashes are shuffled once per
band, and compared with the hashes that agree in this band. If too many agree, bands of the other bits divide them
further. The results, a few pairs for each hash, are shuffled; `near_groups` makes groups of the pairs, and
reads the images of the groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from beam_tfrecords.transforms.duplicates.search import MOST_NEAR, DuplicateSearch, PartId, find_bucket, part_id
from beam_tfrecords.transforms.parts import Part, read_index
from beam_tfrecords.transforms.stats import Stats
from beam_tfrecords.transforms.workspace.counts import add_step

# (band, range of its values)
Range: TypeAlias = "tuple[int, int]"

# Limits of the work of one worker: hashes, comparisons and pairs. A range exceeds them if most images look alike.
MOST_HASHES = 1 << 22
MOST_COMPARISONS = 2_000_000_000
MOST_PAIRS = 1 << 22
# Cost of keeping a pair, in comparisons.
_KEPT = 32
# If more hashes than this agree in a band, bands of the other bits divide them.
_FEW_HASHES = 512
# Depth of this division. Most hashes that still agree are near each other, so a further level would only repeat them.
_LEVELS = 2
_COMPACTED_AT = 1 << 20
# Spreads neighboring values over all ranges (2**64 divided by the golden ratio).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_ONES = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(axis=1, dtype="u1")


def count_bits(values: np.ndarray) -> np.ndarray:
    """Returns the number of one bits in each of [N] uint64."""
    return _ONES[values.view(np.uint16).reshape(-1, 4)].sum(axis=1, dtype=np.uint8)


def read_phashes(part: Part, *, search: DuplicateSearch) -> tuple[list[tuple[Range, tuple[PartId, bytes]]], Stats]:
    """Reads a part's hashes by band and range, each at most twice; also counts the images without a hash."""
    table = read_index(part, "phash", "content_hash")
    images = sum(bool(content_hash) for content_hash in table["content_hash"].to_pylist())
    found = table["phash"].drop_null().to_numpy().astype(np.uint64)
    hashes, counts = np.unique(found, return_counts=True)
    hashes = np.repeat(hashes, np.minimum(counts, 2))
    pieces = []
    for number, band in enumerate(_split_bits(range(64), search.near_distance + 1)):
        for one, piece in split_rows(hashes, hashes & _mask(band), search.near_buckets):
            pieces.append(((number, one), (part_id(part), piece)))
    return pieces, count_near({"not_hashed": images - found.size})


class NearHashes(NamedTuple):
    """The near hashes in one range of a band.

    Attributes:
      parts: each part that has hashes with near ones, and these hashes: packed [N] uint64.
      pairs: range of the first hash of the pairs, and packed [N, 2] uint64: a hash and a near one; see `keep_lowest`.
      stats: counts ranges that were not compared completely.
    """

    parts: list[tuple[PartId, bytes]]
    pairs: list[tuple[int, bytes]]
    stats: Stats


def find_near(bucket: tuple[Range, Iterable[tuple[PartId, bytes]]], *, search: DuplicateSearch) -> NearHashes:
    """Finds the near hashes that agree in a band, and counts the range as searched.

    Skips pairs that also agree in an earlier band, because that band finds them. A hash that occurs twice forms a pair
    with itself.
    """
    (number, _), packed = bucket
    bands = _split_bits(range(64), search.near_distance + 1)
    hashes, repeated, is_whole = _collect_hashes(packed)
    kept = _pair(repeated, repeated) if number == 0 else _pair(hashes[:0], hashes[:0])
    waiting: list[np.ndarray] = []
    work = count = 0
    for ones, others, comparisons in _compare(hashes, bands, number, search.near_distance):
        work += comparisons + _KEPT * ones.size
        waiting += [_pair(ones, others), _pair(others, ones)]
        count += 2 * ones.size
        if count > max(_COMPACTED_AT, len(kept)):
            kept, waiting, count = keep_lowest([kept, *waiting]), [], 0
        if work > MOST_COMPARISONS or len(kept) > MOST_PAIRS:
            is_whole = False
            break
    kept = keep_lowest([kept, *waiting])
    if len(kept) > MOST_PAIRS:
        kept, is_whole = kept[:MOST_PAIRS], False
    parts = list(_find_parts(packed, np.unique(kept[:, 0]))) if len(kept) else []
    pairs = list(split_rows(kept, kept[:, 0], search.near_buckets))
    add_step(search.folder, searched=1, ranges=search.ranges)
    return NearHashes(parts, pairs, count_near({"ranges_cut": not is_whole}))


def keep_lowest(pairs: Sequence[np.ndarray]) -> np.ndarray:
    """Sorts and deduplicates pairs, [N, 2] uint64; keeps at most the `MOST_NEAR` + 1 lowest pairs of each hash."""
    rows = np.concatenate(pairs)
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    rows = rows[np.append(True, (rows[1:] != rows[:-1]).any(axis=1))[: len(rows)]]
    starts = np.flatnonzero(np.append(True, rows[1:, 0] != rows[:-1, 0])[: len(rows)])
    sizes = np.diff(np.append(starts, len(rows)))
    return rows[np.arange(len(rows)) - np.repeat(starts, sizes) <= MOST_NEAR]


def find_range(hashes: np.ndarray, buckets: int) -> np.ndarray:
    """Returns the ranges of hashes. Spreads near hashes over different ranges."""
    found: np.ndarray = find_bucket(hashes * _SPREAD, buckets)
    return found


def split_rows(rows: np.ndarray, hashes: np.ndarray, buckets: int) -> Iterator[tuple[int, bytes]]:
    """Packs rows by the ranges of their hashes."""
    ranges = find_range(hashes, buckets)
    order = np.argsort(ranges, kind="stable")
    numbers, starts = np.unique(ranges[order], return_index=True)
    for number, piece in zip(numbers, np.split(rows[order], starts[1:]), strict=False):
        yield int(number), piece.tobytes()


def _pair(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.stack([ones, others], axis=1)


def _find_parts(packed: Iterable[tuple[PartId, bytes]], near: np.ndarray) -> Iterator[tuple[PartId, bytes]]:
    for part, piece in packed:
        hashes = np.unique(np.frombuffer(piece, np.uint64))
        if (found := hashes[np.isin(hashes, near)]).size:
            yield part, found.tobytes()


def _collect_hashes(packed: Iterable[tuple[PartId, bytes]]) -> tuple[np.ndarray, np.ndarray, bool]:
    """Collects the hashes of a range; returns them without repetitions, the repeated ones, and whether these are all.

    If there are too many, leaves out the highest, so that the result does not depend on the order of the input.
    """
    hashes = repeated = np.empty(0, np.uint64)
    is_whole = True
    for pieces in _batch(np.frombuffer(piece, np.uint64) for _, piece in packed):
        # Hashes known to be repeated are in both arrays, so they keep a count above 1.
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
    """Yields pairs of near hashes that agree in a band and in no earlier one: (hashes, others, number of comparisons).

    Args:
      hashes: [N] uint64 without repetitions.
      bands: disjoint bands of all bits in which hashes may differ.
      number: number of the band.
      distance: maximum number of bits in which near hashes differ.
      levels: how many more times bands of the other bits may divide hashes.
    """
    values = hashes & _mask(bands[number])
    order = np.argsort(values, kind="stable")
    hashes, values = hashes[order], values[order]
    starts = np.append(np.flatnonzero(np.append(True, values[1:] != values[:-1])), values.size)
    sizes = np.diff(starts)
    rest = [bit for band in bands if band is not bands[number] for bit in band]
    # Too few bits are left to form bands.
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
    """Compares each hash with the later ones that have the same value."""
    places = np.arange(hashes.size)
    for step in range(1, hashes.size):
        places = places[places + step < hashes.size]
        places = places[values[places] == values[places + step]]
        if not places.size:
            return
        ones, others = hashes[places], hashes[places + step]
        near = count_bits(ones ^ others) <= distance
        yield ones[near], others[near], places.size


def _split_bits(bits: Sequence[int], bands: int) -> list[Sequence[int]]:
    cuts = [number * len(bits) // bands for number in range(bands + 1)]
    return [bits[begin:end] for begin, end in itertools.pairwise(cuts)]


def _mask(bits: Iterable[int]) -> np.uint64:
    return np.uint64(sum(1 << bit for bit in bits))


def count_near(counts: Mapping[str, int]) -> Stats:
    """Returns counts of the search for near-duplicates as counts of a build."""
    return Stats({("near", what): int(count) for what, count in counts.items() if count})
