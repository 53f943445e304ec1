"""Faults of stores: the exit code by one rule, and the store's own sentence; the table is in docs/exit_codes.md."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.integration import buckets
from tests.integration.servers import s3
from tests.integration.servers.many_objects import many_objects
from tests.progress_lines import without_progress

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))[:6]


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with six photos below SCHEME://photos/in, and the empty bucket SCHEME://datasets."""
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as servers:
        put_photos(scheme)
        yield servers[scheme]


def put_photos(scheme: str) -> None:
    for number, path in enumerate(PHOTOS):
        buckets.write(f"{scheme}://photos/in/cat/{number}.jpg", path.read_bytes())


@pytest.fixture
def server(running: Any) -> Iterator[Any]:
    running.forget_faults()
    yield running
    running.forget_faults()


def convert(scheme: str, *words: str, environment: Mapping[str, str | None] | None = None) -> tuple[int, str]:
    """Exit code of a build from bucket to bucket, and the one line that it says."""
    given = [f"--input={scheme}://photos/in", f"--output={scheme}://datasets/out-{time.monotonic_ns()}"]
    changed_flags = {word.partition("=")[0] for word in words}
    given = [word for word in (*given, "--class_names=cat") if word.partition("=")[0] not in changed_flags]
    changed = {**os.environ, "BEAM_TFRECORDS_RETRY_SECONDS": "1", **(environment or {})}
    ran = subprocess.run(
        [buckets.PROGRAM, "convert", *given, "--image_size=32", "--quiet", *words],
        env={name: value for name, value in changed.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert not buckets.RAW.search(ran.stderr), ran.stderr
    line = without_progress(ran.stderr).strip()
    assert line.count("\n") == 0, line
    return ran.returncode, line


@dataclasses.dataclass(frozen=True)
class Denied:
    """Requests that the store denies, and what it says by the scheme: status, code and sentence.

    Attributes:
      lacks: the permission that is named.
    """

    methods: tuple[str, ...]
    contains: Mapping[str, str]
    said: Mapping[str, tuple[int, str, str]]
    lacks: Mapping[str, str] = dataclasses.field(default_factory=dict)


_ALL = {"gs": "", "s3": ""}
_LIST = {"gs": "/b/photos/o?", "s3": "list-type"}
_IMAGES = {"gs": ".jpg", "s3": ".jpg"}
_OUTPUT = {"gs": "/b/datasets/o", "s3": "/datasets"}
_WRITES = ("PUT", "POST")
_TOO_MANY = {
    "gs": (429, "rateLimitExceeded", "The rate of requests is too high."),
    "s3": (429, "TooManyRequests", "The rate of requests is too high."),
}


def _without(permission: str, amazons: str, methods: tuple[str, ...], contains: Mapping[str, str]) -> Denied:
    """Requests without a permission; Amazon does not name it."""
    sentence = f"a@b.c does not have storage.objects.{permission} access to the Google Cloud Storage object."
    said = {"gs": (403, "forbidden", sentence), "s3": (403, "AccessDenied", "Access Denied")}
    return Denied(methods, contains, said, {"gs": f"storage.objects.{permission}", "s3": f"s3:{amazons}"})


DENIED = {
    "denied list": _without("list", "ListBucket", ("GET",), _LIST),
    "denied get": _without("get", "GetObject", ("GET", "HEAD"), _IMAGES),
    "denied put": _without("create", "PutObject", _WRITES, _OUTPUT),
    "denied read of the output": _without("get", "GetObject", ("GET", "HEAD"), _OUTPUT),
    "quota": Denied(
        _WRITES,
        _OUTPUT,
        {"gs": (403, "quotaExceeded", "The quota is used up."), "s3": (403, "QuotaExceeded", "The quota is used up.")},
    ),
    "a key that is disabled": Denied(
        _WRITES,
        _OUTPUT,
        {
            "gs": (400, "kmsKeyDisabled", "The Cloud KMS key is disabled."),
            "s3": (400, "KMS.DisabledException", "arn:aws:kms:eu-west-1:1:key/2 is disabled."),
        },
    ),
    "503 for ever": Denied(
        buckets.EVERY_METHOD,
        _ALL,
        {"gs": (503, "backendError", "Try later."), "s3": (503, "SlowDown", "Please reduce your request rate.")},
    ),
    "429 for ever": Denied(buckets.EVERY_METHOD, _ALL, _TOO_MANY),
    "429 for writes": Denied(_WRITES, _OUTPUT, _TOO_MANY),
}


@pytest.mark.parametrize("name", DENIED)
def test_what_a_store_refuses_is_1_with_its_sentence(server, scheme, name):
    case = DENIED[name]
    status, code, sentence = case.said[scheme]
    buckets.answer(server, case.methods, case.contains[scheme], status, (code, sentence))
    exit_code, line = convert(scheme)
    assert (exit_code, sentence in line, code in line) == (1, True, True), line
    assert not case.lacks or f"access denied: the credentials lack the permission {case.lacks[scheme]} (" in line, line
    assert line.startswith("beam-tfrecords: the run failed: "), line


def endpoint_of(scheme: str, endpoint: str) -> dict[str, str | None]:
    """The environment that leads requests to an endpoint, with credentials."""
    return (
        {"STORAGE_EMULATOR_HOST": None, "API_ENDPOINT_OVERRIDE": endpoint}
        if scheme == "gs"
        else {"AWS_ENDPOINT_URL": endpoint}
    )


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [("http://127.0.0.1:9", "no connection to "), ("http://no-such-host.invalid", "no connection to ")],
    ids=["refused connection", "unknown host"],
)
def test_a_store_that_is_not_reached_is_1(server, scheme, endpoint, says):
    for words in ([], ["--input=/work-is-not-read", f"--output={scheme}://datasets/out"]):
        exit_code, line = convert(scheme, *words, environment=endpoint_of(scheme, endpoint))
        assert (exit_code, f"{says}{endpoint}" in line) == (1, True), line


def test_an_endpoint_that_is_no_url_is_1(server, scheme):
    exit_code, line = convert(scheme, environment=endpoint_of(scheme, "store:9000"))
    assert (exit_code, "store:9000" in line) == (1, True), line


def test_credentials_that_are_not_there_are_1(server, scheme, tmp_path):
    missing: dict[str, str | None] = {
        "GOOGLE_APPLICATION_CREDENTIALS": f"{tmp_path}/missing.json",
        "AWS_PROFILE": "nobody",
    }
    exit_code, line = convert(scheme, environment={**endpoint_of(scheme, server.endpoint), **missing})
    assert exit_code == 1, line
    assert {"gs": "missing.json", "s3": "nobody"}[scheme] in line


def test_a_token_that_has_expired_is_1(server, scheme, tmp_path):
    if scheme == "s3":
        buckets.answer(server, buckets.EVERY_METHOD, "", 400, ("ExpiredToken", "The provided token has expired."))
        exit_code, line = convert(scheme)
        assert (exit_code, "are refused: ExpiredToken: The provided token has expired." in line) == (1, True), line
        return
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    values = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "client_email": "a@b.c",
        "token_uri": f"{server.endpoint}/token",
        "private_key": key.private_bytes(*values).decode(),
    }
    (tmp_path / "account.json").write_text(json.dumps(account))
    text = json.dumps({"error": "invalid_grant", "error_description": "The token has expired or was revoked."})
    server.answer("POST", "/token", status=400, text=text, times=1000)
    credentials = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "account.json")}
    exit_code, line = convert(scheme, environment={**endpoint_of(scheme, server.endpoint), **credentials})
    assert (exit_code, "invalid_grant: The token has expired or was revoked." in line) == (1, True), line


