"""Files wherever they are; no other package touches a file system.

Local paths go to the operating system, `gs://` to google-cloud-storage, `s3://` to boto3, every other scheme to
Beam's FileSystems. The last three are imported when a path of theirs is first used.

Every function raises OSError for a file that is not there or may not be read, `beam_tfrecords.errors.BuildError` if
the store does not answer or the disk is full, and SchemeError, a RequestError, if nothing serves the scheme.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any, Protocol

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import local
from beam_tfrecords.storage.chunks import read_chunks
from beam_tfrecords.storage.entries import (
    AccessDeniedError,
    ChangedError,
    Check,
    FileEntry,
    FileRange,
    Part,
    SchemeError,
    ServiceFaultError,
    StorageError,
    no_check,
)
from beam_tfrecords.storage.faults import is_service_fault, is_unanswered
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
from beam_tfrecords.storage.request_metrics import add_request_metrics, take_request_metrics
from beam_tfrecords.storage.threads import SharedCall, call_at_once, map_in_threads

__all__ = [
    "AccessDeniedError",
    "ChangedError",
    "Check",
    "DependencyTracker",
    "FileEntry",
    "FileRange",
    "Part",
    "SchemeError",
    "ServiceFaultError",
    "StorageError",
    "StorageOptions",
    "abort_uploads",
    "absolute",
    "add_request_metrics",
    "basename",
    "can_cut",
    "check_scheme",
    "concatenate",
    "crc32c",
    "current_options",
    "cut_listing",
    "delete",
    "delete_checked",
    "delete_files",
    "delete_if_empty",
    "delete_tree",
    "dirname",
    "exists",
    "find_fingerprint",
    "has_scheme",
    "have_sizes",
    "is_file",
    "is_folder",
    "is_glob",
    "is_inside",
    "is_service_fault",
    "is_unanswered",
    "is_web",
    "join",
    "list_files",
    "list_folders",
    "list_part",
    "modules_for",
    "noting_files",
    "now",
    "open_new",
    "open_read",
    "open_write",
    "read_bytes",
    "read_chunks",
    "read_range",
    "read_state",
    "real_path",
    "replace",
    "run_concurrently",
    "set_options",
    "sha256",
    "shown",
    "stat",
    "sync_folder",
    "take_request_metrics",
    "using",
    "with_storage_options",
    "write_bytes",
    "write_new",
    "write_once",
    "written_by_another",
]

# Requests to delete that run at once.
_DELETERS = 16
# Schemes that `check_scheme` has found served.
_SERVED: set[str] = set()


class _FileSystem(Protocol):
    """What the module of a file system defines; the functions below say what each does."""

    def exists(self, path: str) -> bool: ...
    def is_file(self, path: str) -> bool: ...
    def stat(self, path: str) -> FileEntry: ...
    def open_read(self, path: str, *, version: str) -> IO[bytes]: ...
    def read_bytes(self, path: str, *, version: str, size: int) -> bytes: ...
    def read_range(self, path: str, offset: int, length: int, *, version: str) -> bytes: ...
    def write_new(self, path: str, data: bytes) -> bool: ...
    def read_state(self, path: str) -> tuple[bytes, str] | None: ...
    def replace(self, path: str, data: bytes, *, version: str) -> bool: ...
    def delete(self, path: str, *, version: str) -> bool: ...
    def open_write(self, path: str, *, staging: str | None) -> AbstractContextManager[IO[bytes]]: ...
    def open_new(self, path: str, *, staging: str | None, check: Check) -> AbstractContextManager[IO[bytes]]: ...
    def concatenate(
        self, sources: Sequence[FileRange], target: str, *, staging: str | None, replaces: bool, check: Check
    ) -> int | None: ...
    def list_files(self, root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]: ...
    def cut_listing(self, root: str, *, literal: bool) -> list[Part]: ...
    def list_part(self, root: str, part: Part, *, special: bool, literal: bool) -> Iterator[FileEntry]: ...
    def list_folders(self, root: str) -> list[str]: ...
    def delete_files(self, files: Iterable[str]) -> None: ...


def _system(path: str) -> _FileSystem:
    if not has_scheme(path):
        return local
    if is_web(path):
        raise SchemeError(f"{path}: the web is read only where a table names images; download it first")
    if path.startswith("gs://"):
        try:
            from beam_tfrecords.storage import gcs
        except ImportError as error:
            raise SchemeError(
                f"{path}: gs:// needs an extra: pip install '.[gcp]' in a clone of beam-tfrecords"
            ) from error
        return gcs
    if path.startswith("s3://"):
        try:
            from beam_tfrecords.storage import s3
        except ImportError as error:
            raise SchemeError(
                f"{path}: s3:// needs an extra: pip install '.[aws]' in a clone of beam-tfrecords"
            ) from error
        return s3
    from beam_tfrecords.storage import beam_files

    return beam_files


def check_scheme(uri: str) -> None:
    """Raises SchemeError if nothing serves the scheme of a URI: it is unknown, or its extra is not installed."""
    scheme = uri.partition("://")[0]
    if scheme not in _SERVED and not is_web(uri):
        system = _system(uri)
        if scheme not in ("gs", "s3"):
            system.check_scheme(uri)  # type: ignore[attr-defined]
        _SERVED.add(scheme)


def modules_for(paths: Iterable[str]) -> list[str]:
    """The modules that serve some paths; importing one of a store takes half a second."""
    names = {"gs": "gcs", "s3": "s3"}
    schemes = {path.partition("://")[0] for path in paths}
    return [f"{__name__}.{names[scheme]}" for scheme in sorted(schemes & names.keys())]


def exists(path: str) -> bool:
    """Whether there is a file or a local folder at `path`; as the next two, an error if that cannot be found out."""
    note(path, find_fingerprint)
    return _system(path).exists(path)


def is_file(path: str) -> bool:
    """Whether there is a file or an object at `path`."""
    note(path, find_fingerprint)
    return _system(path).is_file(path)


def is_folder(path: str) -> bool:
    """Whether `path` is a folder; a prefix in an object store is one if it has objects."""
    if not has_scheme(path):
        return local.is_folder(path)
    return any(True for _ in list_files(path, limit=1, literal=True))


def real_path(path: str) -> str:
    """The path without links, `.` and `..`: the same for all names of one place, whether or not it is there."""
    return plain_uri(path) if has_scheme(path) else local.real_path(path)


def stat(path: str) -> FileEntry:
    """Size and time of one file.

    Raises:
      OSError: there is no such file (locally FileNotFoundError), or it is not a regular file.
    """
    return _system(path).stat(path)


def find_fingerprint(path: str) -> str:
    """The fingerprint of a file; "" if there is none.

    Raises:
      OSError: a service fault, so that nobody knows.
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
    """The time by the clock of the store, which times of files are compared with: seconds since the epoch.

    Args:
      path: a file that is written beside it for a moment has the time.

    Raises:
      OSError: it cannot be written.
    """
    probe = f"{path}.clock-{os.urandom(8).hex()}"
    try:
        write_bytes(probe, b"")
        return stat(probe).modified
    finally:
        delete_files([probe])


