"""How memory and processor time grow with an input: each case at several sizes, by the memory of all its processes.

    python benchmarks/growth.py                                   every case: 15 minutes
    python benchmarks/growth.py zip classes                       two of them

A case makes an input of a size in a folder and yields the commands that are measured; see `CASES`. Its smallest size
is start-up. Growth is the processor time of each further unit over that between the first two sizes: 1 is linear. The
figures of a case replace its earlier ones in the results.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import growth_inputs as inputs
from figures import COMMAND, RESULTS, describe_code, write_figures
from peak_memory import measure
from PIL import Image

_LEAST_SECONDS = 0.5  # that say how the time grows
_KEEP = "--image_encoding=keep"
Steps: TypeAlias = "Iterator[tuple[str, Sequence[str]]]"


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured, at which sizes.

    Attributes:
      unit: what the sizes count.
      sizes: ascending.
      run: makes an input of a size in a folder; yields the name and the words of each command to measure.
    """

    unit: str
    sizes: tuple[int, ...]
    run: Callable[[pathlib.Path, int], Steps]


def convert(source: pathlib.Path, *words: str) -> tuple[str, Sequence[str]]:
    """Converts an input; the output is beside it."""
    words = (f"--input={source}", f"--output={source.parent / 'out'}", "--quiet", *words)
    return "convert", [COMMAND, "convert", *words]


def rows(folder: pathlib.Path, count: int, *, form: str) -> Steps:
    """A table without images."""
    yield _convert_rows(inputs.write_rows(folder / f"rows.{form}", inputs.keyed_rows(count)))


def own_samples(folder: pathlib.Path, count: int) -> Steps:
    """A function that yields images, in ten parts."""
    code = f"""
import numpy as np
from beam_tfrecords import Sample, build

def rows(part):
    for number in range({count} // 10):
        yield Sample(f"{{part}}/{{number}}", image=np.full((8, 8, 3), number % 256, np.uint8), label=number % 10)

build(input=rows, parts=list(range(10)), output={str(folder / "out")!r}, quiet=True, report=False)
"""
    yield "build", [sys.executable, "-c", code]


def wide(folder: pathlib.Path, count: int) -> Steps:
    """A table with many columns."""
    table = inputs.wide_rows(count, columns=2_000)
    yield convert(inputs.write_rows(folder / "rows.parquet", table), "--layout=columns")


def captions(folder: pathlib.Path, count: int) -> Steps:
    """Images with long texts."""
    table = inputs.caption_rows(count, characters=1_000_000)
    yield convert(inputs.write_rows(folder / "rows.parquet", table), "--layout=captions", _KEEP)


def files(folder: pathlib.Path, count: int) -> Steps:
    """A folder, and its next version with other images in a hundredth of the files."""
    images = inputs.link_files(folder / "images", count)
    yield convert(images, _KEEP, "--versioned")
    inputs.change_files(images, every=100)
    yield "next version", convert(images, _KEEP, "--versioned")[1]


def zips(folder: pathlib.Path, count: int) -> Steps:
    """One zip file."""
    yield convert(inputs.write_zip(folder / "images.zip", inputs.tiny_images(count)), _KEEP)


def shard_size(folder: pathlib.Path, count: int) -> Steps:
    """Images in shards of a megabyte."""
    images = inputs.tiny_images(count, inputs.noise_images(1_000))
    yield convert(inputs.write_images(folder / "images.parquet", images), _KEEP, "--shard_size=1MB")


def shards(folder: pathlib.Path, count: int) -> Steps:
    """All that is done with a dataset, in shards of ten rows."""
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(10 * count))
    yield _convert_rows(path, f"--num_shards={count}")
    dataset = f"--dataset={folder / 'out'}"
    for command in ("verify", "inspect", "status", "report"):
        yield command, [COMMAND, command, dataset]
    yield "filter five times", _read(folder, "[records.filter(f'label = \\'{n}\\'') for n in range(5)]")
    yield "load", [sys.executable, "-c", f"import beam_tfrecords as b; next(iter(b.load('{folder}/out', 'train')))"]


def one_shard(folder: pathlib.Path, count: int) -> Steps:
    """Readers of a shard with many rows."""
    yield _convert_rows(inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(count)), "--num_shards=1")
    yield "verify", [COMMAND, "verify", f"--dataset={folder / 'out'}"]
    yield "open", _read(folder, "records[-1]")


def classes(folder: pathlib.Path, count: int) -> Steps:
    """100,000 rows of so many classes."""
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(100_000, classes=count))
    yield _convert_rows(path)
    yield "verify", [COMMAND, "verify", f"--dataset={folder / 'out'}"]


def failures(folder: pathlib.Path, count: int) -> Steps:
    """Samples that cannot be converted, and a hundredth that can."""
    images = (image if number % 100 == 0 else image[:40] for number, image in enumerate(inputs.tiny_images(count)))
    yield convert(inputs.write_images(folder / "images.parquet", images), "--max_failures=1")


def near(folder: pathlib.Path, count: int) -> Steps:
    """Frames of a fixed camera: all bytes differ, and so many perceptual hashes do, in a few bits."""
    images = inputs.tiny_images(count, inputs.camera_frames(4096))
    path = inputs.write_images(folder / "frames.parquet", images)
    yield convert(path, "--near_duplicates=4", "--splits=train=0.8,test=0.2")


