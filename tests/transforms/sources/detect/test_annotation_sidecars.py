"""The commands that a refused folder offers for annotations beside its images are right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.annotated_inputs import CATEGORIES, PICTURES, coco_of, save_pictures, write_yolo, yolo_rows
from tests.beam_pipelines.listed_records import commands_of, read
from tests.refusals import refuses

CLASSES = "".join(f"{name}\n" for name in CATEGORIES)


def coco_splits(root: Path) -> None:
    """Two splits with equal names, as many tools export them."""
    for split in ("train", "val"):
        save_pictures(root / "images" / split)
        (root / "annotations").mkdir(exist_ok=True)
        (root / f"annotations/{split}.json").write_text(json.dumps(coco_of()))


def yolo_names(root: Path) -> None:
    for split in ("train", "val"):
        save_pictures(root / "images" / split)
        for name, picture in PICTURES.items():
            path = root / "labels" / split / f"{Path(name).stem}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(yolo_rows(picture))
    (root / "classes.txt").write_text(CLASSES)


def yolo_any_name(root: Path) -> None:
    path = write_yolo(root, {"train": PICTURES, "valid": PICTURES})
    path.rename(root / "coco8.yaml")


def darknet(root: Path) -> None:
    for split, key in (("train", "train"), ("val", "valid")):
        save_pictures(root / split)
        for name, picture in PICTURES.items():
            (root / split / f"{Path(name).stem}.txt").write_text(yolo_rows(picture))
        (root / f"{key}.txt").write_text("".join(f"data/{split}/{name}\n" for name in PICTURES))
    (root / "voc.names").write_text(CLASSES)
    (root / "voc.data").write_text(
        "classes=3\ntrain = data/train.txt\nvalid = data/valid.txt\nnames = data/voc.names\n"
    )


@pytest.mark.parametrize("write", [coco_splits, yolo_names, yolo_any_name, darknet])
def test_the_first_command_reads_both_splits(write, tmp_path):
    root = tmp_path / "in"
    root.mkdir()
    write(root)
    argv = [f"--input={root}", "--output=out"]
    with refuses("no_class_folders", "input", "label_pattern") as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert "--layout=detection" in first
    assert read(first, tmp_path / "other")[0] == {split: {"": len(PICTURES)} for split in ("train", "validation")}
