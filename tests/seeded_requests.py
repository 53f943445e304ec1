"""Digests of what seeded requests over all sources give: two commits that mean the same print the same.

    python -m tests.seeded_requests --requests=150 > before.json

The digest of a request covers its shards, its index and its other files of data; a refused request has its first line.
Run on two commits, the outputs are compared by `diff`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tests.cases.loading import read_area
from tests.core.commands import run_command
from tests.core.plain_runner import plain_pipelines
from tests.identity_inputs import INPUTS, flags_of

# Files that say when, where and with which libraries a dataset was built.
_UNSTABLE = {"manifest.json", "README.md", "croissant.json", "report.html", "_SUCCESS"}
_FLAGS = (
    (
        "--image_size=24",
        "--image_size=16x32 --resize_mode=crop",
        "--image_size=24 --resize_mode=pad --image_encoding=png --channels=4",
        "--image_size=20 --resize_mode=shorter --channels=1",
        "--image_size=16 --image_encoding=raw",
        "--image_encoding=webp",
        "--image_encoding=keep",
    ),
    ("--splits=train=0.6,test=0.4", "--splits=train=0.5,validation=0.5 --stratify"),
    ("--limit=4",),
    ("--num_shards=2", "--shard_size=1KB"),
    ("--compression=gzip",),
    ("--duplicates=drop", "--near_duplicates=8"),
    ("--layout=image",),
    ("--seed=7",),
)


def write_inputs(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Writes an input of each source in two states, and the public layouts: name and flags of each."""
    for source, (write, _) in INPUTS.items():
        for state in (0, 1):
            folder = root / f"{source}-{state}"
            folder.mkdir()
            write(folder, state)
            yield folder.name, flags_of(source, folder)
    for number, case in enumerate(read_area("public").values()):
        if isinstance(case.settings["input"], str) and len(case.settings) == len(
            read_area("public")["an empty folder"].settings
        ):
            folder = root / f"public-{number}"
            folder.mkdir()
            case.write(folder)
            yield case.name, [f"--input={folder / case.settings['input']}"]


def choose_flags(chance: random.Random) -> list[str]:
    """Some settings, each at random."""
    return [word for choices in _FLAGS if chance.random() < 0.5 for word in chance.choice(choices).split()]


def digest_of(dataset: Path, root: Path) -> str:
    """Digest of the files of a dataset that hold data, without what depends on paths below `root` or on times."""
    total = hashlib.sha256()
    for path in sorted(path for path in dataset.rglob("*") if path.is_file()):
        name = path.relative_to(dataset)
        if name.name in _UNSTABLE or name.parts[0] == ".build":
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            rows = [{**row, "fingerprint": None, "sample_hash": None} for row in pq.read_table(path).to_pylist()]
            content = json.dumps(rows, default=str).encode()
        total.update(f"{name} {hashlib.sha256(content.replace(os.fsencode(root), b'')).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def run(words: Sequence[str], root: Path) -> str:
    """What a request gives, in a line."""
    output = root / "out"
    shutil.rmtree(output, ignore_errors=True)
    with plain_pipelines():
        ran = run_command("convert", *words, f"--output={output}", "--no_report", "--max_failures=1", "--name=x")
    if ran.code:
        first = next(iter(ran.err.strip().splitlines()), "")
        return f"{ran.code} {first.replace(str(root), '')}"
    return digest_of(output, root)


def main() -> None:
    """Prints a JSON object: request -> what it gives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=150, help="number of requests with settings at random")
    count = parser.parse_args().requests
    logging.disable(logging.CRITICAL)
    chance, found = random.Random(0), {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        inputs = list(write_inputs(root))
        requests = [(name, words, []) for name, words in inputs]
        requests += [(*inputs[chance.randrange(2 * len(INPUTS))], choose_flags(chance)) for _ in range(count)]
        for name, words, flags in requests:
            found[" ".join([name, *flags])] = run([*words, *flags], root)
    json.dump(found, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
