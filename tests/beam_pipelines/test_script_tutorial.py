"""The fifth of five scripts: TensorFlow's tutorial, with its two images and its 10,000 observations."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tests.beam_pipelines.script_checks import by_key, write

pytestmark = pytest.mark.whole_build


def test_the_tutorial_keeps_the_bytes_of_its_two_files(tmp_path, photos, build, read):
    root = tmp_path / "tutorial"
    root.mkdir()
    labels = {"cat_in_snow.jpg": 0, "williamsburg_bridge.jpg": 1}
    for name, source in zip(labels, ["cat/cat_03.jpg", "building/building_02.jpg"], strict=True):
        (root / name).write_bytes((photos / source).read_bytes())
    out = build(
        tmp_path / "out",
        f"--input={root}",
        "--layout=tutorial",
        "--image_encoding=keep",
        "--label_pattern=(?P<label>cat|bridge)",
        "--class_names=cat,bridge",
    )
    expected = {}
    for name, label in labels.items():
        image_string = (root / name).read_bytes()
        height, width, depth = tf.io.decode_jpeg(image_string).shape
        expected[name] = {
            "height": [height],
            "width": [width],
            "depth": [depth],
            "label": [label],
            "image_raw": [image_string],
        }
    assert {key: record.values for key, record in by_key(read(out, "train")).items()} == expected


@pytest.fixture(scope="module")
def observations() -> dict[str, np.ndarray]:
    """The tutorial's 10,000 observations."""
    random = np.random.default_rng(20_240_229)
    feature1 = random.integers(0, 5, 10_000)
    return {
        "feature0": random.choice([False, True], 10_000),
        "feature1": feature1,
        "feature2": np.array(["cat", "dog", "chicken", "horse", "goat"])[feature1],
        "feature3": random.standard_normal(10_000),
    }


def script_examples(observations) -> list[bytes]:
    """The examples that the tutorial's `serialize_example` makes of the observations, in order."""

    def serialize(feature0, feature1, feature2, feature3) -> bytes:
        feature = {
            "feature0": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(feature0)])),
            "feature1": tf.train.Feature(int64_list=tf.train.Int64List(value=[feature1])),
            "feature2": tf.train.Feature(bytes_list=tf.train.BytesList(value=[feature2.encode()])),
            "feature3": tf.train.Feature(float_list=tf.train.FloatList(value=[feature3])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        return example.SerializeToString(deterministic=True)

    return [serialize(*row) for row in zip(*(column.tolist() for column in observations.values()), strict=True)]


def stored_examples(out: Path) -> list[bytes]:
    files = sorted(map(str, out.glob("*-train.tfrecord-*")))
    return list(tf.data.TFRecordDataset(files).as_numpy_iterator())


def stored_keys(out: Path) -> list[str]:
    return pq.read_table(sorted(out.glob("index/*-train-*.parquet"))[0])["key"].to_pylist()


def test_ten_thousand_rows_of_a_csv_are_the_tutorials_examples(observations, tmp_path, build):
    with open(tmp_path / "rows.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(observations)
        writer.writerows(zip(*(column.tolist() for column in observations.values()), strict=True))
    spec = write(
        tmp_path / "rows.yaml",
        """\
layout:
  feature0: {field: column.feature0, type: int64}
  feature1: {field: column.feature1, type: int64}
  feature2: {field: column.feature2, type: bytes}
  feature3: {field: column.feature3, type: float}
""",
    )
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", f"--spec={spec}")
    script = script_examples(observations)
    keys = stored_keys(out)
    # Without a column for it, the key is the number of the row.
    assert sorted(map(int, keys)) == list(range(10_000))
    assert stored_examples(out) == [script[int(key)] for key in keys]


def test_ten_thousand_rows_of_a_parquet_file_need_a_single_flag(observations, tmp_path, build):
    pq.write_table(pa.table(observations), tmp_path / "rows.parquet")
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.parquet'}", "--layout=columns")
    script = script_examples(observations)
    assert stored_examples(out) == [script[int(key)] for key in stored_keys(out)]
