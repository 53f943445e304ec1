"""Part files: where they end, and what they hold."""

from __future__ import annotations

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.tfrecord import masked_crc32c, read_records
from beam_tfrecords.transforms.parts import PART_BYTES, PartPolicy, PartWriter
from tests.transforms.part_writing import add_row

ROW = {
    "key": "a",
    "uri": None,
    "fingerprint": "",
    "content_hash": "",
    "sample_hash": "",
    "replaced_format": None,
    "label": None,
    "height": None,
    "width": None,
}


def write(tmp_path: Path, payloads: list[bytes], *, policy: PartPolicy, compression="none", row=None):
    writer = PartWriter(
        folder=str(tmp_path), stem="train-000003", split="train", block=3, policy=policy, compression=compression
    )
    for payload in payloads:
        add_row(writer, payload, row or {})
    return writer.close()


def test_a_part_ends_at_its_size(tmp_path):
    parts = write(tmp_path, [bytes(84)] * 25, policy=PartPolicy(bytes=1000))
    assert [(part.records, part.bytes) for part in parts] == [(10, 1000), (10, 1000), (5, 500)]
    assert [part.number for part in parts] == [0, 1, 2]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"train-000003-{n:04d}.tfrecord" for n in range(3)]


def test_a_part_ends_at_its_number_of_records(tmp_path):
    assert [part.records for part in write(tmp_path, [b"x"] * 5, policy=PartPolicy(records=2))] == [2, 2, 1]


@pytest.mark.sampled(1)
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
        policy = PartPolicy(bytes=size, records=records)
        writer = PartWriter(folder=folder, stem="x", split="train", block=3, policy=policy, compression=compression)
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
        with PartWriter(
            folder=str(tmp_path), stem="x", split="train", block=0, policy=PartPolicy(records=2), compression="none"
        ) as writer:
            for _ in range(3):
                add_row(writer, b"record", {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert [path.name for path in tmp_path.iterdir()] == ["x-0000.tfrecord"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_parts_know_the_sizes_and_checksums_of_their_files(tmp_path, compression):
    parts = write(tmp_path, [b"one", b"two", b"three"], policy=PartPolicy(records=2), compression=compression, row=ROW)
    assert len(parts) == 2
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


def test_parts_have_sixteen_mebibytes_or_an_eighth_of_a_small_shard():
    def plan(shard_size: int) -> int:
        return PartPolicy.plan(shard_size=shard_size, num_shards=None, samples=10**6, output_bytes=10**12).bytes

    assert plan(150 * 10**6) == PART_BYTES
    assert plan(20 * 10**6) == 2_500_000


def test_a_fixed_number_of_shards_has_eight_parts_for_each():
    policy = PartPolicy.plan(shard_size=150 * 10**6, num_shards=4, samples=320, output_bytes=3_200_000)
    assert policy == PartPolicy(bytes=100_000, records=10)


def test_columns_that_only_some_rows_have_are_null_in_the_others(tmp_path):
    writer = PartWriter(
        folder=str(tmp_path),
        stem="x",
        split="train",
        block=0,
        policy=PartPolicy(records=4),
        compression="none",
        measure=lambda found: {"brightness": [float(one[0]) for one in found]},
    )
    for more in ({}, {"height": 7}, {"quality": b"\5"}, {"brightness": 9.0}, {"quality": b"\6"}):
        add_row(writer, b"1234", {**ROW, **more})
    rows = [row for part in writer.close() for row in pq.read_table(part.index).to_pylist()]
    assert [row["height"] for row in rows] == [None, 7, None, None, None]
    assert [row["brightness"] for row in rows] == [None, None, 5.0, 9.0, 6.0]
    assert [row["offset"] for row in rows] == [0, 20, 40, 60, 0]