@pytest.mark.parametrize("words", [["--input={}://not-there/in"], ["--output={}://not-there/out"]])
def test_a_bucket_that_is_not_there_is_2(server, scheme, words):
    exit_code, line = convert(scheme, *(word.format(scheme) for word in words))
    assert (exit_code, "there is no bucket 'not-there'" in line) == (2, True), line


@pytest.mark.parametrize("words", [["--input={}/in"], ["--output={}/out"]], ids=["input", "output"])
@pytest.mark.parametrize("bucket", ["-a-", "a b"])
def test_a_bucket_that_cannot_be_is_2(server, scheme, words, bucket):
    exit_code, line = convert(scheme, *(word.format(f"{scheme}://{bucket}") for word in words))
    assert (exit_code, bucket in line) == (2, True), line


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--output={}/x"],
        ["inspect", "--dataset={}/x"],
        ["verify", "--dataset={}/x"],
        ["report", "--dataset={}/x"],
        ["convert", "--input={}/*.jpg", "--output={}/out", "--layout=image"],
        ["convert", "--input={}/a.csv", "--output={}/out"],
        ["convert", "--input={}", "--output=/tmp/never", "--reuse={}/x"],
        ["convert", "--spec={}/a.yaml"],
    ],
    ids=lambda words: " ".join(words).replace("{}", "BUCKET"),
)
def test_every_command_treats_a_bucket_alike(server, scheme, words):
    """Which is not there, or which it may not read."""

    def run(bucket: str) -> tuple[int, str]:
        given = [word.format(f"{scheme}://{bucket}") for word in words]
        ran = subprocess.run([buckets.PROGRAM, *given], capture_output=True, text=True, check=False, timeout=200)
        return ran.returncode, ran.stderr

    code, said = run("not-there")
    assert (code, "not-there" in said) == (2, True), said
    denied = ("AccessDenied" if scheme == "s3" else "forbidden", "Access denied.")
    buckets.answer(server, buckets.EVERY_METHOD, "photos", 403, denied)
    code, said = run("photos")
    assert (code, "access denied: the credentials lack the permission" in said) == (1, True), said


