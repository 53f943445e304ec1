"""A file beside the input that the listing reads, corrected: the next version is not the one before."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

XML = (
    "<annotation><object><name>{}</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>8</xmax><ymax>8</ymax></bndbox>"
    "</object></annotation>"
)
IMAGES = 4
LABELS = {f"labels/{number}.txt": f"{number % 2} 0.5 0.5 0.2 0.2\n" for number in range(IMAGES)}
LIST = "".join(f"images/{number}.jpg\n" for number in range(IMAGES))
NUMBERS = "".join(f"{number} {number % 2 + 1}\n" for number in range(IMAGES))
# Name -> folder of the images, the other files, the request, and what is corrected in which file.
INPUTS: Mapping[str, tuple[str, Mapping[str, str], str, Mapping[str, tuple[str, str]]]] = {
    "VOC beside the images": (
        "train",
        {f"train/{number}.xml": XML.format("ab"[number % 2]) for number in range(IMAGES)},
        "{} --source=voc --layout=detection",
        {"train/0.xml": ("<name>a", "<name>b")},
    ),
    "YOLO, a folder with classes.txt": (
        "images",
        {**LABELS, "classes.txt": "cat\ndog\n"},
        "{} --source=yolo --layout=detection",
        {"labels/1.txt": ("1 0.5", "0 0.5"), "classes.txt": ("cat", "cow")},
    ),
    "YOLO, names in a file": (
        "images",
        {**LABELS, "data.yaml": "train: images\nnames: names.txt\n", "names.txt": "cat\ndog\n"},
        "{}/data.yaml --layout=detection",
        {"names.txt": ("cat", "cow")},
    ),
    "YOLO, labels in another folder": (
        "JPEGImages",
        {
            "data.yaml": "train: JPEGImages\nnames: [a, b]\n",
            **{name.replace("labels", "labels_v2"): text for name, text in LABELS.items()},
        },
        "{}/data.yaml --layout=detection",
        {"labels_v2/1.txt": ("1 0.5", "0 0.5")},
    ),
    "Darknet": (
        "images",
        {**LABELS, "o.data": "train=train.txt\nnames=o.names\n", "o.names": "cat\ndog\n", "train.txt": LIST},
        "{}/o.data --source=yolo --layout=detection",
        {"o.names": ("cat", "cow"), "train.txt": ("images/0.jpg\n", "")},
    ),
    "CUB-200": (
        "images/001.x",
        {
            "images.txt": "".join(f"{number} 001.x/{number}.jpg\n" for number in range(IMAGES)),
            "image_class_labels.txt": NUMBERS,
            "train_test_split.txt": "".join(f"{number} {number // 2}\n" for number in range(IMAGES)),
            "classes.txt": "1 001.x\n2 002.x\n",
        },
        "{0}/images.txt --source=csv --label_column=label --split_column=split --image_root={0}/images",
        {
            "image_class_labels.txt": ("0 1\n", "0 2\n"),
            "classes.txt": ("001.x", "001.a"),
            "train_test_split.txt": ("0 0\n", "0 1\n"),
        },
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_a_corrected_file_makes_another_version(name, tmp_path, picture, save, convert):
    folder, files, request, corrections = INPUTS[name]
    root = tmp_path / "in"
    for number in range(IMAGES):
        save(root / folder / f"{number}.jpg", picture(number, 30, 40))
    for file, text in files.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)
    words = [*f"--input={request}".format(root).split(), f"--output={tmp_path / 'out'}", "--versioned", "--guard=warn"]

    def build() -> str:
        ran = convert(*words)
        assert ran.code == 0, ran.err
        return ran.out

    build()
    assert "nothing has changed" in build()
    for later, (file, (old, new)) in enumerate(corrections.items(), 1):
        replace(root / file, old, new, later=later)
        assert "nothing has changed" not in build(), file
        assert "nothing has changed" in build()


def replace(path: Path, old: str, new: str, *, later: int) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    changed = path.stat().st_mtime + later
    os.utime(path, (changed, changed))
