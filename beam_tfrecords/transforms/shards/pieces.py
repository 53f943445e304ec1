"""Pieces of parts: the records of a part that belong to one shard."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from beam_tfrecords import crc32c, storage
from beam_tfrecords.transforms.parts import Cuts, Part, read_cuts
from beam_tfrecords.transforms.shards.plan import GroupKey, find_edge, find_shards


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive records of a part.

    Attributes:
      row: number of the first record in the part.
      begin: offset of its first byte in the part.
      crc32c: checksum of its bytes when they were written.
    """

    part: Part
    row: int
    records: int
    begin: int
    bytes: int
    crc32c: int

    @property
    def source(self) -> str | storage.FileRange:
        """Location of the bytes: the whole part file, or a range of it."""
        uri = self.part.uri
        return uri if self.bytes == self.part.bytes else storage.FileRange(uri, self.begin, self.bytes)


def cut_part(part: Part, *, start: int, group: GroupKey) -> Iterator[tuple[int, Piece]]:
    """Yields the pieces of a part for a group of shards, each with the number of its shard.

    Args:
      start: bytes of the split before the part.
      group: key of the group of shards.
    """
    _, first, stop, shards, total = group
    lowest, highest = find_shards(part, start=start, total=total, shards=shards)
    if lowest == highest:
        yield lowest, Piece(part, 0, part.records, 0, part.bytes, part.crc32c)
        return
    cuts = read_cuts(part)
    middles = cuts.begins[:-1] + cuts.begins[1:] + 2 * start
    numbers = range(max(first, lowest), min(stop, highest + 1) + 1)
    edges = [find_edge(number, total=total, shards=shards) for number in numbers]
    places = [int(place) for place in np.searchsorted(middles, edges)]
    if numbers[-1] == shards:
        places[-1] = len(middles)
    for number, low, high in zip(numbers, places, places[1:], strict=False):
        if low < high:
            yield number, _cut(part, cuts, low, high)


def _cut(part: Part, cuts: Cuts, low: int, high: int) -> Piece:
    """Returns the piece between two cuts; computes its CRC from the CRCs of the bytes before each cut."""
    row, stop = int(cuts.rows[low]), int(cuts.rows[high])
    begin, end = int(cuts.begins[low]), int(cuts.begins[high])
    crc = crc32c.combine(int(cuts.crcs[low]), int(cuts.crcs[high]), end - begin)
    return Piece(part, row, stop - row, begin, end - begin, crc)
