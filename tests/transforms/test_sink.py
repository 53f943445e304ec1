"""WriteTFRecordShards on Beam's local runner, with real files."""

from __future__ import annotations

import apache_beam as beam
import pytest
import tensorflow as tf
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from transforms.sink import WriteTFRecordShards

RECORDS = [f"record {number}".encode() * 10 for number in range(2_000)]


def read(paths, compression: str = "none") -> list[bytes]:
    kind = {"none": "", "gzip": "GZIP"}[compression]
    return [record.numpy() for record in tf.data.TFRecordDataset([str(path) for path in paths], compression_type=kind)]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_record_is_in_one_shard_and_no_other_file_is_left(tmp_path, compression):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | beam.Create(RECORDS)
            | WriteTFRecordShards(str(tmp_path / "out/cats"), shard_size=50_000, compression=compression)
        )
    files = sorted((tmp_path / "out").iterdir())
    of = len(files)
    assert [path.name for path in files] == [f"cats.tfrecord-{n:05d}-of-{of:05d}" for n in range(of)]
    assert sorted(read(files, compression)) == sorted(RECORDS)


def test_shards_have_about_the_size_asked_for(tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create(RECORDS) | WriteTFRecordShards(str(tmp_path / "cats"), shard_size=50_000)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == round(sum(sizes) / 50_000)
    assert max(sizes) - min(sizes) <= 2 * 50_000 / 8 + 200


def test_a_fixed_number_of_shards_is_kept(tmp_path):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = (
            pipeline
            | beam.Create(RECORDS)
            | WriteTFRecordShards(str(tmp_path / "cats"), num_shards=3, shard_size=50_000)
        )
    assert len(list(tmp_path.iterdir())) == 3


def test_sizes_that_are_not_positive_are_refused_at_construction():
    with pytest.raises(ValueError, match="shard_size=0"):
        WriteTFRecordShards("cats", shard_size=0)
