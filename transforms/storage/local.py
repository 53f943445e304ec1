"""Local files, by the operating system."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import re
import shutil
import stat as file_mode
from collections.abc import Iterable, Iterator
from typing import IO

from transforms.storage import paths
from transforms.storage.entries import FileEntry, StorageError

# Large enough for few system calls, small enough to stay in a core's cache.
_WRITE_BYTES = 1 << 18
_UNFINISHED = re.compile(r"\.tmp-[0-9]+-[0-9a-f]{8}$")

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
def open_write(path: str) -> Iterator[IO[bytes]]:
    """Writes to a temporary name beside the target, then renames; see `transforms.storage.open_write`."""
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


def delete_files(files: Iterable[str]) -> None:
    """See `transforms.storage.delete_files`."""
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)


def delete_unfinished(folder: str) -> None:
    """See `transforms.storage.delete_unfinished`."""
    if os.path.isdir(folder):
        with os.scandir(folder) as entries:
            delete_files([entry.path for entry in entries if _UNFINISHED.search(entry.name)])


def _list_folder(folder: str) -> Iterator[FileEntry]:
    pending = [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                # Links to folders are followed; a cycle ends when the system refuses the path (ELOOP).
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
    except OSError:  # as in `_is_folder`, or deleted since
        status = None
    if status is None:
        return FileEntry(entry.path, -1, 0.0)
    return FileEntry(entry.path, status.st_size, status.st_mtime)


def _list_glob(pattern: str) -> Iterator[FileEntry]:
    for path in glob.iglob(pattern, recursive=True):
        if not os.path.isdir(path):
            try:
                yield stat(path)
            except OSError:
                yield FileEntry(path, -1, 0.0)
