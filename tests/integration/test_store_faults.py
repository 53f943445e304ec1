"""Faults of stores: the exit code by one rule, and the store's own sentence; the table is in docs/exit_codes.md."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from tests.integration import buckets
from tests.integration.servers import gcs, s3
from tests.integration.servers.proxy import Fault, Kind
from tests.progress_lines import without_progress

PHOTOS = sorted((Path(__file__).parents[1] / "data/photos").rglob("*.jpg"))[:6]
EVERY_METHOD = ("GET", "HEAD", "PUT", "POST", "DELETE")


@pytest.fixture(scope="module", params=buckets.SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def running(scheme: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with six photos below SCHEME://photos/in, and the empty bucket SCHEME://datasets."""
    with buckets.services(tmp_path_factory.mktemp(scheme), scheme) as servers:
        for number, path in enumerate(PHOTOS):
            storage.write_bytes(f"{scheme}://photos/in/cat/{number}.jpg", path.read_bytes())
        yield servers[scheme]


@pytest.fixture
def server(running: Any) -> Iterator[Any]:
    running.forget_faults()
    yield running
    running.forget_faults()


def answer(server: Any, methods: Sequence[str], contains: str, status: int, said: tuple[str, str]) -> None:
    """Answers requests with an error of the service for ever: its code, or Google's reason, and its sentence."""
    code, sentence = said
    if isinstance(server, gcs.GcsServer):
        error: dict[str, Any] = {"code": status, "message": sentence}
        text = json.dumps({"error": {**error, **({"errors": [{"reason": code}]} if code else {})}})
    else:
        text = f"<Error><Code>{code}</Code><Message>{sentence}</Message></Error>"
    for method in methods:
        server.answer(method, contains, status=status, text=text, times=10_000)


def convert(scheme: str, *words: str, environment: Mapping[str, str | None] | None = None) -> tuple[int, str]:
    """Exit code of a build from bucket to bucket, and the one line that it says."""
    given = {f"--input={scheme}://photos/in", f"--output={scheme}://datasets/out-{time.monotonic_ns()}"}
    given = {word for word in given if not any(other.split("=")[0] == word.split("=")[0] for other in words)}
    changed = {**os.environ, "BEAM_TFRECORDS_RETRY_SECONDS": "1", **(environment or {})}
    ran = subprocess.run(
        [buckets.PROGRAM, "convert", *given, "--image_size=32", "--class_names=cat", "--quiet", *words],
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
    """Requests that the store denies, and what it says by the scheme: status, code and sentence."""

    methods: tuple[str, ...]
    contains: Mapping[str, str]
    said: Mapping[str, tuple[int, str, str]]


_ALL = {"gs": "", "s3": ""}
_LIST = {"gs": "/b/photos/o?", "s3": "list-type"}
_IMAGES = {"gs": ".jpg", "s3": ".jpg"}
_OUTPUT = {"gs": "/b/datasets/o", "s3": "/datasets"}
_WRITES = ("PUT", "POST")
_TOO_MANY = {
    "gs": (429, "rateLimitExceeded", "The rate of requests is too high."),
    "s3": (429, "TooManyRequests", "The rate of requests is too high."),
}


def _without(permission: str) -> Mapping[str, tuple[int, str, str]]:
    """What the stores say without a permission; Amazon does not name it."""
    sentence = f"a@b.c does not have storage.objects.{permission} access to the Google Cloud Storage object."
    return {"gs": (403, "forbidden", sentence), "s3": (403, "AccessDenied", "Access Denied")}


DENIED = {
    "denied list": Denied(("GET",), _LIST, _without("list")),
    "denied get": Denied(("GET",), _IMAGES, _without("get")),
    "denied put": Denied(_WRITES, _OUTPUT, _without("create")),
    "denied read of the output": Denied(("GET", "HEAD"), _OUTPUT, _without("get")),
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
        EVERY_METHOD,
        _ALL,
        {"gs": (503, "backendError", "Try later."), "s3": (503, "SlowDown", "Please reduce your request rate.")},
    ),
    "429 for ever": Denied(EVERY_METHOD, _ALL, _TOO_MANY),
    "429 for writes": Denied(_WRITES, _OUTPUT, _TOO_MANY),
}


@pytest.mark.parametrize("name", DENIED)
def test_what_a_store_refuses_is_1_with_its_sentence(server, scheme, name):
    case = DENIED[name]
    status, code, sentence = case.said[scheme]
    answer(server, case.methods, case.contains[scheme], status, (code, sentence))
    exit_code, line = convert(scheme)
    assert (exit_code, sentence in line, code in line) == (1, True, True), line
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
        answer(server, EVERY_METHOD, "", 400, ("ExpiredToken", "The provided token has expired."))
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
    answer(server, EVERY_METHOD, "photos", 403, ("AccessDenied" if scheme == "s3" else "forbidden", "Access denied."))
    code, said = run("photos")
    assert (code, "access denied: the credentials lack the permission" in said) == (1, True), said


def test_a_folder_that_is_not_there_is_2(server, scheme):
    exit_code, line = convert(scheme, f"--input={scheme}://photos/typo")
    assert exit_code == 2, line


