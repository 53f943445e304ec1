"""Searches for identical images. Shuffles only 8 bytes per hash, packed by part and range of the hash space.

Reads index rows again only for hashes that occur at least twice, and then compares whole hashes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgpack
import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.features.fields import ClassValue
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.tfrecord import Compression, open_stream, read_records
from beam_tfrecords.transforms.parts import GROUP_BYTES, Part, PartPolicy, pack_hashes, read_index
from beam_tfrecords.transforms.stats import COUNTED
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

# Maximum number of near hashes that are shuffled for a hash, the lowest ones; a hash with more is crowded.
MOST_NEAR = 32
# Bytes of these pairs, and of one more pair that shows that the hash is crowded.
_PAIRS_BYTES = (MOST_NEAR + 1) * 16
# Limits the ranges, because each may write a file and one process reads all files. Larger builds use a fixed number of
# samples per range: groups may get larger then, but such a build has many tasks, and each sends only a part of a group.
_MOST_RANGES = 512
_RANGE_SAMPLES = 100_000

# (split, block, number)
PartId: TypeAlias = "tuple[str, int, int]"


@dataclasses.dataclass(frozen=True)
class DuplicateSearch:
    """The settings of a search for duplicates.

    Attributes:
      row_bytes: upper estimate of the mean bytes of a shuffled index row.
      drops: whether to drop all copies of an image except one.
      near_distance: maximum number of bits in which the perceptual hashes of near-duplicates differ; 0 disables their
        search.
      class_names: classes in index order.
      policies: split -> policy of its parts, which decides where they can be cut.
    """

    folder: str
    listed: Mapping[str, int]
    row_bytes: int
    drops: bool
    near_distance: int
    layout: Layout
    class_names: tuple[str, ...]
    compression: Compression
    policies: Mapping[str, PartPolicy] = dataclasses.field(default_factory=dict)

    @property
    def buckets(self) -> int:
        """Number of ranges of the hash space, from the listing alone; the rows of a range are one shuffled group."""
        return self._count_ranges(self.row_bytes)

    @property
    def near_buckets(self) -> int:
        """Number of ranges of perceptual hashes, from the listing alone."""
        return self._count_ranges(max(self.row_bytes, _PAIRS_BYTES))

    def _count_ranges(self, sample_bytes: int) -> int:
        samples = sum(self.listed.values())
        return max(min(_MOST_RANGES, -(-samples * sample_bytes // GROUP_BYTES)), -(-samples // _RANGE_SAMPLES), 1)

    @property
    def most_rows(self) -> int:
        """Twice the expected index rows of a range. A range has more only if an image occurs very often."""
        return max(2 * GROUP_BYTES // self.row_bytes, 2 * sum(self.listed.values()) // self.buckets)

    @property
    def ranges(self) -> int:
        """Maximum number of ranges of hashes to search; near-duplicates have their ranges once per band of bits."""
        return self.buckets + (self.near_buckets * (self.near_distance + 1) if self.near_distance else 0)

    @property
    def reads_records(self) -> bool:
        """Whether the search reads records, because the index has at most one label per row and no other classes."""
        return _find_labels(self.layout) is not None or bool(self.layout.heads)

    @property
    def ranks(self) -> dict[str, int]:
        """Split -> its rank for keeping a copy. Smaller splits come first, because they are used for evaluation."""
        ordered = sorted(self.listed, key=lambda split: (self.listed[split], split == "train", split))
        return {split: rank for rank, split in enumerate(ordered)}


class Image(NamedTuple):
    """The index row of an image.

    Attributes:
      row: number of the row in its part.
      counted: values that the build has counted, which dropping subtracts again.
      heads: feature -> name of its class, of the layout's heads.
    """

    row: int
    content_hash: str
    key: str
    uri: str | None
    label: str | list[str] | None
    counted: Mapping[str, Any]
    heads: Mapping[str, str] = {}


def part_id(part: Part) -> PartId:
    """Returns the id of a part within its build."""
    return part.split, part.block, part.number


def find_bucket(prefix: Any, buckets: int) -> Any:
    """Returns the range of the hash space for the first 64 bits of a hash, an integer or a uint64 array."""
    return (prefix >> 32) * buckets >> 32


def read_hashes(part: Part, *, search: DuplicateSearch) -> Iterator[tuple[int, tuple[PartId, bytes]]]:
    """Yields the first 64 bits of a part's content hashes, by range of the hash space."""
    packed = part.hashes
    if packed is None:
        packed = pack_hashes(read_index(part, "content_hash")["content_hash"].to_pylist())
    prefixes = np.sort(np.frombuffer(packed, dtype=">u8").astype(np.uint64))
    numbers, starts = np.unique(find_bucket(prefixes, search.buckets), return_index=True)
    for number, piece in zip(numbers, np.split(prefixes, starts[1:]), strict=False):
        yield int(number), (part_id(part), piece.tobytes())


