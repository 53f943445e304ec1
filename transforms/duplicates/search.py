"""The search: eight bytes a hash are shuffled, packed by part and by range of the hash space.

Only of hashes that are there twice the index rows are read again, and then whole hashes are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgpack
import numpy as np

from transforms import storage
from transforms.examples.layouts import Layout
from transforms.examples.parse import parse_example
from transforms.parts import read_index
from transforms.tfrecord import Compression, open_stream, read_records
from transforms.values import Part

# What one worker looks at together: their hashes at first, then the index rows of those that are there twice.
BUCKET_SAMPLES = 100_000

# Split, block and number.
PartId: TypeAlias = "tuple[str, int, int]"


@dataclasses.dataclass(frozen=True)
class DuplicateSearch:
    """What the search needs to know.

    Attributes:
      folder: the build's folder for temporary files.
      listed: split -> samples listed.
      drops: whether all copies of an image but one are to be dropped.
      layout: features of an example.
      class_names: classes in index order.
      compression: of the parts.
    """

    folder: str
    listed: Mapping[str, int]
    drops: bool
    layout: Layout
    class_names: tuple[str, ...]
    compression: Compression

    @property
    def buckets(self) -> int:
        """The number of ranges of the hash space, from the listing alone."""
        return max(1, -(-sum(self.listed.values()) // BUCKET_SAMPLES))

    @property
    def reads_records(self) -> bool:
        """Whether it needs the parts themselves, not their indices alone, which have one label a row."""
        return bool(self.layout.fields & {"labels.index", "labels.name"})

    @property
    def ranks(self) -> dict[str, int]:
        """Split -> its place among those that may keep a copy: the smaller first, as those are for evaluation."""
        ordered = sorted(self.listed, key=lambda split: (self.listed[split], split == "train", split))
        return {split: rank for rank, split in enumerate(ordered)}


class Image(NamedTuple):
    """The index row of an image; `row` is its number in its part."""

    row: int
    content_hash: str
    key: str
    uri: str | None
    label: str | list[str] | None


def part_id(part: Part) -> PartId:
    """What names a part within its build."""
    return part.split, part.block, part.number


def find_bucket(prefix: Any, buckets: int) -> Any:
    """The range of the hash space that a hash's first 64 bits lie in; of an integer or of a uint64 array."""
    return (prefix >> 32) * buckets >> 32


def read_hashes(part: Part, *, buckets: int) -> Iterator[tuple[int, tuple[PartId, bytes]]]:
    """The first 64 bits of a part's content hashes, by range of the hash space; rows without an image have none."""
    hashes = read_index(part, "content_hash")["content_hash"].to_pylist()
    packed = bytes.fromhex("".join(content_hash[:16] for content_hash in hashes))
    prefixes = np.sort(np.frombuffer(packed, dtype=">u8").astype(np.uint64))
    numbers, starts = np.unique(find_bucket(prefixes, buckets), return_index=True)
    for number, piece in zip(numbers, np.split(prefixes, starts[1:]), strict=False):
        yield int(number), (part_id(part), piece.tobytes())


def find_repeated(bucket: tuple[int, Iterable[tuple[PartId, bytes]]]) -> Iterator[tuple[PartId, bytes]]:
    """Of the hashes of one range, those that are there more than once, by part."""
    parts, pieces = zip(*((part, np.frombuffer(packed, dtype=np.uint64)) for part, packed in bucket[1]), strict=True)
    _, places, counts = np.unique(np.concatenate(pieces), return_inverse=True, return_counts=True)
    ends = np.cumsum([piece.size for piece in pieces])
    for part, piece, copies in zip(parts, pieces, np.split(counts[places], ends[:-1]), strict=True):
        found = piece[copies > 1]
        if found.size:
            yield part, found.tobytes()


def read_images(
    joined: tuple[PartId, Mapping[str, Iterable[Any]]], *, search: DuplicateSearch
) -> Iterator[tuple[int, tuple[PartId, bytes]]]:
    """A part's images whose hashes were found more than once, packed, by range of the hash space.

    Args:
      joined: the part's id, and under `parts` the part, under `hashes` what `find_repeated` found in it.
      search: what the search needs to know.
    """
    identity, values = joined
    wanted = {prefix for packed in values["hashes"] for prefix in np.frombuffer(packed, dtype=np.uint64).tolist()}
    if not wanted:
        return
    (part,) = values["parts"]
    rows = read_index(part, "content_hash", "key", "uri", "label").to_pylist()
    images = [
        Image(number, **row)
        for number, row in enumerate(rows)
        if row["content_hash"] and _prefix(row["content_hash"]) in wanted
    ]
    if search.reads_records:
        images = list(_with_labels(images, part, search=search))
    by_bucket: dict[int, list[Image]] = {}
    for image in images:
        by_bucket.setdefault(find_bucket(_prefix(image.content_hash), search.buckets), []).append(image)
    for bucket, found in by_bucket.items():
        yield bucket, (identity, msgpack.packb(found))


def unpack_images(packed: bytes) -> list[Image]:
    """The images that `read_images` packed."""
    return [Image(*values) for values in msgpack.unpackb(packed)]


def _prefix(content_hash: str) -> int:
    return int(content_hash[:16], 16)


def _with_labels(images: list[Image], part: Part, *, search: DuplicateSearch) -> Iterator[Image]:
    """The images with all their labels, of which the index has only one that is alone."""
    by_row = {image.row: image for image in images}
    with storage.open_read(part.uri) as file:
        for record in read_records(open_stream(file, search.compression)):
            if record.number in by_row:
                yield by_row[record.number]._replace(label=_read_labels(record.data, search=search))


def _read_labels(example: bytes, *, search: DuplicateSearch) -> list[str]:
    parsed = parse_example(example)
    for feature in search.layout.features:
        _, values = parsed[feature.name]
        if feature.field == "labels.index":
            return [search.class_names[index] for index in values]
        if feature.field == "labels.name":
            return [name.decode() for name in values]
    return []
