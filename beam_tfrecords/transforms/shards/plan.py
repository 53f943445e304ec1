"""Plans which consecutive records go into each shard, so that all shards have about the requested size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.parts import RANGE_BLOCKS, Part, RangeKey

# Maximum bytes and shards of a group of consecutive shards, which one worker composes. The worker reads each part only
# once for all shards of its group, and there are still enough groups for many workers.
_GROUP_BYTES = 16 << 20
_GROUP_SHARDS = 64
# (bytes, records)
Size: TypeAlias = "tuple[int, int]"
# (split, first shard, end of the range of shards, number of shards of the split, bytes of the split)
GroupKey: TypeAlias = "tuple[str, int, int, int, int]"
# (bytes of the split before the part, part)
PlacedPart: TypeAlias = "tuple[int, Part]"
# Bytes per stored pixel, for all channels: typical of photos as JPEG at quality 95, as PNG and as WebP. An estimate
# is enough: it determines the number of blocks, not their content.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# Bytes of an encoded image in addition to its pixels: in tiny images, the tables of a JPEG dominate.
_HEADER_BYTES = {ImageEncoding.JPEG: 620, ImageEncoding.KEEP: 620}
_UNKNOWN_FILE_BYTES = 100_000
_ROW_BYTES = 200


@dataclasses.dataclass(frozen=True)
class ShardPolicy:
    """Decides the number of shards of a split.

    Attributes:
      shard_size: approximate bytes of a shard.
      num_shards: fixed number of shards; None derives the number from `shard_size`.
    """

    shard_size: int
    num_shards: int | None = None

    def count(self, total: int, *, records: int) -> int:
        """Returns the number of shards of a split of `total` bytes; at most one per record, unless it is fixed."""
        return self.num_shards or max(1, min(records, round(total / self.shard_size)))


def find_shard(*, start: int, size: int, total: int, shards: int) -> int:
    """Returns the shard of a record that takes [start, start + size) of its split's `total` bytes.

    Cuts are at i * total / shards, moved to the nearest end of a record, so every shard is within one record of
    total / shards.
    """
    return min(shards - 1, (2 * start + size) * shards // (2 * total)) if total else 0


def find_edge(number: int, *, total: int, shards: int) -> int:
    """Returns the least 2 * start + size of a record that `find_shard` puts into shard `number` or a later one."""
    return -(-2 * total * number // shards)


def place_parts(
    keyed: tuple[RangeKey, Iterable[Part]], totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[GroupKey, PlacedPart | None]]:
    """Yields every part of one range of blocks under the groups of shards that may have records of it."""
    (split, number), parts = keyed
    total, records = add_sizes(size for (other, _), size in totals.items() if other == split)
    start, _ = add_sizes(size for (other, earlier), size in totals.items() if other == split and earlier < number)
    shards = policy.count(total, records=records)
    for part in sorted(parts, key=part_order):
        first, last = find_shards(part, start=start, total=total, shards=shards)
        for group in group_shards(split, first, last, total=total, shards=shards):
            yield group, (start, part)
        start += part.bytes


def find_shards(part: Part, *, start: int, total: int, shards: int) -> tuple[int, int]:
    """Returns the first and the last shard that may have records of a part."""
    if part.records == 1:
        starts, size = [start], part.bytes
    else:
        starts, size = [start, start + part.bytes], 0
    found = [find_shard(start=one, size=size, total=total, shards=shards) for one in starts]
    return found[0], found[-1]


def group_shards(split: str, first: int, last: int, *, total: int, shards: int) -> Iterator[GroupKey]:
    """Yields the groups that contain the shards `first` to `last` of a split, in order."""
    step = max(1, min(_GROUP_SHARDS, _GROUP_BYTES * shards // max(total, 1)))
    for begin in range(first - first % step, last + 1, step):
        yield split, begin, min(begin + step, shards), shards, total


def part_order(part: Part) -> tuple[int, int, str]:
    """Returns the sort key for the order of parts in a split."""
    return part.block, part.number, part.uri


def key_by_range(part: Part) -> tuple[RangeKey, Part]:
    """Returns a part keyed by its range of blocks."""
    return (part.split, part.block // RANGE_BLOCKS), part


def size_of(key: RangeKey, part: Part) -> tuple[RangeKey, Size]:
    """Returns the size of a part keyed by its range of blocks."""
    return key, (part.bytes, part.records)


def add_sizes(sizes: Iterable[Size]) -> Size:
    """Returns the sum of sizes."""
    size_bytes = records = 0
    for size in sizes:
        size_bytes, records = size_bytes + size[0], records + size[1]
    return size_bytes, records


def every_group(
    _: bytes, totals: Mapping[RangeKey, Size], *, policy: ShardPolicy
) -> Iterator[tuple[GroupKey, PlacedPart | None]]:
    """Yields every group of shards, so that shards without records are written too."""
    for split in {split for split, _ in totals}:
        total, records = add_sizes(size for (other, _), size in totals.items() if other == split)
        shards = policy.count(total, records=records)
        for group in group_shards(split, 0, shards - 1, total=total, shards=shards):
            yield group, None


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """Estimates the size of the records of these samples in bytes."""
    if layout.keeps_records:
        return source_bytes
    if Content.IMAGE not in layout.required:
        return samples * _ROW_BYTES
    if image.image_size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.image_size[0] * image.image_size[1] * 4 / 3
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.image_encoding, image.channels or 3)
    header_bytes = _HEADER_BYTES.get(image.image_encoding, 0)
    return int(samples * (pixels * bytes_per_pixel * image.stored_bits / 8 + header_bytes + _ROW_BYTES))
