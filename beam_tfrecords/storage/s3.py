"""Amazon S3 and the stores that speak its protocol (`s3://`), by boto3.

Credentials, region and endpoint are those that boto3 finds: AWS_PROFILE, AWS_ENDPOINT_URL and the like are honoured.
Requests are not signed if there are no credentials; public buckets accept that.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import itertools
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

import boto3
import botocore
from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore import exceptions
from botocore.config import Config
from botocore.parsers import ResponseParserError

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import ChangedError, FileEntry, SchemeError, ServiceFaultError, StorageError
from beam_tfrecords.storage.faults import is_fault_status
from beam_tfrecords.storage.range_reader import open_ranges
from beam_tfrecords.storage.upload_plan import MIN_BYTES, Piece, plan_upload

# Connections that stay open: readers ask for several objects at once.
_CONNECTIONS = 32
# Of one request, the first one included; the pauses between them grow to 20 seconds.
_ATTEMPTS = 10
_CONNECT_SECONDS = 10
# Attempts at a download that breaks off, and at deletes that the store answers with an error of its own.
_REPEATS = 4
# Objects of up to 8 MiB are one request; larger ones go in parts of this many bytes, two at a time.
_SINGLE_BYTES = 8 << 20
_UPLOAD = TransferConfig(
    multipart_threshold=_SINGLE_BYTES,
    multipart_chunksize=16 << 20,
    max_concurrency=2,
    preferred_transfer_client="classic",  # the other one does not honour the client's settings
)
# Parts that are written at once, of 5 MiB each in memory.
_COPIERS = 4
# The most that the service accepts in one request to delete, or puts on one page.
_BATCH = 1000
# Metadata that names the write that made an object.
_WRITE_ID = "beam-tfrecords-write"
# A download that broke off, or that does not have the object's checksum.
_BROKEN_OFF = (exceptions.HTTPClientError, exceptions.IncompleteReadError, exceptions.FlexibleChecksumError)
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
# Codes of the store for "try again" that come with other statuses than 5xx, too.
_BUSY = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling"})
_client_lock = threading.Lock()


def client() -> Any:
    """The client of this process, made at the first call; any thread may use it."""
    with _client_lock:
        return _make_client(os.getpid(), os.environ.get("AWS_ENDPOINT_URL_S3"), os.environ.get("AWS_ENDPOINT_URL"))


# A forked process must not share its parent's connections.
@functools.lru_cache(maxsize=1)
def _make_client(process: int, *endpoints: str | None) -> Any:
    session = boto3.session.Session()
    attempts = int(os.environ.get("AWS_MAX_ATTEMPTS", _ATTEMPTS))
    config = Config(
        signature_version=None if session.get_credentials() else botocore.UNSIGNED,
        max_pool_connections=_CONNECTIONS,
        connect_timeout=_CONNECT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
    )
    try:
        made = session.client("s3", config=config)
    except ValueError as error:
        raise SchemeError(f"s3:// cannot be used: {_one_line(error)}; look at AWS_ENDPOINT_URL") from error
    made.meta.events.register("needs-retry.s3", functools.partial(_retry_too_many, most=attempts))
    return made


def _retry_too_many(response: Any, attempts: int, *, most: int, **_: Any) -> float | None:
    """Seconds until a request is sent again that was one too many: AWS answers 503, other stores 429."""
    if response is None or response[0].status_code != 429 or attempts >= most:
        return None
    return random.random() * min(2 ** (attempts - 1), 20)


def exists(path: str) -> bool:
    """See `storage.exists`."""
    if not _split(path)[1]:
        return False
    with _errors(path):
        return _head(path) is not None


is_file = exists


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    with _errors(path):
        found = _head(path)
    if found is None:
        raise StorageError(f"{path} does not exist")
    return _entry_of(path, found["ContentLength"], found)


def _head(path: str) -> Any:
    """The answer to a HEAD request; None if there is no such object."""
    target = _object(path)
    try:
        return client().head_object(**target)
    except exceptions.ClientError as error:
        if _status(error) == 404:
            return None
        if _status(error) in (400, 401, 403):
            # An answer to HEAD has no body, and so no reason; the answer to GET has one.
            client().get_object(**target)["Body"].close()
        raise


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    entry = _stat_version(path, version)
    # All ranges are of one version.
    return open_ranges(entry.size, functools.partial(read_range, path, version=entry.version))


def read_bytes(path: str, *, version: str) -> bytes:
    """See `storage.read_bytes`."""
    with _errors(path):
        return _download(path, version)[0]


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`."""
    if not length:
        _stat_version(path, version)
        return b""
    with _errors(path):
        try:
            return _download(path, version, Range=f"bytes={offset}-{offset + length - 1}")[0]
        except exceptions.ClientError as error:
            if _status(error) == 416:  # the object ends before the range begins
                return b""
            raise


