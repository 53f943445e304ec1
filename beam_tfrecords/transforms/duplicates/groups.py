"""Groups of identical images: writes their lines in `duplicates.jsonl`, and drops the copies from parts."""

from __future__ import annotations

import dataclasses
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.escaping import write_json
from beam_tfrecords.tfrecord import masked_crc32c, open_stream, read_records
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch, Image, PartId, unpack_images
from beam_tfrecords.transforms.parts import Part, PartWriter, read_index
from beam_tfrecords.transforms.stats import Key, Stats, count_records
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_step

# Maximum number of images in a line of the list. An image such as a site's "not available" may occur a million times.
MOST_IMAGES = 1000

# (rank of the split, block, part, row). The copy with the smallest value is kept.
Place: TypeAlias = "tuple[int, int, int, int]"


@dataclasses.dataclass(frozen=True)
class DuplicatesFound:
    """The duplicates in one range of the hash space.

    Attributes:
      files: files with a JSON object per group; all files of a build, sorted by name, form the list.
      dropped: rows to drop from each part.
      stats: counts of groups, and corrections of the build's counts for dropped records.
    """

    files: tuple[str, ...]
    dropped: tuple[tuple[PartId, tuple[int, ...]], ...]
    stats: Stats


@dataclasses.dataclass
class Group:
    """The copies of one image, or images that look nearly the same.

    Attributes:
      labels: different labels of the images, each sorted; at most two, because two already conflict.
    """

    copies: int = 0
    splits: Counter[str] = dataclasses.field(default_factory=Counter)
    labels: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    first: Place | None = None
    # Key of an image in the list -> the first of its copies.
    _images: dict[Any, tuple[Place, str, Image]] = dataclasses.field(default_factory=dict)

    def add(self, split: str, place: Place, image: Image, *, listed_as: str | None = None) -> None:
        """Adds a copy. Only the first of the copies with the same `listed_as` is listed."""
        self.copies += 1
        self.splits[split] += 1
        if len(self.labels) < 2:
            self.labels.add((*sorted(_class_names(image)), *image.heads.values()))
        self.first = place if self.first is None else min(self.first, place)
        self._list({listed_as or place: (place, split, image)})

    def merge(self, other: Group) -> None:
        """Adds the copies of another group; both groups use `listed_as`."""
        self.copies += other.copies
        self.splits.update(other.splits)
        self.labels = set(sorted(self.labels | other.labels)[:2])
        self.first = min(one for one in (self.first, other.first) if one is not None)
        self._list(other._images)

    def _list(self, images: Mapping[Any, tuple[Place, str, Image]]) -> None:
        for key, entry in images.items():
            self._images[key] = min(entry, self._images.get(key, entry))
        if len(self._images) > 2 * MOST_IMAGES:
            self.shorten()

    def pack(self) -> list[Any]:
        """Returns the group as plain values for MessagePack."""
        self.shorten()
        return [self.copies, self.splits, list(self.labels), self.first, self._images]

    @classmethod
    def unpack(cls, values: Sequence[Any]) -> Group:
        """Makes a group from the output of `pack`; MessagePack has turned tuples into lists."""
        copies, splits, labels, first, images = values
        return cls(
            copies,
            Counter(splits),
            {tuple(label) for label in labels},
            tuple(first),
            {key: (tuple(place), split, Image(*image)) for key, (place, split, image) in images.items()},
        )

    @property
    def distinct(self) -> int:
        """Number of different images in the list."""
        return len(self._images)

    def to_json(self, **kept: str | bool | None) -> dict[str, Any]:
        """Returns the group as the values of a line of `duplicates.jsonl`, with the copy to keep first.

        Args:
          kept: further values, such as the key of that copy.
        """
        self.shorten()
        return {
            "copies": self.copies,
            "splits": dict(sorted(self.splits.items())),
            "across_splits": len(self.splits) > 1,
            "conflicting_labels": len(self.labels) > 1,
            **kept,
            "images": [
                {"key": image.key, "uri": image.uri, "split": split, "label": image.label}
                for _, split, image in self._images.values()
            ],
        }

    @property
    def first_key(self) -> str:
        """Key of the copy to keep."""
        return min(self._images.values())[2].key

    def shorten(self) -> None:
        """Keeps only the first images."""
        # Places are unique, so sorting compares nothing else.
        first = sorted(self._images.items(), key=lambda one: one[1][0])
        self._images = dict(first[:MOST_IMAGES])


