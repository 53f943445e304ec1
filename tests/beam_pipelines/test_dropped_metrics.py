"""`--duplicates=drop`: what is counted of images is counted of those that are written."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image

from beam_tfrecords.transforms.stats import BUILD_METRICS, COUNTED, count_records
from tests.annotated_inputs import Picture, save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.image_writers import png_file

# These say what listing and reading found, and not what is written; and the name of a copy may be longer.
OF_THE_INPUT = {"dropped_duplicates", "merged_rows", "duplicates", "source_bytes", "reuse", "bytes"}


def facts_of(path: Path) -> dict[str, Any]:
    manifest = manifest_of(path)
    facts = {
        name: manifest[name] for name, metric in BUILD_METRICS.items() if metric.of_build and name not in OF_THE_INPUT
    }
    of_splits = [name for name, metric in BUILD_METRICS.items() if metric.of_splits and name not in OF_THE_INPUT]
    return {**facts, **{name: [split[name] for split in manifest["splits"].values()] for name in of_splits}}


def write_images(folder: Path, picture, save) -> None:
    (folder / "dog").mkdir(parents=True)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    for number in range(2):
        save(folder / f"cat/turned{number}.jpg", picture(number, 90, 50), exif=exif)
        save(folder / f"cat/other{number}.tiff", picture(number + 9, 30, 20))
        (folder / f"dog/deep{number}.png").write_bytes(png_file(np.full((20, 30, 3), 4095 - 20 * number, np.uint16)))


def copy_all(folder: Path, times: int) -> None:
    for path in list(folder.glob("*/*")):
        for number in range(times):
            shutil.copy(path, path.with_name(f"copy{number}-{path.name}"))


@pytest.mark.parametrize("flags", [(), ("--image_encoding=keep",)])
def test_facts_are_those_of_a_build_without_the_copies(tmp_path, picture, save, build, flags):
    flags = (*flags, "--name=pets")
    write_images(tmp_path / "in", picture, save)
    without = facts_of(build(tmp_path / "without", f"--input={tmp_path / 'in'}", *flags))
    copy_all(tmp_path / "in", 2)
    assert without["dim_images"]["images"] == 2
    assert without["kept_turned"] == (2 if len(flags) == 2 else 0)
    dropped = build(tmp_path / "dropped", f"--input={tmp_path / 'in'}", *flags, "--duplicates=drop")
    assert manifest_of(dropped)["dropped_duplicates"] == 12
    assert facts_of(dropped) == without


def test_objects_are_those_of_a_build_without_the_copies(tmp_path, build):
    boxes = [("cat", (-5, 0, 30, 20)), ("dog", (1, 1, 1, 9)), ("dog", (5, 5, 9, 9))]
    for count in (1, 3):
        folder = tmp_path / str(count)
        pictures = {f"{number}.jpg": Picture(40, 60, boxes) for number in range(count)}
        save_pictures(folder, pictures)
        for number in range(count):
            (folder / f"{number}.jpg").write_bytes((folder / "0.jpg").read_bytes())
        coco = write_coco(folder / "instances.json", pictures)
        flags = [f"--input={coco}", f"--image_root={folder}", "--invalid_boxes=drop", "--name=pets"]
        build(tmp_path / f"out{count}", *flags, "--duplicates=drop")
    assert manifest_of(tmp_path / "out3")["dropped_duplicates"] == 2
    assert facts_of(tmp_path / "out3") == facts_of(tmp_path / "out1")


class Asked(dict):
    """An index row that knows which columns were asked for."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def test_what_is_counted_of_a_record_can_be_taken_away_again():
    facts = Asked({name: [3] for name in COUNTED})
    counts: Counter = Counter()
    count_records(counts, "train", [["cat"]], facts)
    assert facts.names == set(COUNTED)
    assert len(counts) >= 2 + len(COUNTED) - 1  # height and width are one
    count_records(counts, "train", [["cat"]], facts, times=-1)
    assert set(counts.values()) == {0}
