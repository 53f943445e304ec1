"""Overflow rows: oversized references, such as of long texts and wide tables, in a file beside their chunk.

The local runner holds all shuffled elements in memory, so only a small part of an oversized reference is shuffled. Its
block reads the rest from the file.
"""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import msgpack

from beam_tfrecords import storage
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.workspace.state_files import naming_damage

# Larger references are oversized. Shuffling a smaller one costs less than reading it from a file.
_OVERSIZED_BYTES = 4 << 10
# Compressed bytes of a batch of rows, and concurrent requests to a store.
_BATCH_BYTES, _THREADS = 1 << 20, 16


# (file, offset, length)
Place: TypeAlias = "tuple[str, int, int]"


class OverflowRows:
    """Collects the oversized rows of a chunk, packed."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._end = 0

    def take_oversized(self, refs: RefColumns, sizes: Sequence[int]) -> Iterator[RefColumns]:
        """Takes the oversized rows out of a batch.

        An oversized row keeps its key, split, group, a hash, and the location of its columns' names and values.

        Args:
          refs: the batch.
          sizes: bytes of each reference.
        """
        oversized = [index for index, size in enumerate(sizes) if size > _OVERSIZED_BYTES]
        if not oversized:
            yield refs
            return
        if len(oversized) < len(refs):
            yield refs.take(index for index, size in enumerate(sizes) if size <= _OVERSIZED_BYTES)
        refs = refs.take(oversized)
        names = self._add(msgpack.packb(list(refs.columns)))
        # The hash comes first: among references with one key, it decides the order, independent of the location.
        overflow = [[content_hash(row)[:16], "", *names, *self._add(row)] for row in refs.pack_rows()]
        light = {name: refs.shared[name] for name in ("split", "group")}
        yield RefColumns.of_rows(refs.keys, [None] * len(oversized), {}, **light, overflow=overflow)

    def _add(self, packed: bytes) -> tuple[int, int]:
        self._packed.append(zlib.compress(packed, level=1))
        start, self._end = self._end, self._end + len(self._packed[-1])
        return start, self._end - start

    def content(self) -> bytes:
        """Returns the content of the file; empty if no reference is oversized."""
        return b"".join(self._packed)


def name_overflow_file(refs: RefColumns, uri: str) -> RefColumns:
    """Returns the references with the name of the file that contains their oversized rows."""
    overflow = refs.shared["overflow"]
    return (
        refs
        if overflow is None
        else refs.replace(overflow=[[row_hash, uri, *place] for row_hash, _, *place in overflow])
    )


def load_oversized(
    batches: Iterable[RefColumns], *, decide: Callable[[RefColumns], RefColumns]
) -> Iterator[RefColumns]:
    """Yields batches with their oversized rows, which it loads about 1 MB at a time.

    Args:
      batches: batches as they are after all decisions.
      decide: makes the decisions about rows as they were listed.

    Raises:
      BuildError: a file is damaged or cannot be read.
    """
    for refs in batches:
        overflow = refs.shared["overflow"]
        if overflow is None:
            yield refs
            continue
        start = held = 0
        for stop, (*_, length) in enumerate(overflow, 1):
            held += length
            if held >= _BATCH_BYTES or stop == len(overflow):
                yield from map(decide, _load(overflow[start:stop]))
                start, held = stop, 0


def _load(overflow: Sequence[Sequence[Any]]) -> Iterator[RefColumns]:
    of_each = [(uri, start, length) for _, uri, start, length, _, _ in overflow]
    names = list(dict.fromkeys(of_each))
    rows = [(uri, start, length) for _, uri, _, _, start, length in overflow]
    packed = _read_all([*names, *rows])
    names_at = {place: tuple(msgpack.unpackb(one)) for place, one in zip(names, packed, strict=False)}
    known = zip(map(names_at.__getitem__, of_each), packed[len(names) :], strict=True)
    for of_these, group in itertools.groupby(known, key=operator.itemgetter(0)):
        yield RefColumns.of_packed_rows([row for _, row in group], of_these)


def _read_all(places: Sequence[Place]) -> list[bytes]:
    """Reads byte ranges; merges adjacent ranges into one request."""
    runs: list[list[Place]] = []
    for place in places:
        if runs and (runs[-1][-1][0], sum(runs[-1][-1][1:])) == place[:2]:
            runs[-1].append(place)
        else:
            runs.append([place])
    if len(runs) == 1 or not storage.has_scheme(places[0][0]):
        return list(itertools.chain.from_iterable(map(_read_run, runs)))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="overflow") as threads:
        return list(itertools.chain.from_iterable(threads.map(_read_run, runs)))


def _read_run(run: Sequence[Place]) -> list[bytes]:
    uri, start, _ = run[0]
    with naming_damage(uri):
        size = sum(length for _, _, length in run)
        data = retry_faults(uri, functools.partial(storage.read_range, uri, start, size))
        return [zlib.decompress(data[offset - start : offset - start + length]) for _, offset, length in run]
