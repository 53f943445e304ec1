"""Amazon S3 and compatible stores (`s3://`), through boto3.

boto3 finds credentials, region and endpoint: AWS_PROFILE, AWS_ENDPOINT_URL and so on work as usual. Without
credentials, requests are not signed, which public buckets accept.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import io
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from boto3.s3.transfer import TransferConfig
from botocore import exceptions

from beam_tfrecords import crc32c
from beam_tfrecords.storage import paths, s3_reads
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    Check,
    FileEntry,
    FileRange,
    Partition,
    StorageError,
    no_check,
)
from beam_tfrecords.storage.name_ranges import Names, Page
from beam_tfrecords.storage.range_reader import is_complete, open_ranges
from beam_tfrecords.storage.retries import JITTER, DamagedAnswerError
from beam_tfrecords.storage.s3_client import BUSY, client, code_of, errors, is_missing, retried, split, status_of
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.storage.upload_plan import MIN_BYTES, plan_upload

# Attempts at a conditional write that conflicts with another one.
_ATTEMPTS = 10
# Objects of up to 8 MiB take one request; larger ones are sent in parts of 16 MiB, two at a time. A store that refuses
# a long request may close the connection before it is sent, which looks like a missing response.
_SINGLE_BYTES = 8 << 20
_UPLOAD = TransferConfig(
    multipart_threshold=_SINGLE_BYTES,
    multipart_chunksize=16 << 20,
    max_concurrency=2,
    preferred_transfer_client="classic",  # the other one ignores the client's settings
)
# Parts that are written concurrently, of 5 MiB each in memory.
_COPIERS = 4
# Concurrent requests for sizes, or for pieces of a part.
_READERS = 8
# Maximum number of objects in one delete request or on one page.
_BATCH = 1000
# Metadata key with the id of the write that created an object.
_WRITE_ID = "beam-tfrecords-write"


def exists(path: str) -> bool:
    """See `storage.exists`."""
    if not split(path)[1]:
        return False
    with errors(path):
        return _head(path) is not None


is_file = exists


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    with errors(path):
        found = _head(path)
    if found is None:
        raise StorageError(f"{path} does not exist")
    return _entry_of(path, found["ContentLength"], found)


def _head(path: str) -> Any:
    """Returns the response to a HEAD request; None if the object does not exist."""
    target = _object(path)
    try:
        return client().head_object(**target)
    except exceptions.ClientError as error:
        if status_of(error) == 404:
            return None
        # A response to HEAD has no body, and so no reason; the response to GET has one.
        client().get_object(**target)["Body"].close()
        raise


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    entry = _stat_version(path, version)
    # All ranges belong to one version.
    return open_ranges(entry.size, functools.partial(read_range, path, version=entry.version))


def read_bytes(path: str, *, version: str, size: int = 0) -> bytes:
    """See `storage.read_bytes`."""
    with errors(path):
        return _download(path, version, size=size)[0]


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`."""
    if length:
        with errors(path):
            try:
                return _download(path, version, Range=f"bytes={offset}-{offset + length - 1}")[0]
            except exceptions.ClientError as error:
                if status_of(error) != 416:
                    raise
    # The range is empty, or the object ends before it starts.
    _stat_version(path, version)
    return b""


def _download(path: str, version: str, *, size: int = 0, **options: str) -> tuple[bytes, str]:
    """Returns content and version, as `read_bytes`."""
    target = _object(path)
    if version:
        options["IfMatch"] = f'"{version}"'
    fast = s3_reads.read(target["Bucket"], target["Key"], size=size, **options)
    if fast is not None:
        data, headers = fast
        _check_version(path, headers, version)
        return data, _version_of(headers)

    def download() -> tuple[bytes, str]:
        answer = client().get_object(**target, **options)
        with contextlib.closing(answer["Body"]) as body:
            _check_version(path, answer, version)
            data = body.read()
        if not is_complete(data, answer.get("ContentRange", ""), size):
            raise DamagedAnswerError
        s3_reads.learn(target["Bucket"], target["Key"])
        return data, _version_of(answer)

    return retried(download)


def _check_version(path: str, found: Any, version: str) -> None:
    """Checks the version of a download. The precondition saves the transfer, but some stores ignore it."""
    if version and _version_of(found) not in (version, ""):
        raise ChangedError(f"{path} has changed since it was listed")


