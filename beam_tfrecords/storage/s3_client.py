"""The S3 client: credentials, requester pays, request counts, and the conversion of errors."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree

import boto3
import botocore
import botocore.session
from boto3.exceptions import Boto3Error
from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import paths, request_metrics
from beam_tfrecords.storage.botocore_private import start_credential_processes_by
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    SchemeError,
    ServiceFaultError,
    StorageError,
)
from beam_tfrecords.storage.faults import is_fault_status
from beam_tfrecords.storage.options import current_options
from beam_tfrecords.storage.rate_limiter import FirstRates
from beam_tfrecords.storage.retries import REFUSALS, RETRIED, DamagedAnswerError, Result, Store

# Connections that stay open: readers request several objects at once.
_CONNECTIONS = 80
_CONNECT_SECONDS = 10
# Time limit for a user's program that provides credentials, in seconds.
_PROCESS_SECONDS = 60.0
# A download that was interrupted, or that differs from the object.
_BROKEN_OFF = (
    exceptions.HTTPClientError,
    exceptions.IncompleteReadError,
    exceptions.FlexibleChecksumError,
    DamagedAnswerError,
)
# Error codes that mean "try again", and also come with other statuses than 5xx.
BUSY = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling"})
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.ProfileNotFound,
    exceptions.ConfigParseError,
    exceptions.InvalidConfigError,
)
_REFUSED_CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
# Operation -> the permission that it needs; all other operations write an object or its parts.
_PERMISSIONS = {
    "GetObject": "s3:GetObject",
    "HeadObject": "s3:GetObject",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
}
_KINDS = {
    "GetObject": request_metrics.READ,
    "HeadObject": request_metrics.READ,
    "ListObjectsV2": request_metrics.LIST,
    "ListMultipartUploads": request_metrics.LIST,
    "DeleteObject": request_metrics.DELETE,
    "DeleteObjects": request_metrics.DELETE,
    "AbortMultipartUpload": request_metrics.DELETE,
}
_LOG_IN = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# Reentrant: objects that the garbage collector closes may send requests in the thread that holds the lock.
_client_lock = threading.RLock()
# Per prefix.
STORE = Store(FirstRates(reads=5500, writes=3500))
PAYER_HEADER = "x-amz-request-payer"


class Access(NamedTuple):
    """This process's access to the store.

    Attributes:
      client: client of the library.
      credentials: credentials that sign requests; None for unsigned requests.
      sent: last request of each thread for an object, as `request`.
      routes: bucket -> how to read its objects without the client; None if that is impossible.
    """

    client: Any
    credentials: Any
    sent: threading.local
    routes: dict[str, Any]


def client() -> Any:
    """Returns the client of this process, made on the first call; any thread may use it."""
    return access().client


def access() -> Access:
    """Returns the client of this process, with the values needed to bypass it."""
    with _client_lock:
        return _make_client(os.getpid(), os.environ.get("AWS_ENDPOINT_URL_S3"), os.environ.get("AWS_ENDPOINT_URL"))


# A forked process must not share its parent's connections.
@functools.lru_cache(maxsize=1)
def _make_client(process: int, *endpoints: str | None) -> Access:
    core = botocore.session.Session()
    core.register_component("data_loader", _make_loader())
    start_credential_processes_by(core, _CredentialProcess)
    session = boto3.session.Session(botocore_session=core)
    found = session.get_credentials()
    config = Config(
        signature_version=None if found else botocore.UNSIGNED,
        max_pool_connections=_CONNECTIONS,
        connect_timeout=_CONNECT_SECONDS,
        # The library would give up after a fixed number of attempts, and sooner if many requests fail.
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    try:
        made = session.client("s3", config=config)
    except ValueError as error:
        raise SchemeError(
            f"s3:// cannot be used: {one_line(error)}; look at AWS_ENDPOINT_URL", code="store_not_set_up"
        ) from error
    made.meta.events.register("before-call.s3", _begin_request)
    made.meta.events.register("before-parse.s3.ListObjectsV2", _read_objects)
    made.meta.events.register("before-send.s3", _count_request)
    made.meta.events.register("needs-retry.s3", _count_answer)
    made.meta.events.register("needs-retry.s3", _send_again)
    sent = threading.local()
    made.meta.events.register("before-send.s3.GetObject", lambda request, **_: setattr(sent, "request", request))
    return Access(made, found, sent, {})


class _CredentialProcess(subprocess.Popen[bytes]):
    """A `credential_process` of a profile, which may wait for a person or a network."""

    def communicate(self, input: bytes | None = None, timeout: float | None = None) -> tuple[bytes, bytes]:
        try:
            return super().communicate(input, timeout or _PROCESS_SECONDS)
        except subprocess.TimeoutExpired as error:
            self.kill()
            self.wait()
            detail = f"credential_process has not ended after {_PROCESS_SECONDS:g} seconds"
            raise exceptions.CredentialRetrievalError(provider="custom-process", error_msg=detail) from error


@functools.lru_cache(maxsize=1)
def _make_loader() -> Any:
    """Makes the reader of botocore's S3 description, the slowest part of a client; forks share what it read."""
    return botocore.session.Session().get_component("data_loader")


