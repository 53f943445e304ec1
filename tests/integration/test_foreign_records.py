"""TFRecord files that TensorFlow, TFDS, Beam and the `tfrecord` package write, in their own folders."""

from __future__ import annotations

import io
from collections.abc import Callable

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

from beam_tfrecords import open_dataset

pytestmark = pytest.mark.nightly


def _picture(number: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (number, 99, 0)).save(file, "PNG")
    return file.getvalue()


def _examples(count: int) -> list[bytes]:
    def feature(**kinds) -> tf.train.Feature:
        return tf.train.Feature(**kinds)

    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "image": feature(bytes_list=tf.train.BytesList(value=[_picture(number)])),
                    "label": feature(int64_list=tf.train.Int64List(value=[number % 2])),
                }
            )
        ).SerializeToString()
        for number in range(count)
    ]


class Shapes(tfds.core.GeneratorBasedBuilder):
    """A dataset of two configs."""

    VERSION = tfds.core.Version("1.10.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in ("small", "large")]  # noqa: RUF012

    def _info(self) -> tfds.core.DatasetInfo:
        label = tfds.features.ClassLabel(names=["zebra", "ant"])
        features = {"image": tfds.features.Image(shape=(8, 8, 3)), "label": label}
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, manager):
        return {"train": self._generate_examples(6), "test": self._generate_examples(4)}

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {"image": np.full((8, 8, 3), number, np.uint8), "label": number % 2}


def _prepare(folder, config: str, version: str) -> None:
    Shapes.VERSION = tfds.core.Version(version)
    Shapes(data_dir=str(folder), config=config).download_and_prepare()


EVEN = {"train": {"zebra": 3, "ant": 3}, "test": {"zebra": 2, "ant": 2}}


@pytest.fixture
def counts_of(build, tmp_path) -> Callable[..., dict[str, dict[str, int]]]:
    """Builds TFRecord files; returns split -> class -> samples."""

    def count(path: object) -> dict[str, dict[str, int]]:
        flags = (f"--input={path}", "--source=tfrecord", "--image_encoding=keep", "--overwrite")
        return {
            split: dict(found) for split, found in open_dataset(build(tmp_path / "out", *flags)).class_counts.items()
        }

    return count


def test_the_folders_of_tfds_are_asked_for_or_read(tmp_path, convert, counts_of):
    data = tmp_path / "data"
    _prepare(data, "small", "1.9.0")
    assert counts_of(data) == EVEN
    _prepare(data, "small", "1.10.0")
    _prepare(data, "large", "1.10.0")
    for folder, first in (("shapes/small", "1.10.0"), ("shapes", "large/1.10.0"), ("", "shapes/large/1.10.0")):
        ran = convert(f"--input={data / folder}", "--source=tfrecord", f"--output={tmp_path / 'other'}")
        offer = ran.refused("several_datasets", "input").suggestions[0].settings["input"]
        assert offer == str(data / folder / first)
        assert counts_of(offer) == EVEN


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
@pytest.mark.parametrize("name", ["train", "part-r-00000", "a.tfrecord"])
def test_what_tensorflow_compresses_is_read(tmp_path, compression, name, build, verify):
    (tmp_path / "in").mkdir()
    examples = _examples(40)
    with tf.io.TFRecordWriter(str(tmp_path / "in" / name), tf.io.TFRecordOptions(compression)) as writer:
        for example in examples:
            writer.write(example)
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--source=tfrecord", "--image_encoding=keep")
    assert verify(out).code == 0
    shards = sorted(map(str, out.glob("*.tfrecord-*")))
    written = [tf.train.Example.FromString(one) for one in tf.data.TFRecordDataset(shards).as_numpy_iterator()]
    images = {(one.features.feature["image"].bytes_list.value[0]) for one in written}
    assert images == {_picture(number) for number in range(40)}


def test_the_logs_of_a_training_beside_its_data_are_no_samples(tmp_path, convert, counts_of):
    (tmp_path / "in").mkdir()
    with tf.io.TFRecordWriter(str(tmp_path / "in/data")) as writer:
        for example in _examples(4):
            writer.write(example)
    with tf.summary.create_file_writer(str(tmp_path / "in")).as_default():
        tf.summary.write("loss", 0.5, step=1)
    assert counts_of(tmp_path / "in") == {"train": {"0": 2, "1": 2}}
    ran = convert(f"--input={tmp_path / 'in'}", "--source=tfrecord", f"--output={tmp_path / 'other'}")
    assert "skipped: 1 .v2 (events.out.tfevents" in ran.out


def test_what_tfx_writes_has_the_splits_of_its_folders(tmp_path, counts_of):
    """TFX's WriteSplit is this transform with this prefix and this suffix."""
    for split, count in (("train", 6), ("eval", 4)):
        with beam.Pipeline() as pipeline:
            prefix = str(tmp_path / "in" / f"Split-{split}" / "data_tfrecord")
            write = beam.io.WriteToTFRecord(prefix, file_name_suffix=".gz", num_shards=2)
            _ = pipeline | beam.Create(_examples(count)) | write
    assert counts_of(tmp_path / "in") == {"train": {"0": 3, "1": 3}, "validation": {"0": 2, "1": 2}}
