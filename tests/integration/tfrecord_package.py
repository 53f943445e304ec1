"""Reads shards with the `tfrecord` package in a process of its own: it and TensorFlow define the same messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.docs.pages import PROJECT


def read_shards(shards: Sequence[Path], *, compression: str = "none") -> list[tuple[bytes, int]]:
    """File names and labels."""
    request = json.dumps([[*map(str, shards)], compression])
    command = [sys.executable, "-m", "tests.integration.tfrecord_package", request]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert ran.returncode == 0, ran.stderr
    return [(name.encode(), label) for name, label in json.loads(ran.stdout)]


def main() -> None:
    """Prints file names and labels."""
    import tfrecord

    shards, compression = json.loads(sys.argv[1])
    kinds, compression_type = {"filename": "byte", "label": "int"}, None if compression == "none" else compression
    found = [
        (bytes(one["filename"]).decode(), int(one["label"][0]))
        for shard in shards
        for one in tfrecord.tfrecord_loader(shard, None, kinds, compression_type=compression_type)
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
