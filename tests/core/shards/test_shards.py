"""Planning and composing shards: the policy by properties, the transforms on Beam with real files."""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from pathlib import Path

import apache_beam as beam
import google_crc32c
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import ShardNames
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.tfrecord import masked_crc32c, read_records
from beam_tfrecords.transforms.parts import Part, PartPolicy, read_cuts
from beam_tfrecords.transforms.shards.compose import Piece, compose_shards, cut_part
from beam_tfrecords.transforms.shards.plan import ShardPolicy, every_group, find_shard, group_shards, place_parts
from beam_tfrecords.transforms.shards.stage import ComposeShards, PlanShards
from tests.core.part_writing import part_writer, write_parts

SIZES = st.lists(st.integers(1, 1000), min_size=1, max_size=200)
PAYLOADS = {block: [f"{block}-{number}".encode() * 5 for number in range(20)] for block in (2, 0, 1)}


def make_part(block: int, size: int, number: int = 0) -> Part:
    return Part("train", block, number, f"{block}-{number}", size, size, 2, 0, f"{block}-{number}.parquet")


def cut(sizes: list[int], shards: int) -> list[int]:
    """Bytes per shard."""
    total, start, filled = sum(sizes), 0, [0] * shards
    for size in sizes:
        filled[find_shard(start=start, size=size, total=total, shards=shards)] += size
        start += size
    return filled


@given(SIZES, st.integers(1, 20))
def test_every_shard_is_within_one_record_of_its_share(sizes, shards):
    share = sum(sizes) / shards
    assert all(abs(filled - share) <= max(sizes) for filled in cut(sizes, shards))


@given(SIZES, st.integers(1, 20))
def test_shards_take_consecutive_records(sizes, shards):
    total, start, before = sum(sizes), 0, 0
    for size in sizes:
        shard = find_shard(start=start, size=size, total=total, shards=shards)
        assert before <= shard < shards
        start, before = start + size, shard


@pytest.mark.parametrize(("total", "expected"), [(1, 1), (149, 1), (226, 2), (1500, 10)])
def test_the_number_of_shards_is_the_one_that_comes_nearest_to_their_size(total, expected):
    assert ShardPolicy(shard_size=150).count(total, records=total) == expected


@pytest.mark.parametrize(("shard_size", "expected"), [(1, 6), (100, 6), (1000, 2)])
def test_there_are_never_more_shards_than_records(shard_size, expected):
    assert ShardPolicy(shard_size).count(2000, records=6) == expected


def test_a_fixed_number_of_shards_is_kept_whatever_there_is():
    assert ShardPolicy(150, num_shards=8).count(2000, records=6) == 8


@given(SIZES, st.integers(1, 5))
def test_ranges_of_blocks_that_place_their_own_parts_agree_with_one_planner(sizes, range_blocks):
    parts = [make_part(block, size) for block, size in enumerate(sizes)]
    by_range: dict[tuple[str, int], list[Part]] = {}
    for part in parts:
        by_range.setdefault(("train", part.block // range_blocks), []).append(part)
    totals = {key: (sum(part.bytes for part in group), len(group)) for key, group in by_range.items()}
    policy = ShardPolicy(shard_size=500)
    ranged = [
        pair for key, group in by_range.items() for pair in place_parts((key, group[::-1]), totals, policy=policy)
    ]
    whole = list(place_parts((("train", 0), parts), {("train", 0): (sum(sizes), len(sizes))}, policy=policy))
    assert sorted(ranged, key=lambda pair: (pair[1][0], pair[0])) == whole


@given(st.integers(0, 10**9), st.integers(1, 3000))
def test_every_shard_is_in_one_group(total, shards):
    groups = list(group_shards("train", 0, shards - 1, total=total, shards=shards))
    assert [number for _, first, stop, _, _ in groups for number in range(first, stop)] == list(range(shards))
    policy = ShardPolicy(150, num_shards=shards)
    assert [key for key, part in every_group(b"", {("train", 0): (total, 9)}, policy=policy) if part is None] == groups
    first, last = shards // 3, shards // 2
    found = group_shards("train", first, last, total=total, shards=shards)
    assert list(found) == [group for group in groups if group[1] <= last and group[2] > first]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@given(
    st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=12), min_size=1, max_size=5),
    st.one_of(st.integers(1, 40), st.integers(60, 70)),
    st.integers(1, 3),
)
def test_pieces_are_the_records_that_the_rule_gives_to_each_shard(compression, blocks, shards, of_member):
    with tempfile.TemporaryDirectory() as folder:
        parts = []
        for block, sizes in enumerate(blocks):
            policy = PartPolicy(bytes=400, member_records=of_member)
            writer = part_writer(folder, f"{block}", block=block, policy=policy, compression=compression)
            payloads = [os.urandom(size) for size in sizes]
            writer.add(payloads, list(map(masked_crc32c, payloads)))
            parts += writer.close()
        total = sum(part.bytes for part in parts)
        totals = {("train", 0): (total, sum(part.records for part in parts))}
        placed = list(place_parts((("train", 0), parts), totals, policy=ShardPolicy(150, num_shards=shards)))
        found: dict[int, list[Piece]] = {number: [] for number in range(shards)}
        for group, (start, part) in placed:
            for number, piece in cut_part(part, start=start, group=group):
                assert group[1] <= number < group[2]
                found[number].append(piece)
        start = 0
        expected = []
        for part in parts:
            data, cuts = Path(part.uri).read_bytes(), read_cuts(part)
            for begin, end in itertools.pairwise(cuts.begins.tolist()):
                shard = find_shard(start=start + begin, size=end - begin, total=total, shards=shards)
                expected.append((shard, data[begin:end]))
            start += part.bytes
        for number, pieces in found.items():
            read = [Path(one.part.uri).read_bytes()[one.begin : one.begin + one.bytes] for one in pieces]
            assert b"".join(read) == b"".join(data for shard, data in expected if shard == number)
            assert [one.crc32c for one in pieces] == list(map(google_crc32c.value, read))
        assert sum(one.records for pieces in found.values() for one in pieces) == sum(map(len, blocks))


