"""TensorFlow Datasets loads what we write: every named layout, class names included."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import tensorflow_datasets as tfds
from PIL import Image

from beam_pipelines.cli import main
from transforms.reading import load

PHOTOS = Path(__file__).parents[1] / "data" / "photos"
CLASSES = sorted(folder.name for folder in PHOTOS.iterdir())
IN_PROCESS = ["--direct_running_mode=in_memory", "--direct_num_workers=1"]


def build(output: Path, *flags: str) -> tfds.core.DatasetBuilder:
    assert main(["convert", f"--output={output}", *flags, *IN_PROCESS]) == 0
    return tfds.builder_from_directory(str(output))


def test_the_default_layout_loads_with_splits_images_and_class_names(tmp_path):
    builder = build(tmp_path, f"--input={PHOTOS}", "--image_size=64", "--splits=train=0.8,validation=0.2")
    assert builder.info.features["label"].names == CLASSES
    assert builder.info.splits["train"].num_examples + builder.info.splits["validation"].num_examples == 42
    examples = list(builder.as_dataset(split="train+validation").as_numpy_iterator())
    assert len(examples) == 42
    for example in examples:
        assert min(example["image"].shape[:2]) == 64
        assert example["filename"].decode().startswith(CLASSES[example["label"]])


def test_sub_splits_and_single_shards_can_be_asked_for(tmp_path):
    builder = build(tmp_path, f"--input={PHOTOS}", "--image_size=32", "--num_shards=4")
    assert builder.info.splits["train"].num_shards == 4
    assert len(list(builder.as_dataset(split="train[:10]"))) == 10


def test_the_imagenet_layout_loads_nested(tmp_path):
    builder = build(tmp_path, f"--input={PHOTOS}", "--image_size=64", "--layout=imagenet")
    assert builder.info.features["image"]["class"]["label"].names == CLASSES
    for example in builder.as_dataset(split="train").as_numpy_iterator():
        image = example["image"]
        assert image["encoded"].shape == (image["height"], image["width"], 3)
        assert image["class"]["text"].decode() == CLASSES[image["class"]["label"]]


def test_raw_pixels_of_one_size_load_as_arrays(tmp_path):
    flags = ["--image_size=24x32", "--resize_mode=exact", "--image_encoding=raw"]
    builder = build(tmp_path, f"--input={PHOTOS}", *flags)
    theirs = {example["filename"]: example["image"] for example in builder.as_dataset("train").as_numpy_iterator()}
    assert len(theirs) == 42
    for example in load(str(tmp_path), "train").as_numpy_iterator():
        np.testing.assert_array_equal(theirs[example["filename"]], example["image"])


@pytest.mark.parametrize(
    "flags",
    [
        ["--image_encoding=png"],
        ["--image_encoding=webp"],
        ["--layout=tutorial", "--image_encoding=keep"],
        ["--layout=raw"],
    ],
)
def test_every_encoding_and_layout_loads(tmp_path, flags):
    builder = build(tmp_path, f"--input={PHOTOS}", "--image_size=32", *flags)
    assert len(list(builder.as_dataset(split="train"))) == 42


def test_a_feature_whose_name_begins_anothers_loads_flat(tmp_path):
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout: {image: image.encoded, image/height: image.height, label: label.index}")
    builder = build(tmp_path / "out", f"--input={PHOTOS}", "--image_size=32", f"--spec={spec}")
    assert len(list(builder.as_dataset(split="train"))) == 42


def test_tables_and_several_labels_load(tmp_path):
    (tmp_path / "images").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "images/1.png")
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "label", "weight"], ["images/1.png", "cat", "0.5"]])
    spec = tmp_path / "spec.yaml"
    spec.write_text("layout: {label: label.index, labels: labels.index, weight: {field: column.weight, type: float}}")
    builder = build(tmp_path / "out", f"--input={tmp_path / 'table.csv'}", f"--spec={spec}")
    (example,) = builder.as_dataset(split="train").as_numpy_iterator()
    assert (example["label"], list(example["labels"]), example["weight"]) == (0, [0], 0.5)