def large_image(folder: pathlib.Path, megapixels: int, *, form: str) -> Steps:
    """One image, made smaller."""
    (folder / "images" / "cat").mkdir(parents=True)
    Image.fromarray(inputs.large_pixels(megapixels)).save(folder / "images" / "cat" / f"large.{form}")
    limits = ("--max_pixels=1000000000", "--max_file_size=10GB", "--max_image_memory=20GB")
    yield convert(folder / "images", "--class_names=cat", "--image_size=256", *limits)


def _convert_rows(path: pathlib.Path, *words: str) -> tuple[str, Sequence[str]]:
    spec = path.parent / "spec.json"
    types = {"id": ("column.id", "bytes"), "label": ("label.name", "bytes"), "width": ("column.width", "int64")}
    layout = {name: {"field": field, "type": of} for name, (field, of) in types.items()}
    spec.write_text(json.dumps({"layout": layout}))
    return convert(path, f"--spec={spec}", "--key_column=id", "--label_column=label", *words)


def _read(folder: pathlib.Path, expression: str) -> Sequence[str]:
    code = (
        f"import beam_tfrecords; records = beam_tfrecords.open_dataset('{folder}/out').records('train'); {expression}"
    )
    return [sys.executable, "-c", code]


_ROWS = (1_000, 300_000, 1_000_000, 3_000_000)
_SAMPLES = (1_000, 30_000, 100_000, 300_000)
_MEGAPIXELS = (1, 20, 200)
CASES: dict[str, Case] = {
    "rows_csv": Case("rows of a CSV file", _ROWS, functools.partial(rows, form="csv")),
    "rows_parquet": Case("rows of a Parquet file", _ROWS, functools.partial(rows, form="parquet")),
    "own_samples": Case("samples of a function", (1_000, 100_000, 1_000_000), own_samples),
    "columns_2000": Case("rows of 2,000 columns", (10, 500, 2_500), wide),
    "captions_1MB": Case("captions of 1 MB", (1, 50, 250), captions),
    "files": Case("files of a folder", (1_000, 50_000, 200_000), files),
    "zip": Case("members of a zip file", _SAMPLES, zips),
    "shard_size": Case("images in shards of 1 MB", (1_000, 30_000, 150_000), shard_size),
    "shards": Case("shards of ten rows", (10, 500, 5_000), shards),
    "one_shard": Case("rows of a shard", (1_000, 300_000, 1_000_000), one_shard),
    "classes": Case("classes of 100,000 rows", (10, 10_000, 100_000), classes),
    "failures": Case("images, of which 99% fail", _SAMPLES, failures),
    "near_4096": Case("images with 4,096 hashes", _SAMPLES, near),
    "large_jpeg": Case("megapixels of a JPEG", _MEGAPIXELS, functools.partial(large_image, form="jpg")),
    "large_png": Case("megapixels of a PNG", _MEGAPIXELS, functools.partial(large_image, form="png")),
}


def measure_case(name: str, case: Case) -> dict[str, Any]:
    """Measures every size and command of a case; prints a row for each."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for size in case.sizes:
        with tempfile.TemporaryDirectory() as folder:
            for title, words in case.run(pathlib.Path(folder), size):
                measured = measure(list(words), log=sys.stderr.buffer)
                if measured.exit_code:
                    raise RuntimeError(f"{name} of {size} ended with exit code {measured.exit_code}")
                found = steps.setdefault(title, [])
                row = {"size": size, **dataclasses.asdict(measured)}
                times = [
                    *((one["size"], one["processor_seconds"]) for one in found),
                    (size, measured.processor_seconds),
                ]
                found.append({**row, "growth": find_growth(times)})
                memory = f"{measured.peak_bytes / 1e6:7,.0f} MB, {measured.processor_seconds:7.1f} s"
                print(f"{size:>9,} {case.unit:33} {title:18} {memory}", flush=True)
    return {"unit": case.unit, "steps": steps}


def find_growth(measured: Sequence[tuple[int, float]]) -> float | None:
    """Returns the cost of a unit beyond the last size but one over that of a unit before it, without start-up.

    Args:
      measured: sizes and processor seconds; the first is start-up.

    Returns:
      The factor; None for fewer than three sizes, or if the second takes hardly longer than start-up.
    """
    if len(measured) < 3 or measured[-2][1] - measured[0][1] < _LEAST_SECONDS:
        return None
    start, before, last = measured[0], measured[-2], measured[-1]
    return (last[1] - before[1]) / (last[0] - before[0]) * (before[0] - start[0]) / (before[1] - start[1])


def main() -> None:
    """Measures the chosen cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help="; ".join(CASES))
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - CASES.keys():
        parser.error(f"unknown case {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    path = arguments.results / "growth.json"
    figures = json.loads(path.read_text())["cases"] if path.exists() else {}
    for name in arguments.cases:
        # Cases that were measured before stay, with their commit.
        figures[name] = {"code": describe_code(), **measure_case(name, CASES[name])}
        write_figures(path, rounds=1, cases={known: figures[known] for known in CASES if known in figures})


if __name__ == "__main__":
    main()