def run_concurrently(path: str, *questions: Callable[[], Any]) -> list[Any]:
    """The answers to questions that do not depend on each other, in their order.

    Where `path` is in a store, which answers many at once, each is asked in a thread of its own.
    """
    return call_at_once(*questions) if has_scheme(path) else [ask() for ask in questions]


def shared(check: Check) -> Check:
    """A check for files that are written at once: one call serves all that were written before it."""
    return SharedCall(check)


def open_read(path: str, *, version: str = "") -> IO[bytes]:
    """Opens a file for reading and seeking; the bytes come as they are stored, never decompressed.

    Args:
      path: the file.
      version: as `FileEntry.version`, or "" for any.

    Raises:
      ChangedError: the file is no longer this version. A local file is looked at again when it is closed.
    """
    note(path, find_fingerprint)
    return _system(path).open_read(path, version=version)


def read_bytes(path: str, *, version: str = "", size: int = 0) -> bytes:
    """Reads a whole file.

    Args:
      path: the file.
      version: as in `open_read`.
      size: of this version, in bytes, if it is known: an object that a store sends with another is downloaded again.

    Raises:
      ChangedError: the file is no longer this version.
    """
    note(path, find_fingerprint)
    return _system(path).read_bytes(path, version=version, size=size)


def read_range(path: str, offset: int, length: int, *, version: str = "") -> bytes:
    """Reads up to `length` bytes from `offset`; fewer only at the end of the file.

    Raises:
      ChangedError: the file is no longer this version.
      BuildError: the file is longer, but the bytes do not come.
    """
    note(path, find_fingerprint)
    if is_web(path) and offset == 0:
        from beam_tfrecords.storage import web

        return web.read(path, length)
    return _system(path).read_range(path, offset, length, version=version)


