"""Versions, preconditions, compose and the lease in gs://, against a real storage service."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import gcs as gcs_files
from beam_tfrecords.storage.lease import Lease
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.sources.inputs import Inputs, has_wildcards
from beam_tfrecords.transforms.sources.partition import WHOLE, Partition, StagingFiles, find_files
from beam_tfrecords.transforms.sources.tally import Tally
from tests.integration.servers import gcs
from tests.source_requests import open_source

pytestmark = pytest.mark.nightly


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.GcsServer]:
    """A storage service with the empty buckets gs://photos and gs://other."""
    with gcs.gcs_server(tmp_path, buckets=("photos", "other")) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        running.requests.clear()
        yield running


def listed(root: str = "gs://photos") -> list[str]:
    return sorted(entry.path.removeprefix("gs://photos/") for entry in storage.list_files(root))


READERS = {
    "bytes": lambda path, version: storage.read_bytes(path, version=version),
    "range": lambda path, version: storage.read_range(path, 2, 3, version=version),
    "nothing": lambda path, version: storage.read_range(path, 2, 0, version=version),
    "open": lambda path, version: storage.open_read(path, version=version).read(),
}


@pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))
def test_another_generation_is_not_read(server, read):
    storage.write_bytes("gs://photos/a", b"0123456789")
    (entry,) = storage.list_files("gs://photos")
    assert entry.version == storage.stat(entry.path).version == str(entry.generation)
    expected = read(entry.path, "")
    assert read(entry.path, entry.version) == expected
    storage.write_bytes("gs://photos/a", b"0123456789")
    with pytest.raises(storage.ChangedError, match="gs://photos/a has changed"):
        read(entry.path, entry.version)
    assert read(entry.path, "") == expected
    storage.delete_files([entry.path])
    with pytest.raises(storage.StorageError):
        read(entry.path, entry.version)


def test_an_open_object_is_read_in_one_generation(server):
    storage.write_bytes("gs://photos/a", bytes(20 << 20))
    with storage.open_read("gs://photos/a") as file:
        file.read(1)
        storage.write_bytes("gs://photos/a", bytes(20 << 20))
        with pytest.raises(storage.ChangedError):
            file.read()


@pytest.mark.parametrize("read", ["whole", "range", "open"])
def test_another_version_is_found_in_the_answer_of_a_store_that_ignores_preconditions(server, monkeypatch, read):
    storage.write_bytes("gs://photos/a", b"first")
    entry = storage.stat("gs://photos/a")
    storage.write_bytes("gs://photos/a", b"other")
    find_url = gcs_files.download_url
    monkeypatch.setattr(gcs_files, "download_url", lambda path, *, version: find_url(path, version=""))
    monkeypatch.setattr(gcs_files, "stat", lambda path: entry)  # opened before the object was replaced
    reads = {
        "whole": lambda: storage.read_bytes("gs://photos/a", version=entry.version),
        "range": lambda: storage.read_range("gs://photos/a", 0, 5, version=entry.version),
        "open": lambda: storage.open_read("gs://photos/a", version=entry.version).read(),
    }
    with pytest.raises(storage.ChangedError):
        reads[read]()


def test_the_head_of_a_small_object_takes_one_request(server):
    storage.write_bytes("gs://photos/a", b"0123456789")
    server.requests.clear()
    assert storage.read_range("gs://photos/a", 0, 100) == b"0123456789"
    assert len(server.requests) == 1


@pytest.mark.parametrize("is_whole", [True, False])
def test_missing_bytes_are_read_again_and_then_end_the_build(server, monkeypatch, is_whole):
    storage.write_bytes("gs://photos/a", b"0123456789")
    connections, shorter = gcs_files.connections, [1, 2]

    def urlopen(*words, **named):
        answer = connections().urlopen(*words, **named)
        data = answer.data[: -shorter.pop()] if shorter else answer.data
        return SimpleNamespace(status=answer.status, headers=answer.headers, data=data)

    def read():
        return storage.read_bytes("gs://photos/a") if is_whole else storage.read_range("gs://photos/a", 1, 5)

    monkeypatch.setattr(gcs_files, "connections", lambda: SimpleNamespace(urlopen=urlopen))
    assert read() == (b"0123456789" if is_whole else b"12345")
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "0.2")
    shorter += [1] * 1000
    with pytest.raises(storage.ServiceFaultError, match="do not match the object's checksum"):
        read()


