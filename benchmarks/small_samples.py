"""Small images and rows of tables against bare loops: what a sample costs beside its codec.

    python benchmarks/small_samples.py                            all kinds, 5 rounds
    python benchmarks/small_samples.py --only=png,parquet --rounds=1

A bare loop lists, decodes, encodes, serializes and frames in one process per core, and does nothing else. Each round
runs the bare loop of a kind and then beam-tfrecords, start-up included. Besides the time it prints that of the
processors, which says more on a machine that does other work. The figures go to --results.
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
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from figures import RESULTS, write_figures
from peak_memory import measure
from PIL import Image

from beam_tfrecords.crc32c import value as crc32c
from beam_tfrecords.examples import example_pb2

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_IMAGES, _ROWS, _FOLDERS, _SIDE = 60_000, 500_000, 10, 32
_FLAGS = {
    "png": ["--image_encoding=png"],
    "jpeg": ["--image_encoding=jpeg"],
    "tar": ["--image_encoding=png"],
    "keep": ["--image_encoding=keep"],
    "parquet": ["--layout=columns"],
    "csv": ["--spec={root}/csv.json"],
}
# A csv file does not say them.
_TYPES = {"id": "int64", "height": "float", "name": "bytes", "label": "int64"}


def make_inputs(root: pathlib.Path, *, images: int, rows: int) -> None:
    """Makes the input of every kind: `png/`, `jpeg/`, `tar.tar`, `parquet.parquet`, `csv.csv` and its spec."""
    rng = np.random.default_rng(0)
    for number in range(images):
        # As smooth as photos are, so that their files are of the size of CIFAR's.
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8))
        image = coarse.resize((_SIDE, _SIDE), Image.Resampling.BICUBIC)
        for kind in ("png", "jpeg"):
            folder = root / kind / f"class_{number % _FOLDERS}"
            folder.mkdir(parents=True, exist_ok=True)
            image.save(folder / f"{number:06d}.{kind}")
    with tarfile.open(root / "tar.tar", "w") as archive:
        archive.add(root / "png", arcname=".")
    names = [f"item {number}" for number in range(rows)]
    columns = {
        "id": np.arange(rows),
        "height": rng.random(rows).astype(np.float32),
        "name": names,
        "label": rng.integers(0, 10, rows),
    }
    pq.write_table(pa.table(columns), root / "parquet.parquet")
    pa.csv.write_csv(pa.table(columns), root / "csv.csv")
    layout = {name: {"field": f"column.{name}", "type": kind} for name, kind in _TYPES.items()}
    (root / "csv.json").write_text(json.dumps({"layout": layout}))


def input_of(root: pathlib.Path, kind: str) -> pathlib.Path:
    """The input of a kind."""
    return next(path for path in (root / f"{kind}.{kind}", root / ("png" if kind == "keep" else kind)) if path.exists())


def run_bare(source: pathlib.Path, target: pathlib.Path, kind: str) -> None:
    """The bare loop, in one process per core."""
    workers = os.cpu_count() or 1
    target.mkdir()
    arguments = [(source, target / f"{worker}.tfrecord", kind, worker, workers) for worker in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        pool.starmap(_write, arguments, chunksize=1)


def _write(source: pathlib.Path, target: pathlib.Path, kind: str, worker: int, workers: int) -> None:
    examples = _rows(source, worker, workers) if kind in ("parquet", "csv") else _images(source, kind, worker, workers)
    with open(target, "wb") as file:
        for features in examples:
            record = _serialize(features)
            length = struct.pack("<Q", len(record))
            file.write(b"".join((length, _masked_crc(length), record, _masked_crc(record))))


def _images(source: pathlib.Path, kind: str, worker: int, workers: int) -> Iterator[dict[str, object]]:
    for data, label in _tar_members(source, worker, workers) if kind == "tar" else _files(source, worker, workers):
        encoded = io.BytesIO(data)
        if kind != "keep":
            image = Image.open(encoded).convert("RGB")
            encoded = io.BytesIO()
            image.save(encoded, "JPEG" if kind == "jpeg" else "PNG", **({"quality": 95} if kind == "jpeg" else {}))
        yield {"image": encoded.getvalue(), "label": label}


def _files(source: pathlib.Path, worker: int, workers: int) -> Iterator[tuple[bytes, int]]:
    paths = sorted(entry.path for folder in os.scandir(source) for entry in os.scandir(folder.path))
    random.Random(0).shuffle(paths)
    for path in paths[worker::workers]:
        with open(path, "rb") as file:
            yield file.read(), int(os.path.dirname(path)[-1])


def _tar_members(source: pathlib.Path, worker: int, workers: int) -> Iterator[tuple[bytes, int]]:
    with tarfile.open(source) as archive, open(source, "rb") as file:
        members = [member for member in archive if member.isfile()]
        random.Random(0).shuffle(members)
        for member in members[worker::workers]:
            file.seek(member.offset_data)
            yield file.read(member.size), int(os.path.dirname(member.name)[-1])


def _rows(source: pathlib.Path, worker: int, workers: int) -> Iterator[dict[str, object]]:
    if source.suffix == ".csv":
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


def run(command: Iterable[object]) -> tuple[float, float]:
    """Runs a command; seconds by the clock, and of the processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(os.devnull, "wb") as log:
        found = measure([str(word) for word in command], sample_memory=False, log=log)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if found.exit_code:
        raise subprocess.CalledProcessError(found.exit_code, list(map(str, command)))
    return found.seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(_FLAGS), help="kinds, comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=_IMAGES)
    parser.add_argument("--rows", type=int, default=_ROWS)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    parser.add_argument("--inputs", type=pathlib.Path, help="folder that keeps the inputs for the next time")
    parser.add_argument("--bare", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.bare:
        kind, source, target = arguments.bare
        run_bare(pathlib.Path(source), pathlib.Path(target), kind)
        return
    kinds: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        inputs, output = arguments.inputs or pathlib.Path(folder, "inputs"), pathlib.Path(folder, "out")
        if not inputs.exists():
            make_inputs(inputs, images=arguments.images, rows=arguments.rows)
        for kind in arguments.only.split(","):
            samples = arguments.rows if kind in ("parquet", "csv") else arguments.images
            runs = measure_kind(kind, input_of(inputs, kind), output, inputs=inputs, rounds=arguments.rounds)
            kinds[kind] = {"samples": samples, **runs}
            report(kind, samples, runs)
            write_figures(
                arguments.results / f"small_samples_{arguments.images}.json",
                script=__file__,
                rounds=arguments.rounds,
                kinds=kinds,
            )


def measure_kind(
    kind: str, source: pathlib.Path, output: pathlib.Path, *, inputs: pathlib.Path, rounds: int
) -> dict[str, list[tuple[float, float]]]:
    """Seconds by the clock and of the processors, of each round: of the bare loop and of beam-tfrecords."""
    found: dict[str, list[tuple[float, float]]] = {"bare loop": [], "beam-tfrecords": []}
    for _ in range(rounds):
        found["bare loop"].append(run([sys.executable, __file__, "--bare", kind, source, output]))
        shutil.rmtree(output)
        flags = [flag.format(root=inputs) for flag in _FLAGS[kind]]
        words = ["convert", f"--input={source}", f"--output={output}", *flags, "--no_report"]
        found["beam-tfrecords"].append(run([_COMMAND, *words]))
        shutil.rmtree(output)
    return found


def report(kind: str, samples: int, found: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """Prints the medians of a kind."""
    for name, runs in found.items():
        seconds = statistics.median(one for one, _ in runs)
        spent = statistics.median(one for _, one in runs)
        ratios = [bare / ours for (bare, _), (ours, _) in zip(found["bare loop"], runs, strict=True)]
        shares = [bare / ours for (_, bare), (_, ours) in zip(found["bare loop"], runs, strict=True)]
        print(
            f"{kind:8} {name:15} {samples / seconds:9,.0f} /s  {seconds:6.2f} s  {1e6 * spent / samples:7.1f} "
            f"µs of processors a sample  {statistics.median(ratios):5.2f} of the bare loop's rate, "
            f"{statistics.median(shares):5.2f} of its processor time",
            flush=True,
        )


if __name__ == "__main__":
    main()
