"""Access to files on all file systems; no other package touches one.

The operating system serves local paths, google-cloud-storage `gs://`, boto3 `s3://`, and Beam's FileSystems every other
scheme. The last three are imported when one of their paths is first used. A path such as `photos.zip#/cat/1.jpg` leads
into an archive on any of them; see `archives.py`.

Every function raises OSError for a missing or unreadable file, `beam_tfrecords.errors.BuildError` if the store does not
answer or the disk is full, and SchemeError, a RequestError, for an unknown scheme.
"""

from __future__ import annotations

# ruff: noqa: F401  # Other packages use names of these modules as `storage.NAME`.
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Protocol

from beam_tfrecords.errors import BuildError
from beam_tfrecords.extras import install_hint
from beam_tfrecords.storage import local
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    Check,
    FileEntry,
    FileRange,
    MissingBucketError,
    Partition,
    SchemeError,
    ServiceFaultError,
    StorageError,
    no_check,
)
from beam_tfrecords.storage.faults import is_service_fault, is_unanswered
from beam_tfrecords.storage.members import (
    MemberError,
    Place,
    archive_of,
    expanding_into,
    expansion_folder,
    is_place,
)
from beam_tfrecords.storage.opened import DependencyTracker, note, noting_files
from beam_tfrecords.storage.options import StorageOptions, current_options, set_options, using, with_storage_options
from beam_tfrecords.storage.paths import (
    absolute,
    basename,
    dirname,
    has_scheme,
    is_glob,
    is_inside,
    is_web,
    join,
    plain_uri,
    shown,
)
from beam_tfrecords.storage.range_reader import read_chunks
from beam_tfrecords.storage.request_metrics import add_request_metrics, take_request_metrics
from beam_tfrecords.storage.threads import SharedCall, call_at_once, map_in_threads

# Concurrent delete requests.
_DELETERS = 16
# Schemes that passed `check_scheme`.
_SERVED: set[str] = set()
# Scheme -> the extra of its library.
_EXTRAS = {"gs": "gcp", "s3": "aws"}


class _FileSystem(Protocol):
    """Interface of a file system module; the functions below document the methods."""

    def exists(self, path: str) -> bool: ...
    def is_file(self, path: str) -> bool: ...
    def stat(self, path: str) -> FileEntry: ...
    def open_read(self, path: str, *, version: str) -> IO[bytes]: ...
    def read_bytes(self, path: str, *, version: str, size: int) -> bytes: ...
    def read_range(self, path: str, offset: int, length: int, *, version: str) -> bytes: ...
    def read_state(self, path: str) -> tuple[bytes, str] | None: ...
    def replace(self, path: str, data: bytes, *, version: str) -> bool: ...
    def delete(self, path: str, *, version: str) -> bool: ...
    def open_write(self, path: str, *, staging: str | None) -> AbstractContextManager[IO[bytes]]: ...
    def open_new(self, path: str, *, staging: str | None, check: Check) -> AbstractContextManager[IO[bytes]]: ...
    def list_files(self, root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]: ...
    def list_folders(self, root: str) -> list[str]: ...
    def delete_files(self, files: Iterable[str]) -> None: ...


class _Store(_FileSystem, Protocol):
    """Interface of a module that also partitions listings, and concatenates files in the store."""

    def concatenate(
        self, sources: Sequence[FileRange], target: str, *, staging: str | None, replaces: bool, check: Check
    ) -> int | None: ...
    def partition_listing(self, root: str, *, literal: bool) -> list[Partition]: ...
    def list_partition(self, root: str, part: Partition, *, special: bool, literal: bool) -> Iterator[FileEntry]: ...


def _system(path: str, version: str = "") -> _FileSystem:
    if is_place(version) or archive_of(path) is not None:
        from beam_tfrecords.storage import archives

        return archives
    if is_web(path):
        raise SchemeError(
            f"{path}: the web is read only where a table names images; download it first", code="web_not_supported"
        )
    if (store := _store(path)) is not None:
        return store
    from beam_tfrecords.storage import beam_files

    return beam_files


def _store(path: str) -> _Store | None:
    """Returns the module of a path outside archives; None if Beam's file systems serve it."""
    if not has_scheme(path):
        return local
    try:
        if path.startswith("gs://"):
            from beam_tfrecords.storage import gcs

            return gcs
        if path.startswith("s3://"):
            from beam_tfrecords.storage import s3

            return s3
    except ImportError as error:
        scheme = path[:2]
        hint = install_hint(_EXTRAS[scheme])
        raise SchemeError(f"{path}: {scheme}:// needs an extra: {hint}", code="missing_extra") from error
    return None


