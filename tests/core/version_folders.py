"""Folders of versions in any store, made of a small dataset."""

from __future__ import annotations

import json
from pathlib import Path

from beam_tfrecords import storage

DATASET = Path(__file__).parents[1] / "data/dataset_1_0_0"


def put_version(root: str, name: str, *, own: str | None = None, is_finished: bool = True) -> None:
    """Writes a version to a folder.

    Args:
      root: the folder of the versions.
      name: of the version's folder.
      own: the name that the version has for itself; None for that of the folder.
      is_finished: whether it has a `_SUCCESS`.
    """
    for path in DATASET.rglob("*"):
        if path.is_file() and path.name != "_SUCCESS":
            storage.write_bytes(f"{root}/{name}/{path.relative_to(DATASET)}", path.read_bytes())
    if is_finished:
        finish(root, name, own=own)


def finish(root: str, name: str, *, own: str | None = None) -> None:
    """Writes the `_SUCCESS` of a version."""
    success = json.loads((DATASET / "_SUCCESS").read_bytes())
    storage.write_bytes(f"{root}/{name}/_SUCCESS", json.dumps({**success, "version": own or name}).encode())
