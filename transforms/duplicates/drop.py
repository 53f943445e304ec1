"""DropDuplicates: parts without the copies that are dropped from them."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam

from transforms import storage
from transforms.duplicates.groups import DuplicatesFound
from transforms.duplicates.search import PartId, part_id
from transforms.parts import Part, PartPolicy, PartWriter, read_index
from transforms.processes.map_in_processes import MapInProcesses
from transforms.tfrecord import Compression, open_stream, read_records


class DropDuplicates(beam.PTransform):
    """Writes parts that lose records to new files; other parts stay as they are: Part -> Part.

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
            | "RewriteParts" >> MapInProcesses(self._rewrite, processes=self._processes)
            | "IfAnythingLeft" >> beam.Filter(bool)
        )
        return (whole, rewritten) | "AllParts" >> beam.Flatten()


def drop_rows(part_and_rows: tuple[Part, frozenset[int]], *, folder: str, compression: Compression) -> Part | None:
    """Writes what is left of a part to another folder, so that every attempt finds the part complete.

    Args:
      part_and_rows: the part, and the rows to drop.
      folder: where the new part goes.
      compression: of the part.

    Returns:
      The new part in place of the old one, or None if nothing is left.
    """
    part, dropped = part_and_rows
    rows = read_index(part).to_pylist()
    with (
        storage.open_read(part.uri) as file,
        PartWriter(
            folder=folder,
            stem=f"{part.split}-{part.block:06d}-{part.number:04d}",
            split=part.split,
            block=part.block,
            policy=PartPolicy(bytes=sys.maxsize),
            compression=compression,
        ) as writer,
    ):
        for record in read_records(open_stream(file, compression)):
            if record.number not in dropped:
                writer.add(record.data, rows[record.number])
        written = writer.close()
    return dataclasses.replace(written[0], number=part.number) if written else None


def _pair(joined: tuple[PartId, Mapping[str, Iterable[Any]]]) -> Iterator[tuple[Part, frozenset[int]]]:
    """The part, which is missing if nothing is to be published, and the rows that it loses."""
    _, values = joined
    for part in values["parts"]:
        yield part, frozenset(row for rows in values["rows"] for row in rows)


def _is_whole(part_and_rows: tuple[Part, frozenset[int]]) -> bool:
    return not part_and_rows[1]