def check_scheme(uri: str) -> None:
    """Raises SchemeError if a URI's scheme is unknown, or its extra is not installed."""
    scheme = uri.partition("://")[0]
    if scheme not in _SERVED and not is_web(uri):
        system = _system(uri)
        if scheme not in _EXTRAS:
            system.check_scheme(uri)  # type: ignore[attr-defined]
        _SERVED.add(scheme)


def modules_for(paths: Iterable[str]) -> list[str]:
    """Returns the modules that serve these paths; importing the module of a store takes half a second."""
    names = {"gs": "gcs", "s3": "s3"}
    schemes = {path.partition("://")[0] for path in paths}
    return [f"{__name__}.{names[scheme]}" for scheme in sorted(schemes & names.keys())]


def _note(path: str) -> None:
    """Adds a file to the active tracker; of a member its archive."""
    note(archive_of(path) or path, find_fingerprint)


def exists(path: str) -> bool:
    """Whether a file or a local folder exists at `path`; raises if that is unknown, like `is_file` and `is_folder`."""
    _note(path)
    return _system(path).exists(path)


def is_file(path: str) -> bool:
    """Whether a file or an object exists at `path`."""
    _note(path)
    return _system(path).is_file(path)


def is_folder(path: str) -> bool:
    """Whether `path` is a folder; a prefix in an object store is a folder if it has objects."""
    if archive_of(path) is not None:
        from beam_tfrecords.storage import archives

        return archives.is_folder(path)
    if not has_scheme(path):
        return local.is_folder(path)
    return any(True for _ in list_files(path, limit=1, literal=True))


def real_path(path: str) -> str:
    """Returns the path without links, `.` and `..`, whether or not it exists: the same for all names of one file."""
    return plain_uri(path) if has_scheme(path) else local.real_path(path)


def stat(path: str) -> FileEntry:
    """Returns size and time of one file.

    Raises:
      OSError: the file does not exist (locally FileNotFoundError), or it is not a regular file.
    """
    return _system(path).stat(path)


def find_fingerprint(path: str) -> str:
    """Returns the fingerprint of a file; "" if the file does not exist.

    Raises:
      OSError: a service fault, so the state of the file is unknown.
    """
    if is_web(path):
        return ""
    try:
        return stat(path).fingerprint
    except OSError as error:
        if is_service_fault(error):
            raise
        return ""


def now(path: str) -> float:
    """Returns the time by the clock of the store, to compare with file times: seconds since the epoch.

    Args:
      path: a temporary file is written beside this path to read its time.

    Raises:
      OSError: the temporary file cannot be written.
    """
    probe = f"{path}.clock-{os.urandom(8).hex()}"
    try:
        write_bytes(probe, b"")
        return stat(probe).modified
    finally:
        delete_files([probe])


def run_concurrently(path: str, *questions: Callable[[], Any]) -> list[Any]:
    """Calls independent functions, and returns their results in order.

    Runs each function in its own thread if `path` is in a store, because stores serve many requests at once.
    """
    return call_at_once(*questions) if has_scheme(path) else [ask() for ask in questions]


def open_read(path: str, *, version: str = "") -> IO[bytes]:
    """Opens a file for reading and seeking; returns the stored bytes, never decompressed.

    Args:
      path: the file.
      version: as `FileEntry.version`, or "" for any.

    Raises:
      ChangedError: the file is no longer this version. A local file is checked again when it is closed.
    """
    _note(path)
    return _system(path, version).open_read(path, version=version)


def read_bytes(path: str, *, version: str = "", size: int = 0) -> bytes:
    """Reads a whole file.

    Args:
      path: the file.
      version: as in `open_read`.
      size: size of this version in bytes, if known; an object that arrives with another size is downloaded again.

    Raises:
      ChangedError: the file is no longer this version.
    """
    _note(path)
    return _system(path, version).read_bytes(path, version=version, size=size)


def read_range(path: str, offset: int, length: int, *, version: str = "") -> bytes:
    """Reads up to `length` bytes from `offset`; fewer only at the end of the file.

    Raises:
      ChangedError: the file is no longer this version.
      BuildError: the file is longer, but the store does not return the bytes.
    """
    _note(path)
    if is_web(path) and offset == 0:
        from beam_tfrecords.storage import web

        return web.read(path, length)
    return _system(path, version).read_range(path, offset, length, version=version)


