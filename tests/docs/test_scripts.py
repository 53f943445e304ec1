"""The commands of docs/from_your_script.md make the records of the scripts that they replace.

Five scripts stand on the page. The others stand here: a few lines of Pillow, NumPy and TensorFlow each.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests import tensorflow as tf
from tests.beam_pipelines.dataset_records import Record, read_dataset
from tests.docs.inputs import EMOTIONS, PHOTOS
from tests.docs.pages import SCRIPTS, passages_of
from tests.tensorflow import load

pytestmark = pytest.mark.nightly

CLASSES = sorted(path.name for path in PHOTOS.iterdir())


@pytest.fixture(scope="module")
def folder(follower) -> Path:
    """Where somebody has followed the page; the datasets are in `out`."""
    scripts = follower(SCRIPTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(scripts.folder)
        scripts.run_to(passages_of(SCRIPTS)[-1])
    return scripts.folder


def by_key(dataset: Path, split: str = "train") -> dict[str, Record]:
    records = read_dataset(dataset, split)
    keyed = {record.key: record for record in records}
    assert len(keyed) == len(records)
    return keyed


@pytest.mark.parametrize("name", ["folders", "files", "rows", "boxes", "table"])
def test_the_records_of_a_script_are_those_of_its_command(folder, name):
    written = tf.data.TFRecordDataset(str(folder / f"{name}.tfrecord"), "GZIP" if name == "table" else "")
    script = [values_of(data) for data in written.as_numpy_iterator()]
    command = [values_of(record.data, names=script[0]) for record in by_key(folder / "out" / name).values()]
    assert len(script) == len(command) > 40
    assert all(example in command for example in script)


def values_of(data: bytes, names: Collection[str] = ()) -> dict[str, bytes]:
    """The features of an example, or those of some names."""
    features = tf.train.Example.FromString(data).features.feature
    return {name: features[name].SerializeToString() for name in names or features}


@pytest.mark.parametrize(("split", "name"), [("train", "training_data"), ("validation", "crossvalidation_data")])
def test_facial_expressions_have_the_labels_and_the_raw_bytes_of_the_script(folder, split, name):
    expected = {
        str(path.relative_to(folder / "faces")): (index, Image.open(path).resize((32, 32)).tobytes())
        for index, emotion in enumerate(EMOTIONS)
        for path in (folder / "faces" / name / emotion).iterdir()
    }
    assert len(expected) == 12
    features = {"label": tf.io.FixedLenFeature([], tf.int64), "img_raw": tf.io.FixedLenFeature([], tf.string)}
    found = {}
    for key, record in by_key(folder / "out/emotions", split).items():
        example = tf.io.parse_single_example(record.data, features)
        image = tf.reshape(tf.io.decode_raw(example["img_raw"], tf.uint8), [32, 32, 3])
        found[key] = (int(example["label"]), image.numpy().tobytes())
        assert record.kinds == {"label": "int64_list", "img_raw": "bytes_list"}
    assert found == expected


def expected_photos(height: str, width: str, encoded: str, label: str) -> dict[str, dict]:
    """Key -> what a script stores of a JPEG file as it is, under the names of its features."""
    expected = {}
    for path in PHOTOS.glob("*/*.jpg"):
        data = path.read_bytes()
        size = tf.io.decode_jpeg(data).shape
        values = {height: [size[0]], width: [size[1]], encoded: [data], label: [CLASSES.index(path.parent.name)]}
        expected[str(path.relative_to(PHOTOS))] = values
    assert len(expected) == 42
    return expected


def test_object_classification_stores_the_jpeg_files_with_format_label_and_size(folder):
    expected = expected_photos("image/height", "image/width", "image/encoded", "image/class/label")
    found = by_key(folder / "out/objects")
    named = next(iter(expected.values())).keys()
    assert {key: {name: record.values[name] for name in named} for key, record in found.items()} == expected
    assert {record["image/format"] for record in found.values()} == {b"jpeg"}


def test_grey_faces_come_back_by_decode_raw_and_reshape(folder):
    records = by_key(folder / "out/subjects")
    assert len(records) == 6
    for key, record in records.items():
        script = np.asarray(Image.open(folder / "subjects" / key))
        image = tf.reshape(tf.io.decode_raw(record["img"], tf.uint8), [112, 92]).numpy()
        np.testing.assert_array_equal(image, script, err_msg=key)
        assert record["label"] == ["s1", "s2", "s3"].index(key.split("/")[0])
        assert sorted(record.values) == ["img", "label"]


def test_grey_faces_are_shuffled_and_batched_by_load(folder):
    expected = sorted(np.asarray(Image.open(path)).tobytes() for path in (folder / "subjects").glob("*/*"))
    orders = []
    for seed in (1, 2):
        batches = list(load(folder / "out/subjects", "train", batch_size=4, shuffle=6, seed=seed))
        assert [tuple(batch["img"].shape) for batch in batches] == [(4, 112, 92, 1), (2, 112, 92, 1)]
        orders.append([image.tobytes() for batch in batches for image in batch["img"].numpy()])
        assert sorted(orders[-1]) == expected
    assert orders[0] != orders[1]


def test_images_of_one_flat_folder_have_the_labels_and_pixels_of_the_script(folder):
    expected = {}
    for path in (folder / "fruit").iterdir():
        label = 0 if "apple" in path.name else 1
        expected[path.name] = {"image": [Image.open(path).resize((32, 32)).tobytes()], "label": [label]}
    assert len(expected) == 5
    assert {key: record.values for key, record in by_key(folder / "out/fruit").items()} == expected


def script_example(**features: tf.train.Feature) -> bytes:
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def int64(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(value)]))


def real(value: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


def text(value: str) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))


def test_gzip_shards_are_read_by_parallel_interleave_batch_and_prefetch(folder):
    features = {"int_feature": tf.io.FixedLenFeature([], tf.int64)}
    dataset = (
        tf.data.Dataset.list_files(str(folder / "out/table/*-train.tfrecord-*"))
        .interleave(
            lambda file: tf.data.TFRecordDataset(file, compression_type="GZIP"),
            cycle_length=3,
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        .map(lambda record: tf.io.parse_single_example(record, features), num_parallel_calls=tf.data.AUTOTUNE)
        .batch(1000)
        .prefetch(tf.data.AUTOTUNE)
    )
    numbers = [int(number) for batch in dataset.as_numpy_iterator() for number in batch["int_feature"]]
    assert sorted(numbers) == list(range(10_000))


def test_ten_thousand_rows_of_a_parquet_file_need_a_single_flag(tmp_path, build):
    """The tutorial's observations."""
    random = np.random.default_rng(20_240_229)
    animals = random.integers(0, 5, 10_000)
    columns = {
        "feature0": random.choice([False, True], 10_000),
        "feature1": animals,
        "feature2": np.array(["cat", "dog", "chicken", "horse", "goat"])[animals],
        "feature3": random.standard_normal(10_000),
    }
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    kinds = (int64, int64, text, real)
    script = [
        script_example(**{name: kind(value) for name, kind, value in zip(columns, kinds, row, strict=True)})
        for row in zip(*(column.tolist() for column in columns.values()), strict=True)
    ]
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.parquet'}", "--layout=columns")
    assert {int(key): record.data for key, record in by_key(out).items()} == dict(enumerate(script))
