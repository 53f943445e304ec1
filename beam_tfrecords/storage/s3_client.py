"""The S3 client: credentials, requester pays, request counts, and the conversion of errors."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import re
import shlex
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

from beam_tfrecords.errors import BuildError, describe_exception
from beam_tfrecords.storage import paths, request_metrics
from beam_tfrecords.storage.botocore_private import follow_no_redirect
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    MissingBucketError,
    ServiceFaultError,
    StorageError,
)
from beam_tfrecords.storage.options import current_options
from beam_tfrecords.storage.retries import (
    REFUSALS,
    RETRIED,
    DamagedAnswerError,
    Result,
    Store,
    describe_wait,
    note_wait,
)

# Connections that stay open: readers request several objects at once.
_CONNECTIONS = 80
_CONNECT_SECONDS = 10
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
# Codes of status 404 for a missing object or upload; a response to HEAD has only the status. Others are for a missing
# user or key.
_MISSING = frozenset({"404", "NoSuchKey", "NoSuchUpload", "NoSuchVersion"})
# Codes for an invalid name, and statuses for a request that does not fit the object; no change in the store helps.
_WRONG_NAMES = frozenset({"InvalidArgument", "InvalidURI", "KeyTooLongError"})
_WRONG_OBJECTS = frozenset({405, 416})
# Messages about a missing permission that do not name it; and a match for the permission in a message of Amazon.
_PLAIN = frozenset({"", "access denied", "forbidden"})
_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]+:\w+)")
_EXPLICIT = "explicit deny"
# Matches the region of the bucket in the responses of other regions.
_REGION = re.compile(r"expecting '([a-z0-9-]+)'|\bs3[.-]([a-z]+(?:-[a-z]+)+-\d+)\.amazonaws\.")
_REDIRECTS = frozenset({301, 302, 307, 308})
_REGION_CODES = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"})
# Maximum number of characters of the store's sentence in a message.
_MOST_SAID = 600
# Operation -> its kind in `request_metrics`, and the permission that it needs; all others write an object or its parts.
_OPERATIONS = {
    "GetObject": (request_metrics.READ, "s3:GetObject"),
    "HeadObject": (request_metrics.READ, "s3:GetObject"),
    "ListObjectsV2": (request_metrics.LIST, "s3:ListBucket"),
    "DeleteObject": (request_metrics.DELETE, "s3:DeleteObject"),
    "DeleteObjects": (request_metrics.DELETE, "s3:DeleteObject"),
    "AbortMultipartUpload": (request_metrics.DELETE, "s3:AbortMultipartUpload"),
}
_WRITE = (request_metrics.WRITE, "s3:PutObject")
# Key in the metadata of the last response to a request: seconds for which the request was repeated.
_WAITED = "waited"
_LOG_IN = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
# Reentrant: objects that the garbage collector closes may send requests in the thread that holds the lock.
_client_lock = threading.RLock()
STORE = Store()
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
        raise BuildError(f"s3:// cannot be used: {one_line(error)}; check AWS_ENDPOINT_URL") from error
    made.meta.events.register("before-call.s3", _begin_request)
    made.meta.events.register("before-parse.s3.ListObjectsV2", _read_objects)
    made.meta.events.register("before-send.s3", _count_request)
    made.meta.events.register("needs-retry.s3", _count_answer)
    made.meta.events.register("needs-retry.s3", _send_again)
    sent = threading.local()
    made.meta.events.register("before-send.s3.GetObject", lambda request, **_: setattr(sent, "request", request))
    return Access(made, found, sent, {})


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
    pause = STORE.pause(began, attempts - 1, is_busy=status in REFUSALS or code == "SlowDown")
    if pause is None and response:
        response[1]["ResponseMetadata"][_WAITED] = STORE.waited(began)
    elif pause is None and caught_exception:
        note_wait(caught_exception, STORE.waited(began))
    return pause


def retried(request: Callable[[], Result]) -> Result:
    """Sends a request, and retries it if the response's content is bad: the client checks only the status."""
    return STORE.send(request, may_pass=_may_pass)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, _BROKEN_OFF) or (isinstance(error, exceptions.ClientError) and code_of(error) in BUSY)


def _begin_request(params: dict[str, Any], model: Any, **_: Any) -> None:
    params["context"]["began"] = time.monotonic()
    if model.name == "HeadBucket":
        follow_no_redirect(params["context"])
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
    kind = _OPERATIONS.get(event_name.rpartition(".")[2], _WRITE)[0]
    STORE.wait()
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
    try:
        yield
    except exceptions.ClientError as error:
        found = _error_of(path, error)
        if found is None:
            seconds = error.response["ResponseMetadata"].get(_WAITED)
            if seconds is not None:
                note_wait(error, seconds)
            raise BuildError(f"{path} does not answer: {_said(error)}{describe_wait(error)}") from error
        raise found from error
    except exceptions.ParamValidationError as error:
        if "bucket name" in str(error):
            raise MissingBucketError(f"{path}: {split(path)[0]!r} is not the name of a bucket") from error
        raise StorageError(f"{path}: {one_line(error)}") from error
    except _NO_CREDENTIALS as error:
        raise BuildError(f"{path}: no AWS credentials can be used: {one_line(error)}") from error
    except DamagedAnswerError as error:
        raise ServiceFaultError(f"{path}: the download is shorter than the object") from error
    except (exceptions.BotoCoreError, Boto3Error, ResponseParserError) as error:
        raise BuildError(f"{path} does not answer: {_silence(error)}{describe_wait(error)}") from error


