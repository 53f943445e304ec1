"""What stores answer: lost, broken off, changed on the way, refused for a while, and of another version."""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import gcs_client, name_ranges, s3_client
from tests.integration import buckets
from tests.integration.servers import proxy, s3
from tests.integration.servers.proxy import Fault, Kind

pytestmark = pytest.mark.nightly

MIB = 1 << 20
CLIENTS = {"gs": gcs_client, "s3": s3_client}
UPLOAD = {"gs": ("POST", "/upload"), "s3": ("PUT", "")}
# Requests of an upload in parts.
PARTS = {"gs": [("POST", "/upload"), ("PUT", "/upload")], "s3": [("POST", "uploads"), ("PUT", "partNumber=2")]}


def test_requests_that_are_refused_are_sent_again(server, root, scheme):
    data = os.urandom(40 * MIB)
    for method, contains in (*PARTS[scheme], ("GET", root.rpartition("/")[2])):
        server.refuse(method, contains, status=429)
    storage.write_bytes(f"{root}/a", data)
    assert storage.read_bytes(f"{root}/a") == data
    server.refuse("GET" if scheme == "gs" else "HEAD", "/a", status=429)
    assert storage.stat(f"{root}/a").size == len(data)
    server.refuse("POST", "/batch" if scheme == "gs" else "delete")
    storage.delete_files([f"{root}/a"])
    assert not server.has_faults()
    assert buckets.files_of(root) == []


def test_an_upload_that_fails_leaves_nothing(server, root, scheme):
    server.refuse(*PARTS[scheme][1], times=1000)
    with pytest.raises(BuildError, match=rf"^{root}/a does not answer: .*refused by the test, for \d s$"):
        storage.write_bytes(f"{root}/a", bytes(40 * MIB))
    server.forget_faults()
    assert buckets.files_of(root) == []
    assert scheme == "gs" or not buckets.uploads_left(server)


def test_a_download_that_breaks_off_is_begun_again(server, root):
    data = os.urandom(3 * MIB)
    storage.write_bytes(f"{root}/a", data)
    server.break_off("GET", "/a", times=2)
    assert storage.read_bytes(f"{root}/a") == data
    server.break_off("GET", "/a", times=2)
    assert storage.read_range(f"{root}/a", 5, 2 * MIB) == data[5 : 5 + 2 * MIB]
    server.break_off("GET", "/a", times=100)
    with pytest.raises(
        BuildError, match=rf"^{root}/a does not answer: (?:the connection broke off|no connection to .*), for \d s$"
    ):
        storage.read_bytes(f"{root}/a")


@pytest.mark.parametrize("is_whole", [True, False])
def test_missing_bytes_are_asked_for_again(server, root, is_whole):
    storage.write_bytes(f"{root}/a", b"0123456789")

    def read() -> bytes:
        return storage.read_bytes(f"{root}/a", size=10) if is_whole else storage.read_range(f"{root}/a", 1, 5)

    server.add(Fault(Kind.CUT, "GET", "/a", times=2))
    assert read() == (b"0123456789" if is_whole else b"12345")
    assert not server.has_faults()
    server.add(Fault(Kind.CUT, "GET", "/a", times=1000))
    with pytest.raises((storage.ServiceFaultError, BuildError), match=f"^{root}/a"):
        read()


@pytest.mark.parametrize("joins", [False, True], ids=["upload", "join"])
@pytest.mark.parametrize("place", [0, 1], ids=["the beginning", "the end"])
def test_an_upload_in_parts_goes_on_where_an_answer_is_lost(server, root, scheme, place, joins):
    pieces = [os.urandom(6 * MIB) for _ in range(2)]
    for number, data in enumerate(pieces):
        storage.write_bytes(f"{root}/{number}", data)
    lost = [*PARTS["gs"]] if scheme == "gs" else [("POST", "uploads"), ("POST", "uploadId=")]
    if joins and scheme == "gs":
        lost = [("POST", "/compose")] * 2
    server.add(Fault(Kind.LOSE, *lost[place]))
    if joins:
        storage.concatenate([f"{root}/0", f"{root}/1"], f"{root}/whole")
    else:
        storage.write_bytes(f"{root}/whole", b"".join(pieces))
    assert not server.has_faults()
    assert storage.read_bytes(f"{root}/whole") == b"".join(pieces)
    if scheme == "s3":
        # Nobody knows the number of an upload whose first answer is lost; a lifecycle rule of the bucket aborts it.
        left = buckets.uploads_left(server)
        assert len(left) == (place == 0)
        for upload in left:
            server.client().abort_multipart_upload(Bucket="photos", Key=upload["Key"], UploadId=upload["UploadId"])