def write_new(path: str, data: bytes) -> bool:
    """Writes a whole file unless it exists; returns whether it did. Only one of several writers gets True."""
    try:
        with open_new(path) as file:
            file.write(data)
    except FileExistsError:
        return False
    return True


def read_state(path: str) -> tuple[bytes, str] | None:
    """Returns a file's content, and its version for `replace` and `delete`; None if the file does not exist."""
    return _system(path).read_state(path)


def replace(path: str, data: bytes, *, version: str) -> bool:
    """Replaces a file that `read_state` read; returns False if it has since been replaced or deleted.

    Only one of several writers that read the same version gets True.
    """
    return _system(path).replace(path, data, version=version)


def delete(path: str, *, version: str) -> bool:
    """Deletes a file that `read_state` read; returns False if it has since been replaced or deleted."""
    return _system(path).delete(path, version=version)


def open_write(path: str, *, staging: str | None = None) -> AbstractContextManager[IO[bytes]]:
    """Opens a file for writing; the file gets its name only if the block ends without an error.

    Creates missing local folders. Two writers of the same bytes are harmless.

    Args:
      path: the file.
      staging: for a file of a dataset, a folder on the same local file system for the unfinished file; the finished
        file is synced to disk before it gets its name. Object stores need neither.
    """
    return _system(path).open_write(path, staging=staging)


def write_bytes(path: str, data: bytes | bytearray | memoryview, *, staging: str | None = None) -> None:
    """Writes a whole file, atomically as `open_write` does."""
    with open_write(path, staging=staging) as file:
        file.write(data)


def open_new(path: str, *, staging: str | None = None, check: Check = no_check) -> AbstractContextManager[IO[bytes]]:
    """Opens a file of a dataset for writing like `open_write`, but never replaces one.

    Beam's file systems have no preconditions: there, another process that writes the file at the same moment may win.

    Args:
      path: the file.
      staging: as in `open_write`.
      check: called after the file was created; if it raises, the file is removed, unless another one has replaced it.
        Beam's file systems cannot tell, and keep the file.

    Raises:
      FileExistsError: at the end of the block: the file exists, and is kept.
    """
    return _system(path).open_new(path, staging=staging, check=check)


def write_once(path: str, data: bytes | memoryview, *, staging: str, check: Check = no_check) -> None:
    """Writes a file of a dataset, or accepts an existing file with the same content, such as from an earlier attempt.

    Args:
      path: the file.
      data: its content.
      staging: as in `open_write`.
      check: as in `open_new`; also called for an existing file.

    Raises:
      BuildError: the file exists with another content.
    """
    try:
        with open_new(path, staging=staging, check=check) as file:
            file.write(data)
    except FileExistsError as error:
        check()
        if read_bytes(path) != bytes(data):
            raise written_by_another(path) from error


def written_by_another(path: str) -> BuildError:
    """Returns the error for a file of a dataset that exists with another content."""
    return BuildError(f"{path} was written by another build in the meantime")


def concatenate(
    sources: Sequence[str | FileRange],
    target: str,
    *,
    staging: str | None = None,
    replaces: bool = True,
    check: Check = no_check,
) -> int | None:
    """Concatenates files, or ranges of files, to a file that gets its name when it is complete.

    The store copies what it can: gs:// whole objects only, s3:// ranges of 5 MiB or more.

    Args:
      sources: the files, which are kept.
      target: the file to write, as by `open_write`.
      staging: as in `open_write`; object stores keep unfinished objects there.
      replaces: False keeps an existing file, as `open_new` does.
      check: as in `open_new`, if `replaces` is False.

    Returns:
      CRC32C of the target from the store, or None if the store has none.

    Raises:
      FileExistsError: the target exists, and is kept.
    """
    ranges = [source if isinstance(source, FileRange) else FileRange(source) for source in sources]
    store = _store(target)
    if store is not None and all(_host(source.path) == _host(target) for source in ranges):
        return store.concatenate(ranges, target, staging=staging, replaces=replaces, check=check)
    opened = open_write(target, staging=staging) if replaces else open_new(target, staging=staging, check=check)
    with opened as file:
        for source in ranges:
            with open_read(source.path) as part:
                part.seek(source.offset)
                for chunk in read_chunks(part, limit=source.length):
                    file.write(chunk)
    return None


