"""Writes parts with an index, for tests of what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.parts import Part, PartPolicy, PartWriter

# The index row of a record without an image, but for its key.
ROW = dict.fromkeys(("fingerprint", "content_hash", "sample_hash"), "") | dict.fromkeys(
    ("uri", "replaced_format", "label", "height", "width")
)


def part_writer(folder: Path | str, stem: str = "x", **changes: Any) -> PartWriter:
    """A writer of parts of the first block of `train`, without compression and of the usual size."""
    usual = {"split": "train", "block": 0, "policy": PartPolicy(), "compression": "none"}
    return PartWriter(folder=str(folder), stem=stem, **{**usual, **changes})


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
        writer = part_writer(folder / "parts", f"train-{block:06d}", block=block, policy=PartPolicy(bytes=200))
        for one in data:
            add_row(writer, one, {**ROW, "key": one.decode(), "height": 1, "width": 2})
        parts += writer.close()
    return parts
