"""DropDuplicates: parts without the copies that are dropped from them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from transforms.duplicates.groups import DuplicatesFound
from transforms.duplicates.rewrite import drop_rows
from transforms.duplicates.search import PartId, part_id
from transforms.map_in_processes import MapInProcesses
from transforms.tfrecord import Compression
from transforms.values import Part


class DropDuplicates(beam.PTransform):
    """Writes parts that lose records again; the others stay as they are: Part -> Part.

    Args:
      found: what is to be dropped.
      folder: where the new parts go.
      compression: of the parts.
      processes: as in `MapInProcesses`.
    """

    def __init__(
        self, found: beam.PCollection[DuplicatesFound], *, folder: str, compression: Compression, processes: int
    ) -> None:
        super().__init__()
        self._found = found
        self._rewrite = functools.partial(drop_rows, folder=folder, compression=compression)
        self._processes = processes

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Part]:
        """Adds the joining and the rewriting step."""
        by_id = parts | "KeyParts" >> beam.WithKeys(part_id)
        # -> (part id, [row])
        dropped = self._found | "TakeDropped" >> beam.FlatMap(_dropped)
        # -> (Part, rows)
        joined = (
            {"parts": by_id, "rows": dropped} | "JoinParts" >> beam.CoGroupByKey() | "JoinRows" >> beam.FlatMap(_pair)
        )
        whole = joined | "WholeParts" >> beam.Filter(_is_whole) | "TakeParts" >> beam.Keys()
        rewritten = (
            joined
            | "OtherParts" >> beam.Filter(_is_not_whole)
            | "RewriteParts" >> MapInProcesses(self._rewrite, processes=self._processes)
            | "IfAnythingLeft" >> beam.Filter(bool)
        )
        return (whole, rewritten) | "AllParts" >> beam.Flatten()


def _dropped(found: DuplicatesFound) -> tuple[tuple[PartId, tuple[int, ...]], ...]:
    return found.dropped


def _pair(joined: tuple[PartId, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[Part, frozenset[int]]]:
    """The part, which is not there if nothing is to be published, and the rows that it loses."""
    _, values = joined
    for part in values["parts"]:
        yield part, frozenset(row for rows in values["rows"] for row in rows)


def _is_whole(part_and_rows: tuple[Part, frozenset[int]]) -> bool:
    return not part_and_rows[1]


def _is_not_whole(part_and_rows: tuple[Part, frozenset[int]]) -> bool:
    return not _is_whole(part_and_rows)
