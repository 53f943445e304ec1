"""Files in s3://, against a real HTTP server: requests, retries, credentials and errors."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import gcs_client, s3_client
from beam_tfrecords.storage import s3 as s3_module
from tests.integration.servers import processes, proxy, s3

pytestmark = pytest.mark.nightly

MIB = 1 << 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.S3Server]:
    with s3.s3_server(tmp_path_factory.mktemp("s3"), buckets=("photos",)) as server:
        yield server


@pytest.fixture
def server(running: s3.S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3.S3Server]:
    """A storage service with the empty bucket s3://photos."""
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "2")
    s3_client._make_client.cache_clear()
    running.requests.clear()
    yield running
    running.forget_faults()
    for name in names(running):
        running.client().delete_object(Bucket="photos", Key=name)
    for upload in uploads(running):
        running.client().abort_multipart_upload(Bucket="photos", Key=upload["Key"], UploadId=upload["UploadId"])


@pytest.fixture
def no_credentials(server: s3.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    s3_client._make_client.cache_clear()


def methods(server: s3.S3Server) -> list[str]:
    return [request.partition(" ")[0] for request in server.requests]


def uploads(server: s3.S3Server) -> list[dict[str, str]]:
    return server.client().list_multipart_uploads(Bucket="photos").get("Uploads", [])


def names(server: s3.S3Server) -> list[str]:
    return [found["Key"] for found in server.client().list_objects_v2(Bucket="photos").get("Contents", ())]


def test_small_files_take_one_request_each(server):
    for data in (b"", b"0123456789", bytes(8 * MIB)):
        storage.write_bytes("s3://photos/a b#c", data)
    storage.read_bytes("s3://photos/a b#c")
    storage.read_range("s3://photos/a b#c", 1, 2)
    storage.write_new("s3://photos/new", b"")
    _, version = storage.read_state("s3://photos/new")
    storage.replace("s3://photos/new", b"1", version=version)
    assert methods(server) == ["PUT", "PUT", "PUT", "GET", "GET", "PUT", "GET", "PUT"]


def test_large_files_go_in_parts_that_are_sent_again_where_they_are_refused(server):
    data = os.urandom(40 * MIB)
    server.refuse("PUT", "partNumber=2")
    storage.write_bytes("s3://photos/a", data)
    assert sorted(methods(server)) == ["POST", "POST", "PUT", "PUT", "PUT", "PUT"]
    assert storage.read_bytes("s3://photos/a") == data


@pytest.mark.parametrize("lost", ["uploads", "uploadId="], ids=["the beginning", "the end"])
@pytest.mark.parametrize("joins", [False, True], ids=["upload", "join"])
def test_an_upload_in_parts_goes_on_where_an_answer_is_lost(server, lost, joins):
    pieces = [os.urandom(20 * MIB) for _ in range(2)]
    for number, data in enumerate(pieces):
        storage.write_bytes(f"s3://photos/{number}", data)
    server.add(proxy.Fault(proxy.Kind.LOSE, "POST", lost))
    if joins:
        storage.concatenate(["s3://photos/0", "s3://photos/1"], "s3://photos/whole")
    else:
        storage.write_bytes("s3://photos/whole", b"".join(pieces))
    assert not server.has_faults()
    assert storage.read_bytes("s3://photos/whole") == b"".join(pieces)
    # Nobody knows the number of an upload whose first answer is lost; a lifecycle rule of the bucket aborts it.
    assert len(uploads(server)) == (lost == "uploads")


def test_one_request_too_many_is_sent_again(server):
    for method in ("PUT", "HEAD", "GET"):
        server.refuse(method, "/photos/a", status=429)
    storage.write_bytes("s3://photos/a", b"0123")
    assert storage.stat("s3://photos/a").size == 4
    assert storage.read_bytes("s3://photos/a") == b"0123"
    assert not server.has_faults()


def test_an_upload_that_fails_leaves_nothing(server):
    server.refuse("PUT", "partNumber=2", times=1000)
    with pytest.raises(BuildError, match=r"^s3://photos/a does not answer: SlowDown: refused by the test, for \d s$"):
        storage.write_bytes("s3://photos/a", bytes(40 * MIB))
    assert names(server) == []
    assert uploads(server) == []


def test_an_open_object_is_read_in_large_pieces(server):
    data = os.urandom(20 * MIB)
    storage.write_bytes("s3://photos/a", data)
    server.requests.clear()
    with storage.open_read("s3://photos/a") as file:
        assert b"".join(map(bytes, storage.read_chunks(file))) == data
    assert methods(server) == ["HEAD", "GET", "GET", "GET"]  # its size, then 8 MiB each


def test_what_is_stored_compressed_is_read_compressed(server):
    body = b"\x1f\x8b no stream"
    server.client().put_object(Bucket="photos", Key="a", Body=body, ContentEncoding="gzip")
    assert storage.read_bytes("s3://photos/a") == body
    assert storage.read_range("s3://photos/a", 0, 4) == body[:4]


def test_a_download_that_breaks_off_is_begun_again(server):
    data = os.urandom(3 * MIB)
    storage.write_bytes("s3://photos/a", data)
    server.break_off("GET", "/photos/a", times=2)
    assert storage.read_bytes("s3://photos/a") == data
    server.break_off("GET", "/photos/a", times=2)
    assert storage.read_range("s3://photos/a", 5, 2 * MIB) == data[5 : 5 + 2 * MIB]
    server.break_off("GET", "/photos/a", times=100)
    with pytest.raises(BuildError, match=r"^s3://photos/a does not answer: the connection broke off, for \d s$"):
        storage.read_bytes("s3://photos/a")


def test_a_conditional_write_whose_answer_is_lost_has_happened(server):
    server.lose("PUT", "/photos/a")
    assert storage.write_new("s3://photos/a", b"1")
    _, version = storage.read_state("s3://photos/a")
    server.lose("PUT", "/photos/a")
    assert storage.replace("s3://photos/a", b"2", version=version)
    assert storage.read_bytes("s3://photos/a") == b"2"
    server.lose("PUT", "/photos/a")
    assert not storage.write_new("s3://photos/a", b"3")


def test_a_conditional_write_beside_another_one_is_tried_again(server):
    server.refuse("PUT", "/photos/a", status=409, code="ConditionalRequestConflict", times=2)
    assert storage.write_new("s3://photos/a", b"1")
    assert len(server.requests) == 3


def test_two_conditional_writes_of_the_same_bytes_are_two(server):
    assert storage.write_new("s3://photos/a", b"same")
    assert not storage.write_new("s3://photos/a", b"same")


def test_deletes_take_a_request_for_a_thousand(server):
    client = server.client()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: client.put_object(Bucket="photos", Key=f"build/{number}"), range(1003)))
    storage.write_bytes("s3://photos/builds", b"")
    server.requests.clear()
    storage.delete_tree("s3://photos/build")
    assert sorted(methods(server)) == ["GET", "GET", "POST", "POST"]
    assert names(server) == ["builds"]


