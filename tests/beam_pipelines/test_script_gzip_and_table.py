"""The fourth of five scripts: encoded images with GZIP, and a small table."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from beam_tfrecords import load
from tests.beam_pipelines.script_checks import write

pytestmark = pytest.mark.whole_build


@pytest.fixture(scope="module")
def zipped(tmp_path_factory, photos, build) -> Path:
    root = tmp_path_factory.mktemp("zipped")
    spec = write(root / "gzip.yaml", "layout: {image: image.encoded, label: label.index}\ncompression: gzip\n")
    flags = ["--image_encoding=keep", "--num_shards=3", "--name=photos"]
    return build(root / "out", f"--input={photos}", f"--spec={spec}", *flags)


def labelled_photos(photos: Path) -> list[tuple[bytes, int]]:
    names = sorted(path.name for path in photos.iterdir())
    return sorted((path.read_bytes(), names.index(path.parent.name)) for path in photos.glob("*/*.jpg"))


def test_gzip_shards_are_read_by_parallel_interleave_batch_and_prefetch(zipped, photos):
    def parse(record):
        features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        return tf.io.parse_single_example(record, features)

    files = tf.data.Dataset.list_files(str(zipped / "photos-train.tfrecord-*"))
    dataset = (
        files.interleave(
            lambda file: tf.data.TFRecordDataset(file, compression_type="GZIP"),
            cycle_length=3,
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(8)
        .prefetch(tf.data.AUTOTUNE)
    )
    read = [
        (image, int(label))
        for batch in dataset.as_numpy_iterator()
        for image, label in zip(batch["image"], batch["label"], strict=True)
    ]
    assert sorted(read) == labelled_photos(photos)


def test_gzip_shards_are_read_by_load(zipped, photos):
    encoded = load(str(zipped), "train", batch_size=8, decode=False).as_numpy_iterator()
    read = [pair for batch in encoded for pair in zip(batch["image"], map(int, batch["label"]), strict=True)]
    assert sorted(read) == labelled_photos(photos)
    (decoded,) = load(str(zipped), "train", batch_size=8, image_size=(96, 128)).take(1)
    assert (decoded["image"].dtype, tuple(decoded["image"].shape)) == (tf.uint8, (8, 96, 128, 3))


def test_a_table_of_three_types_becomes_three_features(tmp_path, build, read):
    rows = [
        (number, number / 8 - 3.3, text) for number, text in enumerate(["plain", "with, comma", "Grüße", "x" * 300])
    ]
    with open(tmp_path / "table.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("int_column", "float_column", "string_column"), *rows])
    spec = write(
        tmp_path / "table.yaml",
        """\
layout:
  int_feature: {field: column.int_column, type: int64}
  float_feature: {field: column.float_column, type: float}
  string_feature: {field: column.string_column, type: bytes}
""",
    )
    out = build(tmp_path / "out", f"--input={tmp_path / 'table.csv'}", f"--spec={spec}")
    records = sorted(read(out, "train"), key=lambda record: record["int_feature"])
    assert [record.values for record in records] == [
        {"int_feature": [i], "float_feature": [np.float32(f)], "string_feature": [s.encode()]} for i, f, s in rows
    ]
    assert records[0].kinds == {
        "int_feature": "int64_list",
        "float_feature": "float_list",
        "string_feature": "bytes_list",
    }
