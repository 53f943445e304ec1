"""Reads the references of a block in their final order, and resolves references with the same key.

Of references with the same key, it rejects all but one, keeps the last, or merges all into one sample.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgpack
import numpy as np

from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.objects.objects import MOST_OBJECTS, Objects
from beam_tfrecords.transforms.refs.overflow_rows import load_oversized
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, unpack_refs
from beam_tfrecords.transforms.refs.sample_refs import RECORD, File, SampleRef, is_object_mask
from beam_tfrecords.transforms.stats import Key

DUPLICATE_KEY = FailureReason.DUPLICATE_KEY.value, "another sample has the same key, and says the same"
CONFLICTING_ROWS = (
    FailureReason.CONFLICTING_ROWS.value,
    "samples with this key contradict each other; a table whose rows share images needs `group_rows`",
)


def content_of(ref: SampleRef) -> bytes:
    """Returns the packed content of a sample without its key. Samples with one key but different content conflict.

    An image within a container counts only by its name, because copies of it have other locations.
    """
    files = {name: one.uri if isinstance(one, File) else "" for name, one in ref.images.items()}
    objects = ref.objects.pack() if ref.objects is not None else None
    # A record that is stored as it is has no other values.
    whole = [ref.fingerprint] if RECORD in ref.images else []
    packed: bytes = msgpack.packb((ref.label, sorted(ref.columns.items()), files, objects, *whole))
    return packed


def reject_duplicates(batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
    """Yields the sorted references; turns all but the first with the same key into failures, or all if they conflict.

    References that the source has rejected keep their own failures.
    """
    several = list(batches)
    if not _has_repeated(several):
        yield from several
        return
    starts = [0, *itertools.accumulate(map(len, several))]
    keys = [key for refs in several for key in refs.keys]
    failures: dict[int, tuple[str, str]] = {}
    for _, group in itertools.groupby(range(len(keys)), key=keys.__getitem__):
        failures |= _reject_group(list(group), several, starts)
    for refs, start in zip(several, starts, strict=False):
        of_these = {index - start: failures[index] for index in range(start, start + len(refs)) if index in failures}
        if of_these:
            known = enumerate(refs.each("failure"))
            refs = refs.replace(failure=[list(of_these[n]) if n in of_these else failure for n, failure in known])
        yield refs


def _reject_group(
    places: Sequence[int], several: Sequence[RefColumns], starts: Sequence[int]
) -> dict[int, tuple[str, str]]:
    """Returns position -> failure for the rejected ones among references with one key."""
    if len(places) < 2:
        return {}
    contents: dict[int, bytes] = {}
    for place in places:
        number = bisect.bisect_right(starts, place) - 1
        ref = several[number][place - starts[number]]
        if ref.failure is None:
            contents[place] = content_of(ref)
    if len(set(contents.values())) > 1:
        return dict.fromkeys(contents, CONFLICTING_ROWS)
    return dict.fromkeys(list(contents)[1:], DUPLICATE_KEY)


def keep_last(batches: Iterable[RefColumns], counts: Counter[Key], *, split: str) -> Iterator[RefColumns]:
    """Yields the sorted references to members of archives; keeps only the last member with a name in an archive.

    Args:
      batches: the references of a block.
      counts: receives ("replaced", split): number of members that are left out.
      split: split of the block.
    """
    several = list(batches)
    if not _has_repeated(several):
        yield from several
        return
    kept: list[SampleRef] = []
    for _, group in itertools.groupby(itertools.chain.from_iterable(several), key=lambda ref: ref.key):
        members = list(group)
        # The reference to an unreadable archive has no uri.
        last = {ref.uri: ref for ref in sorted(members, key=_find_offset) if ref.uri is not None}
        found = [ref for ref in members if ref.uri is None or last[ref.uri] is ref]
        counts["replaced", split] += len(members) - len(found)
        kept += found
    yield from RefColumns.of(kept)


def _has_repeated(several: Sequence[RefColumns]) -> bool:
    """Whether two adjacent references have the same key."""
    keys = [key for refs in several for key in refs.keys]
    return any(map(operator.eq, keys, keys[1:]))


def _find_offset(ref: SampleRef) -> int:
    """Returns the offset of a member in its archive, from its fingerprint; the image may be in a staging file."""
    _, _, offset = ref.fingerprint.rpartition("@")
    return int(offset) if offset.isdecimal() else 0


def merge_rows(refs: Iterable[SampleRef], counts: Counter[Key], *, split: str) -> Iterator[SampleRef]:
    """Yields the sorted references, with the rows of each key merged into one sample.

    A merged sample has the labels and objects of all its rows; a column whose values differ becomes a list.
    References that the source has rejected keep their own failures. If the rows of a key cannot be merged, they are one
    rejected sample.

    Args:
      refs: the references of a block.
      counts: receives ("merged", split): number of rows that became part of another.
      split: split of the block.
    """
    for _, group in itertools.groupby(refs, key=lambda ref: ref.key):
        rows = list(itertools.islice(group, MOST_OBJECTS + 1))
        if len(rows) > MOST_OBJECTS:
            failure = FailureReason.CONFLICTING_ROWS.value, f"more than {MOST_OBJECTS:,} rows of one sample"
            counts["merged", split] += MOST_OBJECTS + sum(1 for _ in group)
            yield dataclasses.replace(rows[0], failure=failure)
            continue
        yield from (row for row in rows if row.failure)
        rows = [row for row in rows if not row.failure]
        if len(rows) < 2:
            yield from rows
            continue
        counts["merged", split] += len(rows) - 1
        try:
            sample = _merge(rows)
        except ValueError as error:
            failure = FailureReason.CONFLICTING_ROWS.value, f"rows of one sample have {error}"
            sample = dataclasses.replace(rows[0], failure=failure)
        yield sample


def _merge(rows: Sequence[SampleRef]) -> SampleRef:
    """Merges several rows into one sample.

    Raises:
      ValueError: the rows cannot be merged; the message says what differs.
    """
    if len({tuple(_describe_images(row)) for row in rows}) > 1:
        raise ValueError("different images or masks")
    objects = [row.objects for row in rows if row.objects is not None]
    # The values of a row stay at the same position in all columns: the third `xmin` belongs to the third `ymax`.
    distinct = list({content_of(row): row for row in rows}.values())
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in rows for name in row.columns):
        values = [row.columns.get(name) for row in distinct]
        is_same = values.count(values[0]) == len(values)
        columns[name] = values[0] if is_same else list(itertools.chain.from_iterable(map(_as_list, values)))
    masks = {name: one for row in rows for name, one in row.images.items() if is_object_mask(name)}
    # Each row knows the files of its own masks.
    fingerprints = [row.fingerprint for row in (rows if masks else rows[:1])]
    return dataclasses.replace(
        rows[0],
        images={**rows[0].images, **masks},
        fingerprint="" if "" in fingerprints else "+".join(fingerprints),
        label=_unique(label for row in rows for label in _as_list(row.label)),
        columns=columns,
        objects=Objects.merge(objects) if objects else None,
    )


def _describe_images(ref: SampleRef) -> Iterator[tuple[str, str | int]]:
    """Yields values that are equal for two rows with the same images; each may have masks of its own objects."""
    for name, locator in ref.images.items():
        if is_object_mask(name):
            continue
        # Each row has its own copy of an image within a container, so only the lengths are compared.
        yield name, locator.uri if isinstance(locator, File) else locator.length


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _unique(values: Iterable[Any]) -> list[Any]:
    """Returns the values in order, without repetitions."""
    found: list[Any] = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def read_block(
    joined: Iterable[bytes], *, seed: int, decide: Callable[[RefColumns], RefColumns]
) -> Iterator[RefColumns]:
    """Yields the references of a block in their final order.

    References whose keys have the same hash are sorted by key and content, so equal keys are adjacent.

    Args:
      joined: the references.
      seed: seed of the order.
      decide: as in `load_oversized`.
    """
    by_names: dict[tuple[str, ...], list[RefColumns]] = {}
    for refs in load_oversized(itertools.chain.from_iterable(map(unpack_refs, joined)), decide=decide):
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