def test_a_new_object_is_written_once(server):
    assert storage.write_new("gs://photos/a", b"first")
    assert not storage.write_new("gs://photos/a", b"second")
    assert storage.read_bytes("gs://photos/a") == b"first"


def test_an_object_is_replaced_and_deleted_only_in_the_state_that_was_read(server):
    path = "gs://photos/pointer"
    assert storage.read_state(path) is None
    storage.write_new(path, b"1")
    data, first = storage.read_state(path)
    assert data == b"1"
    assert storage.replace(path, b"2", version=first)
    assert not storage.replace(path, b"3", version=first)
    assert not storage.delete(path, version=first)
    data, second = storage.read_state(path)
    assert data == b"2"
    assert storage.delete(path, version=second)
    assert not storage.delete(path, version=second)
    assert not storage.replace(path, b"3", version=second)
    assert not storage.exists(path)


def test_a_write_whose_answer_was_lost_is_known_to_be_this_ones(server, monkeypatch):
    upload = gcs_files.Blob.upload_from_string

    def upload_twice(self, *arguments, **options):
        upload(self, *arguments, **options)
        upload(self, *arguments, **options)  # as the client does if no answer comes

    monkeypatch.setattr(gcs_files.Blob, "upload_from_string", upload_twice)
    assert storage.write_new("gs://photos/a", b"first")
    assert storage.replace("gs://photos/a", b"second", version=storage.read_state("gs://photos/a")[1])
    assert not storage.write_new("gs://photos/a", b"third")


@pytest.mark.parametrize(("status", "is_fault"), [(403, True), (400, True), (404, False)])
def test_a_refused_request_is_a_service_fault_and_a_missing_object_is_not(server, status, is_fault):
    storage.write_bytes("gs://photos/a", b"0123456789")
    server.refuse("GET", "/a", status=status)
    with pytest.raises(storage.StorageError) as raised:
        storage.read_bytes("gs://photos/a")
    assert storage.is_service_fault(raised.value) == is_fault


@pytest.mark.parametrize("count", [0, 1, 3, 32, 33, 1100])
def test_objects_are_joined_in_order_by_the_service(server, count):
    sources = [f"gs://photos/parts/{number}" for number in range(count)]
    for number, source in enumerate(sources):
        server.client().bucket("photos").blob(source.removeprefix("gs://photos/")).upload_from_string(b"%d " % number)
    content = b"".join(b"%d " % number for number in range(count))
    server.requests.clear()
    crc = storage.concatenate(sources, "gs://photos/shard", staging="gs://photos/staging")
    assert not any(request.startswith("GET") for request in server.requests)
    assert storage.read_bytes("gs://photos/shard") == content
    assert crc == int.from_bytes(google_crc32c.Checksum(content).digest(), "big")
    assert len(listed()) == count + 1


def test_objects_of_another_bucket_and_files_are_streamed(server, tmp_path):
    storage.write_bytes("gs://other/a", b"from a bucket ")
    (tmp_path / "b").write_bytes(b"and a disk")
    storage.concatenate(["gs://other/a", str(tmp_path / "b")], "gs://photos/shard")
    assert storage.read_bytes("gs://photos/shard") == b"from a bucket and a disk"
    assert storage.concatenate(["gs://other/a"], str(tmp_path / "c")) is None
    assert (tmp_path / "c").read_bytes() == b"from a bucket "


def test_a_missing_source_is_named_and_nothing_is_left(server):
    sources = [f"gs://photos/parts/{number}" for number in range(70)]
    for source in sources[:-1]:
        storage.write_bytes(source, b"1")
    with pytest.raises(storage.StorageError, match="gs://photos/parts/69 does not exist"):
        storage.concatenate(sources, "gs://photos/shard", staging="gs://photos/staging")
    assert len(listed()) == 69


