"""PlanShards and ComposeShards: consecutive parts become shards of about the requested size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from beam_tfrecords.files import ShardKey
from beam_tfrecords.transforms.parts import RANGE_BLOCKS, Part, RangeKey

# (bytes, records)
Size: TypeAlias = "tuple[int, int]"


@dataclasses.dataclass(frozen=True)
class ShardPolicy:
    """How many shards a split has."""

    shard_size: int
    num_shards: int | None = None

    def count(self, total: int, *, records: int) -> int:
        """The number of shards of a split of `total` bytes: never more than records, unless it is fixed."""
        return self.num_shards or max(1, min(records, round(total / self.shard_size)))


def find_shard(*, start: int, size: int, total: int, shards: int) -> int:
    """The shard of a part that takes [start, start + size) of its split's `total` bytes.

    Cuts are at i * total / shards, moved to the nearest end of a part, so that every shard is within
    one part of total / shards.
    """
    return min(shards - 1, (2 * start + size) * shards // (2 * total)) if total else 0


def place_parts(
    keyed: tuple[RangeKey, Iterable[Part]], totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[ShardKey, Part | None]]:
    """Assigns every part of one range of blocks to its shard."""
    (split, number), parts = keyed
    total, records = add_sizes(size for (other, _), size in totals.items() if other == split)
    start, _ = add_sizes(size for (other, earlier), size in totals.items() if other == split and earlier < number)
    shards = policy.count(total, records=records)
    for part in sorted(parts, key=part_order):
        yield (split, find_shard(start=start, size=part.bytes, total=total, shards=shards), shards), part
        start += part.bytes


def part_order(part: Part) -> tuple[int, int, str]:
    """Sorts the parts of a split into their order."""
    return part.block, part.number, part.uri


def key_by_range(part: Part) -> tuple[RangeKey, Part]:
    """A part under its range of blocks."""
    return (part.split, part.block // RANGE_BLOCKS), part


def size_of(key: RangeKey, part: Part) -> tuple[RangeKey, Size]:
    """The size of a part under its range."""
    return key, (part.bytes, part.records)


def add_sizes(sizes: Iterable[Size]) -> Size:
    """The sum of sizes."""
    size_bytes = records = 0
    for size in sizes:
        size_bytes, records = size_bytes + size[0], records + size[1]
    return size_bytes, records


def every_shard(
    _: bytes, totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[ShardKey, Part | None]]:
    """Every shard of a fixed number, so that those without parts are written too."""
    for split in {split for split, _ in totals}:
        total, records = add_sizes(size for (other, _), size in totals.items() if other == split)
        shards = policy.count(total, records=records)
        for number in range(shards):
            yield (split, number, shards), None
