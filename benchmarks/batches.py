"""Processor time of a build in one process, by sample: what the steps cost between the source and the shards.

    python benchmarks/batches.py --inputs=/data/inputs ../before ../after

Runs the checkouts in turn and prints the median and the range of each. There are no worker processes and no runner, so
that differences of one percent can be seen on a machine that does other work.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

_FLAGS = {"png": ["--image_encoding=png"], "photos": ["--image_size=256"], "rows": ["--layout=columns"]}
_SAMPLES = {"png": 10_000, "photos": 400, "rows": 200_000}
_RUN = """
import sys, time
from tests.conftest import run_command
from tests.plain_runner import plain_pipelines
with plain_pipelines():
    run_command("convert", *sys.argv[1:], "--limit=50")
    started = time.process_time()
    ran = run_command("convert", *(word.replace("/warm", "/out") for word in sys.argv[1:]))
print(time.process_time() - started, file=sys.stdout)
sys.exit(ran.code)
"""


def make_inputs(root: pathlib.Path, photos: pathlib.Path) -> None:
    """Makes `png/` of 32x32, `photos/` (those of a folder, repeated) and `rows/`, a table in Parquet."""
    rng = np.random.default_rng(0)
    for number in range(_SAMPLES["png"]):
        folder = root / "png" / f"class_{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8))
        coarse.resize((32, 32), Image.Resampling.BICUBIC).save(folder / f"{number:06d}.png")
    found = sorted(photos.rglob("*.jpg"))
    for number in range(_SAMPLES["photos"]):
        folder = root / "photos" / f"class_{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(found[number % len(found)], folder / f"{number:06d}.jpg")
    (root / "rows").mkdir()
    rows = _SAMPLES["rows"]
    columns = {
        "id": np.arange(rows),
        "height": rng.random(rows).astype(np.float32),
        "name": [f"item {number}" for number in range(rows)],
        "label": rng.integers(0, 10, rows),
    }
    pq.write_table(pa.table(columns), root / "rows" / "rows.parquet")


def run(checkout: pathlib.Path, kind: str, inputs: pathlib.Path) -> float:
    """Builds the dataset of a kind; seconds of the processor."""
    source = inputs / kind if kind != "rows" else inputs / "rows" / "rows.parquet"
    output = inputs / "out"
    words = [f"--input={source}", f"--output={inputs}/warm", "--no_report", "--name=x", *_FLAGS[kind]]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, *words],
        cwd=checkout,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    for folder in (output, inputs / "warm"):
        shutil.rmtree(folder)
    return float(ran.stdout.splitlines()[-1])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=pathlib.Path)
    parser.add_argument("--inputs", type=pathlib.Path, required=True, help="folder that keeps the inputs")
    parser.add_argument("--only", default=",".join(_FLAGS), help="kinds, comma-separated")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not arguments.inputs.exists():
        make_inputs(arguments.inputs, pathlib.Path(__file__).parents[1] / "tests" / "data" / "photos")
    for kind in arguments.only.split(","):
        found: dict[pathlib.Path, list[float]] = {checkout: [] for checkout in arguments.checkouts}
        for _ in range(arguments.rounds):
            for checkout, seconds in found.items():
                seconds.append(1e6 * run(checkout, kind, arguments.inputs) / _SAMPLES[kind])
        for checkout, costs in found.items():
            print(
                f"{kind:7} {checkout.name:20} {statistics.median(costs):9.1f} µs a sample "
                f"({min(costs):.1f} to {max(costs):.1f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
