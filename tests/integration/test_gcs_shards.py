"""Shards in gs://: the service joins the parts, and its checksum is compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import ShardNames
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.parts import Part, PartPolicy, PartWriter, read_cuts
from beam_tfrecords.transforms.shards.compose import compose_shards
from tests.integration.servers import gcs
from tests.transforms.part_writing import add_row

pytestmark = pytest.mark.nightly

RECORDS = [b"%03d" % number * 20 for number in range(70)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.GcsServer]:
    """A storage service with the empty bucket gs://data."""
    with gcs.gcs_server(tmp_path, buckets=("data",)) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def parts(server: gcs.GcsServer) -> list[Part]:
    """More parts than the service joins at once."""
    writer = PartWriter(
        folder="gs://data/out/.build/0/parts",
        stem="train-000000",
        split="train",
        block=0,
        policy=PartPolicy(bytes=100),
        compression="none",
    )
    for record in RECORDS:
        add_row(writer, record, {})
    return writer.close()


def compose(parts: list[Part], shards: int = 1) -> list[Shard]:
    names = ShardNames("gs://data/out", "pets", staging="gs://data/out/.build/0")
    starts = itertools.accumulate((part.bytes for part in parts), initial=0)
    total = sum(part.bytes for part in parts)
    placed = list(zip(starts, parts, strict=False))
    return compose_shards((("train", 0, shards, shards, total), placed), names=names, with_index=False)


def test_a_small_index_is_neither_written_nor_read(server):
    writer = PartWriter(
        folder="gs://data/few",
        stem="train-000000",
        split="train",
        block=0,
        policy=PartPolicy(),
        compression="none",
        most_index_bytes=10_000,
    )
    for record in RECORDS:
        add_row(writer, record, {})
    (part,) = writer.close()
    assert [entry.path for entry in storage.list_files("gs://data/few")] == [part.uri]
    server.requests.clear()
    assert read_cuts(part).rows.tolist() == list(range(len(RECORDS) + 1))
    assert not server.requests


def test_parts_are_joined_without_reading_them(server, parts):
    assert len(parts) == 35
    expected = b"".join(storage.read_bytes(part.uri) for part in parts)
    server.requests.clear()
    (shard,) = compose(parts)
    assert not [request for request in server.requests if "alt=media" in request]
    data = storage.read_bytes(f"gs://data/out/{shard.file}")
    assert data == expected
    assert (shard.bytes, shard.crc32c) == (len(data), f"{google_crc32c.value(data):08x}")
    assert {entry.path for entry in storage.list_files("gs://data/out")} == {
        f"gs://data/out/{shard.file}",
        *(part.uri for part in parts),
        parts[0].index,
    }


def test_parts_are_cut_at_records(parts):
    expected = b"".join(storage.read_bytes(part.uri) for part in parts)
    record = len(expected) // len(RECORDS)
    shards = compose(parts, shards=4)
    data = [storage.read_bytes(f"gs://data/out/{shard.file}") for shard in shards]
    assert b"".join(data) == expected
    # 70 records in 4 shards; a part has 2.
    assert sorted(len(one) / record for one in data) == [17, 17, 18, 18]
    assert [shard.crc32c for shard in shards] == [f"{google_crc32c.value(one):08x}" for one in data]
    assert not [entry.path for entry in storage.list_files("gs://data/out/.build/0") if "/parts/" not in entry.path]


def test_a_part_that_has_other_bytes_breaks_the_build(parts):
    storage.write_bytes(parts[7].uri, bytes(parts[7].bytes))
    with pytest.raises(BuildError, match=r"pets-train.tfrecord-00000-of-00001 has CRC-32C .{8}, but .{8} was written"):
        compose(parts)


def test_a_part_that_lost_bytes_is_named(parts):
    storage.write_bytes(parts[7].uri, b"short")
    with pytest.raises(BuildError, match=r"train-000000-0007.tfrecord has 5 bytes, but"):
        compose(parts)