def test_a_limited_listing_asks_for_so_many(server):
    for number in range(3):
        storage.write_bytes(f"s3://photos/{number}", b"")
    server.requests.clear()
    assert len(list(storage.list_files("s3://photos", limit=2))) == 2
    (request,) = server.requests
    assert "max-keys=2" in request


def test_sources_are_joined_within_the_store(server):
    sizes = [6 * MIB, 0, 3 * MIB, 1, 7 * MIB, 2 * MIB, 1 * MIB]
    pieces = [os.urandom(size) for size in sizes]
    paths = [f"s3://photos/part {number}#?" for number in range(len(sizes))]
    for path, data in zip(paths, pieces, strict=True):
        storage.write_bytes(path, data)
    server.requests.clear()
    storage.concatenate(paths, "s3://photos/whole")
    assert storage.read_bytes("s3://photos/whole") == b"".join(pieces)
    # 6 MiB and what is left of 7 MiB are copied; the rest are two parts.
    assert sum("partNumber" in request for request in server.requests) == 4
    assert sum(request.startswith("GET /photos/part") for request in server.requests) == 5
    assert uploads(server) == []


def test_large_ranges_are_joined_within_the_store(server):
    data = os.urandom(20 * MIB)
    storage.write_bytes("s3://photos/part", data)
    server.requests.clear()
    ranges = [storage.FileRange("s3://photos/part", 6 * MIB, 14 * MIB), storage.FileRange("s3://photos/part", 0, 9)]
    storage.concatenate(ranges, "s3://photos/whole")
    assert storage.read_bytes("s3://photos/whole") == data[6 * MIB :] + data[:9]
    # The 14 MiB are copied; the 9 bytes are read and written.
    assert sum("partNumber" in request for request in server.requests) == 2
    assert sum(request.startswith("GET /photos/part") for request in server.requests) == 1