def find_repeated(
    bucket: tuple[int, Iterable[tuple[PartId, bytes]]], *, most_rows: int
) -> Iterator[tuple[PartId, tuple[bytes, bool]]]:
    """Yields the repeated hashes of one range by part, and whether they have more than `most_rows` rows in all."""
    parts, pieces = zip(*((part, np.frombuffer(packed, dtype=np.uint64)) for part, packed in bucket[1]), strict=True)
    _, places, counts = np.unique(np.concatenate(pieces), return_inverse=True, return_counts=True)
    are_many = int((counts[places] > 1).sum()) > most_rows
    ends = np.cumsum([piece.size for piece in pieces])
    for part, piece, copies in zip(parts, pieces, np.split(counts[places], ends[:-1]), strict=True):
        found = piece[copies > 1]
        if found.size:
            yield part, (found.tobytes(), are_many)


def read_images(
    joined: tuple[PartId, Mapping[str, Iterable[Any]]], *, search: DuplicateSearch
) -> Iterator[tuple[int, tuple[PartId, bytes]]]:
    """Yields the images of a part with repeated hashes, packed by range of the hash space.

    Writes the images to a file instead if their range has too many.

    Args:
      joined: the part's id; `parts` has the part, `hashes` the results of `find_repeated` for it.
    """
    identity, values = joined
    wanted = {
        prefix: are_many
        for packed, are_many in values["hashes"]
        for prefix in np.frombuffer(packed, dtype=np.uint64).tolist()
    }
    if not wanted:
        return
    (part,) = values["parts"]
    table = read_index(part, "content_hash", "key", "uri", "label", *COUNTED)
    hashes = enumerate(table["content_hash"].to_pylist())
    rows = [number for number, content_hash in hashes if content_hash and _prefix(content_hash) in wanted]
    images = []
    for number, row in zip(rows, table.take(rows).to_pylist(), strict=True):
        counted = {name: row[name] for name in COUNTED if row[name] is not None}
        images.append(Image(number, row["content_hash"], row["key"], row["uri"], row["label"], counted))
    if search.reads_records:
        images = list(read_labels(images, part, search=search))
    by_bucket: dict[int, list[Image]] = {}
    buckets = search.buckets
    for image in images:
        by_bucket.setdefault(find_bucket(_prefix(image.content_hash), buckets), []).append(image)
    for bucket, found in by_bucket.items():
        packed = msgpack.packb(found)
        if wanted[_prefix(found[0].content_hash)]:
            storage.write_bytes(_images_file(bucket, identity, search), packed)
            packed = b""
        yield bucket, (identity, packed)


def unpack_images(
    bucket: int, pieces: Iterable[tuple[PartId, bytes]], *, search: DuplicateSearch
) -> Iterator[tuple[PartId, Image]]:
    """Unpacks the images of one range of the hash space from `read_images`."""
    for part, packed in pieces:
        for values in msgpack.unpackb(packed or storage.read_bytes(_images_file(bucket, part, search))):
            yield part, Image(*values)


def _images_file(bucket: int, part: PartId, search: DuplicateSearch) -> str:
    split, block, number = part
    return BuildFolder(search.folder).copies(f"{split}-{block:06d}-{number:04d}", bucket)


def _prefix(content_hash: str) -> int:
    return int(content_hash[:16], 16)


def read_labels(images: list[Image], part: Part, *, search: DuplicateSearch) -> Iterator[Image]:
    """Yields the images with all their labels and the classes of their heads, read from records."""
    by_row = {image.row: image for image in images}
    with storage.open_read(part.uri) as file:
        for record in read_records(open_stream(file, search.compression)):
            if record.number in by_row:
                yield _read_classes(by_row[record.number], record.data, search=search)


def _read_classes(image: Image, example: bytes, *, search: DuplicateSearch) -> Image:
    # Most builds read no records for this search.
    from beam_tfrecords.features.serialize import parse_example

    parsed = parse_example(example)
    heads = {name: head.class_names[parsed[name][1][0]] for name, head in search.layout.heads.items()}
    found = _find_labels(search.layout)
    if found is None:
        return image._replace(heads=heads)
    _, values = parsed[found[0]]
    names = [name for value in values if (name := found[1].find(value, search.class_names)) is not None]
    return image._replace(label=names, heads=heads)


def _find_labels(layout: Layout) -> tuple[str, ClassValue] | None:
    """Returns name and class value of a feature with any number of classes; None if the layout has no such feature."""
    several = (one for one in layout.features if one.kind.several)
    return next(((one.name, one.class_value) for one in several if one.class_value), None)