def _stat_version(path: str, version: str) -> FileEntry:
    entry = stat(path)
    if version and entry.version != version:
        raise ChangedError(f"{path} has changed since it was listed")
    return entry


@contextlib.contextmanager
def open_write(path: str, *, staging: str | None) -> Iterator[IO[bytes]]:
    """Writes to a temporary local file and uploads it; see `storage.open_write`.

    Every request can then be retried, and a failed block leaves nothing to abort.
    """
    target = _object(path)
    with tempfile.TemporaryFile() as file:
        yield file
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        with errors(path):
            if size <= _SINGLE_BYTES:
                client().put_object(**target, Body=file)
                return
            with _named_write(path) as named:
                client().upload_fileobj(file, **target, ExtraArgs=named, Config=_UPLOAD)


@contextlib.contextmanager
def open_new(path: str, *, staging: str | None, check: Check) -> Iterator[IO[bytes]]:
    """Creates an object like `open_write`; see `storage.open_new`."""
    with tempfile.TemporaryFile() as file:
        yield file
        if file.seek(0, io.SEEK_END) <= _SINGLE_BYTES:
            file.seek(0)
            _put_new(path, file.read(), check)
            return
        # boto3 has no conditional multipart upload, so the store copies from an object with another name.
        unfinished = f"{paths.join(staging, paths.basename(path)) if staging else path}.tmp-{os.urandom(4).hex()}"
        try:
            with open_write(unfinished, staging=None) as target:
                file.seek(0)
                shutil.copyfileobj(file, target, 1 << 20)
            concatenate([FileRange(unfinished)], path, staging=staging, replaces=False, check=check)
        finally:
            # The file is in the build's folder, and its cleanup reports what remains there.
            with contextlib.suppress(AccessDeniedError):
                delete_files([unfinished])


def _put_new(path: str, data: bytes, check: Check) -> None:
    """Writes an object in one request.

    Raises:
      FileExistsError: the object exists.
    """
    named = {"Metadata": {_WRITE_ID: os.urandom(16).hex()}}
    _create(path, client().put_object, named, check, **_object(path), Body=data, **named, IfNoneMatch="*")


@contextlib.contextmanager
def _named_write(path: str) -> Iterator[dict[str, Any]]:
    """Yields options that identify a multipart write; hides the error if the write succeeded but its response was lost.

    A write that a kill cuts off, or whose first response is lost, leaves an upload for the bucket's lifecycle rule.
    """
    mine = os.urandom(16).hex()
    try:
        yield {"Metadata": {_WRITE_ID: mine}}
    except exceptions.ClientError as error:
        if code_of(error) != "NoSuchUpload" or _find_mine(path, mine) is None:
            raise


def _find_mine(path: str, write_id: str) -> Any:
    """Returns the response to a HEAD request; None if the object does not exist or comes from another write."""
    found = _head(path)
    return found if found is not None and found["Metadata"].get(_WRITE_ID) == write_id else None


def read_state(path: str) -> tuple[bytes, str] | None:
    """See `storage.read_state`."""
    with errors(path):
        try:
            data, version = _download(path, "")
        except client().exceptions.NoSuchKey:
            return None
    if not version:
        raise StorageError(f"{path}: the store returns no ETags for its objects, which an output needs")
    return data, version


def replace(path: str, data: bytes, *, version: str) -> bool:
    """See `storage.replace`."""
    mine = os.urandom(16).hex()
    options = {**_object(path), "Body": data, "Metadata": {_WRITE_ID: mine}, "IfMatch": f'"{version}"'}
    with errors(path):
        # The response to a successful attempt may be lost; its retry then fails.
        return _request_if(client().put_object, **options) or _find_mine(path, mine) is not None


def delete(path: str, *, version: str) -> bool:
    """See `storage.delete`."""
    with errors(path):
        return _request_if(client().delete_object, **_object(path), IfMatch=f'"{version}"')


def _request_if(request: Callable[..., object], **options: Any) -> bool:
    """Sends a conditional request; returns whether the condition held."""
    for attempt in range(_ATTEMPTS):
        try:
            request(**options)
            return True
        except exceptions.ClientError as error:
            if not is_missing(error) and status_of(error) not in (409, 412):
                raise
            if status_of(error) != 409:
                return False
            # Another conditional write of this object is in progress.
            time.sleep(JITTER.random() * min(2**attempt, 64) / 20)
            conflict = error
    raise conflict


