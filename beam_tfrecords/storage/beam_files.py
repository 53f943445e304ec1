"""Serves all schemes except `gs://` and `s3://` with Beam's FileSystems: `hdfs://`, `azfs://`, and plug-ins."""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import importlib.util
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from requests import RequestException

from beam_tfrecords.errors import BuildError, describe_exception
from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import (
    Check,
    FileEntry,
    SchemeError,
    ServiceFaultError,
    StorageError,
)
from beam_tfrecords.storage.faults import is_fault_status, read_complete
from beam_tfrecords.storage.options import current_options

# Scheme -> the package that Beam's file system needs, and the command that installs it.
_EXTRAS = {
    "hdfs": ("hdfs", "pip install 'apache-beam[hadoop]'"),
    "azfs": ("azure", "pip install 'apache-beam[azure]'"),
}
_BATCH = 100
_AS_STORED = CompressionTypes.UNCOMPRESSED


def check_scheme(uri: str) -> None:
    """See `storage.check_scheme`."""
    with _file_system(uri):
        pass


def exists(path: str) -> bool:
    """See `storage.exists`."""
    with _file_system(path) as files:
        return _exists(files, path)


def _exists(files: FileSystem, path: str) -> bool:
    try:
        return bool(files.exists(path))
    except BeamIOError as error:
        if 404 in _statuses(error):  # azfs:// raises for a missing blob
            return False
        raise


is_file = exists


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    with _file_system(path) as files:
        return _entry_of(files.metadata(path))


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    with _file_system(path) as files:
        return files.open(path, compression_type=_AS_STORED)


def read_bytes(path: str, *, version: str, size: int = 0) -> bytes:
    """See `storage.read_bytes`."""
    with _file_system(path) as files, files.open(path, compression_type=_AS_STORED) as file:
        return file.read()


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`."""

    def read() -> tuple[bytes, int]:
        with _file_system(path) as files, files.open(path, compression_type=_AS_STORED) as file:
            file.seek(offset)
            data = file.read(length)
        return data, length if len(data) == length else min(length, stat(path).size - offset)

    return read_complete(path, read)


def read_state(path: str) -> tuple[bytes, str] | None:
    """See `storage.read_state`."""
    if not exists(path):
        return None
    data = read_bytes(path, version="")
    return data, hashlib.sha256(data).hexdigest()


def replace(path: str, data: bytes, *, version: str) -> bool:
    """Replaces a file; see `storage.replace`. Beam has no preconditions, so two writers may both get True."""
    is_version = _is_state(path, version)
    if is_version:
        with open_write(path, staging=None) as file:
            file.write(data)
    return is_version


def delete(path: str, *, version: str) -> bool:
    """Deletes a file; see `storage.delete`. Has the same race as `replace`."""
    is_version = _is_state(path, version)
    if is_version:
        delete_files([path])
    return is_version


def _is_state(path: str, version: str) -> bool:
    state = read_state(path)
    return state is not None and state[1] == version


@contextlib.contextmanager
def open_write(path: str, *, staging: str | None) -> Iterator[IO[bytes]]:
    """Writes to a temporary local file and copies it; see `storage.open_write`.

    Beam's own writers publish the written data on close, even after an error.
    """
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        with _file_system(path) as files, files.create(path, compression_type=_AS_STORED) as target:
            shutil.copyfileobj(file, target, 1 << 20)


@contextlib.contextmanager
def open_new(path: str, *, staging: str | None, check: Check) -> Iterator[IO[bytes]]:
    """Opens a new file; see `storage.open_new`. Has the same race as `replace`."""
    with open_write(path, staging=staging) as file:
        yield file
        if exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    check()


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    is_glob = paths.is_glob(root) and not literal
    # Beam takes `**/` for one folder or more.
    crosses = is_glob and "**" in root
    folder = paths.literal_prefix(root).rpartition("/")[0] if crosses else root.rstrip("/")
    pattern = root if is_glob and not crosses else glob.escape(folder) + "/**"
    with _file_system(root) as files:
        (match,) = files.match([pattern], [None if crosses else limit])
    fits = paths.compile_glob(root).fullmatch
    found = (_entry_of(one) for one in match.metadata_list if not crosses or fits(one.path))
    return itertools.islice(found, limit)


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    start = len(root.rstrip("/")) + 1
    below = (entry.path[start:] for entry in list_files(root, limit=None, special=False, literal=True))
    return sorted({path.split("/", 1)[0] for path in below if "/" in path})


def delete_files(files: Iterable[str]) -> None:
    """See `storage.delete_files`."""
    left = iter(files)
    while batch := list(itertools.islice(left, _BATCH)):
        with _file_system(batch[0]) as system:
            try:
                system.delete(batch)
            except BeamIOError:
                # Some file systems raise for a missing file.
                if any(_exists(system, path) for path in batch):
                    raise


def _entry_of(metadata: FileMetadata) -> FileEntry:
    return FileEntry(metadata.path, metadata.size_in_bytes, round((metadata.last_updated_in_seconds or 0) * 1e9))


@functools.lru_cache(maxsize=1)
def _set_options(arguments: tuple[str, ...]) -> None:
    """Passes the command's arguments to Beam's file systems; on a cluster, Beam may have passed them to the worker."""
    if arguments or FileSystems._pipeline_options is None:
        FileSystems.set_options(PipelineOptions(list(arguments)))


@contextlib.contextmanager
def _file_system(path: str) -> Iterator[FileSystem]:
    """Yields Beam's file system for a path; converts errors of its client to OSError or BuildError.

    Raises:
      SchemeError: no file system serves the scheme, or it is not configured.
    """
    scheme = path.partition("://")[0]
    package, command = _EXTRAS.get(scheme, ("", ""))
    known = any(kind.scheme() == scheme for kind in FileSystem.get_all_subclasses())
    if command and not (known and importlib.util.find_spec(package)):
        raise SchemeError(f"{path}: {scheme}:// needs an extra: {command}", code="missing_extra")
    if not known:
        raise SchemeError(f"{path}: unknown scheme {scheme}://", code="unknown_scheme")
    _set_options(current_options().beam_arguments)
    try:
        system = FileSystems.get_filesystem(path)
    except ValueError as error:
        raise SchemeError(f"{path}: {error}", code="store_not_set_up") from error
    try:
        yield system
    except RequestException as error:  # also an OSError
        if error.response is None:
            raise BuildError(f"{path} does not answer: {describe_exception(error)}") from error
        kind = ServiceFaultError if is_fault_status(error.response.status_code) else StorageError
        raise kind(f"{path}: {error}") from error
    except OSError as error:
        if any(map(is_fault_status, _statuses(error))):
            raise ServiceFaultError(f"{path}: {error}") from error
        raise
    except Exception as error:  # of the client library: Beam wraps only some of them
        code = getattr(error, "code", None)
        if code in (401, 403):
            raise ServiceFaultError(f"{path}: {error}") from error
        if isinstance(error, ValueError) or (isinstance(code, int) and 400 <= code < 500):
            raise StorageError(f"{path}: {error}") from error
        raise BuildError(f"{path} does not answer: {describe_exception(error)}") from error


def _statuses(error: OSError) -> Iterator[object]:
    """Yields the HTTP statuses of the errors that Beam wraps."""
    details = getattr(error, "exception_details", None)
    for cause in (error, error.__cause__, *(details.values() if isinstance(details, dict) else ())):
        yield getattr(cause, "code", None)
