"""FindDuplicates: images with the same source bytes, and the splits they are in."""

from __future__ import annotations

import apache_beam as beam

from transforms.duplicates.groups import DuplicatesFound, describe_groups
from transforms.duplicates.search import DuplicateSearch, find_repeated, part_id, read_hashes, read_images
from transforms.parts import Part


class FindDuplicates(beam.PTransform):
    """Finds identical images: Part -> DuplicatesFound.

    Args:
      search: what the search needs to know.
    """

    def __init__(self, search: DuplicateSearch) -> None:
        super().__init__()
        self._search = search

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[DuplicatesFound]:
        search = self._search
        hashes = (
            parts
            | "ReadHashes" >> beam.FlatMap(read_hashes, buckets=search.buckets)
            # -> (bucket, (part id, packed hashes))
            | "GroupHashes" >> beam.GroupByKey()
            # -> (part id, packed hashes)
            | "FindRepeated" >> beam.FlatMap(find_repeated)
        )
        return (
            {"parts": parts | "KeyParts" >> beam.WithKeys(part_id), "hashes": hashes}
            | "JoinParts" >> beam.CoGroupByKey()
            | "ReadImages" >> beam.FlatMap(read_images, search=search)
            # -> (bucket, (part id, packed images))
            | "GroupImages" >> beam.GroupByKey()
            | "DescribeGroups" >> beam.Map(describe_groups, search=search)
        )
