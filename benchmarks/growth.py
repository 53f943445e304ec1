"""How memory and processor time grow with an input: each case at three sizes, by the memory of all its processes.

    python benchmarks/growth.py                                   every case: 20 minutes
    python benchmarks/growth.py near_256 near_4096                two of them
    python benchmarks/growth.py rows_csv --sizes=1000,3000000,10000000

A case makes an input of a size in a folder and yields the commands that are measured; see `CASES`. Its smallest size
is start-up. Growth is the processor time of each further unit over that between the first two sizes: 1 is linear. The
figures of a case replace its earlier ones in --results; `tables.py` makes the table of them.
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
import numpy as np
from figures import RESULTS, describe_code, write_figures
from peak_memory import Measurement, measure
from PIL import Image

_COMMAND = str(pathlib.Path(sys.executable).with_name("beam-tfrecords"))
_LEAST_SECONDS = 0.5  # that say how the time grows
_KEEP = ("--image_encoding=keep", "--check=header")
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
    return "convert", [_COMMAND, "convert", *words]


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


def database(folder: pathlib.Path, count: int) -> Steps:
    """A function that yields the rows of a database, in ten parts; a thousand files are its images."""
    inputs.write_database(folder, count)
    code = f"""
import sqlite3
from beam_tfrecords import Sample, build

def rows(part):
    query = "SELECT id, path, kind FROM photos WHERE id % 10 = ?"
    for number, path, kind in sqlite3.connect({str(folder / "photos.db")!r}).execute(query, (part,)):
        yield Sample(number, image=path, label=kind)

