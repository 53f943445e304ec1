"""Five scripts that people write by hand, each done by one command and compared with it record by record.

The oracles are the scripts' own few lines of Pillow, NumPy and TensorFlow.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from PIL import Image

from transforms.reading import load

EMOTIONS = ["surprise", "fear", "happy", "sadness", "disgust", "anger"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def by_key(records) -> dict:
    keyed = {record.key: record for record in records}
    assert len(keyed) == len(records)
    return keyed


# 1. Facial expressions


@pytest.fixture(scope="module")
def faces(tmp_path_factory, photos, picture, save) -> Path:
    """training_data/<emotion>/* and crossvalidation_data/<emotion>/*: RGB, PNG and JPEG, of many shapes."""
    root = tmp_path_factory.mktemp("scripts") / "faces"
    real = sorted(photos.glob("cat/*.jpg"))
    for split, count in (("training_data", 5), ("crossvalidation_data", 2)):
        for label, emotion in enumerate(EMOTIONS):
            folder = root / split / emotion
            for number in range(count):
                pixels = picture(1000 * count + 10 * label + number, 40 + 7 * number, 75 - 9 * label)
                name = folder / f"{emotion}{number}"
                if number % 2:
                    save(name.with_suffix(".jpg"), pixels, quality=90)
                else:
                    save(name.with_suffix(".png"), pixels)
            (folder / "photo.jpg").write_bytes(real[label].read_bytes())
    return root


@pytest.fixture(scope="module")
def emotion(faces, build) -> Path:
    spec = write(
        faces.parent / "emotions.yaml",
        f"""\
input: {faces}
name: emotion
class_names: [surprise, fear, happy, sadness, disgust, anger]
splits: {{train: training_data, validation: crossvalidation_data}}
image_size: 32x32
resize_mode: exact
image_encoding: raw
codec: exact
layout:
  label: label.index
  img_raw: image.pixels
""",
    )
    return build(faces.parent / "emotion", f"--spec={spec}")


@pytest.mark.parametrize(("split", "folder"), [("train", "training_data"), ("validation", "crossvalidation_data")])
def test_facial_expressions_have_the_labels_and_the_raw_bytes_of_the_script(emotion, faces, read, split, folder):
    expected = {}
    for index, name in enumerate(EMOTIONS):
        for path in (faces / folder / name).iterdir():
            img = Image.open(path).resize((32, 32))
            expected[str(path.relative_to(faces))] = (index, img.tobytes())
    records = by_key(read(emotion, split))
    assert {key: (record["label"], record["img_raw"]) for key, record in records.items()} == expected
    assert all(record.kinds == {"label": "int64_list", "img_raw": "bytes_list"} for record in records.values())


def test_facial_expressions_read_back_as_the_script_reads_them(emotion, faces):
    features = {"label": tf.io.FixedLenFeature([], tf.int64), "img_raw": tf.io.FixedLenFeature([], tf.string)}
    seen = set()
    for record in tf.data.TFRecordDataset(sorted(map(str, emotion.glob("emotion-train.tfrecord-*")))):
        example = tf.io.parse_single_example(record, features)
        image = tf.reshape(tf.io.decode_raw(example["img_raw"], tf.uint8), [32, 32, 3])
        seen.add((int(example["label"]), image.numpy().tobytes()))
    assert seen == {
        (index, np.asarray(Image.open(path).resize((32, 32))).tobytes())
        for index, name in enumerate(EMOTIONS)
        for path in (faces / "training_data" / name).iterdir()
    }


# 2. Object classification


@pytest.fixture(scope="module")
def object_spec(tmp_path_factory) -> Path:
    return write(
        tmp_path_factory.mktemp("objects") / "objects.yaml",
        """\
layout:
  image/encoded: image.encoded
  image/format: image.format
  image/class/label: label.index
  image/height: image.height
  image/width: image.width
""",
    )


def test_object_classification_stores_the_jpeg_files_with_format_label_and_size(
    object_spec, photos, tmp_path, build, read
):
    out = build(tmp_path / "out", f"--input={photos}", f"--spec={object_spec}", "--image_encoding=keep")
    names = sorted(path.name for path in photos.iterdir())
    expected = {}
    for path in photos.glob("*/*.jpg"):
        encoded = path.read_bytes()
        height, width = tf.io.decode_jpeg(encoded).shape[:2]
        expected[str(path.relative_to(photos))] = {
            "image/encoded": [encoded],
            "image/format": [b"jpeg"],
            "image/class/label": [names.index(path.parent.name)],
            "image/height": [height],
            "image/width": [width],
        }
    assert {key: record.values for key, record in by_key(read(out, "train")).items()} == expected


def test_object_classification_with_a_new_size_stores_the_jpeg_that_pillow_makes(
    object_spec, photos, tmp_path, build, read
):
    flags = ["--image_size=120x160", "--resize_mode=exact", "--codec=exact", "--jpeg_quality=90"]
    out = build(tmp_path / "out", f"--input={photos}", f"--spec={object_spec}", *flags)
    records = by_key(read(out, "train"))
    plain = [path for path in photos.glob("*/*.jpg") if not Image.open(path).getexif()]
    assert len(plain) > 30
    for path in plain:
        file = io.BytesIO()
        Image.open(path).convert("RGB").resize((160, 120)).save(file, "JPEG", quality=90)
        assert records[str(path.relative_to(photos))].values["image/encoded"] == [file.getvalue()], path
    assert {(record["image/height"], record["image/width"]) for record in records.values()} == {(120, 160)}


