"""How many requests a use of a store takes: small objects one, large ones in parts, listings and deletions in pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage import name_ranges
from tests.each import each
from tests.integration import buckets
from tests.integration.servers.many_objects import LAYOUTS, many_objects, names_of, stats_of

pytestmark = pytest.mark.nightly

MIB = 1 << 20
COUNT = 50_000


@pytest.fixture
def methods(server) -> Callable[..., list[str]]:
    """Calls a function; returns the methods of the requests that it sends."""

    def of(use: Callable[[], object]) -> list[str]:
        server.requests.clear()
        use()
        return [request.partition(" ")[0] for request in server.requests]

    return of


def test_small_objects_take_one_request_each(methods, root, scheme):
    write = {"gs": "POST", "s3": "PUT"}[scheme]
    path, version = f"{root}/a b#c", []
    for size in (0, 10, 8 * MIB):
        assert methods(lambda size=size: storage.write_bytes(path, bytes(size))) == [write]
    assert methods(lambda: storage.read_bytes(path)) == ["GET"]
    assert methods(lambda: storage.read_range(path, 0, 100)) == ["GET"]
    assert methods(lambda: storage.write_new(f"{root}/new", b"")) == [write]
    assert methods(lambda: version.append(storage.read_state(f"{root}/new")[1])) == ["GET"]
    assert methods(lambda: storage.replace(f"{root}/new", b"1", version=version[0])) == [write]


def test_a_limited_listing_asks_for_so_many(server, root):
    for number in range(3):
        storage.write_bytes(f"{root}/{number}", b"")
    server.requests.clear()
    assert len(list(storage.list_files(root, limit=2))) == 2
    (request,) = server.requests
    assert re.search("(?:max-keys|maxResults)=2", request)


def test_large_objects_go_and_come_in_parts(methods, root, scheme):
    data = os.urandom(20 * MIB)
    # Of 16 MiB, and for gs:// in turn.
    written = {"gs": ["POST", "PUT", "PUT"], "s3": ["POST", "POST", "PUT", "PUT"]}[scheme]
    assert sorted(methods(lambda: storage.write_bytes(f"{root}/a", data))) == written

    def read() -> None:
        with storage.open_read(f"{root}/a") as file:
            assert b"".join(map(bytes, storage.read_chunks(file))) == data

    # Its size, then 8 MiB each.
    assert methods(read) == [{"gs": "GET", "s3": "HEAD"}[scheme], "GET", "GET", "GET"]


@each("sizes", [[], [1], [1] * 33, [1] * 1100, [6 * MIB, 0, 3 * MIB, 1, 7 * MIB, 2 * MIB, MIB]], ids=repr)
def test_objects_are_joined_within_the_store(server, root, scheme, sizes):
    if scheme == "s3" and len(sizes) > 1000:  # gs:// joins them in three levels
        return
    root = f"{root}/{len(sizes)}"
    pieces = [os.urandom(size) for size in sizes]
    paths = [f"{root}/part {number}#?" for number in range(len(sizes))]
    for path, data in zip(paths, pieces, strict=True):
        storage.write_bytes(path, data)
    server.requests.clear()
    crc = storage.concatenate(paths, f"{root}/whole", staging=f"{root}/staging")
    read = sum(request.startswith("GET") and "part" in request for request in server.requests)
    written = sum("partNumber" in request for request in server.requests)
    assert storage.read_bytes(f"{root}/whole") == b"".join(pieces)
    assert len(buckets.files_of(root)) == len(sizes) + 1
    if scheme == "gs":
        assert (read, crc) == (0, google_crc32c.value(b"".join(pieces)))
    elif sum(sizes) > 10 * MIB:
        # 6 MiB and what is left of 7 MiB are copied; the rest are two parts.
        assert (read, written, buckets.uploads_left(server)) == (5, 4, [])
    else:
        assert (written, crc) == (0, google_crc32c.value(b"".join(pieces)))


def test_a_large_range_is_joined_within_s3(server, root, scheme):
    if scheme == "gs":
        pytest.skip("gs:// joins whole objects alone")
    data = os.urandom(20 * MIB)
    storage.write_bytes(f"{root}/part", data)
    server.requests.clear()
    ranges = [storage.FileRange(f"{root}/part", 6 * MIB, 14 * MIB), storage.FileRange(f"{root}/part", 0, 9)]
    storage.concatenate(ranges, f"{root}/whole")
    # The 14 MiB are copied; the 9 bytes are read and written.
    assert sum("partNumber" in request for request in server.requests) == 2
    assert sum(request.startswith("GET") for request in server.requests) == 1
    assert storage.read_bytes(f"{root}/whole") == data[6 * MIB :] + data[:9]


def test_a_missing_source_is_named_and_nothing_is_left(server, root, scheme):
    sources = [f"{root}/parts/{number}" for number in range(70)]
    for source in sources[:-1]:
        storage.write_bytes(source, bytes(6 * MIB if scheme == "s3" and source[-2:] in ("/0", "/1") else 1))
    with pytest.raises(storage.StorageError, match=f"^{root}/parts/69 does not exist"):
        storage.concatenate(sources, f"{root}/shard", staging=f"{root}/staging")
    assert len(buckets.files_of(root)) == 69
    assert scheme == "gs" or not buckets.uploads_left(server)


def use(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "STORAGE_EMULATOR_HOST": endpoint,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=LAYOUTS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The layout and the endpoint of a store with 50,000 objects."""
    with many_objects(tmp_path, count=COUNT, layout=request.param) as endpoint:
        use(endpoint, monkeypatch)
        yield request.param, endpoint


def test_many_objects_are_listed_once_a_page_at_a_time(store, scheme):
    layout, endpoint = store
    found = storage.list_files(f"{scheme}://photos")
    next(found)
    # A listing that nobody reads to its end stops asking.
    assert stats_of(endpoint)["requests"] == 1
    listed = [entry.path.removeprefix(f"{scheme}://photos/") for entry in storage.list_files(f"{scheme}://photos")]
    assert sorted(listed) == names_of(layout, COUNT)
    assert stats_of(endpoint)["requests"] <= 1 + COUNT / 1000 + 1


def test_many_objects_are_deleted_in_batches(tmp_path, monkeypatch, scheme):
    with many_objects(tmp_path, count=2500) as endpoint:
        use(endpoint, monkeypatch)
        storage.delete_tree(f"{scheme}://photos")
        stats = stats_of(endpoint)
        assert stats["left"] == 0
        # Three pages, and batches of a hundred or a thousand.
        assert stats["requests"] == 3 + {"gs": 25, "s3": 3}[scheme]


def test_a_listing_is_cut_by_few_requests_into_parts_of_about_as_many_objects(store, scheme, monkeypatch):
    layout, endpoint = store
    monkeypatch.setattr(name_ranges, "_PARTS", 20)
    root = f"{scheme}://photos"
    parts = storage.partition_listing(root)
    # Of a store that 16 threads ask, some seconds.
    assert stats_of(endpoint)["requests"] < 1000
    listed = [[entry.path.removeprefix(f"{root}/") for entry in storage.list_partition(root, part)] for part in parts]
    assert sorted(name for names in listed for name in names) == names_of(layout, COUNT)
    assert max(map(len, listed)) < COUNT / 4
    assert 4 < len(parts) <= 80
