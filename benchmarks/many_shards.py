"""What a reader process of a dataset with very many shards takes: memory, and processor time until it has a record.

    python benchmarks/many_shards.py                         300,000 shards, 64 processes a form
    python benchmarks/many_shards.py --shards=30000 --processes=4

The dataset is synthetic, with the structure of a real one: a build makes one shard, and the others are listed beside it
without their files. Each process opens the dataset, asks for the records of a split, and reads the first one. `listed`
has all shards in manifest.json, as releases with format 2 write it, and `file` has them in shards.parquet.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from figures import RESULTS, write_figures
from make_photos import write_photos

import beam_tfrecords
from beam_tfrecords.escaping import json_file
from beam_tfrecords.output import manifest
from beam_tfrecords.output.files import MANIFEST, SHARDS, SUCCESS, ShardNames
from beam_tfrecords.output.manifest import Shard
from beam_tfrecords.output.shard_rows import write_rows

# Of a shard of 150 MB with photos of 256 pixels, as docs/scale.md plans them.
_RECORDS, _BYTES, _INDEX_BYTES = 3_400, 150 << 20, 310_000
_AT_ONCE = 2
_READ = """
import json, resource, sys, time
from beam_tfrecords import open_dataset
import beam_tfrecords.reading.opening, beam_tfrecords.reading.records
def memory(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))
imported, started = memory("VmRSS"), (time.monotonic(), time.process_time())
dataset = open_dataset(sys.argv[1])
opened = time.process_time() - started[1]
records = dataset.records("train")
records[0]
print(json.dumps({
    "imported": imported, "peak": memory("VmHWM"), "opened": opened, "records": len(records),
    "processor": time.process_time() - started[1], "seconds": time.monotonic() - started[0],
}))
"""


def make_shards(of: int, *, count: int, names: ShardNames, split: str, seed: int) -> Iterator[Shard]:
    """Yields the first `count` of `of` made shards."""
    chance = random.Random(seed)
    for number in range(count):
        key = split, number, of
        yield Shard(
            *key,
            file=names.shard(key),
            records=_RECORDS + chance.randrange(-60, 60),
            bytes=_BYTES + chance.randrange(-1 << 14, 1 << 14),
            crc32c=f"{chance.randrange(1 << 32):08x}",
            index=names.index(key),
            index_sha256=f"{chance.randrange(1 << 256):064x}",
            first_key=f"train/class_{chance.randrange(1000):04d}/{chance.randrange(10**9):09d}.jpg",
            index_bytes=_INDEX_BYTES + chance.randrange(-9_000, 9_000),
        )


def write_dataset(path: pathlib.Path, built: pathlib.Path, shards: list[Shard], *, lists: bool) -> int:
    """Writes a dataset with these shards; returns the bytes of its manifest and of the list beside it."""
    shutil.copytree(built, path)
    values = json.loads((path / MANIFEST).read_text())
    records = sum(shard.records for shard in shards)
    values["records"] = values["listed"] = records
    values["splits"]["train"] |= {"shards": len(shards), "records": records, "listed": records}
    if lists:
        values["shards"] = [shard.to_json() for shard in shards]
    else:
        values["format"] = manifest.FORMAT
        del values["shards"]
        content = write_rows(shards)
        (path / SHARDS).write_bytes(content)
        values["files"][SHARDS] = hashlib.sha256(content).hexdigest()
    data = json_file(values)
    (path / MANIFEST).write_bytes(data)
    (path / SUCCESS).write_bytes(json_file({"manifest_sha256": hashlib.sha256(data).hexdigest()}))
    return len(data) + (0 if lists else len(content))


def read(path: pathlib.Path) -> dict[str, float]:
    """Reads the first record of a dataset in a process of its own; returns what that took."""
    ran = subprocess.run([sys.executable, "-c", _READ, str(path)], check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Measures both forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=300_000)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--listed_processes", type=int, default=3, help="processes that read the listed form")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    forms: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        write_photos(root / "photos", count=8, sizes=((64, 48),), seed=arguments.seed, classes=2)
        built = beam_tfrecords.build(input=root / "photos", output=root / "built", image_size=32, report=False)
        (real,) = built.shards
        count, names = arguments.shards, ShardNames("", built.name, "")
        made = make_shards(count, count=count, names=names, split=real.split, seed=arguments.seed)
        # The first one is there.
        shards = [dataclasses.replace(real, of=count), *itertools.islice(made, 1, None)]
        for form in ("listed", "file"):
            size = write_dataset(root / form, root / "built", shards, lists=form == "listed")
            processes = arguments.listed_processes if form == "listed" else arguments.processes
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                found = list(pool.map(read, [root / form] * processes))
            forms[form] = {
                "bytes": size,
                "processes": processes,
                **{name: max(one[name] for one in found) for name in ("imported", "peak", "seconds")},
                **{name: min(one[name] for one in found) for name in ("opened", "processor")},
                "most_processor": max(one["processor"] for one in found),
            }
            print(form, {name: round(value, 3) for name, value in forms[form].items()})
    write_figures(
        arguments.results / f"many_shards_{arguments.shards}.json",
        script=__file__,
        rounds=1,
        seed=arguments.seed,
        shards=arguments.shards,
        forms=forms,
    )


if __name__ == "__main__":
    main()