NAMES = ["run?1", "run[1]", "run*", "a#1", "50%", "a b", "..", "a..b", "ü/文", "%2F", "a+b&c=d", "[!a]", "q?#%20"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_an_object_is_taken_literally(server, name):
    root, path = f"gs://photos/{name}", f"gs://photos/{name}/x/{name}"
    storage.write_bytes(path, b"0123")
    assert storage.exists(path)
    assert storage.is_folder(root)
    assert storage.stat(path).size == 4
    assert storage.read_bytes(path) == b"0123"
    assert storage.read_range(path, 1, 2) == b"12"
    with storage.open_read(path) as file:
        assert file.read() == b"0123"
    assert [entry.path for entry in storage.list_files(root, literal=True)] == [path]
    assert storage.list_folders(root) == ["x"]
    assert storage.list_folders("gs://photos") == [name.partition("/")[0]]
    storage.concatenate([path, path], f"{root}/y")
    data, version = storage.read_state(f"{root}/y")
    assert data == b"01230123"
    assert storage.replace(f"{root}/y", b"new", version=version)
    storage.write_bytes("gs://photos/run1/kept", b"")
    storage.delete_tree(root)
    assert listed() == ["run1/kept"]


def test_empty_components_of_names_are_kept(server):
    storage.write_bytes("gs://photos/a//b/c", b"0123")
    assert [entry.path for entry in storage.list_files("gs://photos/a", literal=True)] == ["gs://photos/a//b/c"]
    assert storage.read_bytes("gs://photos/a//b/c") == b"0123"
    assert storage.list_folders("gs://photos/a") == [""]


_HOLDER = """
import sys
from beam_tfrecords.storage.lease import Lease
lease = Lease.take(sys.argv[1], "build 7 on host a", renewal=0.2, stale=3.0)
print(isinstance(lease, Lease), flush=True)
sys.stdin.read()
lease.check()
lease.give_back()
"""
LEASE = "gs://photos/out/.build/lease"
SHORT = {"renewal": 0.2, "stale": 3.0}


@contextlib.contextmanager
def another_process():
    """Another process that holds the lease."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, LEASE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "True\n"
            yield holder
        finally:
            holder.kill()


def test_one_process_at_a_time_has_the_lease(server):
    with another_process() as holder:
        time.sleep(4)  # longer than until it is stale
        assert Lease.take(LEASE, "me", **SHORT) == "build 7 on host a"
        holder.communicate()
        assert holder.returncode == 0
    with Lease.take(LEASE, "me", **SHORT) as lease:
        lease.check()
    assert listed() == []


def test_the_lease_of_a_killed_process_is_taken_at_once(server):
    with another_process() as holder:
        assert Lease.take(LEASE, "me") == "build 7 on host a"
        holder.kill()
        holder.wait()
        with Lease.take(LEASE, "me") as lease:
            lease.check()
    assert listed() == []


def test_the_lease_of_a_process_elsewhere_is_waited_for_and_taken_when_it_is_stale(server, monkeypatch):
    waits: list[tuple[str, float]] = []
    with another_process() as holder:
        holder.kill()
        holder.wait()
        storage.write_bytes(LEASE, storage.read_bytes(LEASE).replace(b"pid:[", b"pid:[1"))
        monkeypatch.setattr(time, "time", lambda: 1e10)  # this machine's clock is not asked
        with Lease.take(LEASE, "me", waiting=lambda *words: waits.append(words), **SHORT) as lease:
            lease.check()
    ((who, most),) = waits
    assert who == "build 7 on host a"
    assert 0 < most <= SHORT["stale"]
    assert listed() == []


def test_a_lease_that_another_has_taken_is_lost_and_stays_the_others(server):
    lease = Lease.take(LEASE, "me", **SHORT)
    other = b'{"holder": "another", "id": "1"}'
    assert storage.replace(LEASE, other, version=storage.read_state(LEASE)[1])
    time.sleep(0.05)  # longer than an earlier check counts
    with pytest.raises(BuildError, match="has lost its lease"):
        lease.check()
    lease.give_back()
    assert storage.read_bytes(LEASE) == other


@pytest.mark.parametrize("name", ["run?1", "run[1]", "a#1 50%"])
def test_a_folder_or_file_named_like_a_glob_is_an_input(server, name):
    storage.write_bytes(f"gs://photos/{name}/cat/1.jpg", b"1")
    storage.write_bytes(f"gs://photos/{name}.tar", b"2")
    assert not has_wildcards(f"gs://photos/{name}")
    assert not has_wildcards(f"gs://photos/{name}.tar")
    assert has_wildcards("gs://photos/*.tar")
    folder = f"gs://photos/{name}"
    images = open_source(folder).source
    assert [sample.key for sample in one_by_one(images.read(WHOLE, Tally(), StagingFiles("", "")))] == ["cat/1.jpg"]
    (found,) = find_files(Inputs([f"gs://photos/{name}.tar"]), by_name=True)
    assert found == Partition.of(storage.stat(f"gs://photos/{name}.tar"))
