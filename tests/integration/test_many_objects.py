"""Listing and deleting very many objects: in pages and batches, every object once.

13,000 objects are deleted within 20 s, at 20 ms a request: the tests here have fewer of them,
and hold what makes it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.storage import name_ranges
from tests.integration.servers.many_objects import LAYOUTS, many_objects, names_of, stats_of

pytestmark = pytest.mark.nightly

COUNT = 50_000


@pytest.fixture(params=["gs", "s3"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=LAYOUTS)
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The layout and the endpoint of a store with 50,000 objects."""
    with many_objects(tmp_path, count=COUNT, layout=request.param) as endpoint:
        use(endpoint, monkeypatch)
        yield request.param, endpoint


def use(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "STORAGE_EMULATOR_HOST": endpoint,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)


def test_many_objects_are_listed_once_a_page_at_a_time(store, scheme):
    layout, endpoint = store
    listed = [entry.path.removeprefix(f"{scheme}://photos/") for entry in storage.list_files(f"{scheme}://photos")]
    assert sorted(listed) == names_of(layout, COUNT)
    assert stats_of(endpoint)["requests"] <= COUNT / 1000 + 1


def test_a_listing_that_nobody_reads_to_its_end_stops_asking(store, scheme):
    _, endpoint = store
    found = storage.list_files(f"{scheme}://photos")
    next(found)
    assert stats_of(endpoint)["requests"] == 1


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
