"""Small images and rows of tables against bare loops: what a sample costs beside its codec.

    python benchmarks/small_samples.py                            all kinds, 5 rounds
    python benchmarks/small_samples.py --only=png,parquet --rounds=1

A bare loop lists, decodes, encodes, serializes and frames in one process per core, and does nothing else. Each round
runs the bare loop of a kind and then beam-tfrecords, start-up included.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import multiprocessing
import os
import pathlib
import random
import struct
import sys
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from figures import COMMAND, RESULTS, spread_of, write_figures
from peak_memory import measure
from PIL import Image

from beam_tfrecords.crc32c import value as crc32c
from beam_tfrecords.features import example_pb2

_IMAGES, _ROWS, _FOLDERS, _SIDE = 60_000, 500_000, 10, 32
# Kind -> its input, and the flags of the build.
_KINDS = {
    "png": ("png", ["--image_encoding=png"]),
    "jpeg": ("jpeg", ["--image_encoding=jpeg"]),
    "keep": ("png", ["--image_encoding=keep"]),
    "parquet": ("rows.parquet", ["--layout=columns"]),
    "csv": ("rows.csv", ["--spec={inputs}/spec.json"]),
}


def make_inputs(root: pathlib.Path, *, images: int, rows: int) -> None:
    """Makes the inputs of all kinds."""
    rng = np.random.default_rng(0)
    for number in range(images):
        # As smooth as photos, so that files have the size of CIFAR's.
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8))
        image = coarse.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        for form in ("png", "jpeg"):
            folder = root / form / f"class_{number % _FOLDERS}"
            folder.mkdir(parents=True, exist_ok=True)
            image.save(folder / f"{number:06d}.{form}")
    names = [f"item {number}" for number in range(rows)]
    heights, labels = rng.random(rows).astype(np.float32), rng.integers(0, 10, rows)
    table = pa.table({"id": np.arange(rows), "height": heights, "name": names, "label": labels})
    pq.write_table(table, root / "rows.parquet")
    pa.csv.write_csv(table, root / "rows.csv")
    # A CSV file does not say its types.
    types = {"id": "int64", "height": "float", "name": "bytes", "label": "int64"}
    layout = {name: {"field": f"column.{name}", "type": kind} for name, kind in types.items()}
    (root / "spec.json").write_text(json.dumps({"layout": layout}))


def write_records(source: pathlib.Path, target: pathlib.Path, kind: str, worker: int, workers: int) -> None:
    """Runs the bare loop of one process."""
    make = _make_rows if source.is_file() else _make_images
    with open(target, "wb") as file:
        for features in make(source, kind, worker, workers):
            record = _serialize(features)
            length = struct.pack("<Q", len(record))
            file.write(b"".join((length, _masked_crc(length), record, _masked_crc(record))))


def _make_images(source: pathlib.Path, kind: str, worker: int, workers: int) -> Iterator[dict[str, object]]:
    paths = sorted(entry.path for folder in os.scandir(source) for entry in os.scandir(folder.path))
    random.Random(0).shuffle(paths)
    for path in paths[worker::workers]:
        with open(path, "rb") as file:
            encoded = io.BytesIO(file.read())
        if kind != "keep":
            image = Image.open(encoded).convert("RGB")
            encoded = io.BytesIO()
            image.save(encoded, kind, **({"quality": 95} if kind == "jpeg" else {}))
        yield {"image": encoded.getvalue(), "label": int(os.path.dirname(path)[-1])}


def _make_rows(source: pathlib.Path, kind: str, worker: int, workers: int) -> Iterator[dict[str, object]]:
    if kind == "csv":
        with open(source, newline="") as file:
            for number, (key, height, name, label) in enumerate(list(csv.reader(file))[1:]):
                if number % workers == worker:
                    yield {"id": int(key), "height": float(height), "name": name.encode(), "label": int(label)}
        return
    table = pq.read_table(source, use_threads=False)
    share = -(-len(table) // workers)
    columns = table.slice(worker * share, share).to_pydict()
    for key, height, name, label in zip(*columns.values(), strict=True):
        yield {"id": key, "height": height, "name": name.encode(), "label": label}


def _serialize(features: dict[str, object]) -> bytes:
    example = example_pb2.Example()
    for name, value in features.items():
        feature = example.features.feature[name]
        kind = {bytes: "bytes_list", int: "int64_list", float: "float_list"}[type(value)]
        getattr(feature, kind).value.append(value)
    return bytes(example.SerializeToString())


def _masked_crc(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def run(*command: str, environment: Mapping[str, str] | None = None) -> tuple[float, float]:
    """Runs a command; returns its seconds by the clock, and of the processors."""
    with tempfile.TemporaryFile() as log:
        found = measure(command, sample_memory=False, log=log, environment=environment)
        if found.exit_code:
            log.seek(0)
            tail = log.read()[-4000:].decode(errors="replace")
            raise RuntimeError(f"{command[:3]} ended with exit code {found.exit_code}:\n{tail}")
    return found.seconds, found.processor_seconds


def main() -> None:
    """Runs the rounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(_KINDS), help="kinds, comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=_IMAGES)
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        kind, source, target = arguments.bare
        workers = os.cpu_count() or 1
        shares = [
            (pathlib.Path(source), pathlib.Path(f"{target}.{worker}"), kind, worker, workers)
            for worker in range(workers)
        ]
        with multiprocessing.Pool(workers) as pool:
            pool.starmap(write_records, shares, chunksize=1)
        return
    kinds: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs = pathlib.Path(folder, "inputs")
        make_inputs(inputs, images=arguments.images, rows=arguments.rows)
        for kind in arguments.only.split(","):
            name, flags = _KINDS[kind]
            source, samples = str(inputs / name), arguments.rows if "." in name else arguments.images
            bare, ours = list[tuple[float, float]](), list[tuple[float, float]]()
            for number in range(arguments.rounds):
                bare.append(run(sys.executable, __file__, "--bare", kind, source, f"{folder}/bare"))
                words = [f"--input={source}", f"--output={folder}/{kind}-{number}", "--no_report"]
                ours.append(run(COMMAND, "convert", *words, *(flag.format(inputs=inputs) for flag in flags)))
            ratios = (one / other for (one, _), (other, _) in zip(bare, ours, strict=True))
            print(f"{kind:8} {spread_of(ratios, '.2f')} of the rate of the bare loop", flush=True)
            kinds[kind] = {"samples": samples, "bare loop": bare, "beam-tfrecords": ours}
            path = arguments.results / f"small_samples_{arguments.images}.json"
            write_figures(path, rounds=arguments.rounds, kinds=kinds)


if __name__ == "__main__":
    main()
