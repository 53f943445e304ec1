"""TFRecord files are found by name and by content, below folders and by globs."""

from __future__ import annotations

import gzip
import zlib

import apache_beam as beam
import pytest

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.records.record_files import find_record_files, scan_file
from tests.framing import example_of, framed
from tests.refusals import refuses

EXAMPLE = example_of({"label": 1})
RECORDS = framed(EXAMPLE, EXAMPLE)
# A record of another message: statistics of TFX.
OTHER = framed(b"\n\x10\n\x0cAll Examples\x10\x02")


@pytest.fixture
def found(tmp_path):
    """The files that are found among some files."""

    def find(contents, path=""):
        for name, content in contents.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        return [*find_record_files(str(tmp_path / path)).files]

    return find


@pytest.mark.parametrize(
    "name",
    [
        *("part-r-00000", "data", "shard_1", "train.1", "a.bin", "a.data", "x-00000-of-00010", "deep/er/part-0"),
        *("data_tfrecord-00000-of-00001.gz", "part-r-00000.gz", "part-r-00000.deflate", "label=cat/part-r-00000"),
    ],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"])
def test_records_are_recognised_by_their_first_bytes(found, name, compress):
    others = {"README": b"records", "features.json": b"{}", "schema.pbtxt": b"feature {}", "a.gz": gzip.compress(b"a")}
    assert found({name: compress(RECORDS), **others}) == [name]


@pytest.mark.parametrize("name", ["a.tfrecord", "a.TFREC", "a.records", "a.record-00000-of-00002", "a.tfrecord.zst"])
def test_a_usual_name_is_enough_so_that_a_damaged_file_is_not_lost(found, name):
    assert found({name: b"damaged"}) == [name]


def test_a_damaged_file_of_a_series_is_not_lost(found):
    names = [f"label={label}/part-r-0000{number}" for label in ("cat", "dog") for number in range(3)]
    assert found({name: RECORDS if number == 4 else b"damaged" for number, name in enumerate(names)}) == names


def test_other_files_of_a_name_like_that_of_records_are_none(found):
    assert found({"train/x-00000-of-00001": RECORDS, "idx/x-00000-of-00001": b"0 29\n"}) == ["train/x-00000-of-00001"]


def test_hidden_and_unfinished_files_are_left_out(found):
    unread = [
        *("_temporary/0/part.tfrecord", "_data/part-r-0", ".part.tfrecord.crc", ".build/a.tfrecord", "_SUCCESS"),
        *("incomplete.7B2X_1.0.0/a.tfrecord", "1.0.0.incomplete7B2X/a.tfrecord", "._SUCCESS.crc"),
    ]
    files = {"a.tfrecord": RECORDS, "label=_/a.tfrecord": RECORDS, **dict.fromkeys(unread, RECORDS), "_SUCCESS": b""}
    assert found(files) == ["a.tfrecord", "label=_/a.tfrecord"]


def test_empty_files_are_left_out(found):
    assert found({"part-r-00000": b"", "part-r-00001": RECORDS, "a.tfrecord": b""}) == ["part-r-00001"]


@pytest.mark.parametrize("other", ["stats_tfrecord", "metrics-00000-of-00001.tfrecord", "events.out.tfevents.17.host"])
def test_records_of_other_messages_are_left_out_and_named_where_there_are_examples(found, other):
    files = found({"a.tfrecord": RECORDS, other: OTHER})
    assert files == ["a.tfrecord"]
    assert found({"a.tfrecord": OTHER, other: OTHER}) == sorted(["a.tfrecord", other])


@pytest.mark.parametrize("glob", ["*", "**", "{part-0,part-1,_SUCCESS,schema.pbtxt}"])
def test_a_glob_matches_other_files_too(found, glob):
    contents = {"part-0": RECORDS, "part-1": RECORDS, "_SUCCESS": b"", "schema.pbtxt": b"feature {}"}
    assert found(contents, glob) == ["part-0", "part-1"]


def test_a_file_that_is_named_is_taken_as_it_is(found):
    assert found({"_x": b"no records"}, "_x") == ["_x"]


def test_images_are_not_opened(found):
    assert found({"a.jpg": RECORDS, "b.PNG": RECORDS}) == []


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "zlib"])
def test_large_records_are_read_whole(tmp_path, compress):
    """Records of zeros: the decompressor has output left when its input is used up."""
    records = [bytes(200_000), b"", bytes(range(256)) * 1000]
    (tmp_path / "x").write_bytes(compress(framed(*records)))
    assert [record.data for record in _scan(tmp_path)] == records


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:-9], "before its end mark"),
        (lambda data: data[:40] + b"flip" + data[44:], "Error -3"),
        (lambda data: data + data, "after the end"),
    ],
)
def test_a_damaged_zlib_file_is_no_shorter_file(tmp_path, change, says):
    records = [bytes(range(256)) * 9] * 50
    (tmp_path / "x").write_bytes(change(zlib.compress(framed(*records), 1)))
    with pytest.raises(SampleError, match=says):
        _scan(tmp_path)


def _scan(folder):
    (file,) = find_record_files(str(folder / "x")).files.values()
    return [record for record, _ in scan_file(Partition.of(file, key_prefix=""))]


def test_what_beam_writes_for_tfx_is_found(tmp_path):
    """TFX's WriteSplit is this transform with this prefix and this suffix."""
    for split, count in (("train", 3), ("eval", 2)):
        with beam.Pipeline() as pipeline:
            prefix = str(tmp_path / f"Split-{split}" / "data_tfrecord")
            pipeline | beam.Create([EXAMPLE] * count) | beam.io.WriteToTFRecord(prefix, file_name_suffix=".gz")
    files = find_record_files(str(tmp_path)).files
    assert [*files] == [f"Split-{split}/data_tfrecord-00000-of-00001.gz" for split in ("eval", "train")]


def test_a_folder_without_records_says_what_it_has(tmp_path, opened):
    (tmp_path / "a.txt").write_text("a")
    with refuses("not_found", "input", says=["a.txt"]):
        opened(tmp_path, source="tfrecord")
