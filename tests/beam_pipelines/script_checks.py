"""What tests of the five scripts have in common.

People write these scripts by hand; each is done by one command and compared with it record by record. The oracles are
the scripts' own few lines of Pillow, NumPy and TensorFlow.
"""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def by_key(records) -> dict:
    keyed = {record.key: record for record in records}
    assert len(keyed) == len(records)
    return keyed
