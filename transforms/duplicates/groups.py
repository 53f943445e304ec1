"""Groups of identical images: their lines in `duplicates.jsonl`, and the copies to drop."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from beam_tfrecords import storage
from transforms.duplicates.search import DuplicateSearch, Image, PartId, unpack_images
from transforms.stats import Key, Stats, count_record
from transforms.workspace.build_folder import BuildFolder

# An image may occur a million times, such as a site's "not available"; its line names the first ones.
MOST_IMAGES = 1000

# Rank of the split, block, part and row: the first of all copies is the one to keep.
Place: TypeAlias = "tuple[int, int, int, int]"


@dataclasses.dataclass(frozen=True)
class DuplicatesFound:
    """The duplicates in one range of the hash space.

    Attributes:
      files: files with a JSON object per group; all files of a build, sorted by name, are the list.
      stats: counts of groups, and the changes that dropping makes to the counts of the build.
    """

    files: tuple[str, ...]
    dropped: tuple[tuple[PartId, tuple[int, ...]], ...]
    stats: Stats


@dataclasses.dataclass
class Group:
    """The copies of one image.

    Attributes:
      labels: their labels, each sorted; no more than two are kept, because two are a conflict.
    """

    copies: int = 0
    splits: Counter[str] = dataclasses.field(default_factory=Counter)
    labels: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    first: Place | None = None
    _images: list[tuple[Place, str, Image]] = dataclasses.field(default_factory=list)

    def add(self, split: str, place: Place, image: Image) -> None:
        """Adds a copy."""
        self.copies += 1
        self.splits[split] += 1
        if len(self.labels) < 2:
            self.labels.add(tuple(sorted(_class_names(image))))
        self.first = place if self.first is None else min(self.first, place)
        self._images.append((place, split, image))
        if len(self._images) > 2 * MOST_IMAGES:
            self._sort()

    def to_json(self, content_hash: str, *, drops: bool) -> dict[str, Any]:
        """The group as `duplicates.jsonl` has it, the copy to keep first."""
        self._sort()
        return {
            "content_hash": content_hash,
            "copies": self.copies,
            "splits": dict(sorted(self.splits.items())),
            "across_splits": len(self.splits) > 1,
            "conflicting_labels": len(self.labels) > 1,
            "kept": self._images[0][2].key if drops else None,
            "images": [
                {"key": image.key, "uri": image.uri, "split": split, "label": image.label}
                for _, split, image in self._images
            ],
        }

    def _sort(self) -> None:
        # Places are unique, so nothing else is compared.
        self._images.sort()
        del self._images[MOST_IMAGES:]


def describe_groups(bucket: tuple[int, Iterable[tuple[PartId, bytes]]], *, search: DuplicateSearch) -> DuplicatesFound:
    """Lists the groups of one range of the hash space, and the copies to drop."""
    number, packed = bucket
    candidates: defaultdict[str, Group] = defaultdict(Group)
    for part, place, image in _place_images(packed, search):
        candidates[image.content_hash].add(part[0], place, image)
    # Hashes with the same first 64 bits may still differ.
    groups = {content_hash: group for content_hash, group in sorted(candidates.items()) if group.copies > 1}
    counts: Counter[Key] = Counter()
    dropped: defaultdict[PartId, list[int]] = defaultdict(list)
    if search.drops:
        for part, place, image in _place_images(packed, search):
            if image.content_hash in groups and groups[image.content_hash].first != place:
                dropped[part].append(image.row)
                _count_dropped(counts, part[0], image)
    # Groups across splits come first; both kinds are sorted by hash.
    lines: dict[str, list[str]] = {"across": [], "within": []}
    for content_hash, group in groups.items():
        line = group.to_json(content_hash, drops=search.drops)
        lines["across" if line["across_splits"] else "within"].append(json.dumps(line, ensure_ascii=False) + "\n")
        counts["duplicates", "groups"] += 1
        counts["duplicates", "images"] += group.copies
        counts["duplicates", "groups_across_splits"] += line["across_splits"]
        counts["duplicates", "groups_with_conflicting_labels"] += line["conflicting_labels"]
    files = {BuildFolder(search.folder).duplicates(kind, number): lines[kind] for kind in lines}
    for file, content in files.items():
        if content:
            storage.write_bytes(file, "".join(content).encode())
    return DuplicatesFound(
        files=tuple(file for file, content in files.items() if content),
        dropped=tuple((part, tuple(rows)) for part, rows in dropped.items()),
        stats=Stats(dict(counts)),
    )


def _place_images(
    packed: Iterable[tuple[PartId, bytes]], search: DuplicateSearch
) -> Iterator[tuple[PartId, Place, Image]]:
    ranks = search.ranks
    for part, images in packed:
        split, block, number = part
        for image in unpack_images(images):
            yield part, (ranks[split], block, number, image.row), image


def _count_dropped(counts: Counter[Key], split: str, image: Image) -> None:
    count_record(counts, split, _class_names(image), image._asdict(), times=-1)
    counts["dropped", split] += 1


def _class_names(image: Image) -> list[str]:
    if image.label is None:
        return []
    return image.label if isinstance(image.label, list) else [image.label]