@pytest.mark.parametrize("fault", ["missing", "refused"])
def test_joining_that_fails_leaves_nothing(server, fault):
    paths = [f"s3://photos/{number}" for number in range(4)]
    for path in paths:
        storage.write_bytes(path, bytes(6 * MIB))
    if fault == "missing":
        storage.delete_files([paths[2]])
        with pytest.raises(storage.StorageError, match=r"^s3://photos/2 does not exist$"):
            storage.concatenate(paths, "s3://photos/whole")
    else:
        server.refuse("PUT", "partNumber=3", times=1000)
        with pytest.raises(
            BuildError, match=r"^s3://photos/2 does not answer: SlowDown: refused by the test, for \d s$"
        ):
            storage.concatenate(paths, "s3://photos/whole")
    assert "whole" not in names(server)
    assert uploads(server) == []


def test_small_sources_are_joined_in_one_request_and_have_a_checksum(server):
    for number in range(3):
        storage.write_bytes(f"s3://photos/{number}", b"%d" % number)
    assert storage.concatenate(
        [f"s3://photos/{number}" for number in range(3)], "s3://photos/whole"
    ) == google_crc32c.value(b"012")


@pytest.mark.parametrize(("told", "found"), [("4waSgw==", 0xE3069283), ("4waSgw==-2", None), ("", None)])
def test_the_checksum_that_the_store_has_of_the_whole_is_returned(server, told, found):
    storage.write_bytes("s3://photos/0", bytes(9 * MIB))
    checksum = f"<ChecksumCRC32C>{told}</ChecksumCRC32C>" if told else ""
    text = f"<CompleteMultipartUploadResult><ETag>1</ETag>{checksum}</CompleteMultipartUploadResult>"
    # Moto's own answer has none.
    server.answer("POST", "uploadId", status=200, text=text)
    assert storage.concatenate(["s3://photos/0"], "s3://photos/whole") == found


def test_a_store_that_knows_no_checksums_is_not_asked_for_one(server, monkeypatch):
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    s3_client._make_client.cache_clear()
    storage.write_bytes("s3://photos/0", bytes(9 * MIB))
    storage.concatenate(["s3://photos/0"], "s3://photos/whole")
    assert (
        server.client()
        .get_object_attributes(Bucket="photos", Key="whole", ObjectAttributes=["Checksum"])
        .get("Checksum", {})
        .get("ChecksumCRC32C")
        is None
    )


@pytest.mark.parametrize("module", [s3_client, gcs_client])
def test_a_client_is_asked_for_while_it_is_made(module):
    # By what the garbage collector closes in the same thread.
    with module._client_lock:
        assert module._client_lock.acquire(blocking=False)
        module._client_lock.release()


