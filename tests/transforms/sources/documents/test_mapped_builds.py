"""Datasets that are built with a mapping."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from beam_tfrecords import open_dataset
from beam_tfrecords.transforms.sources.annotated import mapping
from tests.beam_pipelines.dataset_records import read_dataset
from tests.transforms.sources.documents.formats import (
    FORMATS,
    IMAGES,
    NUMBERS,
    POLYGONS,
    write_keras_yolo3,
    write_openimages,
)

FLAGS = ["--name=x", "--image_encoding=png", "--no_report"]


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "in/photos").mkdir(parents=True)
    for name, image in IMAGES.items():
        PIL.Image.new("RGB", (image.width, image.height), (len(image.objects) * 60, 90, 10)).save(
            tmp_path / "in/photos" / name
        )
    return tmp_path


def objects_of(record):
    """Class and corners in pixels of each object, sorted."""
    image = IMAGES[Path(record.key).name]
    scale = (image.width, image.height) * 2
    sides = [record.values[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
    boxes = (np.transpose(sides).reshape(-1, 4) * scale).tolist()
    labels = [label.decode() for label in record.values["image/object/class/text"]]
    return sorted(zip(labels, boxes, strict=True))


def read(out):
    """Name of an image -> its split and its objects."""
    splits = open_dataset(out).manifest["splits"]
    records = [(split, record) for split in splits for record in read_dataset(out, split)]
    return {Path(record.key).name: (split, objects_of(record)) for split, record in records}


def assert_boxes(found, expected):
    assert [label for label, _ in found] == [label for label, _ in sorted(expected)]
    for (_, box), (_, truth) in zip(found, sorted(expected), strict=True):
        assert box == pytest.approx(truth, abs=1e-4)


def bounds(part):
    return (min(part[::2]), min(part[1::2]), max(part[::2]), max(part[1::2]))


@pytest.mark.parametrize("name", ["labelstudio", "vertex_csv", "tfod"])
def test_the_records_have_the_objects_of_the_documents(name, folder, build):
    path = FORMATS[name].write(folder / "in")
    out = build(folder / "out", f"--input={path}", f"--mapping={name}", "--layout=detection", *FLAGS)
    found = read(out)
    assert sorted(found) == sorted(IMAGES)
    for key, (split, objects) in found.items():
        polygons = [(label, bounds(part)) for label, (part, *_) in POLYGONS[key] if FORMATS[name].has_polygons]
        assert_boxes(objects, [*IMAGES[key].objects, *polygons])
        assert split == ("test" if (name, key) == ("vertex_csv", "b.jpg") else "train")


def test_masks_are_drawn_from_polygons(folder, build):
    path = FORMATS["labelme"].write(folder / "in")
    out = build(folder / "out", f"--input={path}", "--mapping=labelme", "--layout=detection_masks", *FLAGS)
    (record,) = (one for one in read_dataset(out, "train") if one.key.endswith("b.jpg"))
    masks = [np.asarray(PIL.Image.open(io.BytesIO(mask))) for mask in record.values["image/object/mask"]]
    # A triangle, and rectangles of (10, 12.25, 20, 45) and (1, 50, 40, 70): pixels whose centers are inside.
    assert sorted(int(mask.sum()) for mask in masks)[1:] == [10 * 33, 39 * 20]


def test_names_of_classes_in_the_request(folder, build):
    names = ",".join(f"{number}:{name}" for name, number in NUMBERS.items())
    path = write_keras_yolo3(folder / "in")
    words = [f"--input={path}", "--mapping=keras_yolo3", "--layout=detection", f"--class_names={names}", *FLAGS]
    out = build(folder / "out", *words)
    for key, (_, objects) in read(out).items():
        assert_boxes(objects, IMAGES[key].objects)
    path = write_openimages(folder / "in")
    (folder / "names.csv").write_text("/m/0p,person\n/m/0c,cat\n/m/0d,dog\n")
    words = [f"--input={path}", "--mapping=openimages", "--layout=detection", f"--class_names={folder}/names.csv"]
    out = build(folder / "more", *words, *FLAGS)
    for key, (_, objects) in read(out).items():
        assert_boxes(objects, IMAGES[key].objects)


@pytest.mark.parametrize("is_ours", [False, True])
def test_a_changed_mapping_is_another_dataset(is_ours, folder, convert, monkeypatch):
    path = FORMATS["createml"].write(folder / "in")
    copies = folder / "mappings"
    shutil.copytree(Path(mapping.__file__).with_name("mappings"), copies)
    word = "createml" if is_ours else str(copies / "createml.yaml")
    if is_ours:
        monkeypatch.setattr(mapping, "_FOLDER", copies)
    words = [f"--output={folder / 'out'}", f"--input={path}", f"--mapping={word}", "--layout=detection", *FLAGS]

    def build_version():
        ran = convert(*words, "--versioned", "--accept=all")
        assert ran.code == 0, ran.err
        return (folder / "out/LATEST").read_text().strip()

    first = build_version()
    assert build_version() == first
    with (copies / "createml.yaml").open("a") as file:
        file.write("ignore: label == 'dog'\n")
    second = build_version()
    assert second != first
    assert read(folder / "out" / second)["d.jpg"] != read(folder / "out" / first)["d.jpg"]
