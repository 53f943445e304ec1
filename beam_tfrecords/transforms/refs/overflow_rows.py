"""Heavy references, such as those of long texts and wide tables: in a file beside their chunk until a block needs them.

What is shuffled is held in memory by the local runner, and as Python objects by whoever takes it together.
"""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import msgpack

from beam_tfrecords import storage
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.workspace.state_files import naming_damage

# A reference of more bytes is heavy; another one costs less than reading it from a file.
_HEAVY_BYTES = 4 << 10
# Bytes of a batch of them as they are in the file; and requests to a store at once.
_BATCH_BYTES, _THREADS = 1 << 20, 16


# Where something is: (file, offset, length).
Place: TypeAlias = "tuple[str, int, int]"


class OverflowRows:
    """The heavy references of a chunk, packed, one after the other."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._end = 0

    def take_heavy(self, refs: RefColumns, sizes: Sequence[int]) -> Iterator[RefColumns]:
        """The same references; of the heavy ones key, split, a hash, and where names of columns and all else are.

        Args:
          sizes: bytes of each.
        """
        heavy = [place for place, size in enumerate(sizes) if size > _HEAVY_BYTES]
        if not heavy:
            yield refs
            return
        if len(heavy) < len(refs):
            yield refs.take(place for place, size in enumerate(sizes) if size <= _HEAVY_BYTES)
        refs = refs.take(heavy)
        names = self._add(msgpack.packb(list(refs.columns)))
        # The hash comes first: it decides which of those with one key is the first, wherever it lies.
        spooled = [[content_hash(row)[:16], "", *names, *self._add(row)] for row in refs.pack_rows()]
        yield RefColumns.of_rows(refs.keys, [None] * len(heavy), {}, split=refs.shared["split"], spooled=spooled)

    def _add(self, packed: bytes) -> tuple[int, int]:
        self._packed.append(zlib.compress(packed, level=1))
        start, self._end = self._end, self._end + len(self._packed[-1])
        return start, self._end - start

    def content(self) -> bytes:
        """The content of the file; empty if no reference is heavy."""
        return b"".join(self._packed)


def say_where(refs: RefColumns, uri: str) -> RefColumns:
    """References with the name of the file that the heavy ones are in."""
    spooled = refs.shared["spooled"]
    return (
        refs if spooled is None else refs.replace(spooled=[[row_hash, uri, *place] for row_hash, _, *place in spooled])
    )


def load_heavy(batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
    """The references as they were listed, in batches of about 1 MB of those that were spooled.

    Raises:
      BuildError: a file is damaged or cannot be read.
    """
    for refs in batches:
        spooled = refs.shared["spooled"]
        if spooled is None:
            yield refs
            continue
        start = held = 0
        for stop, (*_, length) in enumerate(spooled, 1):
            held += length
            if held >= _BATCH_BYTES or stop == len(spooled):
                yield from _load(spooled[start:stop])
                start, held = stop, 0


def _load(spooled: Sequence[Sequence[Any]]) -> Iterator[RefColumns]:
    of_each = [(uri, start, length) for _, uri, start, length, _, _ in spooled]
    names = list(dict.fromkeys(of_each))
    rows = [(uri, start, length) for _, uri, _, _, start, length in spooled]
    packed = _read_all([*names, *rows])
    names_at = {place: tuple(msgpack.unpackb(one)) for place, one in zip(names, packed, strict=False)}
    known = zip(map(names_at.__getitem__, of_each), packed[len(names) :], strict=True)
    for of_these, group in itertools.groupby(known, key=operator.itemgetter(0)):
        yield RefColumns.of_packed_rows([row for _, row in group], of_these)


def _read_all(places: Sequence[Place]) -> list[bytes]:
    """What is there; what lies one behind the other is read at once."""
    runs: list[list[Place]] = []
    for place in places:
        if runs and (runs[-1][-1][0], sum(runs[-1][-1][1:])) == place[:2]:
            runs[-1].append(place)
        else:
            runs.append([place])
    if len(runs) == 1 or not storage.has_scheme(places[0][0]):
        return list(itertools.chain.from_iterable(map(_read_run, runs)))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="spooled") as threads:
        return list(itertools.chain.from_iterable(threads.map(_read_run, runs)))


def _read_run(run: Sequence[Place]) -> list[bytes]:
    uri, start, _ = run[0]
    with naming_damage(uri):
        size = sum(length for _, _, length in run)
        data = retry_faults(uri, functools.partial(storage.read_range, uri, start, size))
        return [zlib.decompress(data[offset - start : offset - start + length]) for _, offset, length in run]