def write_new(path: str, data: bytes) -> bool:
    """Writes a whole file unless there is one; False if there is. One of several writers is told True."""
    return _system(path).write_new(path, data)


def read_state(path: str) -> tuple[bytes, str] | None:
    """Content of a file and its version for `replace` and `delete`; None if there is no file."""
    return _system(path).read_state(path)


def replace(path: str, data: bytes, *, version: str) -> bool:
    """Replaces a file that `read_state` has read; False if it has been replaced or deleted since.

    One of several writers that have read the same version is told True.
    """
    return _system(path).replace(path, data, version=version)


def delete(path: str, *, version: str) -> bool:
    """Deletes a file that `read_state` has read; False if it has been replaced or deleted since."""
    return _system(path).delete(path, version=version)


def open_write(path: str, *, staging: str | None = None) -> AbstractContextManager[IO[bytes]]:
    """Opens a file for writing; it appears under its name only when the block ends without an error.

    Missing local folders are created. Two writers of the same bytes do no harm.

    Args:
      path: the file.
      staging: for a file of a dataset, a folder of the same local file system: the unfinished file is there, and
        the finished one is on the disk before it gets its name. Object stores need neither.
    """
    return _system(path).open_write(path, staging=staging)


def write_bytes(path: str, data: bytes | bytearray | memoryview, *, staging: str | None = None) -> None:
    """Writes a whole file, atomically as `open_write` does."""
    with open_write(path, staging=staging) as file:
        file.write(data)


def open_new(path: str, *, staging: str | None = None, check: Check = no_check) -> AbstractContextManager[IO[bytes]]:
    """Opens a file of a dataset for writing, as `open_write` does, but never replaces one.

    Beam's file systems have no preconditions: another process that writes the file at the same moment may win there.

    Args:
      path: the file.
      staging: as in `open_write`.
      check: called when the file is there; if it raises, the file is removed, unless it is another one by then. Beam's
        file systems cannot tell, and keep it.

    Raises:
      FileExistsError: at the end of the block: there is one, and it stays.
    """
    return _system(path).open_new(path, staging=staging, check=check)


def write_once(path: str, data: bytes | memoryview, *, staging: str, check: Check = no_check) -> None:
    """Writes a file of a dataset unless it is there with the same content, as a second attempt finds it.

    Args:
      path: the file.
      data: its content.
      staging: as in `open_write`.
      check: as in `open_new`; also called for a file that is there.

    Raises:
      BuildError: there is one with another content.
    """
    try:
        with open_new(path, staging=staging, check=check) as file:
            file.write(data)
    except FileExistsError as error:
        check()
        if read_bytes(path) != bytes(data):
            raise written_by_another(path) from error


def written_by_another(path: str) -> BuildError:
    """The error for a file of a dataset that is there with another content."""
    return BuildError(f"{path} has been written by another build meanwhile")


def concatenate(
    sources: Sequence[str | FileRange],
    target: str,
    *,
    staging: str | None = None,
    replaces: bool = True,
    check: Check = no_check,
) -> int | None:
    """Joins files, or ranges of files, in their order, under a name that appears when all is there.

    The store copies what it can: gs:// joins whole objects only, and s3:// ranges of 5 MiB or more.

    Args:
      sources: the files; they stay.
      target: the file that is written, as by `open_write`.
      staging: as in `open_write`; object stores have unfinished objects there.
      replaces: False leaves a file that is there as it is, as `open_new` does.
      check: as in `open_new`, of a target that replaces none.

    Returns:
      CRC32C of the target by the store, or None if it keeps none.

    Raises:
      FileExistsError: the target is there, and stays.
    """
    ranges = [source if isinstance(source, FileRange) else FileRange(source) for source in sources]
    if all(_host(source.path) == _host(target) for source in ranges):
        return _system(target).concatenate(ranges, target, staging=staging, replaces=replaces, check=check)
    opened = open_write(target, staging=staging) if replaces else open_new(target, staging=staging, check=check)
    with opened as file:
        for source in ranges:
            with open_read(source.path) as part:
                part.seek(source.offset)
                for chunk in read_chunks(part, limit=source.length):
                    file.write(chunk)
    return None


