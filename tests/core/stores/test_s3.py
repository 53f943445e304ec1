"""What s3:// alone has: reads without the library, signatures, checksums and credentials."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import s3_client
from tests.integration import buckets
from tests.integration.servers import proxy, s3

pytestmark = pytest.mark.nightly

MIB = 1 << 20


@pytest.fixture(scope="module")
def scheme() -> str:
    return "s3"


@pytest.fixture
def server(server: s3.S3Server) -> Iterator[s3.S3Server]:
    """The server, whose bucket is empty again after the test."""
    s3_client._make_client.cache_clear()
    yield server
    server.forget_faults()
    for found in server.client().list_objects_v2(Bucket="photos").get("Contents", ()):
        server.client().delete_object(Bucket="photos", Key=found["Key"])


@pytest.fixture
def no_credentials(server: s3.S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    s3_client._make_client.cache_clear()


def test_a_conditional_write_beside_another_one_is_tried_again(server):
    server.refuse("PUT", "/photos/a", status=409, code="ConditionalRequestConflict", times=2)
    assert storage.write_new("s3://photos/a", b"1")
    assert len(server.requests) == 3


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


@pytest.fixture
def read_before(server) -> s3.S3Server:
    """The store, after an object of its bucket was read: others are read without the client."""
    storage.write_bytes("s3://photos/first", b"first")
    storage.read_bytes("s3://photos/first")
    server.requests.clear()
    return server


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The headers of each GET request from now on."""
    seen, get = list[dict[str, str]](), proxy.Handler.do_GET
    monkeypatch.setattr(proxy.Handler, "do_GET", lambda self: (seen.append(dict(self.headers.items())), get(self))[1])
    return seen


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
    assert ([request.split()[0] for request in read_before.requests], asked) == (["GET"] * 3, [])


def test_requests_are_signed_as_the_library_signs_them(read_before, headers, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("BEAM_TFRECORDS_REQUESTER_PAYS", "true")
    s3_client._make_client.cache_clear()
    version = storage.stat("s3://photos/first").version
    for _ in range(2):
        storage.read_range("s3://photos/first", 1, 2, version=version)
    library, ours = headers
    of_one_request = {"amz-sdk-invocation-id", "amz-sdk-request"}
    assert {name.lower() for name in library} - of_one_request == {name.lower() for name in ours}
    for name in ("X-Amz-Security-Token", "x-amz-request-payer", "Range", "If-Match", "x-amz-checksum-mode"):
        assert ours[name] == library[name], name

    def parts(headers):
        scope, names, _ = headers["Authorization"].split(", ")
        signed = set(names.removeprefix("SignedHeaders=").split(";"))
        return scope, signed - of_one_request

    assert parts(ours) == parts(library)


def test_other_credentials_sign_other_requests(server, headers, tmp_path, monkeypatch):
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
    storage.write_bytes("s3://photos/a", b"0123")
    for _ in range(3):
        assert storage.read_bytes("s3://photos/a") == b"0123"
    keys = [one["Authorization"].partition("Credential=")[2].partition("/")[0] for one in headers]
    assert len(set(keys)) == 3
    assert [one["X-Amz-Security-Token"] for one in headers] == [key.replace("ID", "token") for key in keys]


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
    assert len(read_before.requests) == 1
    assert storage.read_range("s3://photos/a", 9, 1) == b""
    read_before.refuse("GET", "/photos/a", status=403, code="AccessDenied", times=2)
    with pytest.raises(storage.AccessDeniedError):
        storage.read_bytes("s3://photos/a")
    read_before.refuse("GET", "/photos/a", status=400, code="ExpiredToken")
    with pytest.raises(BuildError, match="credentials are refused: ExpiredToken"):
        storage.read_bytes("s3://photos/a")
    assert storage.read_bytes("s3://photos/a") == b"4567"


def test_objects_that_the_store_fails_to_delete_are_deleted_again(server):
    failed = "<Error><Key>2</Key><Code>InternalError</Code><Message>refused by\nthe test</Message></Error>"
    text = f"<DeleteResult>{failed}</DeleteResult>"
    storage.write_bytes("s3://photos/2", b"")
    server.answer("POST", "delete", status=200, text=text, times=2)
    storage.delete_files(["s3://photos/1", "s3://photos/2"])
    assert buckets.files_of("s3://photos") == []
    server.answer("POST", "delete", status=200, text=text, times=1000)
    with pytest.raises(
        BuildError, match=r"^s3://photos does not answer: InternalError: refused by the test, for \d+ s$"
    ):
        storage.delete_files(["s3://photos/1", "s3://photos/2"])


def test_credentials_that_come_later_are_found(server, no_credentials, monkeypatch):
    server.client().put_object(Bucket="photos", Key="a", Body=b"private")
    with pytest.raises(BuildError):
        storage.read_bytes("s3://photos/a")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    assert storage.read_bytes("s3://photos/a") == b"private"


def test_a_forked_process_does_not_read_the_description_of_the_service_again(server):
    s3_client.client()
    child = os.fork()
    if not child:
        opened: list[str] = []
        sys.addaudithook(lambda event, words: opened.append(str(words[0])) if event == "open" else None)
        s3_client.client()
        os._exit(int(any("/botocore/data/s3/" in path for path in opened)))
    assert os.waitpid(child, 0)[1] == 0