def _send_again(
    response: Any, caught_exception: Exception | None, attempts: int, request_dict: Any, event_name: str, **_: Any
) -> float | None:
    """Returns the seconds before a refused or lost request is retried; None for other responses."""
    status, code = (response[0].status_code, response[1].get("Error", {}).get("Code")) if response else (0, "")
    is_lost = isinstance(caught_exception, (exceptions.ConnectionError, *_BROKEN_OFF))
    if not (is_lost or status in RETRIED or code in BUSY):
        # The content of an object arrives later.
        if not event_name.endswith(".GetObject") or status >= 300:
            STORE.note_answer()
        return None
    began = request_dict["context"]["began"]
    return STORE.pause(began, attempts - 1, is_busy=status in REFUSALS or code == "SlowDown")


def retried(request: Callable[[], Result]) -> Result:
    """Sends a request, and retries it if the response's content is bad: the client checks only the status."""
    return STORE.send(request, may_pass=_may_pass)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, _BROKEN_OFF) or (isinstance(error, exceptions.ClientError) and code_of(error) in BUSY)


def _begin_request(params: dict[str, Any], **_: Any) -> None:
    params["context"]["began"] = time.monotonic()
    if current_options().payer:
        params["headers"][PAYER_HEADER] = "requester"


def _read_objects(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Parses the objects of a page; botocore takes five times as long: 0.1 s per page."""
    # For any other response, botocore reports the error.
    with contextlib.suppress(ElementTree.ParseError, ValueError, KeyError, TypeError):
        root = ElementTree.fromstring(response_dict["body"])
        space = root.tag.removesuffix("ListBucketResult")
        rows = [{field.tag: field.text or "" for field in item} for item in root.iterfind(f"{space}Contents")]
        customized_response_dict["Contents"] = [
            {
                "Key": row[f"{space}Key"],
                "Size": int(row[f"{space}Size"]),
                "ETag": row[f"{space}ETag"],
                "LastModified": datetime.datetime.fromisoformat(f"{row[f'{space}LastModified'][:19]}+00:00"),
            }
            for row in rows
        ]
        root[:] = [child for child in root if child.tag != f"{space}Contents"]
        response_dict["body"] = ElementTree.tostring(root)


def _count_request(request: Any, event_name: str, **_: Any) -> None:
    """Counts a request, once per attempt."""
    kind = _KINDS.get(event_name.rpartition(".")[2], request_metrics.WRITE)
    STORE.wait(is_write=kind in (request_metrics.WRITE, request_metrics.DELETE))
    request_metrics.count(kind)
    if kind == request_metrics.WRITE:
        size = request.headers.get("Content-Length", 0)
        request_metrics.count("bytes_written", int(request.headers.get("x-amz-decoded-content-length", size)))


def _count_answer(response: Any, event_name: str, **_: Any) -> None:
    if response is not None and event_name.endswith(".GetObject"):
        request_metrics.count("bytes_read", int(response[1].get("ContentLength", 0)))


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
    """Converts the client's errors to StorageError, or to BuildError if the store does not answer."""
    began = time.monotonic()

    def silence(reason: str) -> BuildError:
        return BuildError(f"{path} does not answer: {reason}, for {time.monotonic() - began:.0f} s")

    try:
        yield
    except exceptions.ClientError as error:
        found = _error_of(path, error)
        raise silence(_phrase(error)) if found is None else found from error
    except exceptions.ParamValidationError as error:
        raise StorageError(f"{path}: {one_line(error)}") from error
    except _NO_CREDENTIALS as error:
        raise BuildError(f"{path}: no AWS credentials can be used: {one_line(error)}") from error
    except DamagedAnswerError as error:
        raise ServiceFaultError(f"{path}: what was downloaded is not as long as the object") from error
    except (exceptions.BotoCoreError, Boto3Error, ResponseParserError) as error:
        raise silence(_silence(error)) from error


def _error_of(path: str, error: exceptions.ClientError) -> Exception | None:
    """Returns the project's error for an error response; None if the store is busy."""
    code, status = code_of(error), status_of(error)
    reason = one_line(error.response["Error"].get("Message", "")) or code
    if code == "NoSuchBucket":
        return StorageError(f"{path}: there is no bucket {split(path)[0]!r}")
    if status == 404:
        return StorageError(f"{path} does not exist")
    if status == 412:
        return ChangedError(f"{path} has changed since it was listed")
    if status == 401 or code in _REFUSED_CREDENTIALS or error.operation_name.startswith("AssumeRole"):
        return BuildError(f"{path}: the AWS credentials are refused: {code}: {reason}")
    if code == "InvalidObjectState":
        return StorageError(f"{path} is archived; restore it first")
    if status == 403:
        if client().meta.config.signature_version is botocore.UNSIGNED:
            # The next request searches for credentials again: a busy machine may have failed to provide some.
            _make_client.cache_clear()
            return BuildError(f"{path}: access denied, and no AWS credentials were found; {_LOG_IN}")
        return AccessDeniedError(path, _PERMISSIONS.get(error.operation_name, "s3:PutObject"))
    if status >= 500 or status in RETRIED or code in BUSY:
        return None
    kind = ServiceFaultError if is_fault_status(status) or status == 409 else StorageError
    return kind(f"{path}: {code}: {reason}")


def _phrase(error: exceptions.ClientError) -> str:
    code, message = code_of(error), one_line(error.response["Error"].get("Message", ""))
    return f"{code}: {message}" if message and "<" not in message else code


def _silence(error: Exception) -> str:
    """Returns the reason for a missing response, in one line."""
    if isinstance(error, exceptions.SSLError):
        return f"no secure connection to {client().meta.endpoint_url}: {one_line(error.kwargs.get('error'))}"
    if isinstance(error, exceptions.ConnectionError):
        return f"no connection to {client().meta.endpoint_url}"
    if isinstance(error, ResponseParserError):
        return f"{client().meta.endpoint_url} does not speak the protocol of S3"
    if isinstance(error, _BROKEN_OFF):
        return f"the connection broke off ({type(error).__name__})"
    return f"{type(error).__name__}: {one_line(error)}"


def split(path: str) -> tuple[str, str]:
    """Returns the bucket and the object name of a path."""
    bucket, _, name = path.removeprefix("s3://").partition("/")
    if not (bucket and bucket[0].isalnum() and bucket[-1].isalnum()) or paths.is_glob(bucket):
        raise StorageError(f"{path}: {bucket!r} is not the name of a bucket")
    return bucket, name


def status_of(error: exceptions.ClientError) -> int:
    """Returns the HTTP status of a response."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def code_of(error: exceptions.ClientError) -> str:
    """Returns the store's error code."""
    return str(error.response["Error"].get("Code", ""))


def one_line(text: object) -> str:
    """Converts text of the library or the store to one line, for a message."""
    return " ".join(str(text).split())