def _host(path: str) -> list[str]:
    """Returns the scheme and bucket of a URI."""
    return path.split("/", 3)[:3] if has_scheme(path) else []


def sync_folder(folder: str) -> None:
    """Syncs the directory entries of a local folder and of the folders above it to disk."""
    if not has_scheme(folder):
        local.sync_folder(folder)


def have_sizes(sizes: Mapping[str, int]) -> bool:
    """Whether files exist with these sizes in bytes; after a power loss they may be empty."""
    try:
        return all(stat(path).size == size for path, size in sizes.items())
    except OSError:
        return False


def list_files(
    root: str, *, limit: int | None = None, special: bool = False, literal: bool = False
) -> Iterator[FileEntry]:
    """Lists all files below a folder, or all files that match a glob (`**` crosses folders), in no particular order.

    Args:
      root: folder or glob. A local folder whose name contains wildcard characters is a folder.
      limit: lists at most this many files, and examines few more.
      special: also lists local entries that are neither file nor folder, with a size of -1.
      literal: treats `root` as a folder, never as a glob.
    """
    return _system(root).list_files(root, limit=limit, special=special, literal=literal)


def can_partition(root: str) -> bool:
    """Whether `partition_listing` can return several partitions; Beam's file systems and archives list sequentially."""
    return archive_of(root) is None and _store(root) is not None


def partition_listing(root: str, *, literal: bool = False) -> list[Partition]:
    """Partitions the output of `list_files` without listing it, if `can_partition` allows.

    Any process on any machine can list a partition.

    Every file is in exactly one partition if no files change meanwhile. Memory: some hundred bytes per local folder,
    nothing per file or object.
    """
    return _store(root).partition_listing(root, literal=literal)  # type: ignore[union-attr]


def list_partition(root: str, part: Partition, *, special: bool = False, literal: bool = False) -> Iterator[FileEntry]:
    """Lists the files of one partition; takes the other arguments of `list_files` and `partition_listing`."""
    return _store(root).list_partition(root, part, special=special, literal=literal)  # type: ignore[union-attr]


def list_folders(root: str, *, missing_ok: bool = False) -> list[str]:
    """Returns the names of the folders directly below a folder, sorted.

    Args:
      root: the folder; in a store, every folder exists.
      missing_ok: returns no names for a missing local folder.
    """
    if missing_ok and not has_scheme(root) and not local.is_folder(root):
        return []
    return _system(root).list_folders(root)


def delete_tree(root: str) -> None:
    """Deletes everything below `root`, which need not exist. Deletes links, and keeps their targets."""
    if has_scheme(root):
        delete_files(entry.path for entry in list_files(root, literal=True))
    else:
        local.delete_tree(root)


def delete_files(paths: Iterable[str]) -> None:
    """Deletes files; ignores missing ones."""
    for system, files in itertools.groupby(paths, _system):
        system.delete_files(files)


def delete_checked(paths: Sequence[str], *, staging: str, check: Check) -> None:
    """Deletes files of a dataset, but no file that has replaced one of them in the meantime.

    Beam's file systems, and S3 for identical content, cannot distinguish them.

    Args:
      paths: the files; missing ones are ignored.
      staging: as in `open_write`.
      check: raises if the files may not be deleted; then they are kept.
    """
    if not any(map(has_scheme, paths)):
        for path in paths:
            local.delete_checked(path, staging=staging, check=check)
        return
    entries = [entry for entry in map_in_threads(_find, paths, threads=_DELETERS) if entry]
    check()
    for _ in map_in_threads(_delete_entry, entries, threads=_DELETERS):
        pass


def _find(path: str) -> FileEntry | None:
    return stat(path) if exists(path) else None


def _delete_entry(entry: FileEntry) -> None:
    if entry.version:
        delete(entry.path, version=entry.version)
    else:
        delete_files([entry.path])


def delete_if_empty(folder: str) -> None:
    """Deletes a local folder if it is empty; object stores have no folders."""
    if not has_scheme(folder):
        local.delete_if_empty(folder)


def sha256(path: str) -> str:
    """Returns the hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_read(path) as file:
        for chunk in read_chunks(file):
            digest.update(chunk)
    return digest.hexdigest()


def crc32c(path: str) -> int:
    """Returns the CRC-32C of a file."""
    from beam_tfrecords.crc32c import extend

    crc = 0
    with open_read(path) as file:
        for chunk in read_chunks(file):
            crc = extend(crc, bytes(chunk))
    return crc
