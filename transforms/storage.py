"""The only module that touches file systems.

Paths with a scheme (`gs://…`) go through Beam's FileSystems. Local paths go straight to the operating
system: importing Beam takes a second, and a refused request should not wait for it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import glob as local_glob
import hashlib
import itertools
import os
import re
import shutil
import stat as file_mode
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apache_beam.io.filesystem import FileMetadata

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC = re.compile(r"[*?[]")
_UNFINISHED = re.compile(r"\.tmp-[0-9]+-[0-9a-f]{8}$")
# What is read and written at once: large enough for few calls, small enough to stay in a core's cache.
_READ_BYTES = _WRITE_BYTES = 1 << 18


class StorageError(OSError):
    """Storage did not do what it was asked; the message names the path."""


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """One listed file.

    Attributes:
      path: full path or URI.
      size: bytes; -1 for what is no regular file (a link that leads nowhere, a pipe), listed on request.
      modified: seconds since the epoch, as precise as the file system has it.
    """

    path: str
    size: int
    modified: float

    @property
    def fingerprint(self) -> str:
        """Changes when the file does."""
        return f"{self.size}-{self.modified:.6f}"


def has_scheme(path: str) -> bool:
    """Whether the path names a file system other than the local one."""
    return bool(_SCHEME.match(path))


def is_glob(path: str) -> bool:
    """Whether the path has wildcards."""
    return bool(_MAGIC.search(path))


def join(base: str, *parts: str) -> str:
    """Joins path components, with `/` for URIs and the system's separator for local paths."""
    if has_scheme(base):
        return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts)])
    return os.path.join(base, *parts)


def basename(path: str) -> str:
    """Last component of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def dirname(path: str) -> str:
    """All but the last component of a path."""
    if has_scheme(path):
        return path.rstrip("/").rsplit("/", 1)[0]
    return os.path.dirname(path)


def absolute(path: str) -> str:
    """The path as workers with another working directory can use it."""
    return path if has_scheme(path) else os.path.abspath(os.path.expanduser(path))


def exists(path: str) -> bool:
    """Whether there is a file or a local folder at `path`."""
    if has_scheme(path):
        return bool(_file_systems().exists(path))
    return os.path.exists(path)


def is_file(path: str) -> bool:
    """Whether there is a file (or an object) at `path`."""
    if has_scheme(path):
        return bool(_file_systems().exists(path))
    return os.path.isfile(path)


def is_folder(path: str) -> bool:
    """Whether `path` is a folder; an object-store prefix is one if anything lies below it."""
    if not has_scheme(path):
        return os.path.isdir(path)
    return next(list_files(path, limit=1), None) is not None


def stat(path: str) -> FileEntry:
    """Size and time of one file.

    Raises:
      OSError: there is no such file (locally FileNotFoundError), or it is no regular file.
    """
    if has_scheme(path):
        metadata = _file_systems().get_filesystem(path).metadata(path)
        return FileEntry(metadata.path, metadata.size_in_bytes, metadata.last_updated_in_seconds or 0.0)
    status = os.stat(path)
    if not file_mode.S_ISREG(status.st_mode):
        raise StorageError(f"{path} is no regular file")
    return FileEntry(path, status.st_size, status.st_mtime)


def open_read(path: str) -> IO[bytes]:
    """Opens a file for reading in binary; the bytes come as they are stored, never decompressed."""
    if not has_scheme(path):
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes

    return _file_systems().open(path, compression_type=CompressionTypes.UNCOMPRESSED)


def read_bytes(path: str) -> bytes:
    """Reads a whole file.

    Raises:
      OSError: it is not there or may not be read. A store that does not answer is no such error.
    """
    if path.startswith("gs://"):
        return _read_object(path)
    with open_read(path) as file:
        return file.read()


@contextlib.contextmanager
def open_write(path: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing; it appears under its name only when the block ends without an error.

    Locally the bytes go to a temporary name beside the target, which is then renamed; an object
    store shows an object only when its upload is complete. Two writers of the same bytes do no harm.
    """
    if has_scheme(path):
        from apache_beam.io.filesystem import CompressionTypes

        with _file_systems().create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            yield file
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.tmp-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with open(temporary, "wb", buffering=_WRITE_BYTES) as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def write_bytes(path: str, data: bytes | bytearray | memoryview) -> None:
    """Writes a whole file, atomically as `open_write` does."""
    with open_write(path) as file:
        file.write(data)


def list_files(root: str, *, limit: int | None = None, special: bool = False) -> Iterator[FileEntry]:
    """Lists all files below a folder, or all that match a glob (`**` crosses folders), in no set order.

    Args:
      root: folder or glob. A local folder whose name has wildcard characters is that folder.
      limit: no more files than this are listed, and little more than those are looked at.
      special: list local entries too that are neither a file nor a folder, with a size of -1.
    """
    if has_scheme(root):
        yield from _list_remote(root if is_glob(root) else root.rstrip("/") + "/**", limit)
        return
    listed = _list_glob(root) if is_glob(root) and not os.path.isdir(root) else _list_local(root)
    yield from itertools.islice((entry for entry in listed if special or entry.size >= 0), limit)


def list_folders(root: str) -> list[str]:
    """Names of the folders directly below a folder, sorted."""
    if not has_scheme(root):
        with os.scandir(root) as entries:
            return sorted(entry.name for entry in entries if _is_folder(entry))
    start = root.rstrip("/") + "/"
    if start.startswith("gs://"):
        # Beam lists objects only, all of them; the store itself can answer with the folders alone.
        from apache_beam.io.gcp.gcsio import GcsIO

        bucket, _, prefix = start.removeprefix("gs://").partition("/")
        pages = GcsIO().client.list_blobs(bucket, prefix=prefix, delimiter="/", fields="prefixes,nextPageToken")
        for _ in pages:
            pass
        return sorted(basename(folder) for folder in pages.prefixes)
    below = (entry.path.removeprefix(start) for entry in list_files(root))
    return sorted({path.split("/", 1)[0] for path in below if "/" in path})