@pytest.mark.parametrize("read", ["whole", "range", "open"])
def test_another_version_is_found_in_the_answer_of_a_store_that_ignores_preconditions(server, monkeypatch, read):
    storage.write_bytes("s3://photos/a", b"first")
    version = storage.stat("s3://photos/a").version
    storage.write_bytes("s3://photos/a", b"other")
    get = s3_module.client().get_object
    monkeypatch.setattr(
        s3_module.client(),
        "get_object",
        lambda **options: get(**{name: value for name, value in options.items() if name != "IfMatch"}),
    )
    reads = {
        "whole": lambda: storage.read_bytes("s3://photos/a", version=version),
        "range": lambda: storage.read_range("s3://photos/a", 0, 5, version=version),
        "open": lambda: storage.open_read("s3://photos/a", version=version).read(),
    }
    with pytest.raises(storage.ChangedError):
        reads[read]()


@pytest.fixture
def read_before(server) -> s3.S3Server:
    """The store, after an object of its bucket was read: others are read without the client."""
    storage.write_bytes("s3://photos/first", b"first")
    storage.read_bytes("s3://photos/first")
    server.requests.clear()
    return server


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """The objects that the client of the library is asked for."""
    names = []
    client = s3_client.client()
    get = client.get_object
    monkeypatch.setattr(client, "get_object", lambda **options: (names.append(options["Key"]), get(**options))[1])
    return names


@pytest.mark.parametrize("name", ["plain.jpg", "a b#c~d/é+&;=@:!*'()/%41.jpg", "a//b", "../up", "?a=b"])
def test_the_library_is_asked_for_the_first_object_of_a_bucket_alone(read_before, asked, name):
    path = f"s3://photos/{name}"
    storage.write_bytes(path, b"0123456789")
    version = storage.stat(path).version
    read_before.requests.clear()
    assert storage.read_bytes(path, version=version, size=10) == b"0123456789"
    assert storage.read_range(path, 2, 3, version=version) == b"234"
    assert storage.read_state(path) == (b"0123456789", version)
    assert (methods(read_before), asked) == (["GET"] * 3, [])