def _error_of(path: str, error: exceptions.ClientError) -> Exception | None:
    """Returns the project's error for an error response; None if the store is busy."""
    code, status, said = code_of(error), status_of(error), _said(error)
    if code == "NoSuchBucket":
        return MissingBucketError(f"{path}: there is no bucket {split(path)[0]!r} ({said})")
    if code == "InvalidBucketName":
        return MissingBucketError(f"{path}: {said}")
    if status == 401 or code in _REFUSED_CREDENTIALS or error.operation_name.startswith("AssumeRole"):
        return BuildError(f"{path}: the AWS credentials are refused: {said}")
    if is_missing(error):
        return StorageError(f"{path} does not exist")
    if status == 412:
        return ChangedError(f"{path} has changed since it was listed")
    if status in _REDIRECTS or (code in _REGION_CODES and _region_of(error)):
        return _wrong_region(path, error)
    if code == "InvalidObjectState":
        return _archived(path, error)
    if status == 403:
        if client().meta.config.signature_version is botocore.UNSIGNED:
            # The next request searches for credentials again: a busy machine may have failed to provide some.
            _make_client.cache_clear()
            return BuildError(f"{path}: access denied, and no AWS credentials were found; {_LOG_IN} ({said})")
        return AccessDeniedError(path, said, _lacking_permission(error))
    if status >= 500 or status in RETRIED or code in BUSY:
        return None
    is_wrong = code in _WRONG_NAMES or status in _WRONG_OBJECTS
    return (StorageError if is_wrong else ServiceFaultError)(f"{path}: {said}")


def _said(error: exceptions.ClientError) -> str:
    """Returns the store's code and sentence, in one line and without markup."""
    code, message = code_of(error), one_line(error.response["Error"].get("Message", ""))
    return f"{code}: {message[:_MOST_SAID]}" if message and "<" not in message else code


def _lacking_permission(error: exceptions.ClientError) -> str | None:
    """Returns the permission that the credentials lack; None if the store gives another reason for its refusal."""
    message = one_line(error.response["Error"].get("Message", ""))
    if code_of(error) not in ("AccessDenied", "403") or _EXPLICIT in message:
        return None
    if named := _ACTION.search(message):
        return named[1]
    is_plain = message.rstrip(".").lower() in _PLAIN
    return _OPERATIONS.get(error.operation_name, _WRITE)[1] if is_plain else None


def _region_of(error: exceptions.ClientError) -> str | None:
    """Returns the bucket's region if an error response names one that differs from the client's."""
    found = error.response["Error"]
    region = found.get("Region") or error.response["ResponseMetadata"].get("HTTPHeaders", {}).get("x-amz-bucket-region")
    if region is None and (named := _REGION.search(f"{found.get('Message')} {found.get('Endpoint')}")):
        region = named[1] or named[2]
    return region if region != client().meta.region_name else None


def _wrong_region(path: str, error: exceptions.ClientError) -> BuildError:
    bucket, region, own = split(path)[0], _region_of(error), client().meta.region_name
    where = f"in the region {region}" if region else "at another endpoint or in another region"
    remedy = f"set AWS_DEFAULT_REGION={region}" if region else "look at AWS_DEFAULT_REGION and AWS_ENDPOINT_URL"
    return BuildError(
        f"{path}: the bucket {bucket!r} is {where}, and the client is set to {own}; {remedy} ({_said(error)})"
    )


def _archived(path: str, error: exceptions.ClientError) -> ServiceFaultError:
    bucket, key = split(path)
    storage_class = error.response["Error"].get("StorageClass")
    # Objects of this class are archived again only after months without a read, so a restore states no days.
    request = "{}" if storage_class == "INTELLIGENT_TIERING" else "Days=7"
    words = ["aws", "s3api", "restore-object", f"--bucket={bucket}", f"--key={key}", f"--restore-request={request}"]
    command = shlex.join(words)
    state = f"archived in {storage_class}" if storage_class else "archived"
    return ServiceFaultError(f"{path}: the object is {state}; to restore it: {command} ({_said(error)})")


def _silence(error: Exception) -> str:
    """Returns the reason for a missing response, in one line."""
    if isinstance(error, exceptions.SSLError):
        return f"no secure connection to {client().meta.endpoint_url}: {one_line(error.kwargs.get('error'))}"
    if isinstance(error, exceptions.ConnectionError):
        return f"no connection to {client().meta.endpoint_url}"
    if isinstance(error, ResponseParserError):
        return f"{client().meta.endpoint_url} does not speak the protocol of S3"
    if isinstance(error, _BROKEN_OFF):
        return "the connection broke off"
    return one_line(describe_exception(error))


def split(path: str) -> tuple[str, str]:
    """Returns the bucket and the object name of a path."""
    bucket, _, name = path.removeprefix("s3://").partition("/")
    if not (bucket and bucket[0].isalnum() and bucket[-1].isalnum()) or paths.is_glob(bucket):
        raise MissingBucketError(f"{path}: {bucket!r} is not the name of a bucket")
    return bucket, name


def is_missing(error: exceptions.ClientError) -> bool:
    """Whether an object or an upload does not exist."""
    return status_of(error) == 404 and code_of(error) in _MISSING


def status_of(error: exceptions.ClientError) -> int:
    """Returns the HTTP status of a response."""
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def code_of(error: exceptions.ClientError) -> str:
    """Returns the store's error code."""
    return str(error.response["Error"].get("Code", ""))


def one_line(text: object) -> str:
    """Converts text of the library or the store to one line, for a message."""
    return " ".join(str(text).split())