def delete_tree(root: str) -> None:
    """Deletes everything below `root`; nothing there is no error."""
    if has_scheme(root):
        delete_files(entry.path for entry in list(list_files(root)))
    else:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(root)


def delete_files(paths: Iterable[str]) -> None:
    """Deletes files; one that is not there is no error."""
    remote = []
    for path in paths:
        if has_scheme(path):
            remote.append(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    if remote:
        present = [path for path in remote if _file_systems().exists(path)]
        if present:
            _file_systems().delete(present)


def delete_unfinished(folder: str) -> None:
    """Deletes what killed writers have left directly in a local folder; object stores keep no such thing."""
    if not has_scheme(folder) and os.path.isdir(folder):
        with os.scandir(folder) as entries:
            delete_files([entry.path for entry in entries if _UNFINISHED.search(entry.name)])


def read_chunks(source: IO[bytes], *, limit: int = sys.maxsize) -> Iterator[memoryview]:
    """The bytes of an open file in pieces of bounded size, each valid until the next is asked for.

    Args:
      source: the file.
      limit: no more bytes than this are read.
    """
    # Fresh memory for every piece would cost more than the reading.
    buffer = memoryview(bytearray(_READ_BYTES))
    while size := source.readinto(buffer[:limit]):  # type: ignore[attr-defined]
        yield buffer[:size]
        limit -= size


def sha256(path: str) -> str:
    """Hex SHA-256 of a file."""
    digest = hashlib.sha256()
    with open_read(path) as file:
        for chunk in read_chunks(file):
            digest.update(chunk)
    return digest.hexdigest()


def merge_files(sources: Sequence[tuple[str, int]], target: str) -> str:
    """Makes one local file of several and removes each of them once it is in, so that no disk holds all twice.

    An attempt that was ended is gone on with. Two attempts at the same time would spoil each other's work.

    Args:
      sources: path and bytes of each file, in order.
      target: the file that they become.

    Returns:
      Its hex SHA-256.

    Raises:
      StorageError: a source is not there, or does not have its bytes.
    """
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if sources and not os.path.exists(target):
        _check_source(*sources[0])
        os.replace(sources[0][0], target)
    digest = hashlib.sha256()
    with open(target, "r+b" if os.path.exists(target) else "w+b", buffering=_WRITE_BYTES) as merged:
        present, end = os.path.getsize(target), 0
        for path, size in sources:
            begin, end = end, end + size
            if end <= present:
                for chunk in read_chunks(merged, limit=size):
                    digest.update(chunk)
            else:
                _check_source(path, size)
                merged.truncate(begin)
                with open(path, "rb") as source:
                    for chunk in read_chunks(source):
                        merged.write(chunk)
                        digest.update(chunk)
                # A full disk shows here at the latest, with the source still there.
                merged.flush()
            delete_files([path])
    stored = os.path.getsize(target)
    if stored != end:
        raise StorageError(f"{target} has {stored} bytes, but {end} were written to it")
    return digest.hexdigest()


def move_file(source: str, target: str) -> None:
    """Gives a local file another name on the same disk, in the place of what had it."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.replace(source, target)


@contextlib.contextmanager
def lock(path: str) -> Iterator[bool]:
    """Holds a local lock file as long as the block, or this process, lasts.

    Yields:
      False if another process holds it. Where there are no locks (object stores, some network disks): True.
    """
    if has_scheme(path):
        yield True
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as file:
        yield _lock_file(file)


def _lock_file(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    return True


def _check_source(path: str, size: int) -> None:
    if not os.path.exists(path):
        raise StorageError(f"{path} is not there any more")
    found = os.path.getsize(path)
    if found != size:
        raise StorageError(f"{path} has {found} bytes, but {size} were written to it")


def _list_local(folder: str) -> Iterator[FileEntry]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                # A link to a folder is followed as one to a file is; a loop of links is the user's.
                if _is_folder(entry):
                    pending.append(entry.path)
                else:
                    yield _entry_of(entry)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or into a folder that may not be read
        return False


def _entry_of(entry: os.DirEntry[str]) -> FileEntry:
    try:
        status = entry.stat() if entry.is_file() else None
    except OSError:  # as in _is_folder, or deleted since
        status = None
    if status is None:
        return FileEntry(entry.path, -1, 0.0)
    return FileEntry(entry.path, status.st_size, status.st_mtime)


def _list_glob(pattern: str) -> Iterator[FileEntry]:
    for path in local_glob.iglob(pattern, recursive=True):
        if not os.path.isdir(path):
            try:
                yield stat(path)
            except OSError:
                yield FileEntry(path, -1, 0.0)


def _list_remote(pattern: str, limit: int | None) -> Iterator[FileEntry]:
    for match in _file_systems().match([pattern], limits=[limit]):
        metadata: FileMetadata
        for metadata in match.metadata_list:
            yield FileEntry(metadata.path, metadata.size_in_bytes, metadata.last_updated_in_seconds or 0.0)


def _read_object(path: str) -> bytes:
    from google.api_core.exceptions import Forbidden, NotFound

    try:
        with open_read(path) as file:
            return file.read()
    except (NotFound, Forbidden) as error:
        raise StorageError(f"{path}: {error.message}") from error


def _file_systems() -> Any:
    from apache_beam.io.filesystems import FileSystems

    return FileSystems