def _download(path: str, version: str, **options: str) -> tuple[bytes, str]:
    """Content and version; botocore sends requests again, but does not go on reading what broke off."""
    if version:
        options["IfMatch"] = f'"{version}"'
    for left in reversed(range(_REPEATS)):
        answer = client().get_object(**_object(path), **options)
        with contextlib.closing(answer["Body"]) as body:
            try:
                return body.read(), _version_of(answer)
            except _BROKEN_OFF:
                if not left:
                    raise
    raise AssertionError


def _stat_version(path: str, version: str) -> FileEntry:
    entry = stat(path)
    if version and entry.version != version:
        raise ChangedError(f"{path} has changed since it was listed")
    return entry


@contextlib.contextmanager
def open_write(path: str, *, staging: str | None) -> Iterator[IO[bytes]]:
    """Writes to a temporary local file and uploads it; see `storage.open_write`.

    So every request can be sent again, and a failed block leaves nothing to abort.
    """
    target = _object(path)
    with tempfile.TemporaryFile() as file:
        yield file
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        with _errors(path):
            if size <= _SINGLE_BYTES:
                client().put_object(**target, Body=file)
                return
            with _named_write(path) as named:
                client().upload_fileobj(file, **target, ExtraArgs=named, Config=_UPLOAD)


@contextlib.contextmanager
def _named_write(path: str) -> Iterator[dict[str, Any]]:
    """Options that name a write in parts; no error of the block if it was done, and only the answer got lost.

    Unfinished uploads of the object are given up, for the store charges for what has arrived of them: those of builds
    that were killed, and those that were begun with no answer.
    """
    mine = os.urandom(16).hex()
    try:
        yield {"Metadata": {_WRITE_ID: mine}}
    except exceptions.ClientError as error:
        if _code(error) != "NoSuchUpload" or not _is_mine(path, mine):
            raise
    target = _object(path)
    # Some stores and roles do not list them.
    with contextlib.suppress(exceptions.ClientError):
        answer = client().list_multipart_uploads(Bucket=target["Bucket"], Prefix=target["Key"])
        for found in answer.get("Uploads", ()):
            if found["Key"] == target["Key"]:
                client().abort_multipart_upload(**target, UploadId=found["UploadId"])


def _is_mine(path: str, write_id: str) -> bool:
    """Whether an object is there, and made by this write."""
    found = _head(path)
    return found is not None and found["Metadata"].get(_WRITE_ID) == write_id


def write_new(path: str, data: bytes) -> bool:
    """See `storage.write_new`."""
    return _put_if(path, data, IfNoneMatch="*")


def read_state(path: str) -> tuple[bytes, str] | None:
    """See `storage.read_state`."""
    with _errors(path):
        try:
            return _download(path, "")
        except client().exceptions.NoSuchKey:
            return None


def replace(path: str, data: bytes, *, version: str) -> bool:
    """See `storage.replace`."""
    return _put_if(path, data, IfMatch=f'"{version}"')


def delete(path: str, *, version: str) -> bool:
    """See `storage.delete`."""
    with _errors(path):
        return _request_if(client().delete_object, **_object(path), IfMatch=f'"{version}"')


def _put_if(path: str, data: bytes, **condition: str) -> bool:
    mine = os.urandom(16).hex()
    with _errors(path):
        if _request_if(client().put_object, **_object(path), Body=data, Metadata={_WRITE_ID: mine}, **condition):
            return True
        # The answer to an attempt that succeeded may get lost; the next attempt then fails.
        return _is_mine(path, mine)


def _request_if(request: Callable[..., object], **options: Any) -> bool:
    """Whether the condition of a request held."""
    for attempt in range(_ATTEMPTS):
        try:
            request(**options)
            return True
        except exceptions.ClientError as error:
            if _code(error) == "NoSuchBucket" or _status(error) not in (404, 409, 412):
                raise
            if _status(error) != 409:
                return False
            # Another conditional write of this object is under way.
            time.sleep(random.random() * min(2**attempt, 64) / 20)
            conflict = error
    raise conflict