def _host(path: str) -> list[str]:
    """Scheme and bucket of a URI."""
    return path.split("/", 3)[:3] if has_scheme(path) else []


def sync_folder(folder: str) -> None:
    """Puts the names in a local folder, and those of the folders above it, on the disk."""
    if not has_scheme(folder):
        local.sync_folder(folder)


def have_sizes(sizes: Mapping[str, int]) -> bool:
    """Whether files are there and have these sizes in bytes; after a power cut they may be empty."""
    try:
        return all(stat(path).size == size for path, size in sizes.items())
    except OSError:
        return False


def list_files(
    root: str, *, limit: int | None = None, special: bool = False, literal: bool = False
) -> Iterator[FileEntry]:
    """Lists all files below a folder, or all that match a glob (`**` crosses folders), in no set order.

    Args:
      root: folder or glob. A local folder whose name has wildcard characters is that folder.
      limit: lists at most this many files, and looks at few more.
      special: also lists local entries that are neither file nor folder, with a size of -1.
      literal: `root` is a folder, never a glob.
    """
    return _system(root).list_files(root, limit=limit, special=special, literal=literal)


def can_cut(root: str) -> bool:
    """Whether `cut_listing` gives more than one part; Beam's file systems list from the beginning to the end only."""
    return not has_scheme(root) or root.startswith(("gs://", "s3://"))


def cut_listing(root: str, *, literal: bool = False) -> list[Part]:
    """Cuts what `list_files` lists into parts for `list_part`, in any process of any machine, without listing it.

    Every file is in one part, if none comes or goes meanwhile. Memory: a local folder takes some hundred bytes, a file
    or an object none.
    """
    return _system(root).cut_listing(root, literal=literal)


def list_part(root: str, part: Part, *, special: bool = False, literal: bool = False) -> Iterator[FileEntry]:
    """Lists the files of one part, with the other arguments of `list_files` and `cut_listing`."""
    return _system(root).list_part(root, part, special=special, literal=literal)


def list_folders(root: str, *, missing_ok: bool = False) -> list[str]:
    """Names of the folders directly below a folder, sorted.

    Args:
      root: the folder; in a store there is always one.
      missing_ok: whether a local folder that is not there has none.
    """
    if missing_ok and not has_scheme(root) and not local.is_folder(root):
        return []
    return _system(root).list_folders(root)


def delete_tree(root: str) -> None:
    """Deletes everything below `root`; that there is nothing is no error. Links go, and what they lead to stays."""
    if has_scheme(root):
        delete_files(entry.path for entry in list_files(root, literal=True))
    else:
        local.delete_tree(root)


def delete_files(paths: Iterable[str]) -> None:
    """Deletes files; one that is not there is no error."""
    for system, files in itertools.groupby(paths, _system):
        system.delete_files(files)


def delete_checked(paths: Sequence[str], *, staging: str, check: Check) -> None:
    """Deletes files of a dataset, but none that has taken the place of one since.

    Beam's file systems, and S3 for the same content, cannot tell.

    Args:
      paths: the files; one that is not there is no error.
      staging: as in `open_write`.
      check: raises if they may not be deleted; then they stay.
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


def abort_uploads(folder: str) -> None:
    """Discards unfinished uploads that processes have left that were killed: S3 charges for them.

    Args:
      folder: for temporary files, which nobody else writes to: uploads below it, and those that `concatenate` has noted
        there as its `staging`.
    """
    if folder.startswith("s3://"):
        from beam_tfrecords.storage import s3

        s3.abort_uploads(folder)


def delete_if_empty(folder: str) -> None:
    """Deletes a local folder if it is empty; object stores have no folders."""
    if not has_scheme(folder):
        local.delete_if_empty(folder)


def sha256(path: str) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_read(path) as file:
        for chunk in read_chunks(file):
            digest.update(chunk)
    return digest.hexdigest()


def crc32c(path: str) -> int:
    """CRC-32C of a file."""
    from beam_tfrecords.crc32c import extend

    crc = 0
    with open_read(path) as file:
        for chunk in read_chunks(file):
            crc = extend(crc, bytes(chunk))
    return crc
