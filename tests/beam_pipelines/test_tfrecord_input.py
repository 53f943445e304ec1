"""`convert` from TFRecord files: datasets of ours are cut anew and merged, and keep the bytes of their images."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of

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
        assert sorted((one["image"], one["label"]) for one in read(second, split)) == expected
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