def test_requests_are_signed_as_the_library_signs_them(read_before, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("BEAM_TFRECORDS_REQUESTER_PAYS", "true")
    s3_client._make_client.cache_clear()
    seen = []
    monkeypatch.setattr(
        proxy.Handler,
        "do_GET",
        lambda self, get=proxy.Handler.do_GET: (seen.append(dict(self.headers.items())), get(self))[1],
    )
    version = storage.stat("s3://photos/first").version
    for _ in range(2):
        storage.read_range("s3://photos/first", 1, 2, version=version)
    library, ours = seen
    of_one_request = {"amz-sdk-invocation-id", "amz-sdk-request"}
    assert {name.lower() for name in library} - of_one_request == {name.lower() for name in ours}
    for name in ("X-Amz-Security-Token", "x-amz-request-payer", "Range", "If-Match", "x-amz-checksum-mode"):
        assert ours[name] == library[name], name

    def parts(headers):
        scope, names, _ = headers["Authorization"].split(", ")
        signed = set(names.removeprefix("SignedHeaders=").split(";"))
        return scope, signed - of_one_request

    assert parts(ours) == parts(library)


def test_other_credentials_sign_other_requests(server, tmp_path, monkeypatch):
    # Those of a program expire, and are asked for again.
    program = tmp_path / "program.py"
    program.write_text(
        "import datetime, json, pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1]); number = len(file.read_text()) if file.exists() else 0\n"
        "file.write_text('x' * (number + 1))\n"
        "now = datetime.datetime.now(datetime.timezone.utc)\n"
        "until = now + datetime.timedelta(seconds=60)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': f'ID{number}', 'SecretAccessKey': 'secret', "
        "'SessionToken': f'token{number}', 'Expiration': until.isoformat()}))\n"
    )
    (tmp_path / "config").write_text(f"[default]\ncredential_process = {sys.executable} {program} {tmp_path}/count\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    s3_client._make_client.cache_clear()
    seen = []
    monkeypatch.setattr(
        proxy.Handler,
        "do_GET",
        lambda self, get=proxy.Handler.do_GET: (seen.append(dict(self.headers.items())), get(self))[1],
    )
    storage.write_bytes("s3://photos/a", b"0123")
    for _ in range(3):
        assert storage.read_bytes("s3://photos/a") == b"0123"
    keys = [one["Authorization"].partition("Credential=")[2].partition("/")[0] for one in seen]
    assert len(set(keys)) == 3
    assert [one["X-Amz-Security-Token"] for one in seen] == [key.replace("ID", "token") for key in keys]


@pytest.mark.parametrize("kind", [proxy.Kind.REFUSE, proxy.Kind.RESET, proxy.Kind.SHORT])
def test_a_read_that_fails_is_left_to_the_library(read_before, asked, kind):
    storage.write_bytes("s3://photos/a", b"0123")
    storage.take_request_metrics()
    read_before.add(proxy.Fault(kind, "GET", "/photos/a", status=503, text=read_before.error_text(503)))
    assert storage.read_bytes("s3://photos/a") == b"0123"
    assert not read_before.has_faults()
    assert asked == ["a"]
    found = storage.take_request_metrics()
    assert (found["read"], found["retries"]) == (2, 1)
    assert storage.read_bytes("s3://photos/a") == b"0123"
    assert asked == ["a"]


@pytest.mark.parametrize("name", ["crc32c", "crc32", "sha1", "sha256"])
def test_an_object_with_another_checksum_is_downloaded_again(read_before, asked, monkeypatch, name):
    storage.write_bytes("s3://photos/a", b"0123")
    told = {
        "crc32c": google_crc32c.value(b"0123").to_bytes(4, "big"),
        "crc32": zlib.crc32(b"0123").to_bytes(4, "big"),
        "sha1": hashlib.sha1(b"0123").digest(),
        "sha256": hashlib.sha256(b"0123").digest(),
    }[name]
    answers = []

    def pass_on(self, body, pass_on=proxy.Handler.pass_on):
        answer = pass_on(self, body)
        kept = {key: value for key, value in answer.headers.items() if not key.lower().startswith("x-amz-checksum")}
        answers.append(answer)
        return answer._replace(
            headers={**kept, f"x-amz-checksum-{name}": base64.b64encode(told).decode()},
            content=b"0124" if len(answers) == 1 else answer.content,
        )

    monkeypatch.setattr(proxy.Handler, "pass_on", pass_on)
    assert storage.read_bytes("s3://photos/a") == b"0123"
    assert (len(answers), asked) == (2, ["a"])


def test_what_the_store_says_of_an_object_is_said_after_others_were_read(read_before):
    storage.write_bytes("s3://photos/a", b"0123")
    version = storage.stat("s3://photos/a").version
    storage.write_bytes("s3://photos/a", b"4567")
    with pytest.raises(storage.ChangedError):
        storage.read_bytes("s3://photos/a", version=version)
    with pytest.raises(storage.StorageError, match=r"^s3://photos/b does not exist$"):
        storage.read_bytes("s3://photos/b")
    read_before.requests.clear()
    assert storage.read_state("s3://photos/b") is None
    assert methods(read_before) == ["GET"]
    assert storage.read_range("s3://photos/a", 9, 1) == b""
    read_before.refuse("GET", "/photos/a", status=403, code="AccessDenied", times=2)
    with pytest.raises(storage.AccessDeniedError):
        storage.read_bytes("s3://photos/a")
    read_before.refuse("GET", "/photos/a", status=400, code="ExpiredToken")
    with pytest.raises(BuildError, match="credentials are refused: ExpiredToken"):
        storage.read_bytes("s3://photos/a")
    assert storage.read_bytes("s3://photos/a") == b"4567"


def test_a_proxy_is_left_to_the_library(read_before, monkeypatch):
    class Handler(proxy.Handler):
        def pass_on(self, body):
            return proxy.Answer(200, {"ETag": '"1"'}, self.path.encode())

    with proxy.running(Handler, lambda endpoint: s3.S3Server(endpoint, 0, {})) as other:
        monkeypatch.setenv("HTTP_PROXY", other.endpoint)
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.invalid")
        s3_client._make_client.cache_clear()
        for _ in range(2):
            assert storage.read_bytes("s3://photos/first") == b"http://store.invalid/photos/first"
    s3_client._make_client.cache_clear()


USES: dict[str, Callable[[str], object]] = {
    "read_bytes": storage.read_bytes,
    "exists": storage.exists,
    "stat": storage.stat,
    "open_read": storage.open_read,
    "read_range": lambda path: storage.read_range(path, 0, 4),
    "read_state": storage.read_state,
    "write": lambda path: storage.write_bytes(path, b""),
    "large write": lambda path: storage.write_bytes(path, bytes(9 * MIB)),
    "write_new": lambda path: storage.write_new(path, b""),
    "replace": lambda path: storage.replace(path, b"", version="0"),
    "delete": lambda path: storage.delete(path, version="0"),
    "list": lambda path: list(storage.list_files(path)),
    "folders": storage.list_folders,
    "delete_files": lambda path: storage.delete_files([f"{path}/b"]),
    "concatenate": lambda path: storage.concatenate([path], path),
}
every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


def refuse_all(server: s3.S3Server, status: int, code: str) -> None:
    for method in ("HEAD", "GET", "PUT", "POST", "DELETE"):
        server.refuse(method, "", status=status, code=code, times=1000)


@every_use
@pytest.mark.parametrize("silence", ["refuses every request", "is not running"])
def test_a_store_that_does_not_answer_ends_the_build(server, monkeypatch, silence, use):
    if silence == "refuses every request":
        refuse_all(server, 503, "SlowDown")
    else:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{processes.free_port()}")
    with pytest.raises(BuildError, match=r"^s3://photos/a does not answer: [^\n<]*$"):
        use("s3://photos/a")


@every_use
def test_a_refused_permission_is_a_fault_of_the_store(server, use):
    refuse_all(server, 403, "AccessDenied")
    denied = (
        r"^s3://photos/a: access denied: the credentials lack the permission s3:\w+ \(AccessDenied: Access Denied\)$"
    )
    with pytest.raises(storage.AccessDeniedError, match=denied) as raised:
        use("s3://photos/a")
    assert storage.is_service_fault(raised.value)


@every_use
@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "InvalidAccessKeyId"), (403, "SignatureDoesNotMatch"), (400, "ExpiredToken"), (401, "Unauthorized")],
)
def test_refused_credentials_end_the_build(server, status, code, use):
    refuse_all(server, status, code)
    with pytest.raises(BuildError, match=f"^s3://photos/a: the AWS credentials are refused: {code}: [^\n<]*$"):
        use("s3://photos/a")