def concatenate(sources: Sequence[str], target: str, *, staging: str | None, replaces: bool) -> None:
    """See `storage.concatenate`.

    Large sources never leave the store; small ones come here and go back, several in one part.
    """
    condition = {} if replaces else {"IfNoneMatch": "*"}
    with ThreadPoolExecutor(_COPIERS) as pool:
        entries = list(pool.map(stat, sources))
        parts = plan_upload([entry.size for entry in entries])
        if sum(entry.size for entry in entries) <= _SINGLE_BYTES:
            data = b"".join(_read_pieces(entries, part) for part in parts)
            named = {"Metadata": {_WRITE_ID: os.urandom(16).hex()}}
            _create(target, client().put_object, named, **_object(target), Body=data, **named, **condition)
            return
        upload = _object(target)
        with _errors(target), _named_write(target) as named:
            upload["UploadId"] = client().create_multipart_upload(**upload, **named)["UploadId"]
            try:
                write = functools.partial(_write_part, target, upload, entries)
                etags = list(pool.map(write, range(1, len(parts) + 1), parts))
                finished = {"Parts": [{"ETag": etag, "PartNumber": number} for number, etag in enumerate(etags, 1)]}
                finish = functools.partial(client().complete_multipart_upload, MultipartUpload=finished)
                _create(target, finish, named, **upload, **condition)
            except BaseException:
                # Not before the last part is written: what comes after the abort would stay, and be paid for.
                pool.shutdown(cancel_futures=True)
                with contextlib.suppress(exceptions.ClientError, exceptions.BotoCoreError):
                    client().abort_multipart_upload(**upload)
                raise


def _create(path: str, request: Callable[..., object], named: Mapping[str, Any], **options: Any) -> None:
    """Makes an object; raises FileExistsError if the request says that there may be none, and there is one."""
    with _errors(path):
        # The answer to an attempt that succeeded may get lost; the next attempt then fails.
        if _request_if(request, **options) or _is_mine(path, named["Metadata"][_WRITE_ID]):
            return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _write_part(
    target: str, upload: dict[str, str], entries: Sequence[FileEntry], number: int, pieces: list[Piece]
) -> str:
    """Writes a part of an upload; returns its ETag."""
    piece, *others = pieces
    if others or piece.length < MIN_BYTES:
        data = _read_pieces(entries, pieces)
        with _errors(target):
            return str(client().upload_part(**upload, PartNumber=number, Body=data)["ETag"])
    source = entries[piece.source]
    with _errors(source.path):
        answer = client().upload_part_copy(
            **upload,
            PartNumber=number,
            CopySource=_object(source.path),
            CopySourceIfMatch=f'"{source.version}"',
            CopySourceRange=f"bytes={piece.offset}-{piece.offset + piece.length - 1}",
        )
        return str(answer["CopyPartResult"]["ETag"])


def _read_pieces(entries: Sequence[FileEntry], pieces: list[Piece]) -> bytes:
    sources = [(entries[piece.source], piece) for piece in pieces]
    return b"".join(
        read_range(source.path, piece.offset, piece.length, version=source.version) for source, piece in sources
    )


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    bucket, name = _split(root)
    is_glob = paths.is_glob(name) and not literal
    matches = paths.compile_glob(name).fullmatch if is_glob else None
    prefix = paths.literal_prefix(name) if is_glob else _folder(name)
    page = _BATCH if is_glob or limit is None else max(1, min(limit, _BATCH))
    with _errors(root):
        listed = (
            found
            for answer in _pages(bucket, prefix, page)
            for found in answer.get("Contents", ())
            if matches is None or matches(found["Key"])
        )
        for found in itertools.islice(listed, limit):
            yield _entry_of(f"s3://{bucket}/{found['Key']}", found["Size"], found)


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    bucket, name = _split(root)
    prefix = _folder(name)
    with _errors(root):
        return sorted(
            found["Prefix"][len(prefix) : -1]
            for answer in _pages(bucket, prefix, _BATCH, Delimiter="/")
            for found in answer.get("CommonPrefixes", ())
        )