# What stores say with status 403 -> the permission that the credentials lack, if they lack one.
FORBIDDEN: Mapping[str, Mapping[tuple[str, str], str | None]] = {
    "s3": {
        ("AccessDenied", "Access Denied"): "s3:PutObject",
        ("AccessDenied", "Access Denied."): "s3:PutObject",
        (
            "AccessDenied",
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:PutObjectTagging on resource: "
            '"arn:aws:s3:::b/k" because no identity-based policy allows the s3:PutObjectTagging action',
        ): "s3:PutObjectTagging",
        (
            "AccessDenied",
            "User: arn:aws:iam::1:user/a is not authorized to perform: kms:GenerateDataKey on resource: "
            "arn:aws:kms:eu-west-1:1:key/2 because no identity-based policy allows the kms:GenerateDataKey action",
        ): "kms:GenerateDataKey",
        (
            "AccessDenied",
            "User: arn:aws:iam::1:user/a is not authorized to perform: s3:PutObject on resource: "
            '"arn:aws:s3:::b/k" with an explicit deny in a service control policy',
        ): None,
        ("AccessDenied", "Access Denied because object protected by object lock."): None,
        ("AccountProblem", "There is a problem with your AWS account that prevents the operation."): None,
        ("AllAccessDisabled", "All access to this object has been disabled"): None,
        ("NotSignedUp", "Your account is not signed up for the Amazon S3 service."): None,
        ("QuotaExceeded", "The quota of the bucket is used up."): None,
        ("InvalidPayer", "All access to this object has been disabled."): None,
        ("KMS.AccessDenied", "The ciphertext refers to a key that you may not use."): None,
    },
    "gs": {
        (
            "forbidden",
            "a@b.c does not have storage.objects.create access to the Google Cloud Storage object. Permission "
            "'storage.objects.create' denied on resource (or it may not exist).",
        ): "storage.objects.create",
        (
            "forbidden",
            "a@b.c does not have storage.multipartUploads.create access to the Google Cloud Storage object.",
        ): "storage.multipartUploads.create",
        ("forbidden", "Access denied."): "storage.objects.create",
        ("", "Forbidden"): "storage.objects.create",
        (
            "forbidden",
            "Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service account has been "
            "authorized to use this key.",
        ): None,
        (
            "vpcServiceControls",
            "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: a-b-c",
        ): None,
        (
            "retentionPolicyNotMet",
            "Object 'b/k' is subject to bucket's retention policy or object retention and cannot be deleted or "
            "overwritten until 2027-01-01T00:00:00.0-08:00",
        ): None,
        ("objectUnderActiveHold", "Object 'b/k' is under active Temporary hold and cannot be deleted."): None,
        ("accountDisabled", "The billing account for the owning project is disabled in state absent"): None,
        ("accessNotConfigured", "The project to be billed is associated with an absent billing account."): None,
        ("quotaExceeded", "The quota of the project is used up."): None,
        ("SERVICE_DISABLED", "Cloud Storage JSON API has not been used in project 1 before or it is disabled."): None,
    },
}


@pytest.mark.parametrize("number", range(12))
def test_a_store_that_forbids_a_write_says_why_itself(server, scheme, number):
    said, permission = list(FORBIDDEN[scheme].items())[number]
    answer(server, ("PUT", "POST"), "", 403, said)
    with pytest.raises(storage.AccessDeniedError) as raised:
        storage.write_bytes(f"{scheme}://datasets/k", b"")
    line = str(raised.value)
    assert line.startswith(f"{scheme}://datasets/k: access denied: ")
    assert ": ".join(filter(None, said)) in line
    assert raised.value.permission == permission
    claim = f"the credentials lack the permission {permission} ("
    assert (claim in line) if permission else ("lack" not in line)
    assert not buckets.RAW.search(line)


def test_a_store_that_forbids_one_of_many_deletions_says_why_itself(server, scheme):
    path, sentence = f"{scheme}://datasets/kept", "The object is under a retention period."
    storage.write_bytes(path, b"")
    if scheme == "gs":
        reasons = [{"reason": "retentionPolicyNotMet"}]
        error = json.dumps({"error": {"code": 403, "message": sentence, "errors": reasons}})
        text = (
            "--b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 403 Forbidden\r\n"
            f"Content-Type: application/json; charset=UTF-8\r\n\r\n{error}\r\n--b--"
        )
        server.add(Fault(Kind.REFUSE, "POST", "/batch", 10, 200, text, 'multipart/mixed; boundary="b"'))
    else:
        code = f"<Code>AccessDenied</Code><Message>{sentence}</Message>"
        text = f"<DeleteResult><Error><Key>kept</Key>{code}</Error></DeleteResult>"
        server.answer("POST", "?delete", status=200, text=text, times=10)
    with pytest.raises(storage.AccessDeniedError, match=rf": access denied: \w+: {sentence}$"):
        storage.delete_files([path])


# Amazon's


@pytest.fixture
def amazon(tmp_path: Path) -> Iterator[Any]:
    with buckets.services(tmp_path, "s3") as servers:
        for number, path in enumerate(PHOTOS):
            storage.write_bytes(f"s3://photos/in/cat/{number}.jpg", path.read_bytes())
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


# Time


@pytest.mark.parametrize("status", [429, 503])
def test_the_time_in_a_message_is_the_time_of_the_silence(server, scheme, monkeypatch, status):
    """Of the process: not only the last request has waited, nor the work before it."""
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "2")
    path = f"{scheme}://photos/in/cat/0.jpg"
    storage.read_bytes(path)  # an answer ends what was silence before
    server.refuse("GET", "", status=status, times=1000)
    began, said = time.monotonic(), []
    for _ in range(3):
        with pytest.raises(BuildError) as raised:
            storage.read_bytes(path)
        seconds = int(re.search(r", for (\d+) s$", str(raised.value))[1])
        said.append(seconds)
        assert 2 <= seconds <= time.monotonic() - began + 0.5
    assert said == sorted(said)


def test_a_fault_that_is_not_repeated_names_no_time(server, scheme):
    answer(server, ("GET",), "", 409, ("Conflict", "Something else changes it."))
    with pytest.raises(storage.ServiceFaultError, match=r"Something else changes it\.$"):
        storage.read_bytes(f"{scheme}://photos/in/cat/0.jpg")
