"""Writes a part again, without some of its records."""

from __future__ import annotations

import dataclasses
import sys

from transforms import storage
from transforms.parts import PartPolicy, PartWriter, read_index
from transforms.tfrecord import Compression, open_stream, read_records
from transforms.values import Part


def drop_rows(part_and_rows: tuple[Part, frozenset[int]], *, folder: str, compression: Compression) -> Part | None:
    """Writes what is left of a part to another folder, so that every attempt finds the part whole.

    Args:
      part_and_rows: the part, and the rows to drop.
      folder: where the new part goes.
      compression: of the part.

    Returns:
      The new part in the old one's place, or None if nothing is left.
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
