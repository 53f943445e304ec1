"""WriteTFRecordShards on Beam's local runner, with real files."""

from __future__ import annotations

import re

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from google.protobuf.empty_pb2 import Empty

from beam_tfrecords import WriteTFRecordShards
from tests.framing import records_of

RECORDS = [f"record {number}".encode() * 10 for number in range(2_000)]


def read(paths) -> list[bytes]:
    return [record for path in paths for record in records_of(path)]


def write(path, records, **options) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | beam.Create(records) | WriteTFRecordShards(path, **options)


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
        ({"shard_size": "150 apples"}, "shard_size='150 apples': not a size"),
        ({"compression": "GZIP"}, "compression='GZIP': expected 'none' or 'gzip'"),
        ({"path": "out/num8/"}, "such as 'out/num8/examples'"),
    ],
)
def test_wrong_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        WriteTFRecordShards(**{"path": "cats", **arguments})


@pytest.mark.parametrize("arguments", [{"shard_size": 1.5}, {"num_shards": "4"}, {"num_shards": True}, {"path": 3}])
def test_arguments_of_other_types_are_refused_at_construction(arguments):
    with pytest.raises(TypeError):
        WriteTFRecordShards(**{"path": "cats", **arguments})


def test_a_size_may_have_a_unit(tmp_path):
    write(tmp_path / "cats", RECORDS, shard_size="50KB")
    assert len([*tmp_path.iterdir()]) == round(sum(path.stat().st_size for path in tmp_path.iterdir()) / 50_000)


@pytest.mark.parametrize("options", [{}, {"num_shards": 3}], ids=str)
def test_an_empty_collection_replaces_nothing_unless_it_may(tmp_path, options):
    write(tmp_path / "cats", RECORDS, shard_size=50_000)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("cats*")}
    with pytest.raises(
        Exception, match=f"would replace {len(before)} shards such as .*cats.tfrecord-.*allow_empty=True"
    ):
        write(tmp_path / "cats", [], **options)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("cats*")} == before
    write(tmp_path / "cats", [], allow_empty=True, **options)
    assert read(tmp_path.glob("cats*")) == []


def test_two_sinks_with_one_path_are_refused_when_the_pipeline_is_made(tmp_path):
    pipeline = beam.Pipeline()
    records = pipeline | beam.Create(RECORDS[:9])
    _ = records | WriteTFRecordShards(tmp_path / "cats")
    _ = records | "Others" >> WriteTFRecordShards(tmp_path / "dogs")
    with pytest.raises(ValueError, match=r"writes to .*cats twice"):
        _ = records | "Again" >> WriteTFRecordShards(f"{tmp_path}/./cats")


@pytest.mark.parametrize("window", [FixedWindows(2), Sessions(1)], ids=["fixed", "sessions"])
def test_windows_of_the_records_do_not_matter(tmp_path, window):
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        timed = (
            pipeline | beam.Create(range(20)) | beam.Map(lambda number: TimestampedValue(RECORDS[number], 3 * number))
        )
        shards = timed | beam.WindowInto(window) | WriteTFRecordShards(tmp_path / "cats")
        assert_that(shards | beam.Map(lambda shard: shard.records), equal_to([20]))
    assert sorted(read(tmp_path.iterdir())) == sorted(RECORDS[:20])


def test_an_unbounded_collection_is_refused_by_name(tmp_path):
    records = beam.Pipeline() | PeriodicImpulse(fire_interval=1) | beam.Map(lambda _: b"x")
    with pytest.raises(ValueError, match="WriteTFRecordShards: the collection is unbounded"):
        _ = records | WriteTFRecordShards(tmp_path / "cats")


@pytest.mark.parametrize("record", ["text", Empty()], ids=["str", "Empty"])
def test_what_is_not_serialized_is_refused_by_name(tmp_path, record):
    with pytest.raises(Exception, match=f"expected serialized examples .* found {type(record).__name__}"):
        write(tmp_path / "cats", [record])