def test_a_conditional_write_whose_answer_is_lost_has_happened(server, root, scheme):
    server.lose(*UPLOAD[scheme])
    assert storage.write_new(f"{root}/a", b"1")
    _, version = storage.read_state(f"{root}/a")
    server.lose(*UPLOAD[scheme])
    assert storage.replace(f"{root}/a", b"2", version=version)
    assert storage.read_bytes(f"{root}/a") == b"2"
    server.lose(*UPLOAD[scheme])
    assert not storage.write_new(f"{root}/a", b"3")
    assert not server.has_faults()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_another_version_is_found_in_the_answer_of_a_store_that_ignores_preconditions(
    server, root, monkeypatch, method
):
    def without_conditions(self, answer=proxy.Handler.do_GET):
        del self.headers["If-Match"]
        self.path = re.sub(r"[?&](?:generation|ifGenerationMatch)=\d+", "", self.path)
        answer(self)

    path = f"{root}/a"
    storage.write_bytes(path, b"first")
    version, opened = storage.stat(path).version, storage.open_read(path)
    storage.write_bytes(path, b"other")
    monkeypatch.setattr(proxy.Handler, f"do_{method}", without_conditions)
    reads: list[Callable[[], bytes]] = [
        lambda: storage.read_bytes(path, version=version),
        lambda: storage.read_range(path, 0, 5, version=version),
        lambda: storage.open_read(path, version=version).read(),
        opened.read,
    ]
    for _, read in itertools.product(range(2), reads):  # the library's first, and then ours
        with pytest.raises(storage.ChangedError):
            read()


def test_what_is_stored_compressed_is_read_compressed(server, root, scheme):
    name, body = f"{root.rpartition('/')[2]}/a", b"\x1f\x8b no stream"
    if scheme == "gs":
        blob = server.client().bucket("photos").blob(name)
        blob.content_encoding = "gzip"
        blob.upload_from_string(body)
    else:
        server.client().put_object(Bucket="photos", Key=name, Body=body, ContentEncoding="gzip")
    assert storage.read_bytes(f"{root}/a") == body
    assert storage.read_range(f"{root}/a", 0, 4) == body[:4]


def test_an_error_in_the_middle_of_a_listing_is_its_error(server, root, monkeypatch):
    monkeypatch.setattr(name_ranges, "_PAGE", 4)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: storage.write_bytes(f"{root}/{number}", b""), range(90)))
    found = storage.list_files(root)
    next(found)
    server.refuse("GET", "", status=403, times=100)
    with pytest.raises(storage.AccessDeniedError, match=f"^{root}"):
        list(found)


@pytest.mark.parametrize("status", [200, 403, 404, 502])
def test_an_answer_that_is_not_one_of_the_store_is_one_line(server, root, scheme, status):
    for method in ("GET", UPLOAD[scheme][0]):
        server.answer(method, "", status=status, text="<html>\n<body>welcome", times=1000)
    for use in (storage.list_folders, lambda path: storage.write_bytes(path, b"")):
        with pytest.raises((BuildError, OSError), match=rf"^{root}[: ][^\n<]*$"):
            use(root)


def test_what_names_no_bucket_or_no_object_is_refused(server, scheme):
    for path in ("://", "://photos*/a", ":///a"):
        with pytest.raises(storage.StorageError, match="is not the name of a bucket"):
            list(storage.list_files(scheme + path))
    for path in ("://UPPER_case+/a", "://b c/a"):
        with pytest.raises(storage.StorageError, match=rf"^{scheme}{re.escape(path)}[: ][^\n]*$"):
            storage.read_bytes(scheme + path)
    assert not storage.exists(f"{scheme}://photos")
    with pytest.raises(storage.StorageError, match=rf"^{scheme}://photos is a bucket, not an object$"):
        storage.read_bytes(f"{scheme}://photos")


