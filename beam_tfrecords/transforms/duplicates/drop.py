"""Rewrites parts without the dropped copies."""

from __future__ import annotations

import dataclasses
import sys

from beam_tfrecords import storage
from beam_tfrecords.tfrecord import masked_crc32c, open_stream, read_records
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch
from beam_tfrecords.transforms.parts import Part, PartWriter, read_index
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.counts import add_rewritten


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
    add_rewritten(search.folder)
    return dataclasses.replace(written[0], number=part.number) if written else None
