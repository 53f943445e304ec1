"""Whether bad pictures are found: faults that are planted among the real photos of tests/data.

    python benchmarks/quality.py

A sixth of the photos gets a fault, each photo in one of six builds; the report shows as many of the darkest, brightest,
most blurred and flattest. Then every photo gets a copy that was changed a little, for `--near_duplicates=4`. Recall
and wrong pairs go to --results; the same photos always give the same.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping

import pyarrow.parquet as pq
from figures import RESULTS, write_figures
from PIL import Image, ImageFilter, ImageOps

from beam_tfrecords import open_dataset

_COMMAND = pathlib.Path(sys.executable).with_name("beam-tfrecords")
_PHOTOS = pathlib.Path(__file__).resolve().parent.parent / "tests/data/photos"
_PARTS = 6

Change = Callable[[Image.Image], Image.Image]


def _crop(share: float) -> Change:
    """Takes a share of the width and height away, half on each side."""

    def crop(photo: Image.Image) -> Image.Image:
        x, y = round(photo.width * share / 2), round(photo.height * share / 2)
        return photo.crop((x, y, photo.width - x, photo.height - y))

    return crop


# Fault -> column of the index, whether its largest values stand out, and how it is made.
_FAULTS: Mapping[str, tuple[str, bool, Change]] = {
    "a quarter of the light": ("brightness", False, lambda photo: photo.point(lambda value: value // 4)),
    "overexposed twice": ("brightness", True, lambda photo: photo.point(lambda value: min(255, 2 * value + 60))),
    "a fifth of the contrast": (
        "contrast",
        False,
        lambda photo: Image.blend(Image.new("RGB", photo.size, "grey"), photo, 0.2),
    ),
    "blurred, sigma 2": ("sharpness", False, lambda photo: photo.filter(ImageFilter.GaussianBlur(2))),
    "blurred, sigma 4": ("sharpness", False, lambda photo: photo.filter(ImageFilter.GaussianBlur(4))),
}
_COPIES: Mapping[str, Change] = {
    "encoded again, quality 60": lambda photo: photo,
    "half the size": lambda photo: photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.LANCZOS),
    "a tenth brighter": lambda photo: photo.point(lambda value: min(255, value * 11 // 10)),
    "cropped by 1%": _crop(0.01),
    "cropped by 2%": _crop(0.02),
    "cropped by 5%": _crop(0.05),
}


def find_fault(photos: Mapping[str, Image.Image], column: str, largest: bool, change: Change) -> int:
    """How many of the photos are among those that stand out in the build in which they have the fault."""
    names = sorted(photos)
    random.Random(0).shuffle(names)
    found = 0
    for part in range(_PARTS):
        faulty = set(names[part::_PARTS])
        with tempfile.TemporaryDirectory() as folder:
            for name, photo in photos.items():
                _save(change(photo) if name in faulty else photo, folder, name, quality=95)
            rows = _read_index(_build(folder), column)
        found += len(faulty & set(sorted(rows, key=lambda name: rows[name], reverse=largest)[: len(faulty)]))
    return found


def find_copies(photos: Mapping[str, Image.Image], change: Change) -> tuple[int, int]:
    """How many pairs of a photo and its copy are listed as near-duplicates, and how many pairs are listed."""
    with tempfile.TemporaryDirectory() as folder:
        for name, photo in photos.items():
            _save(photo, folder, f"photo {name}", quality=95)
            _save(change(photo), folder, f"copy {name}", quality=60)
        lines = pathlib.Path(_build(folder, "--near_duplicates=4"), "duplicates.jsonl").read_text().splitlines()
    right = pairs = 0
    for group in map(json.loads, lines):
        of = [pathlib.PurePath(image["key"]).stem.split(" ", 1)[1] for image in group["images"]]
        pairs += len(of) * (len(of) - 1) // 2
        right += len(of) - len(set(of))
    return right, pairs


def _save(photo: Image.Image, folder: str, name: str, *, quality: int) -> None:
    path = pathlib.Path(folder, "in", f"{name}.jpg")
    path.parent.mkdir(exist_ok=True)
    photo.save(path, quality=quality)


def _build(folder: str, *flags: str) -> str:
    words = [f"--input={folder}/in", f"--output={folder}/out", "--layout=image", "--image_size=224", *flags]
    subprocess.run([str(_COMMAND), "convert", *words, "--quiet", "--no_report"], check=True)
    return f"{folder}/out"


def _read_index(output: str, column: str) -> dict[str, float]:
    (shard,) = open_dataset(output).shards
    index = pq.read_table(f"{output}/{shard.index}", columns=["key", column]).to_pydict()
    return {pathlib.PurePath(key).stem: value for key, value in zip(index["key"], index[column], strict=True)}


def main() -> None:
    """Prints how many of the planted faults and copies are found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    photos = {}
    for path in sorted(_PHOTOS.glob("*/*.jpg")):
        with Image.open(path) as photo:
            photos[path.stem] = ImageOps.exif_transpose(photo).convert("RGB")
    faults, copies = {}, {}
    for title, fault in _FAULTS.items():
        faults[title] = find_fault(photos, *fault) / len(photos)
        print(f"{title:28} {faults[title]:6.1%} of the photos with it stand out", flush=True)
    for title, change in _COPIES.items():
        right, pairs = find_copies(photos, change)
        copies[title] = {"recall": right / len(photos), "wrong": pairs - right}
        print(f"{title:28} {copies[title]}", flush=True)
    write_figures(
        arguments.results / "quality.json",
        script=__file__,
        rounds=1,
        count=len(photos),
        faults=faults,
        copies=copies,
    )


if __name__ == "__main__":
    main()