def _pages(bucket: str, prefix: str, size: int, **options: str) -> Iterable[Any]:
    paginator = client().get_paginator("list_objects_v2")
    return paginator.paginate(Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": size}, **options)


def delete_files(files: Iterable[str]) -> None:
    """See `storage.delete_files`."""
    left = iter(files)
    while batch := list(itertools.islice(left, _BATCH)):
        names: dict[str, list[str]] = {}
        for file in batch:
            target = _object(file)
            names.setdefault(target["Bucket"], []).append(target["Key"])
        with _errors(paths.dirname(batch[0])):
            for bucket in names:
                _delete_batch(bucket, names[bucket])


def _delete_batch(bucket: str, names: list[str]) -> None:
    for left in reversed(range(_REPEATS)):
        objects = [{"Key": name} for name in names]
        answer = client().delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        failed = answer.get("Errors", ())
        if not failed:
            return
        if not left or any(one["Code"] not in _BUSY for one in failed):
            status = 403 if failed[0]["Code"] == "AccessDenied" else 200
            raise exceptions.ClientError(
                {"Error": failed[0], "ResponseMetadata": {"HTTPStatusCode": status}}, "DeleteObjects"
            )
        names = [one["Key"] for one in failed]


def _entry_of(path: str, size: int, found: Any) -> FileEntry:
    version = _version_of(found)
    # A listing may have fractions of a second that the answer about one object has not.
    return FileEntry(path, size, float(int(found["LastModified"].timestamp())), version, version)


def _version_of(found: Any) -> str:
    return str(found["ETag"]).strip('"')


def _object(path: str) -> dict[str, str]:
    bucket, name = _split(path)
    if not name:
        raise StorageError(f"{path} is a bucket, not an object")
    return {"Bucket": bucket, "Key": name}


def _split(path: str) -> tuple[str, str]:
    bucket, _, name = path.removeprefix("s3://").partition("/")
    if not (bucket and bucket[0].isalnum() and bucket[-1].isalnum()) or paths.is_glob(bucket):
        raise StorageError(f"{path}: {bucket!r} is not the name of a bucket")
    return bucket, name


def _folder(name: str) -> str:
    return name.rstrip("/") + "/" if name else ""


def _status(error: exceptions.ClientError) -> int:
    return int(error.response["ResponseMetadata"]["HTTPStatusCode"])


def _code(error: exceptions.ClientError) -> str:
    return str(error.response["Error"].get("Code", ""))


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raises the client's errors as StorageError, or as BuildError if the store does not answer."""
    try:
        yield
    except exceptions.ClientError as error:
        raise _error_of(path, error) from error
    except exceptions.ParamValidationError as error:
        raise StorageError(f"{path}: {_one_line(error)}") from error
    except _NO_CREDENTIALS as error:
        raise BuildError(f"{path}: no AWS credentials can be used: {_one_line(error)}") from error
    except (exceptions.BotoCoreError, Boto3Error, ResponseParserError) as error:
        raise BuildError(f"{path} does not answer: {_silence(error)}") from error


def _error_of(path: str, error: exceptions.ClientError) -> Exception:
    """The project's error for an answer that is one."""
    code, status = _code(error), _status(error)
    reason = _one_line(error.response["Error"].get("Message", "")) or code
    if code == "NoSuchBucket":
        return StorageError(f"{path}: there is no bucket {_split(path)[0]!r}")
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
            # The next request looks for credentials again: a busy machine may have had none to give.
            _make_client.cache_clear()
            return ServiceFaultError(f"{path}: access denied, and no AWS credentials were found")
        return ServiceFaultError(f"{path}: access denied to these AWS credentials")
    if status >= 500 or code in _BUSY:
        return BuildError(f"{path} does not answer: {code}: {reason}")
    kind = ServiceFaultError if is_fault_status(status) or status == 409 else StorageError
    return kind(f"{path}: {code}: {reason}")


def _silence(error: Exception) -> str:
    """Why there was no answer, in one line."""
    if isinstance(error, exceptions.SSLError):
        return f"no secure connection to {client().meta.endpoint_url}: {_one_line(error.kwargs.get('error'))}"
    if isinstance(error, exceptions.ConnectionError):
        return f"no connection to {client().meta.endpoint_url}"
    if isinstance(error, ResponseParserError):
        return f"{client().meta.endpoint_url} does not speak the protocol of S3"
    if isinstance(error, _BROKEN_OFF):
        return f"the connection broke off ({type(error).__name__})"
    return f"{type(error).__name__}: {_one_line(error)}"


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
