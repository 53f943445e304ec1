"""Overflow rows: oversized references, such as of long texts and wide tables, in a file beside their chunk.

The local runner holds all shuffled elements in memory, so only a small part of an oversized reference is shuffled. Its
block reads the rest from the file.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_alike, unpack_batches
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

        An oversized row keeps its key, split, group, a hash, and the location of the whole row, a batch of one.

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
        overflow = [self._add(refs.take([index]).pack()) for index in range(len(refs))]
        light = {name: refs.shared[name] for name in ("split", "group")}
        yield RefColumns.of_rows(refs.keys, [None] * len(oversized), {}, **light, overflow=overflow)

    def _add(self, row: bytes) -> list[Any]:
        self._packed.append(zlib.compress(row, level=1))
        start, self._end = self._end, self._end + len(self._packed[-1])
        # The hash comes first: among references with one key, it decides the order, independent of the location.
        return [content_hash(row)[:16], "", start, self._end - start]

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
                rows = _read_all([(uri, begin, size) for _, uri, begin, size in overflow[start:stop]])
                yield from map(decide, join_alike(unpack_batches(rows)))
                start, held = stop, 0


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
