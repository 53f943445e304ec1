"""Reads shards with the `tfrecord` package in a process of its own: it and TensorFlow define the same messages."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.docs.pages import PROJECT


def read_shards(
    shards: Sequence[Path], *, indices: Sequence[Path] = (), compression: str = "none"
) -> list[tuple[bytes, int]]:
    """File names and labels; with indices, each shard is read in two halves."""
    request = json.dumps([[*map(str, shards)], [*map(str, indices)], compression])
    command = [sys.executable, "-m", "tests.integration.tfrecord_package", request]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    assert ran.returncode == 0, ran.stderr
    return [(name.encode(), label) for name, label in json.loads(ran.stdout)]


def read_by_pattern(data: str, index: str, names: Sequence[str]) -> list[tuple[bytes, int]]:
    """File names and labels that the package's dataset for PyTorch reads of several shards, in any order."""
    code = (
        "import json, sys\n"
        "from tfrecord.torch.dataset import MultiTFRecordDataset\n"
        "data, index, names = json.loads(sys.argv[1])\n"
        "kinds = {'filename': 'byte', 'label': 'int'}\n"
        "rows = MultiTFRecordDataset(data, index, dict.fromkeys(names, 0.5), kinds, infinite=False)\n"
        "print(json.dumps([(bytes(one['filename']).decode(), int(one['label'][0])) for one in rows]))\n"
    )
    command = [sys.executable, "-c", code, json.dumps([data, index, [*names]])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [(name.encode(), label) for name, label in json.loads(ran.stdout)]


def main() -> None:
    """Prints file names and labels; checks that indices are those of the package's own program."""
    import tfrecord
    from tfrecord.tools import tfrecord2idx

    shards, indices, compression = json.loads(sys.argv[1])
    found = []
    for number, shard in enumerate(shards):
        index = indices[number] if indices else None
        if index:
            with tempfile.NamedTemporaryFile("r") as theirs, open(index) as ours:
                tfrecord2idx.create_index(shard, theirs.name)
                assert theirs.read() == ours.read()
        for part in [(0, 2), (1, 2)] if index else [None]:
            found += [
                (bytes(one["filename"]).decode(), int(one["label"][0]))
                for one in tfrecord.tfrecord_loader(
                    shard,
                    index,
                    {"filename": "byte", "label": "int"},
                    shard=part,
                    compression_type=None if compression == "none" else compression,
                )
            ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