def test_a_folder_that_is_not_there_is_2(server, scheme):
    exit_code, line = convert(scheme, f"--input={scheme}://photos/typo")
    assert exit_code == 2, line


# Amazon's


@pytest.fixture
def amazon(tmp_path: Path) -> Iterator[Any]:
    with buckets.services(tmp_path, "s3") as servers:
        put_photos("s3")
        yield servers["s3"]


@pytest.mark.parametrize(
    ("status", "code", "more"),
    [
        (400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"),
        (301, "PermanentRedirect", "<Endpoint>photos.s3.eu-west-1.amazonaws.com</Endpoint>"),
        (301, "PermanentRedirect", "<Endpoint>photos.s3-eu-west-1.amazonaws.com</Endpoint>"),
        (400, "IllegalLocationConstraintException", "<Region>eu-west-1</Region>"),
    ],
)
@pytest.mark.parametrize("methods", [("GET", "HEAD"), ("PUT",)], ids=["read", "write"])
def test_a_wrong_region_is_1_and_names_the_right_one(amazon, status, code, more, methods):
    text = f"<Error><Code>{code}</Code><Message>The region is wrong.</Message>{more}</Error>"
    for method in methods:
        amazon.answer(method, "", status=status, text=text, times=1000)
    exit_code, line = convert("s3")
    assert exit_code == 1, line
    assert "is in the region eu-west-1, and the client is set to us-east-1; set AWS_DEFAULT_REGION=eu-west-1 (" in line
    assert f"{code}: The region is wrong." in line


def test_keys_that_a_server_checks_are_1(tmp_path, monkeypatch):
    with s3.s3_server(tmp_path, buckets=("photos", "datasets"), program="versitygw") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        for name, says in {
            "AWS_ACCESS_KEY_ID": "No user exists with the provided access key ID.",
            "AWS_SECRET_ACCESS_KEY": "the AWS credentials are refused: SignatureDoesNotMatch: The request signature ",
        }.items():
            for words in ([], [f"--input={PHOTOS[0].parents[1]}"]):
                exit_code, line = convert("s3", *words, environment={name: "wrong"})
                assert (exit_code, says in line) == (1, True), line
        exit_code, line = convert("s3", "--input=s3://not-there/in")
        assert (exit_code, "there is no bucket" in line) == (2, True), line


def test_an_archived_object_ends_the_build_with_a_command_that_restores_it(amazon):
    key = "in/cat/a b.jpg"
    amazon.client().put_object(Bucket="photos", Key=key, Body=PHOTOS[0].read_bytes() + b"x", StorageClass="GLACIER")
    exit_code, line = convert("s3")
    assert exit_code == 1, line
    assert f"s3://photos/{key} cannot be read: the object is archived in GLACIER; to restore it: " in line
    command = re.search(r"to restore it: (.*) \(InvalidObjectState: ", line)
    program, service, operation, *flags = shlex.split(command[1])
    assert (program, service, operation) == ("aws", "s3api", "restore-object")
    # As Amazon's command line reads it.
    values = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    assert values.pop("restore-request") == "Days=7"
    assert values == {"bucket": "photos", "key": key}
    amazon.client().restore_object(Bucket=values["bucket"], Key=values["key"], RestoreRequest={"Days": 7})
    exit_code, line = convert("s3")
    assert (exit_code, line) == (0, "")


# Who may not delete, has no credentials, or pays


@pytest.mark.nightly
def test_who_may_not_delete_gets_a_dataset_and_is_told_what_stays_and_cannot_replace_one(server, scheme):
    output = f"{scheme}://datasets/undeleted"
    for method, contains in (("POST", "/batch"), ("DELETE", ""), ("POST", "?delete")):
        server.refuse(method, contains, status=403, times=10_000)
    permission = {"gs": "storage.objects.delete", "s3": "s3:DeleteObject"}[scheme]
    code, line = convert(scheme, f"--output={output}")
    assert code == 0, line
    assert f"note: the files in {output}/.build stay" in line
    assert f"lack the permission {permission}" in line
    buckets.verify(output)
    before = {name: version for name, version in buckets.versions_of(output).items() if ".build/" not in name}
    assert len(before) < len(buckets.versions_of(output))
    code, line = convert(scheme, f"--output={output}", "--overwrite", "--jpeg_quality=80")
    assert (code, f"lack the permission {permission}" in line) == (1, True), line
    assert {name: buckets.versions_of(output)[name] for name in before} == before


# Of `many_objects`.
CLASSES = "--class_names=class_0000,class_0001,class_0002"


@pytest.fixture
def no_credentials(tmp_path: Path) -> Iterator[tuple[dict[str, str | None], socket.socket]]:
    """An environment without credentials anywhere, and the metadata servers that never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        missing = ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT")
        missing += ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE")
        there = {
            **dict.fromkeys(("HOME", "CLOUDSDK_CONFIG"), str(tmp_path)),
            **dict.fromkeys(("GCE_METADATA_IP", "GCE_METADATA_HOST"), address),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{address}",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield {**dict.fromkeys(missing), **there}, silent


def count_connections(listening: socket.socket) -> int:
    """How many connections wait at a socket."""
    listening.setblocking(False)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listening.accept()[0].close()
            count += 1
    return count


@pytest.mark.nightly
def test_without_credentials_a_private_bucket_is_refused_soon(server, scheme, tmp_path, no_credentials):
    environment, silent = no_credentials
    buckets.answer(server, ("GET",), "", 401 if scheme == "gs" else 403, ("AccessDenied", "Access Denied"))
    environment |= endpoint_of(scheme, server.endpoint)
    code, line = convert(scheme, f"--output={tmp_path}/out", environment=environment)
    assert code == 1, line
    assert re.search(r"//photos/in: access denied, and no (Google|AWS) credentials were found; ", line)
    # Google's library would ask three times, for 12 s; we ask once, for 3 s. Amazon's asks for a token and then for
    # credentials.
    assert count_connections(silent) == {"gs": 1, "s3": 2}[scheme]


@pytest.mark.nightly
def test_without_credentials_a_public_bucket_is_read(scheme, tmp_path, no_credentials):
    environment, _ = no_credentials
    words = (f"--input={scheme}://photos", f"--output={tmp_path}/out", CLASSES)
    with many_objects(tmp_path, count=3, layout="folders") as endpoint:
        assert convert(scheme, *words, environment={**environment, **endpoint_of(scheme, endpoint)}) == (0, "")


@pytest.mark.nightly
def test_a_requester_pays_by_a_setting_or_the_project_of_the_credentials(scheme, tmp_path):
    with many_objects(tmp_path, count=3, layout="folders", pays=True) as endpoint:
        paid: dict[str, str | None] = {"STORAGE_EMULATOR_HOST": endpoint, "AWS_ENDPOINT_URL": endpoint}
        paid |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}

        def converted(*words: str, **more: str) -> tuple[int, str]:
            words = (f"--input={scheme}://photos", f"--output={tmp_path}/out{len(more)}", CLASSES, *words)
            return convert(scheme, *words, environment={**paid, **more})

        code, line = converted()
        wanted = {"gs": "the bucket lets the requester pay; use --requester_pays=PROJECT", "s3": "s3:ListBucket"}
        assert (code, wanted[scheme] in line) == (1, True), line
        assert converted("--requester_pays=my-project") == (0, "")
        assert converted("--requester_pays=true", GOOGLE_CLOUD_PROJECT="my-project") == (0, "")
        assert converted("--requester_pays=No Project")[0] == 2