def deletes(code: str) -> str:
    failed = f"<Error><Key>2</Key><Code>{code}</Code><Message>refused by\nthe test</Message></Error>"
    return f"<DeleteResult>{failed}</DeleteResult>"


def test_objects_that_cannot_be_deleted_are_an_error(server):
    server.answer("POST", "delete", status=200, text=deletes("AccessDenied"))
    with pytest.raises(
        storage.AccessDeniedError, match=r"^s3://photos: access denied: AccessDenied: refused by the test$"
    ):
        storage.delete_files(["s3://photos/1", "s3://photos/2"])


def test_objects_that_the_store_fails_to_delete_are_deleted_again(server):
    storage.write_bytes("s3://photos/2", b"")
    server.answer("POST", "delete", status=200, text=deletes("InternalError"), times=2)
    storage.delete_files(["s3://photos/1", "s3://photos/2"])
    assert names(server) == []
    server.answer("POST", "delete", status=200, text=deletes("InternalError"), times=1000)
    with pytest.raises(
        BuildError, match=r"^s3://photos does not answer: InternalError: refused by the test, for \d+ s$"
    ):
        storage.delete_files(["s3://photos/1", "s3://photos/2"])


@pytest.mark.usefixtures("no_credentials")
def test_a_public_object_is_read_without_credentials(server):
    server.client().put_object(Bucket="photos", Key="a", Body=b"public", ACL="public-read")
    server.client().put_object(Bucket="photos", Key="b", Body=b"private")
    assert storage.read_bytes("s3://photos/a") == b"public"
    with pytest.raises(BuildError, match=r"^s3://photos/b: access denied, and no AWS credentials were found; "):
        storage.read_bytes("s3://photos/b")


