"""The second of five scripts: object classification with JPEG files, and grey faces as raw pixels."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from beam_tfrecords import load
from tests.beam_pipelines.script_checks import by_key, write

pytestmark = pytest.mark.whole_build


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
    """s1 … s5, each with grey faces of 92 x 112 pixels (width x height), as PGM and PNG."""
    root = tmp_path_factory.mktemp("scripts") / "subjects"
    for subject in range(1, 6):
        for number in range(1, 9):
            pixels = picture(100 * subject + number, 112, 92, channels=1)
            save(root / f"s{subject}" / f"{number}.{'pgm' if number % 2 else 'png'}", pixels)
    return root


@pytest.fixture(scope="module")
def face_datasets(subjects, build) -> dict[tuple[int, int], Path]:
    """(height, width) -> the faces as they are, and as `resize((112, 92))` of a script makes them."""
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
