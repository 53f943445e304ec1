"""The same photos and objects give the same records, whatever holds them."""

from __future__ import annotations

import pytest

from beam_tfrecords import open_dataset
from tests.annotated_inputs import PICTURES
from tests.source_forms import NAMES, OBJECT_FORMS, PHOTO_FORMS, PHOTOS, flags_of, write_form

FLAGS = ["--name=photos", "--image_encoding=keep", "--num_shards=1"]


@pytest.mark.parametrize("form", PHOTO_FORMS)
def test_the_same_photos_give_the_same_images_and_labels(tmp_path, build, read, form):
    write_form(form, tmp_path / "in")
    records = read(build(tmp_path / "out", *flags_of(form, tmp_path / "in"), *FLAGS), "train")
    classes = (tmp_path / "out/label.labels.txt").read_text().split()
    found = {(classes[record["label"]], record["image"]) for record in records}
    assert found == {(name.split("/")[0], (PHOTOS / name).read_bytes()) for name in NAMES}
    assert len(records) == len(NAMES)


@pytest.mark.parametrize("form", OBJECT_FORMS)
def test_the_same_objects_give_the_same_boxes_and_classes(tmp_path, build, form):
    write_form(form, tmp_path / "in")
    out = build(tmp_path / "out", *flags_of(form, tmp_path / "in"), "--layout=detection", "--num_shards=1")
    found = []
    for record in open_dataset(out).records("train", form="features"):
        sides = [record[f"image/object/bbox/{side}"] for side in ("xmin", "ymin", "xmax", "ymax")]
        boxes = [tuple(round(float(side), 4) for side in box) for box in zip(*sides, strict=True)]
        found.append(list(zip([name.decode() for name in record["image/object/class/text"]], boxes, strict=True)))
    expected = []
    for picture in PICTURES.values():
        shape = (picture.width, picture.height) * 2
        boxes = [
            tuple(round(side / size, 4) for side, size in zip(box, shape, strict=True)) for _, box in picture.objects
        ]
        expected.append(list(zip([name for name, _ in picture.objects], boxes, strict=True)))
    assert sorted(found) == sorted(expected)
