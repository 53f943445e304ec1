"""Flags of the datasets that several tests share, and readers of a dataset's own files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

BEAM_TFRECORDS = Path(sys.executable).with_name("beam-tfrecords")
CLASSES = ["cat", "dog", "Äpfel & Birnen"]
FLAGS = ["--name=pets", "--splits=train=0.75,validation=0.25", "--image_size=24x32", "--resize_mode=exact"]
EXACT = ["--image_encoding=png", "--codec=exact", "--num_shards=3"]


def manifest_of(path: Path) -> dict[str, Any]:
    return json.loads((path / "manifest.json").read_text(encoding="utf-8"))


def shards_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.tfrecord-*")}


def splits_of(path: Path) -> dict[str, str]:
    """Key -> split, from the index."""
    return {
        key: shard["split"]
        for shard in manifest_of(path)["shards"]
        for key in pq.read_table(path / shard["index"])["key"].to_pylist()
    }


def spoil_sources(output: Path, root: Path) -> dict[Path, tuple[bytes, int]]:
    """Makes the pictures of all finished blocks unreadable, in a way that no listing can notice.

    Returns:
      Path -> content and time of modification, for `restore_sources`.
    """
    spoilt = {}
    for checkpoint in output.glob(".build/*/blocks/*.json"):
        for part in json.loads(checkpoint.read_text())["parts"]:
            for uri in pq.read_table(part["index"])["uri"].to_pylist():
                path = root / uri
                spoilt[path] = (path.read_bytes(), path.stat().st_mtime_ns)
                path.write_bytes(bytes(path.stat().st_size))
                os.utime(path, ns=(spoilt[path][1],) * 2)
    return spoilt


def restore_sources(spoilt: dict[Path, tuple[bytes, int]]) -> None:
    for path, (content, modified) in spoilt.items():
        path.write_bytes(content)
        os.utime(path, ns=(modified, modified))