def test_credentials_that_come_later_are_found(server, no_credentials, monkeypatch):
    server.client().put_object(Bucket="photos", Key="a", Body=b"private")
    with pytest.raises(BuildError):
        storage.read_bytes("s3://photos/a")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    assert storage.read_bytes("s3://photos/a") == b"private"


@pytest.mark.usefixtures("no_credentials")
def test_a_profile_that_is_not_there_ends_the_build(monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(BuildError, match=r"^s3://photos/a: no AWS credentials can be used: .*\(nobody\)[^\n]*$"):
        storage.read_bytes("s3://photos/a")


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_endpoint_that_is_no_url_is_named(server, monkeypatch, variable):
    monkeypatch.setenv(variable, "minio:9000")
    with pytest.raises(BuildError, match=r"minio:9000.*; check AWS_ENDPOINT_URL$"):
        storage.read_bytes("s3://photos/a")


@pytest.mark.parametrize("status", [200, 403, 404, 502])
def test_an_answer_that_is_not_one_of_s3_is_one_line(server, status):
    for method in ("GET", "PUT"):
        page = "<html>\n<body>welcome"
        server.answer(method, "", status=status, text=page, times=1000)
    for use in (storage.list_folders, lambda path: storage.write_bytes(path, b"")):
        with pytest.raises((BuildError, OSError), match=r"^s3://photos/a[: ][^\n<]*$"):
            use("s3://photos/a")


@pytest.mark.parametrize("path", ["s3://", "s3://photos*/a", "s3:///a"])
def test_a_path_needs_the_name_of_a_bucket(path):
    with pytest.raises(storage.StorageError, match="is not the name of a bucket"):
        list(storage.list_files(path))


@pytest.mark.parametrize("path", ["s3://UPPER_case+/a", "s3://b c/a"])
def test_a_name_that_no_bucket_has_is_one_line(server, path):
    with pytest.raises(storage.StorageError, match=rf"^{path.replace('+', '.')}: [^\n]*$"):
        storage.read_bytes(path)


def test_a_bucket_is_no_object(server):
    assert not storage.exists("s3://photos")
    with pytest.raises(storage.StorageError, match=r"^s3://photos is a bucket, not an object$"):
        storage.read_bytes("s3://photos")


def test_threads_share_a_client(server, caplog):
    storage.write_bytes("s3://photos/a", b"0123")
    with caplog.at_level(logging.WARNING), ThreadPoolExecutor(32) as threads:
        assert set(threads.map(storage.read_bytes, ["s3://photos/a"] * 300)) == {b"0123"}
    assert "pool is full" not in caplog.text


def test_a_forked_process_has_a_client_of_its_own(server):
    storage.write_bytes("s3://photos/a", b"0123")
    ours = s3_client.client()
    assert s3_client.client() is ours
    child = os.fork()
    if not child:
        os._exit(int(s3_client.client() is ours or storage.read_bytes("s3://photos/a") != b"0123"))
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_process_does_not_read_the_description_of_the_service_again(server):
    s3_client.client()
    child = os.fork()
    if not child:
        opened: list[str] = []
        sys.addaudithook(lambda event, words: opened.append(str(words[0])) if event == "open" else None)
        s3_client.client()
        os._exit(int(any("/botocore/data/s3/" in path for path in opened)))
    assert os.waitpid(child, 0)[1] == 0