def concatenate(
    sources: Sequence[FileRange], target: str, *, staging: str | None, replaces: bool, check: Check
) -> int | None:
    """Concatenates objects; see `storage.concatenate`.

    The store copies large sources by itself; small ones are downloaded, and uploaded as joint parts. The store computes
    the CRC of the whole object, unless boto3 is configured without it (AWS_REQUEST_CHECKSUM_CALCULATION=when_required).
    """
    has_crc = client().meta.config.request_checksum_calculation != "when_required"
    try:
        return _join(sources, target, replaces=replaces, check=check, has_crc=has_crc)
    except _UnknownChecksumError:
        return _join(sources, target, replaces=replaces, check=check, has_crc=False)


class _UnknownChecksumError(Exception):
    """The store cannot compute the checksum of a part that it copies, such as MinIO."""


def _join(sources: Sequence[FileRange], target: str, *, replaces: bool, check: Check, has_crc: bool) -> int | None:
    """Concatenates objects; see `concatenate`.

    Args:
      has_crc: whether the store computes the CRC.

    Raises:
      _UnknownChecksumError: the store refuses to.
    """
    condition = {} if replaces else {"IfNoneMatch": "*"}
    checksum = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"} if has_crc else {}
    entries = list(map_in_threads(stat, (source.path for source in sources), threads=_READERS))
    versions = {entry.path: entry.version for entry in entries}
    ranges = [
        source._replace(length=source.length_in(entry.size)) for source, entry in zip(sources, entries, strict=True)
    ]
    with ThreadPoolExecutor(_COPIERS) as pool:
        if sum(one.length for one in ranges) <= _SINGLE_BYTES:
            data = _read_pieces(versions, [one for one in ranges if one.length])
            if replaces:
                with errors(target):
                    client().put_object(**_object(target), Body=data)
            else:
                _put_new(target, data, check)
            return crc32c.value(data)
        upload = _object(target)
        with errors(target), _named_write(target) as named:
            upload["UploadId"] = client().create_multipart_upload(**upload, **named, **checksum)["UploadId"]
            try:
                write = functools.partial(_write_part, target, upload, versions, has_crc=has_crc)
                written = list(pool.map(write, itertools.count(1), plan_upload(ranges)))
                finish = functools.partial(client().complete_multipart_upload, MultipartUpload={"Parts": written})
                whole = _create(target, finish, named, no_check if replaces else check, **upload, **condition)
            except BaseException:
                # Wait for running parts: a part that arrives after the abort would remain, and cost money.
                pool.shutdown(cancel_futures=True)
                with contextlib.suppress(exceptions.ClientError, exceptions.BotoCoreError):
                    client().abort_multipart_upload(**upload)
                raise
    # A store that does not support full-object checksums returns a checksum of the parts' checksums, with their number.
    found = whole.get("ChecksumCRC32C", "-")
    return None if "-" in found else int.from_bytes(base64.b64decode(found), "big")


def _create(
    path: str, request: Callable[..., Any], named: Mapping[str, Any], check: Check, **options: Any
) -> Mapping[str, Any]:
    """Creates an object, and returns the store's response, which is empty if it was lost.

    Args:
      path: the object.
      request: creates the object.
      named: options that identify the write.
      check: as in `storage.open_new`.
      options: options of the request.

    Raises:
      FileExistsError: the request requires that the object does not exist, and it exists.
    """
    answers: list[Mapping[str, Any]] = []
    write_id = named["Metadata"][_WRITE_ID]
    with errors(path):
        # The response to a successful attempt may be lost; its retry then fails.
        made = _request_if(lambda **given: answers.append(request(**given)), **options)
        if not made and _find_mine(path, write_id) is None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    try:
        check()
    except BaseException:
        with errors(path):
            found = _find_mine(path, write_id)
        if found is not None:
            delete(path, version=_version_of(found))
        raise
    return answers[0] if answers else {}


