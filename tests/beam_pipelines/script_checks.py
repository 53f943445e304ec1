"""Helpers of the tests that replace scripts.

People write these five scripts by hand. Each becomes one command, whose records are compared with those of the
script: a few lines of Pillow, NumPy and TensorFlow.
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
