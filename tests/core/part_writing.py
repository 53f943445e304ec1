"""Writes parts with an index, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.parts import Part, PartPolicy, PartWriter


def add_row(writer: PartWriter, data: bytes, row: Mapping[str, Any]) -> None:
    """Adds a record with its index row; {} for none."""
    writer.add([data], [masked_crc32c(data)], {name: [value] for name, value in row.items()})


def write_parts(folder: Path, payloads: dict[int, list[bytes]]) -> list[Part]:
    """Writes parts that end above 200 bytes; each record is its key.

    Args:
      folder: the parts go to `parts` in it.
      payloads: block -> its records.
    """
    parts = []
    for block, data in payloads.items():
        writer = PartWriter(
            folder=str(folder / "parts"),
            stem=f"train-{block:06d}",
            split="train",
            block=block,
            policy=PartPolicy(bytes=200),
            compression="none",
        )
        for one in data:
            row = {
                "key": one.decode(),
                "uri": None,
                "fingerprint": "",
                "content_hash": "",
                "sample_hash": "",
                "replaced_format": None,
                "label": None,
            }
            add_row(writer, one, {**row, "height": 1, "width": 2})
        parts += writer.close()
    return parts
