"""Part files: where they end, and what they hold."""

from __future__ import annotations

import gzip
import io
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import google_crc32c
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.tfrecord import masked_crc32c, read_records
from beam_tfrecords.transforms.parts import PART_BYTES, PartPolicy, PartWriter, read_cuts, read_index
from tests.core import part_writing
from tests.core.part_writing import add_row, part_writer
from tests.core.storage.dictionary_files import DictionaryFiles

ROW = {**part_writing.ROW, "key": "a"}


def write(tmp_path: Path, payloads: list[bytes], *, policy: PartPolicy, compression="none", row=None):
    writer = part_writer(tmp_path, "train-000003", block=3, policy=policy, compression=compression)
    for payload in payloads:
        add_row(writer, payload, row or {})
    return writer.close()


def test_a_part_ends_at_its_size(tmp_path):
    parts = write(tmp_path, [bytes(84)] * 25, policy=PartPolicy(bytes=1000))
    assert [(part.records, part.bytes) for part in parts] == [(10, 1000), (10, 1000), (5, 500)]
    assert [part.number for part in parts] == [0, 1, 2]
    names = [*(f"train-000003-{n:04d}.tfrecord" for n in range(3)), "train-000003.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_small_index_in_a_store_is_neither_written_nor_read(monkeypatch):
    monkeypatch.setattr(DictionaryFiles, "files", {})
    writer = part_writer("dictionary://a/parts", most_index_bytes=10_000)
    for number in range(70):
        add_row(writer, b"%03d" % number, {})
    (part,) = writer.close()
    assert list(DictionaryFiles.files) == [part.uri]
    DictionaryFiles.files.clear()
    assert read_cuts(part).rows.tolist() == list(range(71))


def test_an_uncompressed_part_can_be_cut_at_every_record(tmp_path):
    (part,) = write(tmp_path, [b"one", b"three", b"five"], policy=PartPolicy(member_bytes=1, member_records=1))
    cuts, data = read_cuts(part), Path(part.uri).read_bytes()
    assert (cuts.rows.tolist(), cuts.begins.tolist()) == ([0, 1, 2, 3], [0, 19, 40, 60])
    assert cuts.crcs.tolist() == [google_crc32c.value(data[:begin]) for begin in cuts.begins]


@pytest.mark.parametrize("policy", [PartPolicy(member_bytes=1), PartPolicy(member_records=3)], ids=["bytes", "records"])
def test_a_gzip_part_can_be_cut_between_members(tmp_path, policy):
    # What zlib has not given out yet does not count for a size.
    payloads = [os.urandom(100_000) for _ in range(7)]
    (part,) = write(tmp_path, payloads, policy=policy, compression="gzip")
    cuts, data = read_cuts(part), Path(part.uri).read_bytes()
    assert cuts.rows.tolist() == ([0, 3, 6, 7] if policy.member_records else list(range(8)))
    assert cuts.crcs.tolist() == [google_crc32c.value(data[:begin]) for begin in cuts.begins]
    for place, (begin, end) in enumerate(itertools.pairwise(cuts.begins)):
        records = [record.data for record in read_records(io.BytesIO(gzip.decompress(data[begin:end])))]
        assert records == payloads[cuts.rows[place] : cuts.rows[place + 1]]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@given(
    st.lists(st.binary(max_size=5000), max_size=12),
    st.integers(1, 5),
    st.one_of(st.integers(1, 300), st.just(PART_BYTES)),
    st.one_of(st.none(), st.integers(1, 4)),
)
def test_a_batch_is_written_as_batches_of_one(compression, payloads, of_batch, size, records):
    rows = [{**ROW, "key": str(number), "label": "cat" if number % 3 else None} for number in range(len(payloads))]

    def write_all(folder: str, add: Callable[[PartWriter], None]) -> list[tuple[object, ...]]:
        policy = PartPolicy(bytes=size, member_records=records)
        writer = part_writer(folder, policy=policy, compression=compression)
        add(writer)
        return [(part.crc32c, part.index_crc32c, part.records, part.stream_bytes) for part in writer.close()]

    def add_each(writer: PartWriter) -> None:
        for payload, row in zip(payloads, rows, strict=True):
            add_row(writer, payload, row)

    def add_batches(writer: PartWriter) -> None:
        for start in range(0, len(payloads), of_batch):
            batch = slice(start, start + of_batch)
            names = [name for name in ROW if name != "label" or any(row["label"] for row in rows[batch])]
            columns = {
                name: [row[name] for row in rows[batch]] for name in names if ROW[name] is not None or name == "label"
            }
            writer.add(payloads[batch], list(map(masked_crc32c, payloads[batch])), columns)

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        assert write_all(one, add_each) == write_all(other, add_batches)


def test_no_records_make_no_part(tmp_path):
    assert write(tmp_path, [], policy=PartPolicy()) == []
    assert list(tmp_path.iterdir()) == []


def test_an_error_leaves_no_unfinished_part(tmp_path):
    def write_and_fail():
        with part_writer(tmp_path, policy=PartPolicy(bytes=40)) as writer:
            for _ in range(3):
                add_row(writer, b"record", {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert [path.name for path in tmp_path.iterdir()] == ["x-0000.tfrecord"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_parts_know_the_sizes_and_checksums_of_their_files(tmp_path, compression):
    parts = write(tmp_path, [b"one", b"two", b"three"], policy=PartPolicy(bytes=10), compression=compression, row=ROW)
    assert len(parts) == 3
    for part in parts:
        data, index = Path(part.uri).read_bytes(), Path(part.index).read_bytes()
        assert (part.bytes, part.crc32c) == (len(data), google_crc32c.value(data))
        assert (part.index_bytes, part.index_crc32c) == (len(index), google_crc32c.value(index))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_index_rows_point_at_their_records_in_the_uncompressed_stream(tmp_path, compression):
    payloads = [b"a" * size for size in (0, 10, 500)]
    (part,) = write(tmp_path, payloads, policy=PartPolicy(), compression=compression, row=ROW)
    data = Path(part.uri).read_bytes()
    stream = gzip.decompress(data) if compression == "gzip" else data
    assert part.stream_bytes == len(stream)
    for payload, row in zip(payloads, pq.read_table(part.index).to_pylist(), strict=True):
        record = stream[row["offset"] : row["offset"] + row["length"]]
        assert record[12:-4] == payload


def test_the_same_records_make_the_same_gzip_bytes(tmp_path):
    one = write(tmp_path / "1", [b"abc"] * 9, policy=PartPolicy(), compression="gzip")
    other = write(tmp_path / "2", [b"abc"] * 9, policy=PartPolicy(), compression="gzip")
    assert Path(one[0].uri).read_bytes() == Path(other[0].uri).read_bytes()


def test_gzip_parts_end_at_their_compressed_size(tmp_path):
    parts = write(tmp_path, [bytes(10_000)] * 100, policy=PartPolicy(bytes=5_000), compression="gzip")
    assert len(parts) == 1
    with gzip.open(parts[0].uri) as file:
        assert sum(1 for _ in read_records(file)) == 100


def plan(**settings: Any) -> PartPolicy:
    """The policy of 320 samples of 10 kB."""
    known = {"compression": "gzip", "shard_size": 150 * 10**6, "num_shards": None, "samples": 320}
    return PartPolicy.plan(**{**known, "output_bytes": 3_200_000, **settings})


def test_gzip_members_have_sixteen_mebibytes_or_an_eighth_of_a_small_shard():
    assert plan() == PartPolicy(member_bytes=PART_BYTES)
    assert plan(shard_size=20 * 10**6) == PartPolicy(member_bytes=2_500_000)


def test_a_fixed_number_of_shards_has_eight_gzip_members_for_each():
    assert plan(num_shards=4) == PartPolicy(member_bytes=100_000, member_records=10)


@given(st.integers(1, 10**9), st.one_of(st.none(), st.integers(1, 10**6)))
def test_shards_do_not_decide_uncompressed_parts(shard_size, num_shards):
    assert plan(compression="none", shard_size=shard_size, num_shards=num_shards) == PartPolicy()


def test_columns_that_only_some_rows_have_are_null_in_the_others(tmp_path):
    writer = part_writer(tmp_path, policy=PartPolicy(bytes=80))
    for more in ({}, {"height": 7}, {"brightness": 5.0}, {"brightness": 9.0}, {}):
        add_row(writer, b"1234", {**ROW, **more})
    rows = [row for part in writer.close() for row in read_index(part).to_pylist()]
    assert [row["height"] for row in rows] == [None, 7, None, None, None]
    assert [row["brightness"] for row in rows] == [None, None, 5.0, 9.0, None]
    assert [row["offset"] for row in rows] == [0, 20, 40, 60, 0]