words = {{"image_root": {str(folder)!r}, "output": {str(folder / "out")!r}}}
build(input=rows, parts=list(range(10)), quiet=True, report=False, **words)
"""
    yield "build", [sys.executable, "-c", code]


def wide(folder: pathlib.Path, count: int, *, columns: int) -> Steps:
    """A table with many columns."""
    table = inputs.wide_rows(count, columns=columns)
    yield convert(inputs.write_rows(folder / "rows.parquet", table), "--layout=columns")


def captions(folder: pathlib.Path, count: int, *, characters: int) -> Steps:
    """Images with long texts."""
    table = inputs.caption_rows(count, characters=characters)
    yield convert(inputs.write_rows(folder / "rows.parquet", table), "--layout=captions", *_KEEP)


def objects(folder: pathlib.Path, count: int) -> Steps:
    """One image with many objects."""
    yield convert(inputs.write_coco(folder / "coco", count), "--class_names=person,dog")


def files(folder: pathlib.Path, count: int) -> Steps:
    """A folder, and its next version with other images in a hundredth of the files."""
    images = inputs.link_files(folder / "images", count)
    yield convert(images, *_KEEP, "--versioned")
    inputs.change_files(images, every=100)
    yield "next version", convert(images, *_KEEP, "--versioned")[1]


def zips(folder: pathlib.Path, count: int) -> Steps:
    """One zip file."""
    yield convert(inputs.write_zips(folder / "zips", inputs.tiny_images(count), members=count), *_KEEP)


def tars(folder: pathlib.Path, count: int) -> Steps:
    """One tar file."""
    yield convert(inputs.write_tars(folder / "tars", inputs.tiny_images(count), members=count), *_KEEP)


def many_tars(folder: pathlib.Path, count: int) -> Steps:
    """Tar files with ten images each."""
    yield convert(inputs.write_tars(folder / "tars", inputs.tiny_images(10 * count), members=10), *_KEEP)


def webdataset(folder: pathlib.Path, count: int) -> Steps:
    """WebDataset shards with ten samples each."""
    path = inputs.write_webdataset(folder / "shards", inputs.tiny_images(10 * count), members=10)
    yield convert(path, *_KEEP, "--source=webdataset")


def tiny_shards(folder: pathlib.Path, count: int) -> Steps:
    """50,000 images in so many shards."""
    yield convert(inputs.write_folder(folder / "images", inputs.noise_images(50_000)), f"--num_shards={count}")


def shard_size(folder: pathlib.Path, count: int) -> Steps:
    """Images in shards of a megabyte."""
    images = inputs.tiny_images(count, inputs.noise_images(1_000))
    yield convert(inputs.write_images(folder / "images.parquet", images), *_KEEP, "--shard_size=1MB")


def shards(folder: pathlib.Path, count: int) -> Steps:
    """All that is done with a dataset, in shards of ten rows."""
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(10 * count))
    yield _convert_rows(path, f"--num_shards={count}")
    dataset = f"--dataset={folder / 'out'}"
    for command in ("verify", "inspect", "status", "report"):
        yield command, [_COMMAND, command, dataset]
    yield "filter five times", _read(folder, "[records.filter(f'label = \\'{n}\\'') for n in range(5)]")
    yield "load", [sys.executable, "-c", f"import beam_tfrecords as b; next(iter(b.load('{folder}/out', 'train')))"]


def one_shard(folder: pathlib.Path, count: int) -> Steps:
    """Readers of a shard with many rows."""
    yield _convert_rows(inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(count)), "--num_shards=1")
    yield "verify", [_COMMAND, "verify", f"--dataset={folder / 'out'}"]
    yield "open", _read(folder, "records[-1]")


def splits(folder: pathlib.Path, count: int) -> Steps:
    """20,000 rows in so many splits."""
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(20_000))
    yield _convert_rows(path, f"--splits={','.join(f's{number}={1 / count}' for number in range(count))}")


def classes(folder: pathlib.Path, count: int) -> Steps:
    """100,000 rows of so many classes."""
    path = inputs.write_rows(folder / "rows.parquet", inputs.keyed_rows(100_000, classes=count))
    yield _convert_rows(path)
    yield "verify", [_COMMAND, "verify", f"--dataset={folder / 'out'}"]


def failures(folder: pathlib.Path, count: int) -> Steps:
    """Samples that cannot be converted, and a hundredth that can."""
    images = (image if number % 100 == 0 else image[:40] for number, image in enumerate(inputs.tiny_images(count)))
    yield convert(inputs.write_images(folder / "images.parquet", images), "--max_failures=1")


def identical(folder: pathlib.Path, count: int) -> Steps:
    """Images with the same bytes."""
    image = next(inputs.tiny_images(1))
    path = inputs.write_images(folder / "images.parquet", (image for _ in range(count)))
    yield convert(path, *_KEEP, "--duplicates=drop")


def near(folder: pathlib.Path, count: int, *, distinct: int) -> Steps:
    """Frames of a fixed camera: all bytes differ, and so many perceptual hashes do, in a few bits."""
    images = inputs.tiny_images(count, inputs.camera_frames(distinct))
    path = inputs.write_images(folder / "frames.parquet", images)
    yield convert(path, "--near_duplicates=4", "--splits=train=0.8,test=0.2")


def large_image(folder: pathlib.Path, megapixels: int, *, form: str) -> Steps:
    """One image, made smaller."""
    _save(folder / "images" / "cat" / f"large.{form}", inputs.large_pixels(megapixels))
    limits = ("--max_pixels=1000000000", "--max_file_size=10GB", "--max_image_memory=20GB")
    yield convert(folder / "images", "--class_names=cat", "--image_size=256", *limits)


def pages(folder: pathlib.Path, count: int) -> Steps:
    """A TIFF with many pages."""
    page = Image.fromarray(np.zeros((256, 256, 3), np.uint8))
    _save(folder / "images" / "cat" / "pages.tif", inputs.large_pixels(1), save_all=True, append_images=[page] * count)
    yield convert(folder / "images", "--class_names=cat")


def _save(path: pathlib.Path, pixels: np.ndarray, **options: Any) -> None:
    path.parent.mkdir(parents=True)
    Image.fromarray(pixels).save(path, **options)


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
    "rows_jsonl": Case("rows of a JSON Lines file", _ROWS, functools.partial(rows, form="jsonl")),
    "rows_parquet": Case("rows of a Parquet file", _ROWS, functools.partial(rows, form="parquet")),
    "own_samples": Case("samples of a function", (1_000, 100_000, 1_000_000), own_samples),
    "database": Case("rows of a database with paths", (1_000, 30_000, 100_000), database),
    "columns_500": Case("rows of 500 columns", (10, 2_000, 10_000), functools.partial(wide, columns=500)),
    "columns_2000": Case("rows of 2,000 columns", (10, 500, 2_500), functools.partial(wide, columns=2_000)),
    "captions_100KB": Case("captions of 100 KB", (1, 500, 2_500), functools.partial(captions, characters=100_000)),
    "captions_1MB": Case("captions of 1 MB", (1, 50, 250), functools.partial(captions, characters=1_000_000)),
    "objects": Case("objects of an image", (10, 5_000, 50_000), objects),
    "files": Case("files of a folder", (1_000, 50_000, 200_000), files),
    "zip": Case("members of a zip file", _SAMPLES, zips),
    "tar": Case("members of a tar file", _SAMPLES, tars),
    "tars": Case("tar files of ten images", (10, 500, 5_000), many_tars),
    "webdataset": Case("WebDataset shards of ten samples", (10, 200, 2_000), webdataset),
    "tiny_shards": Case("shards of 50,000 images", (1, 200, 2_000), tiny_shards),
    "shard_size": Case("images in shards of 1 MB", (1_000, 30_000, 150_000), shard_size),
    "shards": Case("shards of ten rows", (10, 500, 5_000), shards),
    "one_shard": Case("rows of a shard", (1_000, 300_000, 1_000_000), one_shard),
    "splits": Case("splits of 20,000 rows", (1, 10, 100), splits),
    "classes": Case("classes of 100,000 rows", (10, 10_000, 100_000), classes),
    "failures": Case("images, of which 99% fail", _SAMPLES, failures),
    "identical": Case("identical images", _SAMPLES, identical),
    "near_256": Case("images with 256 hashes", _SAMPLES, functools.partial(near, distinct=256)),
    "near_4096": Case("images with 4,096 hashes", _SAMPLES, functools.partial(near, distinct=4096)),
    "large_jpeg": Case("megapixels of a JPEG", _MEGAPIXELS, functools.partial(large_image, form="jpg")),
    "large_png": Case("megapixels of a PNG", _MEGAPIXELS, functools.partial(large_image, form="png")),
    "large_tiff": Case("megapixels of a TIFF", (1, 60, 670), functools.partial(large_image, form="tif")),
    "pages": Case("pages of a TIFF", (1, 100, 1_000), pages),
}


def measure_case(name: str, case: Case, sizes: Sequence[int]) -> dict[str, Any]:
    """Prints a row for each size and command; returns the figures."""
    steps: dict[str, list[dict[str, Any]]] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for title, words in case.run(pathlib.Path(folder), size):
                measured = measure(list(words), log=sys.stderr.buffer)
                rows = steps.setdefault(title, [])
                rows.append({"size": size, **_figures_of(measured)})
                rows[-1]["growth"] = find_growth([(row["size"], row["processor_seconds"]) for row in rows])
                print(f"{name:15} {size:>9,} {case.unit:33} {title:18} {_describe(rows[-1])}", flush=True)
    return {"unit": case.unit, "steps": steps}


def _figures_of(measured: Measurement) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(measured).items() if name != "seconds"}


def find_growth(measured: Sequence[tuple[int, float]]) -> float | None:
    """What each unit beyond the last size but one costs, over what each before it does, without start-up.

    Args:
      measured: sizes and processor seconds; the first is start-up.

    Returns:
      The factor, or None if there are fewer than three sizes or the second takes hardly more than start-up.
    """
    if len(measured) < 3 or measured[-2][1] - measured[0][1] < _LEAST_SECONDS:
        return None
    start, before, last = measured[0], measured[-2], measured[-1]
    return (last[1] - before[1]) / (last[0] - before[0]) * (before[0] - start[0]) / (before[1] - start[1])


def _describe(row: dict[str, Any]) -> str:
    failed = f"  exit code {row['exit_code']}" if row["exit_code"] else ""
    growth = "" if row["growth"] is None else f"  growth {row['growth']:.2f}"
    memory = f"{row['peak_bytes'] / 1e6:7,.0f} MB  largest {row['largest_bytes'] / 1e6:7,.0f} MB"
    return f"{memory} {row['processor_seconds']:7.1f} s{growth}{failed}"


def main() -> None:
    """Measures the chosen cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help="; ".join(CASES))
    parser.add_argument("--sizes", help="instead of each case's own, such as 1000,10000,100000")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases) - CASES.keys():
        parser.error(f"unknown case {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    path = arguments.results / "growth.json"
    figures = json.loads(path.read_text())["cases"] if path.exists() else {}
    for name in arguments.cases:
        sizes = [int(size) for size in arguments.sizes.split(",")] if arguments.sizes else CASES[name].sizes
        # Cases that were measured before stay, with the code that they are of.
        figures[name] = {"code": describe_code(pathlib.Path(__file__)), **measure_case(name, CASES[name], sizes)}
        cases = {known: figures[known] for known in CASES if known in figures}
        write_figures(path, script=__file__, rounds=1, cases=cases)


if __name__ == "__main__":
    main()
