"""The samples of a first try: those that come first in the order, from every split."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping

from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.listing import CHUNK_REFS, Listing, ListPlan, read_light, write_listing
from beam_tfrecords.transforms.refs.overflow_rows import load_oversized
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_alike, unpack_batches


def limit_listing(listing: Listing, *, limit: int, seed: int, folder: str) -> Listing:
    """A listing of at most `limit` samples. It keeps the labels of all samples, so that class indices stay."""
    if listing.total <= limit:
        return listing
    packed = choose_refs(read_light(listing), limit=limit, seed=seed, samples=listing.samples)
    chunks = (b"".join(packed[start : start + CHUNK_REFS]) for start in range(0, len(packed), CHUNK_REFS))
    chosen = itertools.chain.from_iterable(join_alike(unpack_batches(chunk)) for chunk in chunks)
    plan = ListPlan(None, seed, count_labels=bool(listing.labels))
    limited = write_listing(load_oversized(chosen), folder, plan=plan, stem="limited-")
    limited.labels.update(dict.fromkeys(listing.labels, 0))
    return limited


def choose_refs(batches: Iterable[RefColumns], *, limit: int, seed: int, samples: Mapping[str, int]) -> list[bytes]:
    """The first references of every split, in the dataset's order, each packed; all attempts choose the same.

    Args:
      limit: number of references of all splits together.
    """
    shares = share_limit(limit, samples)
    # Per split, the smallest hashes so far, as a heap with the largest of them on top.
    heaps: dict[str, list[tuple[int, bytes]]] = {split: [] for split in shares}
    for refs in batches:
        orders = order_hashes(seed=seed, keys=refs.keys)
        for index, (split, order) in enumerate(zip(refs.each("split"), orders, strict=True)):
            heap, most = heaps[split or ""], shares[split or ""]
            if len(heap) < most:
                heapq.heappush(heap, (-order, refs.take([index]).pack()))
            elif heap and -order >= heap[0][0]:
                heapq.heappushpop(heap, (-order, refs.take([index]).pack()))
    return [packed for split in sorted(heaps) for _, packed in sorted(heaps[split], reverse=True)]


def share_limit(limit: int, samples: Mapping[str, int]) -> dict[str, int]:
    """Split -> its share of `limit`, in proportion to its samples, and at least one where the limit allows."""
    shares = dict.fromkeys(sorted(samples), 0)
    # The part of its samples that a split has so far; the least comes next, and of equal ones the first by name.
    parts = [(0.0, split) for split in shares if samples[split]]
    for _ in range(min(limit, sum(samples.values()))):
        _, split = parts[0]
        shares[split] += 1
        if shares[split] < samples[split]:
            heapq.heapreplace(parts, (shares[split] / samples[split], split))
        else:
            heapq.heappop(parts)
    return shares