@pytest.mark.parametrize("num_shards", [None, 3])
def test_parts_become_shards_in_order_with_their_index(tmp_path, num_shards):
    parts = write_parts(tmp_path, PAYLOADS)
    names = ShardNames(str(tmp_path / "out"), "pets", staging=str(tmp_path / "staging"))

    def check(shards):
        shards = sorted(shards, key=lambda shard: shard.number)
        assert [shard.of for shard in shards] == [len(shards)] * len(shards)
        assert len(shards) == (num_shards or round(sum(part.bytes for part in parts) / 500))
        read = []
        for shard in shards:
            data = (tmp_path / "out" / shard.file).read_bytes()
            assert (shard.bytes, shard.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")
            index = (tmp_path / "out" / shard.index).read_bytes()
            assert shard.index_sha256 == hashlib.sha256(index).hexdigest()
            rows = pq.read_table(tmp_path / "out" / shard.index).to_pylist()
            assert shard.records == len(rows)
            for row in rows:
                assert data[row["offset"] + 12 :][: row["length"] - 16] == row["key"].encode()
            with (tmp_path / "out" / shard.file).open("rb") as file:
                read += [record.data for record in read_records(file)]
        assert read == [one for block in sorted(PAYLOADS) for one in PAYLOADS[block]]

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        plan = pipeline | beam.Create(parts) | PlanShards(ShardPolicy(500, num_shards))
        assert_that(plan | ComposeShards(names), check)


def test_more_shards_than_parts_leave_empty_shards(tmp_path):
    parts = write_parts(tmp_path, {0: [b"only one"]})
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        plan = pipeline | beam.Create(parts) | PlanShards(ShardPolicy(500, 2))
        _ = plan | ComposeShards(ShardNames(str(tmp_path / "out"), "pets", staging=str(tmp_path / "staging")))
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").glob("pets*")}
    assert set(sizes) == {"pets-train.tfrecord-00000-of-00002", "pets-train.tfrecord-00001-of-00002"}
    assert sorted(sizes.values()) == [0, 24]


def compose(parts: list[Part], folder: Path, *, with_index: bool = True, fence: Fence | None = None):
    names = ShardNames(str(folder), "pets", staging=str(folder.parent / "staging"))
    total = sum(part.bytes for part in parts)
    (shard,) = compose_shards(
        (("train", 0, 1, 1, total), [(0, part) for part in parts]), names=names, with_index=with_index, fence=fence
    )
    return shard


def test_composing_leaves_the_parts_so_that_a_second_attempt_gives_the_same_shard(tmp_path):
    parts = write_parts(tmp_path, PAYLOADS)
    first = compose(parts[::-1], tmp_path / "out")
    data = (tmp_path / "out" / first.file).read_bytes()
    (tmp_path / "out" / first.file).write_bytes(data[:100])
    assert compose(parts, tmp_path / "out") == first
    assert (tmp_path / "out" / first.file).read_bytes() == data


@pytest.mark.parametrize("content", [b"", b"another record", None])
def test_a_shard_of_another_build_is_never_replaced(tmp_path, content):
    parts = write_parts(tmp_path, PAYLOADS)
    with Lease.take(str(tmp_path / "lease"), "me") as lease:
        fence = Fence.take_over(str(tmp_path / "fence"), lease)
        first = compose(parts, tmp_path / "out", with_index=False, fence=fence)
        path = tmp_path / "out" / first.file
        # Bytes that are the same were written by an earlier attempt.
        assert compose(parts, tmp_path / "out", with_index=False, fence=fence) == first
        other = path.read_bytes()[::-1] if content is None else content
        path.write_bytes(other)
        with pytest.raises(BuildError, match=first.file):
            compose(parts, tmp_path / "out", with_index=False, fence=fence)
    assert path.read_bytes() == other


def test_parts_without_an_index_make_a_shard_without_one(tmp_path):
    shard = compose(write_parts(tmp_path, PAYLOADS), tmp_path / "out", with_index=False)
    assert (shard.index, shard.index_sha256) == (None, None)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [shard.file]


def test_a_part_that_lost_bytes_breaks_the_build(tmp_path):
    (part,) = write_parts(tmp_path, {0: [b"some bytes"]})
    Path(part.uri).write_bytes(b"short")
    with pytest.raises(BuildError, match="has 5 bytes, but 26"):
        compose([part], tmp_path)


def test_a_checksum_of_the_store_is_compared(tmp_path, monkeypatch):
    (part,) = write_parts(tmp_path, {0: [b"some bytes"]})
    crc = google_crc32c.value(Path(part.uri).read_bytes())
    concatenate, checksums = storage.concatenate, [crc, crc ^ 1]

    def joined(*words, **named):
        concatenate(*words, **named)
        return checksums.pop(0)

    monkeypatch.setattr(storage, "concatenate", joined)
    assert compose([part], tmp_path).crc32c == f"{crc:08x}"
    with pytest.raises(BuildError, match=rf"has CRC-32C {crc ^ 1:08x}, but {crc:08x} was written; a part is damaged"):
        compose([part], tmp_path)


def test_a_part_that_is_gone_breaks_the_build(tmp_path):
    parts = write_parts(tmp_path, PAYLOADS)
    Path(parts[1].uri).unlink()
    with pytest.raises(OSError, match=Path(parts[1].uri).name):
        compose(parts, tmp_path)
