"""The first of five scripts: facial expressions as raw pixels, from folders that are splits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.beam_pipelines.script_checks import by_key, write

pytestmark = pytest.mark.whole_build

EMOTIONS = ["surprise", "fear", "happy", "sadness", "disgust", "anger"]


@pytest.fixture(scope="module")
def faces(tmp_path_factory, photos, picture, save) -> Path:
    """training_data/<emotion>/* and crossvalidation_data/<emotion>/*: RGB images, PNG and JPEG, of many sizes."""
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
