"""Google Cloud Storage (`gs://`), by google-cloud-storage. STORAGE_EMULATOR_HOST is honoured."""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import io
import itertools
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from google.api_core import exceptions
from google.auth.exceptions import GoogleAuthError
from google.cloud.storage import Blob, Client
from google.cloud.storage.exceptions import DataCorruption
from google.cloud.storage.retry import DEFAULT_RETRY
from requests import RequestException
from requests.adapters import HTTPAdapter

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import ChangedError, FileEntry, ServiceFaultError, StorageError
from beam_tfrecords.storage.faults import is_fault_status, read_complete
from beam_tfrecords.storage.merging import merge_in_threads
from beam_tfrecords.storage.range_reader import open_ranges

# Connections that stay open: readers ask for several objects at once.
_CONNECTIONS = 32
# Uploads of up to 8 MiB are one request; larger ones go in chunks of this many bytes, each held in memory.
_UPLOAD_BYTES = 16 << 20
# The most that the service accepts in one batch request.
_BATCH = 100
# The most that the service composes in one request.
_SOURCES = 32
# Objects of one answer, and answers after which folders are listed at once.
_PAGE = 1000
_FIRST_PAGES = 10
_LISTERS = 16
# Batches that are under way at once; the service takes half a second for one.
_DELETERS = 8
# Retries 429, 5xx and lost connections, with growing pauses, for two minutes.
_RETRY = DEFAULT_RETRY
# Exhausted retries, errors that are not retried, and missing or rejected credentials.
_NO_ANSWER = (
    exceptions.RetryError,
    exceptions.ServerError,
    exceptions.Unauthorized,
    GoogleAuthError,
    RequestException,
)
# Metadata that names the write that made an object.
_WRITE_ID = "beam-tfrecords-write"
_client_lock = threading.Lock()


def client() -> Client:
    """The client of this process, made at the first call; any thread may use it."""
    with _client_lock:
        return _make_client(os.getpid(), os.environ.get("STORAGE_EMULATOR_HOST"))


# A forked process must not share its parent's connections.
@functools.lru_cache(maxsize=1)
def _make_client(process: int, emulator: str | None) -> Client:
    # Otherwise the library asks for the bucket's metadata in a background thread, again after every 404.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    made = Client(project=None)
    session = made._http
    if not session.is_mtls:  # otherwise the adapter holds the client certificate
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(pool_maxsize=_CONNECTIONS))
    return made


def exists(path: str) -> bool:
    """See `storage.exists`."""
    with _errors(path):
        return bool(_split(path)[1]) and bool(_blob(path).exists(retry=_RETRY))


is_file = exists


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    with _errors(path):
        blob = _blob(path)
        blob.reload(retry=_RETRY)
        return _entry_of(path, blob)


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    entry = _stat_version(path, version)
    # All ranges are of one generation.
    return open_ranges(entry.size, functools.partial(read_range, path, version=entry.version))


