"""WriteTFRecordShards on Beam's local runner, with real files."""

from __future__ import annotations

import re

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_tfrecords.examples.example_pb2 import Example
from beam_tfrecords.transforms.sink import WriteTFRecordShards
from tests.framing import records_of

RECORDS = [f"record {number}".encode() * 10 for number in range(2_000)]


def read(paths) -> list[bytes]:
    return [record for path in paths for record in records_of(path)]


def write(path, records, **options) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create(records) | WriteTFRecordShards(path, **options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_record_is_in_one_shard_and_no_other_file_is_left(tmp_path, compression):
    write(str(tmp_path / "out/cats"), RECORDS, shard_size=50_000, compression=compression)
    files = sorted((tmp_path / "out").iterdir())
    of = len(files)
    assert [path.name for path in files] == [f"cats.tfrecord-{n:05d}-of-{of:05d}" for n in range(of)]
    assert sorted(read(files)) == sorted(RECORDS)


def test_shards_have_about_the_size_asked_for(tmp_path):
    write(tmp_path / "cats", RECORDS, shard_size=50_000)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == round(sum(sizes) / 50_000)
    assert max(sizes) - min(sizes) <= 2 * 50_000 / 8 + 200


@pytest.mark.sampled(1)
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_fixed_number_of_shards_is_kept_and_they_are_alike(tmp_path, compression):
    write(tmp_path / "cats", RECORDS, num_shards=4, compression=compression)
    files = sorted(tmp_path.iterdir())
    counts = [len(read([file])) for file in files]
    assert sum(counts) == len(RECORDS)
    assert len(counts) == 4
    assert max(counts) - min(counts) <= 2 * len(RECORDS) / 4 / 8
    assert sorted(read(files)) == sorted(RECORDS)


def test_shards_of_an_earlier_run_go_and_other_files_stay(tmp_path):
    others = ["cats.tfrecord-00000-of-00002.bak", "cats-train.tfrecord-00000-of-00005", "dogs.tfrecord-00000-of-00005"]
    for name in others:
        (tmp_path / name).write_bytes(b"")
    write(tmp_path / "cats", RECORDS, num_shards=5)
    write(tmp_path / "cats", RECORDS[:100], num_shards=2)
    names = ["cats.tfrecord-00000-of-00002", "cats.tfrecord-00001-of-00002"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, *names])
    assert sorted(read(tmp_path / name for name in names)) == sorted(RECORDS[:100])


@pytest.mark.parametrize("number", [0, 1, 3])
def test_fewer_records_than_shards(tmp_path, number):
    write(tmp_path / "cats", RECORDS[:number], num_shards=4)
    assert sorted(read(sorted(tmp_path.iterdir()))) == sorted(RECORDS[:number])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shard_size": 0}, "shard_size=0"),
        ({"num_shards": 0}, "num_shards=0"),
        ({"compression": "GZIP"}, "compression='GZIP': expected 'none' or 'gzip'"),
        ({"path": "out/num8/"}, "such as 'out/num8/examples'"),
    ],
)
def test_wrong_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WriteTFRecordShards(**{"path": "cats", **arguments})


@pytest.mark.parametrize("record", ["text", Example()], ids=["str", "Example"])
def test_what_is_not_serialized_is_refused_by_name(tmp_path, record):
    with pytest.raises(Exception, match=f"expected serialized examples .* found {type(record).__name__}"):
        write(tmp_path / "cats", [record])