def test_threads_share_a_client_and_a_forked_process_has_its_own(server, root, scheme, caplog):
    storage.write_bytes(f"{root}/a", b"0123")
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(32) as threads:
        assert set(threads.map(storage.read_bytes, [f"{root}/a"] * 300)) == {b"0123"}
    assert "pool is full" not in caplog.text
    client = CLIENTS[scheme].client
    ours = client()
    assert client() is ours
    child = os.fork()
    if not child:
        os._exit(int(client() is ours or storage.read_bytes(f"{root}/a") != b"0123"))
    assert os.waitpid(child, 0)[1] == 0


def test_a_client_is_asked_for_while_it_is_made(scheme):
    # By what the garbage collector closes in the same thread.
    with CLIENTS[scheme]._client_lock:
        assert CLIENTS[scheme]._client_lock.acquire(blocking=False)
        CLIENTS[scheme]._client_lock.release()


def test_requests_go_through_the_proxy_of_the_environment(server, scheme, monkeypatch):
    class Handler(proxy.Handler):
        def pass_on(self, body: bytes) -> proxy.Answer:
            return proxy.Answer(200, {"ETag": '"1"'}, self.path.encode())

    clear = gcs_client._make_access.cache_clear if scheme == "gs" else s3_client._make_client.cache_clear
    with proxy.running(Handler, lambda endpoint: s3.S3Server(endpoint, 0, {})) as other:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, other.endpoint)
        monkeypatch.delenv("no_proxy", raising=False)
        for name in ("AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST"):
            monkeypatch.setenv(name, "http://store.invalid")
        clear()
        for _ in range(2):
            asked = storage.read_bytes(f"{scheme}://photos/first").decode()
            assert asked.startswith("http://store.invalid/")
            assert "photos" in asked
    clear()


def test_every_use_of_a_store_ends_well(server, scheme):
    """Large uploads, joins, conditional writes, listings in pages and deletes, many of each, disturbed."""
    root = f"{scheme}://datasets/uses-1"  # the names decide which requests fail
    small = {f"{root}/many/{number}": b"%d" % number for number in range(120)}
    large = {f"{root}/large/{number}": random.Random(number).randbytes(9 << 20) for number in range(4)}
    server.disturb(0.2, seed=1)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(storage.write_bytes, *zip(*(small | large).items(), strict=True)))
        assert all(pool.map(lambda path: storage.write_new(f"{path}-new", b"first"), small))
        assert not any(pool.map(lambda path: storage.write_new(f"{path}-new", b"second"), small))
        states = list(pool.map(lambda path: storage.read_state(f"{path}-new"), small))
        assert {state[0] for state in states} == {b"first"}
        replaced = [
            storage.replace(f"{path}-new", b"new", version=state[1]) for path, state in zip(small, states, strict=True)
        ]
        assert all(replaced)
        assert [entry.size for entry in pool.map(storage.stat, large)] == [9 << 20] * 4
        assert list(pool.map(storage.read_bytes, small)) == list(small.values())
        ranges = pool.map(lambda path: storage.read_range(path, 5, 1 << 20), large)
        assert list(ranges) == [data[5:][: 1 << 20] for data in large.values()]
    for _ in range(5):
        storage.concatenate([*small, *large], f"{root}/whole", staging=f"{root}/staging")
    with storage.open_read(f"{root}/whole") as file:
        assert file.read() == b"".join([*small.values(), *large.values()])
    for _ in range(20):
        assert len(list(storage.list_files(root, literal=True))) == 245
    storage.delete_files([f"{path}-new" for path in small])
    storage.delete_files(small)
    server.forget_faults()
    assert buckets.files_of(root) == sorted(["whole", *(path[len(root) + 1 :] for path in large)])
    assert scheme == "gs" or not buckets.uploads_left(server)