def read_bytes(path: str, *, version: str) -> bytes:
    """See `storage.read_bytes`."""
    with _errors(path):
        return _blob(path).download_as_bytes(raw_download=True, retry=_RETRY, if_generation_match=_generation(version))


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`."""

    def read() -> tuple[bytes, int]:
        data, size = _download_range(path, offset, length, version) if length else (b"", None)
        if size is None:
            size = _stat_version(path, version).size
        return data, min(length, size - offset)

    return read_complete(path, read)


def _download_range(path: str, offset: int, length: int, version: str) -> tuple[bytes, int | None]:
    """A range of an object, and the size of the object if the service says it."""
    with _errors(path):
        blob = _blob(path, _SizedBlob)
        try:
            # The store knows the checksum of the whole object only.
            data = blob.download_as_bytes(
                start=offset,
                end=offset + length - 1,
                raw_download=True,
                checksum=None,
                retry=_RETRY,
                if_generation_match=_generation(version),
            )
        except exceptions.RequestRangeNotSatisfiable:  # the object ends before the range begins
            data = b""
        return data, blob.full_size


class _SizedBlob(Blob):
    """An object whose size is known after a range of it was downloaded; asking for it would be one more request."""

    full_size: int | None = None

    # The library has no public way to the headers of an answer.
    def _extract_headers_from_download(self, response: Any) -> None:
        super()._extract_headers_from_download(response)
        size = response.headers.get("Content-Range", "").rpartition("/")[2]
        self.full_size = int(size) if size.isdecimal() else None


def _stat_version(path: str, version: str) -> FileEntry:
    entry = stat(path)
    if version and entry.version != version:
        raise ChangedError(f"{path} has changed since it was listed")
    return entry


def _generation(version: str) -> int | None:
    return int(version) if version else None


@contextlib.contextmanager
def open_write(path: str, *, staging: str | None) -> Iterator[IO[bytes]]:
    """Writes to a temporary local file and uploads it; see `storage.open_write`.

    From a local file an interrupted upload resumes where it stopped, and a failed block leaves nothing to abort.
    """
    with tempfile.TemporaryFile() as file:
        yield file
        size = file.seek(0, io.SEEK_END)
        with _errors(path):
            blob = _blob(path)
            blob.chunk_size = _UPLOAD_BYTES
            # The same path is only ever given the same bytes, so retrying needs no precondition.
            blob.upload_from_file(file, rewind=True, size=size, retry=_RETRY)


def write_new(path: str, data: bytes) -> bool:
    """See `storage.write_new`."""
    return _upload_if(path, data, 0)


def read_state(path: str) -> tuple[bytes, str] | None:
    """See `storage.read_state`."""
    while True:
        try:
            with _errors(path):
                blob = _blob(path)
                try:
                    blob.reload(retry=_RETRY)
                except exceptions.NotFound:
                    return None
            version = str(blob.generation)
            return read_bytes(path, version=version), version
        except ChangedError:  # between the two requests
            continue


def replace(path: str, data: bytes, *, version: str) -> bool:
    """See `storage.replace`."""
    return _upload_if(path, data, int(version))


def delete(path: str, *, version: str) -> bool:
    """See `storage.delete`."""
    with _errors(path):
        try:
            _blob(path).delete(if_generation_match=int(version), retry=_RETRY)
        except (exceptions.PreconditionFailed, exceptions.NotFound):
            return False
    return True


def _upload_if(path: str, data: bytes, generation: int) -> bool:
    """Writes an object if its generation is this one; 0 if there is no object."""
    with _errors(path):
        blob = _blob(path)
        blob.metadata = {_WRITE_ID: os.urandom(16).hex()}
        mine = dict(blob.metadata)
        try:
            blob.upload_from_string(data, if_generation_match=generation, retry=_RETRY)
        except exceptions.PreconditionFailed:
            # The answer to an attempt that succeeded may get lost; the next attempt then fails.
            found = _blob(path)
            try:
                found.reload(retry=_RETRY)
            except exceptions.NotFound:
                return False
            return (found.metadata or {}).get(_WRITE_ID) == mine[_WRITE_ID]
    return True


def concatenate(sources: Sequence[str], target: str, *, staging: str | None, replaces: bool) -> int | None:
    """See `storage.concatenate`: composed by the service, in several levels if there are many sources."""
    names, level = [_split(source)[1] for source in sources], 0
    temporary = f"{paths.join(staging, paths.basename(target)) if staging else target}.tmp-{os.urandom(4).hex()}"
    made: list[str] = []
    try:
        with _errors(target):
            while len(names) > _SOURCES:
                groups = [names[start : start + _SOURCES] for start in range(0, len(names), _SOURCES)]
                level += 1
                above = [f"{temporary}-{level}-{number}" for number in range(len(groups))]
                made += above
                for path, group in zip(above, groups, strict=True):
                    _compose(path, group)
                names = [_split(path)[1] for path in above]
            try:
                blob = _compose(target, names, generation=None if replaces else 0)
            except exceptions.PreconditionFailed as error:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
    except StorageError:
        # The service does not say which of the sources is missing.
        for source in sources:
            stat(source)
        raise
    finally:
        delete_files(made)
    return int.from_bytes(base64.b64decode(blob.crc32c), "big") if blob.crc32c else None


def _compose(path: str, names: list[str], *, generation: int | None = None) -> Blob:
    blob = _blob(path)
    blob.content_type = "application/octet-stream"
    # Retried without a precondition too: the same path is only ever given the same bytes.
    if names:
        blob.compose([blob.bucket.blob(name) for name in names], if_generation_match=generation, retry=_RETRY)
    else:
        blob.upload_from_string(b"", content_type=blob.content_type, if_generation_match=generation, retry=_RETRY)
    return blob


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    bucket, name = _split(root)
    blobs: Iterator[Blob]
    with _errors(root):
        if paths.is_glob(name) and not literal:
            glob = paths.compile_glob(name)
            blobs = (blob for blob in _list(bucket, paths.literal_prefix(name)) if glob.fullmatch(blob.name))
        elif limit is not None:
            blobs = _list(bucket, _folder(name), page_size=limit)
        else:
            blobs = _list_tree(bucket, _folder(name))
        for blob in itertools.islice(blobs, limit):
            yield _entry_of(f"gs://{bucket}/{blob.name}", blob)


def _list(bucket: str, prefix: str, **options: Any) -> Any:
    fields = "items(name,size,updated,generation),prefixes,nextPageToken"
    return client().list_blobs(bucket, prefix=prefix, fields=fields, retry=_RETRY, **options)


def _list_tree(bucket: str, prefix: str, after: str = "", threads: int = _LISTERS) -> Iterator[Blob]:
    """All objects below a prefix; of very many, the folders below it are listed at once, in no set order.

    A page of a thousand objects takes 0.15 s: page after page, a billion images take two days.

    Args:
      bucket: its name.
      prefix: of the names.
      after: only objects with later names.
      threads: folders that are listed at once.
    """
    first, last = _list(bucket, prefix, page_size=_PAGE, start_offset=after or None), after
    for blob in itertools.chain.from_iterable(itertools.islice(first.pages, _FIRST_PAGES)):
        if blob.name > after:
            yield blob
            last = blob.name
    if not first.next_page_token:
        return
    level = _list(bucket, prefix, page_size=_PAGE, delimiter="/")
    files = list(itertools.chain.from_iterable(itertools.islice(level.pages, _FIRST_PAGES)))
    if threads == 1 or level.next_page_token or not level.prefixes:
        yield from (blob for blob in _list(bucket, prefix, start_offset=last) if blob.name > last)
        return
    yield from (blob for blob in files if blob.name > last)
    # Those before the last name have been listed.
    folders = [folder for folder in sorted(level.prefixes) if folder > last or last.startswith(folder)]
    each = max(1, threads // max(1, len(folders)))
    sources = [
        functools.partial(_list_tree, bucket, folder, last if last.startswith(folder) else "", each)
        for folder in folders
    ]
    yield from merge_in_threads(sources, threads=threads)


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    bucket, name = _split(root)
    with _errors(root):
        listed = client().list_blobs(
            bucket, prefix=_folder(name), delimiter="/", fields="prefixes,nextPageToken", retry=_RETRY
        )
        for _ in listed.pages:
            pass
        return sorted(prefix[len(_folder(name)) : -1] for prefix in listed.prefixes)


def delete_files(files: Iterable[str]) -> None:
    """See `storage.delete_files`."""
    left = iter(files)
    batches = iter(lambda: list(itertools.islice(left, _BATCH)), [])
    with ThreadPoolExecutor(_DELETERS) as pool:
        # A few at a time: `map` would read all names of files at once.
        while some := list(itertools.islice(batches, _DELETERS)):
            for _ in pool.map(_delete_batch, some):
                pass


def _delete_batch(files: list[str]) -> None:
    with _errors(paths.dirname(files[0])):
        _RETRY(_request_deletes)(files)


def _request_deletes(files: list[str]) -> None:
    batch = client().batch(raise_exception=False)
    with batch:
        for file in files:
            _blob(file).delete()
    # The library has no public name for the answers.
    for response in batch._responses:
        if not response.ok and response.status_code != exceptions.NotFound.code:
            raise exceptions.from_http_response(response)


def _entry_of(path: str, blob: Blob) -> FileEntry:
    return FileEntry(path, blob.size, blob.updated.timestamp(), blob.generation, str(blob.generation))


def _blob(path: str, kind: type[Blob] = Blob) -> Blob:
    bucket, name = _split(path)
    if not name:
        raise StorageError(f"{path} is a bucket, not an object")
    return kind(name, client().bucket(bucket))


def _split(path: str) -> tuple[str, str]:
    bucket, _, name = path.removeprefix("gs://").partition("/")
    if not (bucket and bucket[0].isalnum() and bucket[-1].isalnum()) or paths.is_glob(bucket):
        raise StorageError(f"{path}: {bucket!r} is not the name of a bucket")
    return bucket, name


def _folder(name: str) -> str:
    return name.rstrip("/") + "/" if name else ""


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    """Raises the client's errors as StorageError, or as BuildError if the store does not answer."""
    try:
        yield
    except exceptions.NotFound as error:
        raise StorageError(f"{path} does not exist") from error
    except exceptions.PreconditionFailed as error:
        raise ChangedError(f"{path} has changed since it was listed") from error
    except _NO_ANSWER as error:
        raise BuildError(f"{path} does not answer: {_one_line(error)}") from error
    except exceptions.GoogleAPICallError as error:
        kind = ServiceFaultError if is_fault_status(error.code) else StorageError
        raise kind(f"{path}: {_one_line(error.message)}") from error
    except DataCorruption as error:
        raise ServiceFaultError(f"{path}: {_one_line(error)}") from error


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
