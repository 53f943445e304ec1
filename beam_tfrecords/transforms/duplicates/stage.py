"""FindDuplicates and DropDuplicates: find images with the same source bytes, and drop the copies from parts.

FindNearDuplicates: finds images that look nearly the same.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton

from beam_tfrecords import storage
from beam_tfrecords.transforms.duplicates.groups import DuplicatesFound, describe_groups, drop_rows
from beam_tfrecords.transforms.duplicates.search import (
    DuplicateSearch,
    PartId,
    find_repeated,
    part_id,
    read_hashes,
    read_images,
)
from beam_tfrecords.transforms.parts import Part, without_hashes
from beam_tfrecords.transforms.processes.stage import MapInProcesses
from beam_tfrecords.transforms.workspace.counts import add_step


class FindDuplicates(beam.PTransform):
    """Finds identical images: Part -> DuplicatesFound.

    Args:
      search: settings of the search, or a side input with them.
    """

    def __init__(self, search: DuplicateSearch | AsSingleton) -> None:
        super().__init__()
        self._search = search

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[DuplicatesFound]:
        search = self._search
        hashes = (
            parts
            | "ReadHashes" >> beam.FlatMap(storage.with_storage_options(read_hashes), search=search)
            # -> (bucket, (part id, packed hashes))
            | "GroupHashes" >> beam.GroupByKey()
            # -> (part id, (packed hashes, whether they have many images))
            | "FindRepeated" >> beam.FlatMap(storage.with_storage_options(_find_repeated), search=search)
        )
        keyed = parts | "WithoutHashes" >> beam.Map(without_hashes) | "KeyParts" >> beam.WithKeys(part_id)
        return (
            {"parts": keyed, "hashes": hashes}
            | "JoinParts" >> beam.CoGroupByKey()
            | "ReadImages" >> beam.FlatMap(storage.with_storage_options(read_images), search=search)
            # -> (bucket, (part id, packed images))
            | "GroupImages" >> beam.GroupByKey()
            | "DescribeGroups" >> beam.Map(storage.with_storage_options(describe_groups), search=search)
        )


class FindNearDuplicates(beam.PTransform):
    """Finds images whose perceptual hashes are near: Part -> DuplicatesFound, and Stats of the search.

    Args:
      search: settings of the search, or a side input with them.
    """

    def __init__(self, search: DuplicateSearch | AsSingleton) -> None:
        super().__init__()
        self._search = search

    def expand(self, parts: beam.PCollection[Part]) -> tuple[beam.PCollection, ...]:
        # Most builds search for no near-duplicates.
        from beam_tfrecords.transforms.duplicates.near import find_near, read_phashes
        from beam_tfrecords.transforms.duplicates.near_groups import (
            assign_groups,
            describe_near,
            gather_images,
            merge_pairs,
            read_near_images,
        )

        search = self._search
        read = parts | "ReadPhashes" >> beam.Map(storage.with_storage_options(read_phashes), search=search)
        near = (
            read
            # -> ((band, range), (part id, packed hashes))
            | "TakePhashes" >> beam.FlatMap(operator.itemgetter(0))
            | "GroupPhashes" >> beam.GroupByKey()
            # -> NearHashes
            | "FindNear" >> beam.Map(storage.with_storage_options(find_near), search=search)
        )
        # -> [N, 2] pairs
        pairs = (
            near
            | "TakePairs" >> beam.FlatMap(operator.attrgetter("pairs"))
            | "GroupPairs" >> beam.GroupByKey()
            | "MergePairs" >> beam.Map(merge_pairs)
        )
        # -> (range, packed groups of hashes)
        groups = pairs | "AssignGroups" >> beam.FlatMap(assign_groups, search=search)
        # -> (part id, packed hashes)
        hashes = near | "TakeParts" >> beam.FlatMap(operator.attrgetter("parts"))
        # -> (range, packed images)
        images = (
            {"parts": parts | "KeyParts" >> beam.WithKeys(part_id), "hashes": hashes}
            | "JoinParts" >> beam.CoGroupByKey()
            | "ReadNearImages" >> beam.FlatMap(storage.with_storage_options(read_near_images), search=search)
        )
        found = (
            {"images": images, "groups": groups}
            | "JoinGroups" >> beam.CoGroupByKey()
            | "GatherImages" >> beam.FlatMap(gather_images, search=search)
            # -> (range of the group, packed images)
            | "GroupImages" >> beam.GroupByKey()
            | "DescribeNear" >> beam.Map(storage.with_storage_options(describe_near), search=search)
        )
        return (
            found,
            read | "CountHashed" >> beam.Map(operator.itemgetter(1)),
            near | "CountNear" >> beam.Map(operator.attrgetter("stats")),
        )


class DropDuplicates(beam.PTransform):
    """Rewrites parts that lose records to new files, and passes on the others unchanged: Part -> Part.

    Args:
      found: the identical images.
      search: settings of the search, or a side input with them.
      processes: as in `MapInProcesses`.
    """

    def __init__(
        self, found: beam.PCollection[DuplicatesFound], *, search: DuplicateSearch | AsSingleton, processes: int
    ) -> None:
        super().__init__()
        self._found = found
        self._rewrite = MapInProcesses(drop_rows, processes=processes, search=search)

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Part]:
        by_id = parts | "KeyParts" >> beam.WithKeys(part_id)
        # -> (part id, [row])
        dropped = self._found | "TakeDropped" >> beam.FlatMap(operator.attrgetter("dropped"))
        # -> (Part, rows)
        joined = (
            {"parts": by_id, "rows": dropped} | "JoinParts" >> beam.CoGroupByKey() | "JoinRows" >> beam.FlatMap(_pair)
        )
        whole = joined | "WholeParts" >> beam.Filter(_is_whole) | "TakeParts" >> beam.Keys()
        rewritten = (
            joined
            | "OtherParts" >> beam.Filter(lambda pair: not _is_whole(pair))
            | "RewriteParts" >> self._rewrite
            | "IfAnythingLeft" >> beam.Filter(bool)
        )
        return (whole, rewritten) | "AllParts" >> beam.Flatten()


def _find_repeated(
    bucket: tuple[int, Iterable[tuple[PartId, bytes]]], *, search: DuplicateSearch
) -> Iterator[tuple[PartId, tuple[bytes, bool]]]:
    yield from find_repeated(bucket, most_rows=search.most_rows)
    add_step(search.folder, searched=1, ranges=search.ranges)


def _pair(joined: tuple[PartId, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[Part, frozenset[int]]]:
    """Yields the part with the rows to drop."""
    _, values = joined
    for part in values["parts"]:
        yield part, frozenset(row for rows in values["rows"] for row in rows)


def _is_whole(part_and_rows: tuple[Part, frozenset[int]]) -> bool:
    return not part_and_rows[1]