def describe_groups(bucket: tuple[int, Iterable[tuple[PartId, bytes]]], *, search: DuplicateSearch) -> DuplicatesFound:
    """Lists the groups in one range of the hash space, and finds the copies to drop."""
    candidates: defaultdict[str, Group] = defaultdict(Group)
    for part, place, image in _place_images(bucket, search):
        candidates[image.content_hash].add(part[0], place, image)
    # Images with the same first 64 bits of the hash may still differ.
    groups = {content_hash: group for content_hash, group in sorted(candidates.items()) if group.copies > 1}
    counts: Counter[Key] = Counter()
    dropped: defaultdict[PartId, list[int]] = defaultdict(list)
    if search.drops:
        for part, place, image in _place_images(bucket, search):
            if image.content_hash in groups and groups[image.content_hash].first != place:
                dropped[part].append(image.row)
                _count_dropped(counts, part[0], image)
    lines = (
        {"content_hash": content_hash, **group.to_json(kept=group.first_key if search.drops else None)}
        for content_hash, group in groups.items()
    )
    files, counted = write_groups(search, bucket[0], lines)
    counts.update({("duplicates", what): count for what, count in counted.items()})
    counts["duplicates", "images"] = sum(group.copies for group in groups.values())
    return DuplicatesFound(
        files=files,
        dropped=tuple((part, tuple(rows)) for part, rows in dropped.items()),
        stats=Stats({what: count for what, count in counts.items() if count}),
    )


def write_groups(
    search: DuplicateSearch, number: int, lines: Iterable[Mapping[str, Any]], kind: str = ""
) -> tuple[tuple[str, ...], Counter[str]]:
    """Writes the groups of one range of the hash space; returns the files, and what they count.

    Groups across splits have a file of their own, which comes first in the list.

    Args:
      search: settings of the search.
      number: number of the range.
      lines: outputs of `Group.to_json`, sorted by hash.
      kind: end of the names of the files.
    """
    counts: Counter[str] = Counter()
    texts: defaultdict[str, list[str]] = defaultdict(list)
    for line in lines:
        texts["across" if line["across_splits"] else "within"].append(write_json(line) + "\n")
        counts["groups"] += 1
        counts["groups_across_splits"] += line["across_splits"]
        counts["groups_with_conflicting_labels"] += line["conflicting_labels"]
    files = {BuildFolder(search.folder).duplicates(f"{one}{kind}", number): texts[one] for one in sorted(texts)}
    for file, found in files.items():
        storage.write_bytes(file, "".join(found).encode())
    return tuple(files), counts


def _place_images(
    bucket: tuple[int, Iterable[tuple[PartId, bytes]]], search: DuplicateSearch
) -> Iterator[tuple[PartId, Place, Image]]:
    ranks = search.ranks
    for part, image in unpack_images(*bucket, search=search):
        yield part, place_image(ranks, part, image), image


def place_image(ranks: Mapping[str, int], part: PartId, image: Image) -> Place:
    """Returns the place of an image, which orders all copies; the first copy is kept."""
    split, block, number = part
    return ranks[split], block, number, image.row


def _count_dropped(counts: Counter[Key], split: str, image: Image) -> None:
    index_columns = {name: [value] for name, value in image.counted.items()}
    heads = {name: [value] for name, value in image.heads.items()}
    count_records(counts, split, [_class_names(image)], index_columns, heads=heads, times=-1)
    counts["dropped", split] += 1


def _class_names(image: Image) -> list[str]:
    if image.label is None:
        return []
    return image.label if isinstance(image.label, list) else [image.label]


def drop_rows(part_and_rows: tuple[Part, frozenset[int]], *, search: DuplicateSearch) -> Part | None:
    """Writes the remaining records of a part to another folder, so that a retry still finds the complete part.

    Args:
      part_and_rows: the part, and the rows to drop.
      search: settings of the search.

    Returns:
      The new part, which replaces the old one; None if no record remains.
    """
    part, dropped = part_and_rows
    columns = read_index(part).drop_columns(["offset", "length"]).to_pydict()
    with (
        storage.open_read(part.uri) as file,
        PartWriter(
            folder=BuildFolder(search.folder).distinct,
            stem=f"{part.split}-{part.block:06d}-{part.number:04d}",
            split=part.split,
            block=part.block,
            policy=dataclasses.replace(search.policies[part.split], bytes=sys.maxsize),
            compression=search.compression,
        ) as writer,
    ):
        for record in read_records(open_stream(file, search.compression)):
            if record.number not in dropped:
                row = {name: values[record.number : record.number + 1] for name, values in columns.items()}
                writer.add([record.data], [masked_crc32c(record.data)], row)
        written = writer.close()
    add_step(search.folder, rewritten=1, pause=0)
    return dataclasses.replace(written[0], number=part.number) if written else None