def _write_part(
    target: str,
    upload: dict[str, str],
    versions: Mapping[str, str],
    number: int,
    pieces: list[FileRange],
    *,
    has_crc: bool,
) -> dict[str, Any]:
    """Writes a part of an upload; returns its entry for the request that completes the upload."""
    piece, *others = pieces
    if others or piece.length < MIN_BYTES:
        data = _read_pieces(versions, pieces)
        # boto3 would need another library to compute it.
        checksum = {"ChecksumCRC32C": base64.b64encode(crc32c.value(data).to_bytes(4, "big")).decode()}
        with errors(target):
            answer = client().upload_part(**upload, PartNumber=number, Body=data, **(checksum if has_crc else {}))
            return _part(number, answer)
    with errors(piece.path):
        try:
            answer = client().upload_part_copy(
                **upload,
                PartNumber=number,
                CopySource=_object(piece.path),
                CopySourceIfMatch=f'"{versions[piece.path]}"',
                CopySourceRange=f"bytes={piece.offset}-{piece.offset + piece.length - 1}",
            )
        except exceptions.ClientError as error:
            if has_crc and code_of(error) == "InvalidArgument" and "checksum missing" in str(error):
                raise _UnknownChecksumError from error
            raise
        return _part(number, answer["CopyPartResult"])


def _part(number: int, answer: Mapping[str, Any]) -> dict[str, Any]:
    # Some stores require the checksums that they returned.
    return {"PartNumber": number, **{name: answer[name] for name in ("ETag", "ChecksumCRC32C") if name in answer}}


def _read_pieces(versions: Mapping[str, str], pieces: list[FileRange]) -> bytes:
    def read(piece: FileRange) -> bytes:
        return read_range(piece.path, piece.offset, piece.length, version=versions[piece.path])

    return b"".join(map_in_threads(read, pieces, threads=_READERS))


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    return _names(root, literal=literal).list_files(limit=limit)


def partition_listing(root: str, *, literal: bool) -> list[Partition]:
    """Partitions by ranges of names; see `storage.partition_listing`."""
    return _names(root, literal=literal).partition()


def list_partition(root: str, part: Partition, *, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_partition`."""
    return _names(root, literal=literal).list_files(part=part)


def _names(root: str, *, literal: bool) -> Names:
    bucket, name = split(root)
    return Names(f"s3://{bucket}/", name, literal=literal, list_page=functools.partial(_list_page, root))


def _list_page(root: str, after: str, before: str | None, *, prefix: str, size: int) -> Page:
    """Lists a page; see `name_ranges.Names`."""
    bucket = split(root)[0]
    items: list[Any] = []
    with errors(root):
        for answer in _pages(bucket, prefix, size, **({"StartAfter": after} if after else {})):
            items = [item for item in answer.get("Contents", ()) if item["Key"] > after]
            if items:  # a page may be empty even if another one follows
                break
    inside = [item for item in items if before is None or item["Key"] <= before]
    is_last = not answer["IsTruncated"] or len(inside) < len(items)
    entries = [_entry_of(f"s3://{bucket}/{item['Key']}", item["Size"], item) for item in inside]
    return Page(entries, "" if is_last else inside[-1]["Key"])


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    bucket, name = split(root)
    prefix = paths.folder_prefix(name)
    with errors(root):
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
        with errors(paths.dirname(batch[0])):
            for bucket in names:
                _delete_batch(bucket, names[bucket])


def _delete_batch(bucket: str, names: list[str]) -> None:
    left = names

    def delete_left() -> None:
        nonlocal left
        objects = [{"Key": name} for name in left]
        answer = client().delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        # Permanent errors come first.
        failed = sorted(answer.get("Errors", ()), key=lambda one: one["Code"] in BUSY)
        if failed:
            left = [one["Key"] for one in failed]
            status = 403 if failed[0]["Code"] == "AccessDenied" else 200
            raise exceptions.ClientError(
                {"Error": failed[0], "ResponseMetadata": {"HTTPStatusCode": status}}, "DeleteObjects"
            )

    retried(delete_left)


def _entry_of(path: str, size: int, found: Any) -> FileEntry:
    version = _version_of(found)
    # A listing may have fractions of a second that the response for one object lacks.
    return FileEntry(path, size, int(found["LastModified"].timestamp()) * 10**9, version, version)


def _version_of(found: Any) -> str:
    """Returns the ETag; "" if the store has none."""
    return str(found.get("ETag", "")).strip('"')


def _object(path: str) -> dict[str, str]:
    bucket, name = split(path)
    if not name:
        raise StorageError(f"{path} is a bucket, not an object")
    return {"Bucket": bucket, "Key": name}
