"""Limits a listing for a trial run to the first samples of every split, in the order of the dataset."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping

from beam_tfrecords.dataset.published_paths import UNCHANGED, PublishedPaths
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.listing import CHUNK_REFS, Listing, ListPlan, read_light, write_listing
from beam_tfrecords.transforms.refs.overflow_rows import load_oversized
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_alike, unpack_batches


def limit_listing(
    listing: Listing, *, limit: int, seed: int, folder: str, paths: PublishedPaths = UNCHANGED
) -> Listing:
    """Returns a listing of at most `limit` samples, with the labels of all samples, so that class indices stay."""
    if listing.total <= limit:
        return listing
    packed = choose_refs(read_light(listing), limit=limit, seed=seed, samples=listing.samples)
    chunks = (packed[start : start + CHUNK_REFS] for start in range(0, len(packed), CHUNK_REFS))
    chosen = itertools.chain.from_iterable(join_alike(unpack_batches(chunk)) for chunk in chunks)
    plan = ListPlan(count_labels=bool(listing.labels), class_columns=[*listing.column_labels], paths=paths)
    limited = write_listing(load_oversized(chosen, decide=listing.decisions.apply), folder, plan=plan, stem="limited-")
    limited.labels.update(dict.fromkeys(listing.labels, 0))
    for name, labels in listing.column_labels.items():
        limited.column_labels.setdefault(name, Counter()).update(dict.fromkeys(labels, 0))
    limited.objects.left_out = listing.objects.left_out
    return limited


def choose_refs(batches: Iterable[RefColumns], *, limit: int, seed: int, samples: Mapping[str, int]) -> list[bytes]:
    """Returns the first references of every split in the dataset's order, each packed. The choice is deterministic.

    Args:
      limit: total number of references in all splits.
    """
    shares = share_limit(limit, samples)
    # Split -> the smallest hashes so far, as a heap with the largest of these on top.
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
    """Returns split -> its share of `limit`, in proportion to its samples, and at least one if the limit allows."""
    shares = dict.fromkeys(sorted(samples), 0)
    # (fraction of its samples that a split has so far, split). The smallest comes next; names break ties.
    parts = [(0.0, split) for split in shares if samples[split]]
    for _ in range(min(limit, sum(samples.values()))):
        _, split = parts[0]
        shares[split] += 1
        if shares[split] < samples[split]:
            heapq.heapreplace(parts, (shares[split] / samples[split], split))
        else:
            heapq.heappop(parts)
    return shares
