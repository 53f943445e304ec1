"""Parts with an index, for tests of what becomes of them."""

from __future__ import annotations

from pathlib import Path

from transforms.parts import PartPolicy, PartWriter
from transforms.values import Part


def write_parts(folder: Path, payloads: dict[int, list[bytes]]) -> list[Part]:
    """Parts of 200 bytes and a record more; each record is its key.

    Args:
      folder: they go to `parts` in it.
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
            row = {"key": one.decode(), "uri": None, "fingerprint": "", "content_hash": "", "label": None}
            writer.add(one, {**row, "height": 1, "width": 2})
        parts += writer.close()
    return parts
