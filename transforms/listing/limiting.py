"""The samples of a first try: those that come first in the order, from every split."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping

from beam_tfrecords import storage
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.listing.listing import CHUNK_REFS, Listing, read_refs
from beam_tfrecords.transforms.ref_columns import RefColumns, join_packed
from beam_tfrecords.transforms.refs import SampleRef


def limit_listing(listing: Listing, *, limit: int, seed: int, folder: str) -> Listing:
    """A listing of at most `limit` samples. It keeps the labels of all samples, so that class indices stay."""
    if listing.total <= limit:
        return listing
    refs = choose_refs(read_refs(listing), limit=limit, seed=seed, samples=listing.samples)
    limited = Listing(labels=Counter(dict.fromkeys(listing.labels, 0)))
    for start in range(0, len(refs), CHUNK_REFS):
        chunk = refs[start : start + CHUNK_REFS]
        path = storage.join(folder, f"limited-{start:09d}.refs")
        together = list(RefColumns.of(chunk))
        for some in together:
            limited.add(some, count_labels=bool(listing.labels))
        storage.write_bytes(path, join_packed(some.pack() for some in together))
        limited.chunks.append(path)
    return limited


def choose_refs(refs: Iterable[SampleRef], *, limit: int, seed: int, samples: Mapping[str, int]) -> list[SampleRef]:
    """The first references of every split, in the dataset's order; all attempts choose the same.

    Args:
      limit: number of references of all splits together.
    """
    shares = _share(limit, samples)
    # Per split, the smallest hashes so far, as a heap with the largest of them on top.
    heaps: dict[str, list[tuple[int, bytes]]] = {split: [] for split in shares}
    for ref in refs:
        split = ref.split or ""
        heap, order = heaps[split], -order_hashes(seed=seed, keys=[ref.key])[0]
        if len(heap) < shares[split]:
            heapq.heappush(heap, (order, ref.pack()))
        elif heap and order > heap[0][0]:
            heapq.heapreplace(heap, (order, ref.pack()))
    return [SampleRef.unpack(ref) for split in sorted(heaps) for _, ref in sorted(heaps[split], reverse=True)]


def _share(limit: int, samples: Mapping[str, int]) -> dict[str, int]:
    """Split -> its share of `limit`, in proportion to its samples, and at least one where the limit allows."""
    shares = dict.fromkeys(sorted(samples), 0)
    for _ in range(min(limit, sum(samples.values()))):
        open_splits = [split for split in shares if shares[split] < samples[split]]
        shares[min(open_splits, key=lambda split: shares[split] / samples[split])] += 1
    return shares
