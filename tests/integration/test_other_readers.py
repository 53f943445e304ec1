"""Readers that others have written read the same records, with the same labels, in the same order."""

from __future__ import annotations

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords import open_dataset
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.tfrecord import open_stream, read_records
from tests.integration.tfrecord_package import read_shards

pytestmark = pytest.mark.nightly

SPLITS = ("train", "test")


@pytest.fixture(scope="module", params=["none", "gzip"])
def compression(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def out(tmp_path_factory, photos, build, compression):
    flags = ("--name=photos", "--image_size=32", "--num_shards=2", "--splits=train=0.8,test=0.2")
    folder = tmp_path_factory.mktemp("others")
    return build(folder / compression, f"--input={photos}", *flags, f"--compression={compression}")


@pytest.fixture(scope="module")
def expected(out, photos, compression) -> dict[str, list[tuple[bytes, int]]]:
    """Split -> file names and labels, as our own code reads them; checked against manifest and input."""
    found = {}
    for split in SPLITS:
        parsed = []
        for file in sorted(out.glob(f"photos-{split}.tfrecord-*")):
            with open(file, "rb") as opened:
                records = read_records(open_stream(opened, compression))
                parsed += [parse_example(record.data) for record in records]
        found[split] = [(one["filename"][1][0], one["label"][1][0]) for one in parsed]
    dataset = open_dataset(out)
    assert {split: len(names) for split, names in found.items()} == dataset.splits
    labels = {path.name: dataset.class_names.index(path.parent.name) for path in photos.rglob("*.jpg")}
    assert all(labels[name.decode()] == label for names in found.values() for name, label in names)
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_tf_data(out, expected, compression, split):
    features = {"filename": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    files = sorted(map(str, out.glob(f"photos-{split}.tfrecord-*")))
    records = tf.data.TFRecordDataset(files, compression_type={"none": "", "gzip": "GZIP"}[compression])
    examples = records.map(lambda record: tf.io.parse_single_example(record, features)).as_numpy_iterator()
    assert [(one["filename"], one["label"]) for one in examples] == expected[split]


@pytest.mark.parametrize("split", SPLITS)
def test_tensorflow_datasets(out, expected, compression, split):
    if compression == "gzip":
        pytest.skip("TFDS reads no GZIP shards")
    config = tfds.ReadConfig(interleave_cycle_length=1)
    examples = tfds.builder_from_directory(str(out)).as_dataset(split=split, read_config=config).as_numpy_iterator()
    assert [(one["filename"], one["label"]) for one in examples] == expected[split]


@pytest.mark.parametrize("split", SPLITS)
def test_the_tfrecord_package(out, expected, compression, split):
    shards = sorted(out.glob(f"photos-{split}.tfrecord-*"))
    assert read_shards(shards, compression=compression) == expected[split]


@pytest.mark.parametrize("split", SPLITS)
def test_beam(out, expected, compression, split):
    from apache_beam.io.filesystem import CompressionTypes

    def parse(record: bytes) -> tuple[bytes, int]:
        example = parse_example(record)
        return example["filename"][1][0], example["label"][1][0]

    kind = {"none": CompressionTypes.UNCOMPRESSED, "gzip": CompressionTypes.GZIP}[compression]
    with beam.Pipeline("FnApiRunner") as pipeline:
        read = beam.io.ReadFromTFRecord(f"{out}/photos-{split}.tfrecord-*", compression_type=kind)
        assert_that(pipeline | read | beam.Map(parse), equal_to(expected[split]))
