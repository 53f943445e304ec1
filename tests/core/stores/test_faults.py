"""One table of faults: whatever a store is used for, a fault has one kind of error, and one line."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from tests.each import each
from tests.integration import buckets
from tests.integration.servers import gcs, processes
from tests.integration.servers.proxy import Fault, Kind

MIB = 1 << 20
USES: dict[str, Callable[[str], object]] = {
    "read_bytes": storage.read_bytes,
    "exists": storage.exists,
    "stat": storage.stat,
    "open_read": storage.open_read,
    "read_range": lambda path: storage.read_range(path, 0, 4),
    "an empty range": lambda path: storage.read_range(path, 0, 0),
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
DENIED = (
    r": access denied: the credentials lack the permission {permission} \((?:AccessDenied: )?Access [Dd]enied\.?\)$"
)
REFUSED = r": the \w+ credentials are refused: [^\n<]*$"
# Fault -> the error, what its line says behind the path, and by scheme the status and the code of the answer.
FAULTS: dict[str, tuple[type[Exception], str, dict[str, tuple[int, str]]]] = {
    "silence": (BuildError, r" does not answer: [^\n<]*$", {"gs": (503, ""), "s3": (503, "SlowDown")}),
    "denied": (storage.AccessDeniedError, DENIED, {"gs": (403, ""), "s3": (403, "AccessDenied")}),
    "a wrong key": (BuildError, REFUSED, {"gs": (401, ""), "s3": (403, "InvalidAccessKeyId")}),
    "a wrong signature": (BuildError, REFUSED, {"s3": (403, "SignatureDoesNotMatch")}),
    "an old token": (BuildError, REFUSED, {"s3": (400, "ExpiredToken")}),
    "no login": (BuildError, REFUSED, {"s3": (401, "Unauthorized")}),
}


def refuse_all(server: Any, status: int, code: str) -> None:
    for method in ("HEAD", "GET", "PUT", "POST", "DELETE"):
        server.refuse(
            method, "", status=status, times=10_000, **({} if isinstance(server, gcs.GcsServer) else {"code": code})
        )


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
@each("use", USES)
def test_a_fault_is_the_same_in_every_use(server, root, scheme, monkeypatch, fault, use):
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "0.3")
    kind, says, answers = FAULTS[fault]
    if scheme not in answers:
        pytest.skip("of Amazon alone")
    refuse_all(server, *answers[scheme])
    permission = {"gs": r"storage\.\w+\.\w+", "s3": r"s3:\w+"}[scheme]
    with pytest.raises(kind, match=f"^{root}{says.replace('{permission}', permission)}") as raised:
        USES[use](root)
    assert isinstance(raised.value, BuildError) or storage.is_service_fault(raised.value)


@pytest.mark.nightly
@each("use", USES)
def test_a_store_that_is_not_there_ends_the_build(server, root, scheme, monkeypatch, use):
    monkeypatch.setenv("BEAM_TFRECORDS_RETRY_SECONDS", "0.3")
    endpoint = f"http://127.0.0.1:{processes.free_port()}"
    monkeypatch.setenv({"gs": "STORAGE_EMULATOR_HOST", "s3": "AWS_ENDPOINT_URL"}[scheme], endpoint)
    with pytest.raises(BuildError, match=rf"^{root} does not answer: no connection to {endpoint}[^\n<]*$"):
        USES[use](root)


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


@each("number", range(12))
def test_a_store_that_forbids_a_write_says_why_itself(server, root, scheme, number):
    said, permission = list(FORBIDDEN[scheme].items())[number]
    server.forget_faults()
    buckets.answer(server, ("PUT", "POST"), "", 403, said)
    with pytest.raises(storage.AccessDeniedError) as raised:
        storage.write_bytes(root, b"")
    line = str(raised.value)
    assert line.startswith(f"{root}: access denied: ")
    assert ": ".join(filter(None, said)) in line
    assert raised.value.permission == permission
    claim = f"the credentials lack the permission {permission} ("
    assert (claim in line) if permission else ("lack" not in line)
    assert not buckets.RAW.search(line)


def test_a_store_that_forbids_one_of_many_deletions_says_why_itself(server, root, scheme):
    path, sentence = f"{root}/kept", "The object is under a retention period."
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
        text = f"<DeleteResult><Error><Key>{path.partition('photos/')[2]}</Key>{code}</Error></DeleteResult>"
        server.answer("POST", "?delete", status=200, text=text, times=10)
    with pytest.raises(storage.AccessDeniedError, match=rf": access denied: \w+: {sentence}$"):
        storage.delete_files([path])


@pytest.mark.parametrize("status", [429, 503])
def test_the_time_in_a_message_is_the_time_of_the_silence(server, root, status):
    """Of the process: not only the last request has waited, nor the work before it."""
    path = f"{root}/a"
    storage.write_bytes(path, b"")
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


def test_a_fault_that_is_not_repeated_names_no_time(server, root):
    buckets.answer(server, ("GET",), "", 409, ("Conflict", "Something else changes it."))
    with pytest.raises(storage.ServiceFaultError, match=r"Something else changes it\.$"):
        storage.read_bytes(root)