@pytest.fixture(scope="module")
def subjects(tmp_path_factory, picture, save) -> Path:
    """s1 … s5, each with faces of 92 x 112 pixels (width x height), grey, as PGM and PNG."""
    root = tmp_path_factory.mktemp("scripts") / "subjects"
    for subject in range(1, 6):
        for number in range(1, 9):
            pixels = picture(100 * subject + number, 112, 92, channels=1)
            save(root / f"s{subject}" / f"{number}.{'pgm' if number % 2 else 'png'}", pixels)
    return root


@pytest.fixture(scope="module")
def face_datasets(subjects, build) -> dict[tuple[int, int], Path]:
    """By (height, width): the faces as they are, and as a script's `resize((112, 92))` turns them."""
    spec = write(
        subjects.parent / "faces.yaml",
        "image_encoding: raw\ncodec: exact\nchannels: 1\nresize_mode: exact\n"
        "layout: {img: image.pixels, label: label.index}\n",
    )
    return {
        (height, width): build(
            subjects.parent / f"faces{height}",
            f"--input={subjects}",
            f"--spec={spec}",
            f"--image_size={height}x{width}",
        )
        for height, width in [(112, 92), (92, 112)]
    }


@pytest.mark.parametrize(("height", "width"), [(112, 92), (92, 112)])
def test_grey_faces_come_back_by_decode_raw_and_reshape(face_datasets, subjects, read, height, width):
    records = by_key(read(face_datasets[height, width], "train"))
    assert len(records) == 40
    for key, record in records.items():
        script = np.asarray(Image.open(subjects / key).resize((width, height)))  # Pillow: width first
        image = tf.reshape(tf.io.decode_raw(record["img"], tf.uint8), [height, width]).numpy()
        np.testing.assert_array_equal(image, script, err_msg=key)
        assert record["label"] == ["s1", "s2", "s3", "s4", "s5"].index(key.split("/")[0])
        assert sorted(record.values) == ["img", "label"]


@pytest.mark.parametrize(("height", "width"), [(112, 92), (92, 112)])
def test_grey_faces_are_shuffled_and_batched_by_load(face_datasets, subjects, height, width):
    expected = sorted(
        (index, np.asarray(Image.open(path).resize((width, height))).tobytes())
        for index, subject in enumerate(["s1", "s2", "s3", "s4", "s5"])
        for path in (subjects / subject).iterdir()
    )
    orders = []
    for seed in (1, 2):
        batches = list(load(str(face_datasets[height, width]), "train", batch_size=16, shuffle=40, seed=seed))
        assert [tuple(batch["img"].shape) for batch in batches] == [(n, height, width, 1) for n in (16, 16, 8)]
        pairs = [
            (int(label), image.tobytes())
            for batch in batches
            for label, image in zip(batch["label"].numpy(), batch["img"].numpy(), strict=True)
        ]
        assert sorted(pairs) == expected
        orders.append(pairs)
    assert orders[0] != orders[1]


# 3. Apples and oranges


def test_apples_and_oranges_of_one_flat_folder(tmp_path, picture, save, build, read):
    root = tmp_path / "fruit"
    for number in range(1, 10):
        save(root / f"apple{number:02d}.jpg", picture(number, 50 + number, 64))
    for number in range(1, 8):
        save(root / f"orange{number:02d}.jpg", picture(50 + number, 64, 40 + number))
    spec = write(
        tmp_path / "fruit.yaml",
        """\
label_pattern: (?P<label>apple|orange)
class_names: [apple, orange]
image_size: 32x32
resize_mode: exact
image_encoding: raw
codec: exact
layout: {image: image.pixels, label: label.index}
""",
    )
    records = by_key(read(build(tmp_path / "out", f"--input={root}", f"--spec={spec}"), "train"))
    expected = {}
    for path in root.iterdir():
        label = 0 if "apple" in path.name else 1
        expected[path.name] = {"image": [Image.open(path).resize((32, 32)).tobytes()], "label": [label]}
    assert len(expected) == 16
    assert {key: record.values for key, record in records.items()} == expected


# 4. Encoded images with GZIP, and a small table


@pytest.fixture(scope="module")
def zipped(tmp_path_factory, photos, build) -> Path:
    root = tmp_path_factory.mktemp("zipped")
    spec = write(root / "gzip.yaml", "layout: {image: image.encoded, label: label.index}\ncompression: gzip\n")
    flags = ["--image_encoding=keep", "--num_shards=3", "--name=photos"]
    return build(root / "out", f"--input={photos}", f"--spec={spec}", *flags)


def labelled_photos(photos: Path) -> list[tuple[bytes, int]]:
    names = sorted(path.name for path in photos.iterdir())
    return sorted((path.read_bytes(), names.index(path.parent.name)) for path in photos.glob("*/*.jpg"))


def test_gzip_is_read_by_parallel_interleave_batch_and_prefetch(zipped, photos):
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


def test_gzip_is_read_by_load(zipped, photos):
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


# 5. The tutorial


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
    """What the tutorial's `serialize_example` makes of every observation, in order."""

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
    # Without a column for it the key is the row's number.
    assert sorted(map(int, keys)) == list(range(10_000))
    assert stored_examples(out) == [script[int(key)] for key in keys]


def test_ten_thousand_rows_of_a_parquet_file_need_no_spec(observations, tmp_path, build):
    pq.write_table(pa.table(observations), tmp_path / "rows.parquet")
    out = build(tmp_path / "out", f"--input={tmp_path / 'rows.parquet'}")
    script = script_examples(observations)
    assert stored_examples(out) == [script[int(key)] for key in stored_keys(out)]
