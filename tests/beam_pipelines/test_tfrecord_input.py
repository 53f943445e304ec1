"""`convert` from TFRecord files: datasets of ours are cut anew and merged, and keep the bytes of their images."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.annotated_inputs import save_pictures, write_coco
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.framing import write_examples

PHOTOS = Path(__file__).parents[1] / "data/photos"
FLAGS = ["--name=photos", "--image_size=32"]


def content(read, out: Path, *splits: str) -> dict[str, list[tuple[bytes, str]]]:
    """Split -> (image, class) of its records, sorted."""
    classes = manifest_of(out)["class_names"]
    return {split: sorted((one["image"], classes[one["label"]]) for one in read(out, split)) for split in splits}


@pytest.mark.parametrize("layout", ["tfds", "imagenet"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_dataset_of_ours_comes_back_with_its_bytes_labels_and_splits(
    tmp_path, build, read, verify, compression, layout
):
    splits = "--splits=train=0.7,test=0.3"
    # Not in the order of the alphabet, and one that has no image.
    names = ["zebra", *sorted((path.name for path in PHOTOS.iterdir()), reverse=True)]
    words = [f"--layout={layout}", f"--compression={compression}", "--num_shards=2", f"--class_names={','.join(names)}"]
    first = build(tmp_path / "first", f"--input={PHOTOS}", splits, *words, *FLAGS)
    again = ["--source=tfrecord", f"--input={first}", "--image_encoding=keep", "--num_shards=1", "--name=photos"]
    second = build(tmp_path / "second", *again)
    image, label = ("image/encoded", "image/class/label") if layout == "imagenet" else ("image", "label")
    for split in ("train", "test"):
        expected = sorted((one[image], one[label]) for one in read(first, split))
        assert sorted((one[image], one[label]) for one in read(second, split)) == expected
    assert manifest_of(second)["class_names"] == manifest_of(first)["class_names"]
    assert manifest_of(second)["splits"].keys() == {"train", "test"}
    assert verify(second).code == 0


def test_datasets_are_merged_by_the_names_of_their_classes(tmp_path, build, read):
    for name, classes in (("a", "cat,flower"), ("b", "coffee,flower")):
        build(tmp_path / name, f"--input={PHOTOS}", f"--classes={classes}", *FLAGS)
    inputs = [f"--input={tmp_path / name}" for name in ("a", "b")]
    merged = build(tmp_path / "merged", "--source=tfrecord", *inputs, "--image_encoding=keep", "--name=photos")
    found = content(read, merged, "train")["train"]
    expected = [one for name in ("a", "b") for one in content(read, tmp_path / name, "train")["train"]]
    assert found == sorted(expected)
    assert manifest_of(merged)["class_names"] == ["cat", "coffee", "flower"]


def test_a_record_of_several_labels_or_none_comes_back(tmp_path, build, read):
    rows = [("1", "a|b"), ("2", "b"), ("3", "")]
    photos = sorted(PHOTOS.glob("cat/*.jpg"))
    with (tmp_path / "table.csv").open("w", newline="") as file:
        named = [(photo, tags) for photo, (_, tags) in zip(photos, rows, strict=False)]
        csv.writer(file).writerows([("image", "label"), *named])
    words = [f"--input={tmp_path / 'table.csv'}", "--allow_outside_root", "--label_separator=|", *FLAGS]
    first = build(tmp_path / "first", *words)
    again = ["--source=tfrecord", f"--input={first}", "--layout=multilabel", "--image_encoding=keep", "--name=photos"]
    second = build(tmp_path / "second", *again)
    expected = sorted((one["image"], one.values["labels"]) for one in read(first, "train"))
    assert sorted((one["image"], one.values["labels"]) for one in read(second, "train")) == expected
    assert sorted(len(labels) for _, labels in expected) == [0, 1, 2]


@pytest.mark.parametrize("layout", ["detection", "tfds"])
def test_objects_come_back(tmp_path, build, layout):
    save_pictures(tmp_path / "images")
    # Not in the order of the alphabet, and one without an object.
    categories = [{"id": number, "name": name} for number, name in ((1, "zebra"), (18, "person"), (90, "ant"))]
    annotations = [
        {"id": 1, "image_id": 1, "category_id": 18, "bbox": [1, 2, 20, 20], "area": 99.0, "iscrowd": 1},
        {"id": 2, "image_id": 1, "category_id": 1, "bbox": [5, 6.5, 50, 20], "area": 400.0, "iscrowd": 0},
        {"id": 3, "image_id": 8, "category_id": 1, "bbox": [0, 0, 50, 50], "area": 2500.0, "iscrowd": 0},
    ]
    path = write_coco(tmp_path / "a.json", annotations=annotations, categories=categories)
    words = [f"--layout={layout}", "--num_shards=1", "--name=photos", "--image_encoding=keep"]
    first = build(tmp_path / "first", f"--input={path}", f"--image_root={tmp_path / 'images'}", *words)
    second = build(tmp_path / "second", "--source=tfrecord", f"--input={first}", *words)
    names = manifest_of(first)["class_names"]
    assert manifest_of(second)["class_names"] == names
    numbers = {"tfds": {"zebra": 0, "person": 1, "ant": 2}, "detection": {"zebra": 1, "person": 18, "ant": 90}}
    first_number = int(layout == "detection")
    assert {name: names.index(name) + first_number for name in numbers[layout]} == numbers[layout]
    found = []
    for out in (first, second):
        records = open_dataset(out).records("train", form="features")
        names = [name for name in records[0] if "filename" not in name]
        found.append(sorted(repr({name: record[name] for name in names}) for record in records))
    assert found[0] == found[1]


def test_a_record_with_a_label_keeps_it_unless_boxes_are_asked_for(tmp_path, build):
    save_pictures(tmp_path / "images")
    path = write_coco(tmp_path / "a.json")
    layout = tmp_path / "layout.yaml"
    layout.write_text(
        "layout: {image: image.encoded, label: {field: objects.index, several: true},"
        + "".join(f" image/object/bbox/{side}: objects.{side}," for side in ("xmin", "xmax", "ymin", "ymax"))
        + " image/object/class/text: objects.name}"
    )
    words = ["--num_shards=1", "--name=photos"]
    first = build(
        tmp_path / "first", f"--spec={layout}", f"--input={path}", f"--image_root={tmp_path / 'images'}", *words
    )
    # Records of others.
    (first / "_SUCCESS").unlink()
    again = ["--source=tfrecord", f"--input={first}", *words]
    assert "labels" in open_dataset(build(tmp_path / "labels", *again)).records("train")[0]
    boxes = open_dataset(build(tmp_path / "boxes", "--layout=detection", *again)).records("train", form="features")
    assert sorted(len(record["image/object/bbox/xmin"]) for record in boxes) == [0, 1, 2, 3]


def test_the_official_records_of_imagenet_keep_texts_numbers_and_names_of_files(tmp_path, build):
    image = io.BytesIO()
    Image.new("RGB", (8, 8)).save(image, "jpeg")
    rows = [
        (5, "electric ray, crampfish", "n01496331", "n01496331_1.JPEG"),
        (2, "goldfish, Carassius auratus", "n01443537", "n01443537_7.JPEG"),
        (2, "goldfish, Carassius auratus", "n01443537", "n01443537_9.JPEG"),
        (4, "crane", "n02012849", "n02012849_1.JPEG"),
        (3, "crane", "n03126707", "n03126707_1.JPEG"),
    ]
    # The boxes of ImageNet have no classes of their own.
    sides = {f"image/object/bbox/{side}": 0.5 for side in ("xmin", "ymin", "xmax", "ymax")}
    examples = [
        {
            "image/encoded": image.getvalue(), "image/class/text": text.encode(), "image/class/label": number,
            "image/class/synset": synset.encode(), "image/filename": name.encode(), "image/format": b"JPEG", **sides,
        }
        for number, text, synset, name in rows
    ]  # fmt: skip
    write_examples(tmp_path / "train-00000-of-00001", examples)
    out = build(tmp_path / "out", "--source=tfrecord", f"--input={tmp_path / 'train-00000-of-00001'}", "--layout=tfds")
    dataset = open_dataset(out)
    assert {record["filename"]: record["label"] for record in dataset.records("train")} == {
        name: number for number, _, _, name in rows
    }
    assert dataset.manifest["class_names"] == [
        "category_0", "category_1", "goldfish, Carassius auratus", "crane", "crane (4)", "electric ray, crampfish",
    ]  # fmt: skip


def test_numbers_of_objects_are_the_names_of_their_classes(tmp_path, build, read, verify):
    picture = next(PHOTOS.rglob("*.jpg")).read_bytes()
    path = tmp_path / "boxes.record"
    shares = {"xmin": 0.25, "ymin": 0.25, "xmax": 0.5, "ymax": 0.5}
    sides = {f"image/object/bbox/{side}": share for side, share in shares.items()}
    examples = ({"image/encoded": picture, "image/object/class/label": number, **sides} for number in (3, 17, 3))
    write_examples(path, examples)
    out = build(tmp_path / "out", f"--input={path}", "--image_size=32")
    found = sorted((one["image/object/class/label"], one["image/object/class/text"]) for one in read(out, "train"))
    assert found == [(3, b"3"), (3, b"3"), (17, b"17")]
    assert manifest_of(out)["class_names"] == list(map(str, range(1, 18)))
    assert 'id: 17\n  name: "17"' in (out / "label_map.pbtxt").read_text()
    assert verify(out).code == 0
