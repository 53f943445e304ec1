"""Reads the references of a block in their final order, and resolves references with the same key."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from beam_tfrecords.transforms.blocks.rows import keep_last, merge_rows, reject_duplicates
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.refs.overflow_rows import load_oversized
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, unpack_refs
from beam_tfrecords.transforms.stats import Key


def read_block(joined: Iterable[bytes], *, seed: int) -> Iterator[RefColumns]:
    """Yields the references of a block in their final order.

    References whose keys have the same hash are sorted by key and content, so equal keys are adjacent.
    """
    by_names: dict[tuple[str, ...], list[RefColumns]] = {}
    for refs in load_oversized(itertools.chain.from_iterable(map(unpack_refs, joined))):
        by_names.setdefault(tuple(refs.columns), []).append(refs)
    kinds = list(map(RefColumns.join, by_names.values()))
    starts = [0, *itertools.accumulate(map(len, kinds))]
    orders = np.asarray(order_hashes(seed=seed, keys=[key for refs in kinds for key in refs.keys]))
    places = np.argsort(orders, kind="stable").tolist()

    def kind_of(place: int) -> int:
        return bisect.bisect_right(starts, place, hi=len(kinds)) - 1

    def identify(place: int) -> tuple[str, bytes]:
        kind = kind_of(place)
        ref = kinds[kind][place - starts[kind]]
        return ref.key, ref.pack()

    if len(np.unique(orders)) < len(orders):
        equal = (list(group) for _, group in itertools.groupby(places, key=orders.tolist().__getitem__))
        places = [place for group in equal for place in (sorted(group, key=identify) if len(group) > 1 else group)]
    for kind, run in itertools.groupby(places, key=kind_of) if len(kinds) != 1 else [(0, places)]:
        yield kinds[kind].take(place - starts[kind] for place in run)


def join_rows(
    batches: Iterable[RefColumns], counts: Counter[Key], *, split: str, group_rows: bool, last_member_wins: bool
) -> Iterator[RefColumns]:
    """Returns the sorted references of a block, with at most one valid reference per key.

    References that share a key are merged, replaced by the last one, or rejected.

    Args:
      counts: receives the numbers of merged and replaced references.
      group_rows: whether references with one key are one sample.
      last_member_wins: whether a member of an archive replaces earlier members with the same name.
    """
    if group_rows:
        return RefColumns.of(merge_rows(itertools.chain.from_iterable(batches), counts, split=split))
    if last_member_wins:
        batches = keep_last(batches, counts, split=split)
    return reject_duplicates(batches)
