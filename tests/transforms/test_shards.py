"""Planning and composing: the policy by properties, the transforms on Beam with real files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.part_writing import write_parts
from transforms.compose import ShardNames, compose_shard
from transforms.errors import BuildError
from transforms.shards import ComposeShards, PlanShards, count_shards, find_shard, place_parts
from transforms.tfrecord import read_records
from transforms.values import Part

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=200)


def make_part(block: int, size: int, number: int = 0) -> Part:
    return Part("train", block, number, f"{block}-{number}", size, size, 1, 0, None)


def cut(sizes: list[int], shards: int) -> list[int]:
    """Bytes per shard."""
    total, start, filled = sum(sizes), 0, [0] * shards
    for size in sizes:
        filled[find_shard(start=start, size=size, total=total, shards=shards)] += size
        start += size
    return filled


@given(SIZES, st.integers(1, 20))
def test_every_shard_is_within_one_part_of_its_share(sizes, shards):
    share = sum(sizes) / shards
    assert all(abs(filled - share) <= max(sizes) for filled in cut(sizes, shards))


@given(SIZES, st.integers(1, 20))
def test_shards_take_consecutive_parts(sizes, shards):
    total, start, before = sum(sizes), 0, 0
    for size in sizes:
        shard = find_shard(start=start, size=size, total=total, shards=shards)
        assert before <= shard < shards
        start, before = start + size, shard


@pytest.mark.parametrize(("total", "expected"), [(1, 1), (149, 1), (226, 2), (1500, 10)])
def test_the_number_of_shards_is_the_nearest_that_gives_their_size(total, expected):
    assert count_shards(total, shard_size=150, num_shards=None) == expected


@given(SIZES, st.integers(1, 5))
def test_ranges_that_number_their_own_parts_agree_with_one_planner(sizes, range_blocks):
    parts = [make_part(block, size) for block, size in enumerate(sizes)]
    by_range: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        by_range.setdefault(("train", part.block // range_blocks), []).append(part)
    totals = {key: sum(part.bytes for part in group) for key, group in by_range.items()}
    policy = {"shard_size": 500, "num_shards": None}
    ranged = [pair for key, group in by_range.items() for pair in place_parts((key, group[::-1]), totals, **policy)]
    whole = list(place_parts((("train", 0), parts), {("train", 0): sum(sizes)}, **policy))
    assert sorted(ranged, key=lambda pair: pair[1].block) == whole


@pytest.mark.parametrize("num_shards", [None, 3])
def test_parts_become_shards_in_order_with_their_index(tmp_path, num_shards):
    payloads = {block: [f"{block}-{number}".encode() * 5 for number in range(20)] for block in (2, 0, 1)}
    parts = write_parts(tmp_path, payloads)
    names = ShardNames(str(tmp_path / "out"), "pets")

    def check(shards):
        shards = sorted(shards, key=lambda shard: shard.number)
        assert [shard.of for shard in shards] == [len(shards)] * len(shards)
        assert len(shards) == (num_shards or round(sum(part.bytes for part in parts) / 500))
        read = []
        for shard in shards:
            data = (tmp_path / "out" / shard.file).read_bytes()
            assert (shard.bytes, shard.sha256) == (len(data), hashlib.sha256(data).hexdigest())
            rows = pq.read_table(tmp_path / "out" / shard.index).to_pylist()
            assert shard.records == len(rows)
            for row in rows:
                assert data[row["offset"] + 12 :][: row["length"] - 16] == row["key"].encode()
            with (tmp_path / "out" / shard.file).open("rb") as file:
                read += [record.data for record in read_records(file)]
        assert read == [one for block in sorted(payloads) for one in payloads[block]]

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        plan = pipeline | beam.Create(parts) | PlanShards(shard_size=500, num_shards=num_shards)
        assert_that(plan | ComposeShards(names), check)


def test_more_shards_than_parts_leave_empty_shards(tmp_path):
    parts = write_parts(tmp_path, {0: [b"only one"]})
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        plan = pipeline | beam.Create(parts) | PlanShards(shard_size=500, num_shards=2)
        _ = plan | ComposeShards(ShardNames(str(tmp_path / "out"), "pets"))
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").glob("pets*")}
    assert sizes == {"pets-train.tfrecord-00000-of-00002": 0, "pets-train.tfrecord-00001-of-00002": 24} or sizes == {
        "pets-train.tfrecord-00000-of-00002": 24,
        "pets-train.tfrecord-00001-of-00002": 0,
    }


def test_a_part_that_lost_bytes_breaks_the_build(tmp_path):
    (part,) = write_parts(tmp_path, {0: [b"some bytes"]})
    Path(part.uri).write_bytes(b"short")
    with pytest.raises(BuildError, match="has 5 bytes, but 26"):
        compose_shard((("train", 0, 1), [part]), names=ShardNames(str(tmp_path), "pets"), with_index=True)
