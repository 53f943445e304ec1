"""How memory and processor time grow with an input: each case at several sizes, by the memory of all its processes.

    python benchmarks/growth.py                                   every case
    python benchmarks/growth.py near_256 near_4096                two of them
    python benchmarks/growth.py near_256 --sizes=1000,10000

A case is a function that makes an input of a size in a folder and returns the command that is measured; see `CASES`.
Below each row stands by how much the processor time grew, where the size grew by so much; start-up is part of both.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from peak_memory import measure
from PIL import Image

_COMMAND = str(pathlib.Path(sys.executable).with_name("beam-tfrecords"))
_ROWS = 10_000  # of a row group
Command = Sequence[str]


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured, at which sizes.

    Attributes:
      unit: what the sizes count.
      prepare: makes the input in a folder, unmeasured; returns the command.
    """

    unit: str
    sizes: tuple[int, ...]
    prepare: Callable[[pathlib.Path, int], Command]


def convert(source: pathlib.Path, *words: str) -> Command:
    """The command that converts an input; its output is beside it."""
    return [_COMMAND, "convert", f"--input={source}", f"--output={source.parent / 'out'}", "--quiet", *words]


def near_duplicates(distinct: int) -> Callable[[pathlib.Path, int], Command]:
    """Frames of a fixed camera: all bytes differ, and so many perceptual hashes do, in a few bits."""

    def prepare(folder: pathlib.Path, frames: int) -> Command:
        path = folder / "frames.parquet"
        pictures = _make_frames(folder / "frame.png", distinct)
        schema = pa.schema([("image", pa.binary()), ("label", pa.string())])
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, frames, _ROWS):
                numbers = range(start, min(frames, start + _ROWS))
                images = [_comment(pictures[number % distinct], number) for number in numbers]
                writer.write_table(pa.table([images, [str(number % 7) for number in numbers]], schema))
        return convert(path, "--near_duplicates=4", "--splits=train=0.8,test=0.2")

    return prepare


def _make_frames(path: pathlib.Path, distinct: int) -> list[bytes]:
    """PNGs of 32 x 32 whose frequencies near the median change places."""
    free = next(bits for bits in range(64) if math.comb(bits, bits // 2) >= distinct)
    generator = np.random.default_rng(0)
    places = generator.permutation(64)
    cosines = np.cos(np.pi / 32 * np.outer(np.arange(8), np.arange(32) + 0.5))
    frames: dict[tuple[int, ...], bytes] = {}
    while len(frames) < distinct:
        frequencies = np.empty(64)
        frequencies[places[free:]] = np.where(np.arange(64 - free) < 32 - free // 2, 3.0, -3.0)
        frequencies[places[:free]] = -1.0
        above = generator.choice(free, free // 2, replace=False)
        frequencies[places[above]] = 1.0
        pixels = 128 + cosines.T @ frequencies.reshape(8, 8) @ cosines
        Image.fromarray(np.clip(pixels, 0, 255).round().astype(np.uint8)).save(path)
        frames[tuple(sorted(above))] = path.read_bytes()
    return list(frames.values())


def _comment(png: bytes, number: int) -> bytes:
    """A PNG with a comment behind its header, so that its bytes are its own."""
    text = b"tEXtnumber\0" + str(number).encode()
    return png[:33] + struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text)) + png[33:]


def tiny_shards(folder: pathlib.Path, shards: int) -> Command:
    """50,000 images of 32 x 32 in so many shards."""
    generator = np.random.default_rng(0)
    for number in range(50_000):
        path = folder / "images" / f"class{number % 10}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, compress_level=1)
    return convert(folder / "images", f"--num_shards={shards}")


def table(path: pathlib.Path, rows: int) -> pathlib.Path:
    """A CSV of numbers and labels, a key for each row."""
    with path.open("w") as file:
        file.write("id,label,width\n")
        file.writelines(f"row-{number:09d},{number % 7},{number % 1000}\n" for number in range(rows))
    return path


def dataset_of(folder: pathlib.Path, rows: int, *words: str) -> pathlib.Path:
    """Converts a table."""
    spec = folder / "spec.json"
    types = {"id": "column.id", "label": "label.name"}
    spec.write_text(json.dumps({"layout": {name: {"field": field, "type": "bytes"} for name, field in types.items()}}))
    source = table(folder / "rows.csv", rows)
    command = convert(source, f"--spec={spec}", "--key_column=id", "--label_column=label", *words)
    subprocess.run(command, check=True)
    return folder / "out"


def verify_rows(folder: pathlib.Path, rows: int) -> Command:
    """One shard, so one worker."""
    return [_COMMAND, "verify", f"--dataset={dataset_of(folder, rows, '--num_shards=1')}"]


def open_rows(folder: pathlib.Path, rows: int) -> Command:
    """Reads the last record of one shard."""
    return _read(dataset_of(folder, rows, "--num_shards=1"), "records[-1]")


def filter_shards(folder: pathlib.Path, shards: int) -> Command:
    """Looks at the indices of many small shards, five times."""
    path = dataset_of(folder, 10 * shards, f"--num_shards={shards}")
    return _read(path, "[records.filter(f'label = \\'{n}\\'') for n in range(5)]")


def _read(dataset: pathlib.Path, expression: str) -> Command:
    code = f"import beam_tfrecords; records = beam_tfrecords.open_dataset('{dataset}').records('train'); {expression}"
    return [sys.executable, "-c", code]


_FRAMES = (30_000, 100_000, 300_000)
_TABLE_ROWS = (100_000, 300_000, 1_000_000)
CASES: dict[str, Case] = {
    "near_256": Case("frames of 256 hashes", _FRAMES, near_duplicates(256)),
    "tiny_shards": Case("shards of 50,000 images", (1, 200, 2_000), tiny_shards),
    "near_4096": Case("frames of 4,096 hashes", _FRAMES, near_duplicates(4096)),
    "verify_rows": Case("rows of a shard", _TABLE_ROWS, verify_rows),
    "open_rows": Case("rows of a shard", _TABLE_ROWS, open_rows),
    "filter_shards": Case("shards", (100, 500, 2000), filter_shards),
}


def run(name: str, case: Case, sizes: Sequence[int]) -> None:
    """Prints a row for each size."""
    last = None
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            command = case.prepare(pathlib.Path(folder), size)
            measured = measure(list(command), log=sys.stderr.buffer)
        used = measured.processor_seconds
        growth = f"{used / last[1]:.1f} at {size / last[0]:.1f}" if last else ""
        failed = f", exit code {measured.exit_code}" if measured.exit_code else ""
        print(
            f"| {name} | {size:,} {case.unit}{failed} | {measured.peak_bytes / 1e6:,.0f} MB "
            f"| {measured.largest_bytes / 1e6:,.0f} MB | {used:.1f} s | {growth} |",
            flush=True,
        )
        last = size, used


def main() -> None:
    """Prints a table of the chosen cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help="; ".join(CASES))
    parser.add_argument("--sizes", help="instead of each case's own, such as 1000,10000")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - CASES.keys():
        parser.error(f"unknown case {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    print("| case | size | peak, all processes | peak, largest | processor time | growth |\n|---|---|---|---|---|---|")
    for name in arguments.cases:
        sizes = [int(size) for size in arguments.sizes.split(",")] if arguments.sizes else CASES[name].sizes
        run(name, CASES[name], sizes)


if __name__ == "__main__":
    main()
