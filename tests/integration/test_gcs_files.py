"""Files in gs://, against a real storage service."""

from __future__ import annotations

import http.server
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import gcs as gcs_files
from beam_tfrecords.storage import gcs_client
from tests.integration.servers import gcs, processes

pytestmark = pytest.mark.nightly


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[gcs.GcsServer]:
    """A storage service with the empty bucket gs://photos."""
    with gcs.gcs_server(tmp_path, buckets=("photos",)) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        running.requests.clear()
        yield running


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries end after half a second instead of two minutes."""
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "0.5")


def listed(root: str, **options: object) -> list[str]:
    return sorted(entry.path.removeprefix("gs://photos/") for entry in storage.list_files(root, **options))


def write_and_fail(path: str, data: bytes) -> None:
    with storage.open_write(path) as file:
        file.write(data)
        raise ValueError("stop")


def test_a_range_is_shorter_only_at_the_end_of_the_object(server):
    storage.write_bytes("gs://photos/a", b"0123456789")
    storage.write_bytes("gs://photos/empty", b"")
    assert storage.read_bytes("gs://photos/a") == b"0123456789"
    assert storage.read_range("gs://photos/a", 3, 4) == b"3456"
    assert storage.read_range("gs://photos/a", 8, 4) == b"89"
    assert storage.read_range("gs://photos/a", 12, 4) == b""
    assert storage.read_range("gs://photos/a", 3, 0) == b""
    assert storage.read_range("gs://photos/empty", 0, 4) == b""


def test_reading_goes_through_the_proxy_of_the_environment(server, monkeypatch):
    storage.write_bytes("gs://photos/a", b"0123456789")
    seen = []

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(503 if len(seen) == 1 else 200)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"both")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        monkeypatch.delenv("no_proxy", raising=False)
        gcs_client._make_access.cache_clear()
        assert storage.read_bytes("gs://photos/a") == b"both"
        proxy.shutdown()
    gcs_client._make_access.cache_clear()
    assert seen == [f"{server.endpoint}/download/storage/v1/b/photos/o/a?alt=media"] * 2


def test_reading_and_writing_take_one_request_each(server):
    storage.write_bytes("gs://photos/a b#c", memoryview(b"0123456789"))
    storage.read_bytes("gs://photos/a b#c")
    storage.read_range("gs://photos/a b#c", 1, 2)
    _, version = storage.read_state("gs://photos/a b#c")
    assert [request.partition(" ")[0] for request in server.requests] == ["POST", "GET", "GET", "GET"]
    assert storage.stat("gs://photos/a b#c").version == version


def test_what_is_stored_compressed_is_read_compressed(server):
    blob = server.client().bucket("photos").blob("a")
    blob.content_encoding = "gzip"
    blob.upload_from_string(b"\x1f\x8b no stream")
    assert storage.read_bytes("gs://photos/a") == b"\x1f\x8b no stream"
    assert storage.read_range("gs://photos/a", 0, 4) == b"\x1f\x8b n"


def test_an_open_object_is_read_in_large_pieces_from_any_position(server):
    data = os.urandom(20 << 20)
    storage.write_bytes("gs://photos/a", data)
    server.requests.clear()
    with storage.open_read("gs://photos/a") as file:
        assert b"".join(map(bytes, storage.read_chunks(file))) == data
        assert len(server.requests) == 4  # its size, then 8 MiB each
        assert file.seek(-5, os.SEEK_END) == len(data) - 5
        assert file.read() == data[-5:]
        file.seek(1000)
        assert file.read(10) == data[1000:1010]
        assert file.tell() == 1010
    assert storage.stat("gs://photos/a").size == len(data)


def test_refused_requests_of_an_upload_are_sent_again(server):
    data = os.urandom(20 << 20)
    server.refuse("POST", "/upload")
    server.refuse("PUT", "/upload")
    storage.write_bytes("gs://photos/a", data)
    methods = [request.partition(" ")[0] for request in server.requests]
    assert methods == ["POST", "POST", "PUT", "PUT", "PUT"]  # one of each refused; 16 MiB and the rest
    assert storage.read_bytes("gs://photos/a") == data


@pytest.mark.parametrize("size", [10, 20 << 20])
def test_a_failed_block_leaves_no_object(server, size):
    with pytest.raises(ValueError, match="stop"):
        write_and_fail("gs://photos/a", bytes(size))
    assert not list(server.client().list_blobs("photos"))


def test_a_failed_block_leaves_the_earlier_object(server):
    storage.write_bytes("gs://photos/a", b"earlier")
    with pytest.raises(ValueError, match="stop"):
        write_and_fail("gs://photos/a", b"later")
    assert storage.read_bytes("gs://photos/a") == b"earlier"


def test_folders_and_globs_list_the_objects_below_them(server):
    for name in ("1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png", "ab/5.jpg"):
        storage.write_bytes(f"gs://photos/{name}", name.encode())
    assert listed("gs://photos") == ["1.jpg", "a/2.jpg", "a/b/3.jpg", "a/b/4.png", "ab/5.jpg"]
    assert listed("gs://photos/a/") == ["a/2.jpg", "a/b/3.jpg", "a/b/4.png"]
    assert listed("gs://photos/*/*.jpg") == ["a/2.jpg", "ab/5.jpg"]
    assert listed("gs://photos/a/**/*.jpg") == ["a/2.jpg", "a/b/3.jpg"]
    assert listed("gs://photos/[!a]*") == ["1.jpg"]
    assert listed("gs://photos/**", limit=2) == ["1.jpg", "a/2.jpg"]
    assert listed("gs://photos/c") == []
    assert storage.list_folders("gs://photos") == ["a", "ab"]
    assert storage.list_folders("gs://photos/a") == ["b"]
    assert storage.is_folder("gs://photos/a")
    assert not storage.is_folder("gs://photos/1")
    assert storage.exists("gs://photos/a/2.jpg")
    assert not storage.exists("gs://photos/a")
    assert not storage.is_file("gs://photos")


def test_a_listed_object_has_the_fingerprint_of_its_stat(server):
    storage.write_bytes("gs://photos/a", b"0123")
    (entry,) = storage.list_files("gs://photos")
    assert entry == storage.stat("gs://photos/a")
    assert entry.fingerprint == f"4-{server.client().bucket('photos').get_blob('a').generation}"


def test_cleaning_up_makes_no_request_for_single_objects(server):
    bucket = server.client().bucket("photos")
    for number in range(250):
        bucket.blob(f"build/{number}").upload_from_string(b"")
    bucket.blob("builds").upload_from_string(b"")
    server.requests.clear()
    storage.delete_tree("gs://photos/build")
    paths = [request.partition("?")[0] for request in server.requests]
    assert paths == ["GET /storage/v1/b/photos/o", *["POST /batch/storage/v1"] * 3]
    assert listed("gs://photos") == ["builds"]


def test_deleting_a_missing_object_is_no_error_and_deletes_the_others(server):
    for name in ("1", "3"):
        storage.write_bytes(f"gs://photos/{name}", b"")
    storage.delete_files(f"gs://photos/{number}" for number in range(4))
    storage.delete_tree("gs://photos/nothing")
    assert listed("gs://photos") == []


def test_a_refused_batch_is_sent_again(server):
    storage.write_bytes("gs://photos/1", b"")
    server.refuse("POST", "/batch")
    storage.delete_files(["gs://photos/1"])
    assert listed("gs://photos") == []


def test_objects_that_cannot_be_deleted_are_an_error(server):
    server.refuse("POST", "/batch", status=403)
    with pytest.raises(
        storage.AccessDeniedError, match=r"^gs://photos: .* permission storage.objects.delete \(Access denied\.\)$"
    ):
        storage.delete_files(["gs://photos/1"])


@pytest.mark.parametrize(
    "read",
    [
        storage.read_bytes,
        storage.open_read,
        storage.stat,
        lambda path: storage.read_range(path, 0, 4),
        lambda path: storage.read_range(path, 0, 0),
    ],
    ids=["read_bytes", "open_read", "stat", "read_range", "read_range of nothing"],
)
def test_what_is_not_there_or_may_not_be_read_is_an_os_error(server, read: Callable[[str], object]):
    for path in ("gs://photos/gone", "gs://no-bucket/gone"):
        with pytest.raises(storage.StorageError, match=f"^{path} does not exist$"):
            read(path)
    server.refuse("GET", "photos", status=403)
    with pytest.raises(
        storage.AccessDeniedError, match=r"^gs://photos/gone: .* permission storage.objects.get \(Access denied\.\)$"
    ):
        read("gs://photos/gone")


@pytest.mark.parametrize("path", ["gs://", "gs://photos*/a", "gs:///a"])
def test_a_path_needs_the_name_of_a_bucket(path):
    with pytest.raises(storage.StorageError, match="is not the name of a bucket"):
        list(storage.list_files(path))


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize("silence", ["refuses every request", "is not running", "has no credentials"])
@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("gs://photos/a", storage.read_bytes),
        ("gs://photos/a", storage.exists),
        ("gs://photos/a", storage.open_read),
        ("gs://photos/a", lambda path: storage.read_range(path, 0, 4)),
        ("gs://photos/a", lambda path: storage.write_bytes(path, b"")),
        ("gs://photos/a", lambda path: storage.write_bytes(path, bytes(9 << 20))),
        ("gs://photos", lambda path: list(storage.list_files(path))),
        ("gs://photos", storage.list_folders),
        ("gs://photos", lambda path: storage.delete_files([f"{path}/a"])),
    ],
    ids=["read_bytes", "exists", "open_read", "read_range", "write", "large write", "list", "folders", "delete"],
)
def test_a_store_that_does_not_answer_ends_the_build(request, monkeypatch, silence, path, use):
    if silence == "refuses every request":
        server = request.getfixturevalue("server")
        for method in ("GET", "POST"):
            server.refuse(method, "", times=1000)
    elif silence == "is not running":
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{processes.free_port()}")
    else:
        monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file.json")
    no_answer = (
        rf"^{path} does not answer: (503 Service Unavailable: refused by the test|no connection to http\S+), for \d s$"
    )
    no_login = rf"^{path}: the Google credentials cannot be used: File /no/such/file.json was not found.; log in by .*$"
    with pytest.raises(BuildError, match=no_login if silence == "has no credentials" else no_answer):
        use(path)


def test_threads_keep_a_connection_each(server, caplog):
    storage.write_bytes("gs://photos/a", b"0123")
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(16) as threads:
        assert set(threads.map(storage.read_bytes, ["gs://photos/a"] * 200)) == {b"0123"}
    assert "pool is full" not in caplog.text


def test_a_forked_process_has_a_client_of_its_own(server):
    storage.write_bytes("gs://photos/a", b"0123")
    ours = gcs_files.client()
    assert gcs_files.client() is ours
    child = os.fork()
    if not child:
        os._exit(int(gcs_files.client() is ours or storage.read_bytes("gs://photos/a") != b"0123"))
    assert os.waitpid(child, 0)[1] == 0
