"""Local files, by the operating system."""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import os
import shutil
import stat as file_mode
from collections.abc import Iterable, Iterator
from typing import IO

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import paths
from beam_tfrecords.storage.entries import FileEntry, StorageError

# Large enough for few system calls, small enough to stay in a core's cache.
_WRITE_BYTES = 1 << 18
_FULL = (errno.ENOSPC, errno.EDQUOT)
# What file systems answer that cannot sync a folder, or a folder above the output that is not ours to open.
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)

exists = os.path.exists
is_file = os.path.isfile
is_folder = os.path.isdir


def stat(path: str) -> FileEntry:
    """See `transforms.storage.stat`."""
    status = os.stat(path)
    if not file_mode.S_ISREG(status.st_mode):
        raise StorageError(f"{path} is not a regular file")
    return FileEntry(path, status.st_size, status.st_mtime)


def open_read(path: str) -> IO[bytes]:
    """See `transforms.storage.open_read`."""
    return open(path, "rb")


def read_bytes(path: str) -> bytes:
    """See `transforms.storage.read_bytes`."""
    with open(path, "rb") as file:
        return file.read()


def read_range(path: str, offset: int, length: int) -> bytes:
    """See `transforms.storage.read_range`."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


@contextlib.contextmanager
def open_write(path: str, *, staging: str | None) -> Iterator[IO[bytes]]:
    """Writes to a temporary name, then renames; see `transforms.storage.open_write`."""
    folder, name = os.path.split(path)
    temporary = os.path.join(staging or folder, f"{name}.tmp-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        for needed in {folder, staging or folder} - {""}:
            os.makedirs(needed, exist_ok=True)
        with open(temporary, "wb", buffering=_WRITE_BYTES) as file:
            yield file
            if staging:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError) and error.errno in _FULL:
            raise BuildError(
                f"{path} cannot be written: {error.strerror}; the same command resumes once there is room"
            ) from error
        raise


def sync_folder(folder: str) -> None:
    """See `transforms.storage.sync_folder`."""
    while True:
        try:
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
        except OSError as error:
            if error.errno not in _NOT_SYNCED:
                raise
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return


def list_files(root: str, *, limit: int | None, special: bool) -> Iterator[FileEntry]:
    """See `transforms.storage.list_files`."""
    listed = _list_glob(root) if paths.is_glob(root) and not os.path.isdir(root) else _list_folder(root)
    return itertools.islice((entry for entry in listed if special or entry.size >= 0), limit)


def list_folders(root: str) -> list[str]:
    """See `transforms.storage.list_folders`."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if _is_folder(entry))


def delete_tree(root: str) -> None:
    """See `transforms.storage.delete_tree`."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(root)


def delete_if_empty(folder: str) -> None:
    """See `transforms.storage.delete_if_empty`."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def delete_files(files: Iterable[str]) -> None:
    """See `transforms.storage.delete_files`."""
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)


def _list_folder(folder: str) -> Iterator[FileEntry]:
    """Lists every folder once: links are followed last, in order, and only to folders not listed before."""
    pending, links = [folder], list[str]()
    listed = set[tuple[int, int]]()
    while pending or links:
        path = pending.pop() if pending else heapq.heappop(links)
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in listed:
            yield FileEntry(f"{path}/", -1, 0.0)
            continue
        listed.add((status.st_dev, status.st_ino))
        with os.scandir(path) as entries:
            for entry in entries:
                if not _is_folder(entry):
                    yield _entry_of(entry)
                elif entry.is_symlink():
                    heapq.heappush(links, entry.path)
                else:
                    pending.append(entry.path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or into a folder that may not be read
        return False


def _entry_of(entry: os.DirEntry[str]) -> FileEntry:
    try:
        status = entry.stat() if entry.is_file() else None
    except OSError:  # as in `_is_folder`, or deleted since
        status = None
    if status is None:
        return FileEntry(entry.path, -1, 0.0)
    return FileEntry(entry.path, status.st_size, status.st_mtime)


def _list_glob(pattern: str) -> Iterator[FileEntry]:
    if "**" in pattern:  # The module `glob` would follow links in circles.
        folder = paths.literal_prefix(pattern).rpartition("/")[0] or "/"
        matches, hidden = paths.compile_glob(pattern).fullmatch, "/." in pattern
        for entry in _list_folder(folder) if os.path.isdir(folder) else ():
            if matches(entry.path) and (hidden or "/." not in entry.path[len(folder) :]):
                yield entry
        return
    root, *names = pattern.split("/")
    for path in _match(root or "/", names):
        if not os.path.isdir(path):
            try:
                yield stat(path)
            except OSError:
                yield FileEntry(path, -1, 0.0)


def _match(folder: str, names: list[str]) -> Iterator[str]:
    """The paths below a folder that match a pattern for each of their components.

    A folder that cannot be read is an `OSError`; the module `glob` would leave it out.
    """
    name, *below = names
    found = [name]
    if paths.is_glob(name):
        matches = paths.compile_glob(name).fullmatch
        with os.scandir(folder) as entries:
            listed = (entry.name for entry in entries if entry.name[0] != "." or name[0] == ".")
            found = [one for one in listed if matches(one)]
    for path in (os.path.join(folder, one) for one in found):
        if below:
            if os.path.isdir(path):
                yield from _match(path, below)
        elif os.path.lexists(path):
            yield path
