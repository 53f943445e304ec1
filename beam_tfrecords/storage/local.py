"""Local files, through the operating system."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import heapq
import io
import itertools
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO

from beam_tfrecords.errors import BuildError
from beam_tfrecords.storage import file_stat, paths
from beam_tfrecords.storage.entries import ChangedError, Check, FileEntry, FileRange, Partition, StorageError
from beam_tfrecords.storage.faults import is_service_fault, read_complete
from beam_tfrecords.storage.locks import is_at, lock_file
from beam_tfrecords.storage.range_reader import read_chunks

# Large enough for few system calls, small enough for a core's cache.
_WRITE_BYTES = 1 << 18
_READ_BYTES = 1 << 17
_COPY_BYTES = 1 << 30
# Minimum number of files per partition of a listing.
_LEAST_PART = 50_000
# Maximum number of partitions of one listing.
_MOST_PARTS = 1000
# Maximum number of partitions of one folder; each of them reads all names of the folder.
_MOST_SHARES = 16
# Linux only.
_copy_file_range = getattr(os, "copy_file_range", lambda *_: 0)
# Errors of file systems that cannot copy inside the kernel, or not from another file system.
_NOT_COPIED = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.ETXTBSY)
# Errors of writes other than service faults, and the condition for running the same command again.
_REMEDIES = {
    errno.EROFS: "it can be",
    errno.ENOSPC: "there is room",
    errno.EDQUOT: "there is room",
    errno.EFBIG: "files may be larger, see `ulimit -f`",
}
# Errors of file systems without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
# Errors of file systems that cannot sync a folder, and of folders above the output that we may not open.
_NOT_SYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EACCES)

exists = file_stat.exists
is_file = file_stat.is_file
is_folder = file_stat.is_folder
real_path = os.path.realpath


def stat(path: str) -> FileEntry:
    """See `storage.stat`."""
    status = os.stat(path)
    if not file_stat.is_regular(status):
        raise StorageError(f"{path} is not a regular file")
    return _entry_of(path, status)


def open_read(path: str, *, version: str) -> IO[bytes]:
    """See `storage.open_read`."""
    if version:
        return _CheckedReader(path, version)
    return io.BufferedReader(io.FileIO(path, opener=open_regular), _READ_BYTES)


def read_bytes(path: str, *, version: str, size: int = 0) -> bytes:
    """See `storage.read_bytes`."""
    return read_range(path, 0, sys.maxsize, version=version)


def read_range(path: str, offset: int, length: int, *, version: str) -> bytes:
    """See `storage.read_range`."""

    def read() -> tuple[bytes, int]:
        # A file object would take as long as reading a small file.
        file = open_regular(path)
        try:
            before = _check_version(path, file, version)
            if offset:
                os.lseek(file, offset, os.SEEK_SET)
            data = _read_descriptor(file, min(length, max(before.st_size - offset, 0)), at_most=length)
            after = _check_version(path, file, version)
        finally:
            os.close(file)
        return data, min(length, after.st_size - offset)

    return read_complete(path, read)


def _read_descriptor(file: int, expected: int, *, at_most: int) -> bytes:
    """Reads up to `at_most` bytes of a file; reads to its end if it is longer than expected."""
    # Request one byte more than expected: a shorter result then means the end of the file.
    data = os.read(file, min(expected + 1, at_most))
    if len(data) == expected:
        return data
    pieces, found = [data], len(data)
    while found < at_most and (piece := os.read(file, min(max(expected - found, _READ_BYTES), at_most - found))):
        pieces.append(piece)
        found += len(piece)
    return b"".join(pieces)


def open_regular(path: str, flags: int = os.O_RDONLY) -> int:
    """Opens a file only if it is regular, and returns its descriptor: a pipe or a device may block or never end.

    Raises:
      StorageError: the path is not a regular file.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its other end.
        file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        # Sockets, and devices without a driver, cannot be opened.
        if error.errno in (errno.ENXIO, errno.ENODEV) and not file_stat.is_file(path):
            raise StorageError(f"{path} is not a regular file") from error
        raise
    status = os.fstat(file)
    if file_stat.is_regular(status):
        return file
    os.close(file)
    if file_stat.is_folder(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise StorageError(f"{path} is not a regular file")


class _CheckedReader(io.BufferedReader):
    """An open file; closing it raises ChangedError if the file was changed in the meantime."""

    def __init__(self, path: str, version: str) -> None:
        super().__init__(io.FileIO(path, opener=open_regular), _READ_BYTES)
        self._path, self._version = path, version
        try:
            _check_version(path, self.fileno(), version)
        except BaseException:
            super().close()
            raise

    def close(self) -> None:
        if self.closed:
            return
        try:
            _check_version(self._path, self.fileno(), self._version)
        finally:
            super().close()


class OpenFile:
    """A file that stays open for random access, closed when it is garbage-collected.

    Reads have no position, so threads and forked processes may share it. It stays the same file if another file
    replaces its path.

    Attributes:
      size: size in bytes when the file was opened.
    """

    def __init__(self, path: str) -> None:
        self._number = open_regular(path)
        self.size = os.fstat(self._number).st_size

    def read_range(self, offset: int, length: int) -> bytes:
        """Returns up to `length` bytes from `offset`; fewer only at the end of the file."""
        return os.pread(self._number, length, offset)

    # An argument, because module globals are gone when the interpreter exits.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "_number"):
            close(self._number)


def _version_of(status: os.stat_result) -> str:
    return f"{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}:{status.st_ino}"


def _check_version(path: str, file: int, version: str) -> os.stat_result:
    """Checks the version of an open file, given its descriptor, and returns its status.

    Raises:
      ChangedError: the file has another version.
    """
    status = os.fstat(file)
    if version and _version_of(status) != version:
        expected, found = version.split(":"), _version_of(status).split(":")
        # Some mounts change the inode number at every stat, and a hard link or `chmod` changes the inode's time.
        if expected[:2] != found[:2] or (expected[2] != found[2] and expected[3] != found[3]):
            raise ChangedError(f"{path} has changed since it was listed")
    return status


def open_write(path: str, *, staging: str | None) -> AbstractContextManager[IO[bytes]]:
    """Writes to a temporary name, then renames the file; see `storage.open_write`."""
    return _open_temporary(path, staging=staging, syncs=bool(staging), finish=os.replace)


def open_new(path: str, *, staging: str | None, check: Check) -> AbstractContextManager[IO[bytes]]:
    """Writes to a temporary name, then links the file; see `storage.open_new`."""
    return _open_temporary(path, staging=staging, syncs=True, finish=functools.partial(_create, check=check))


@contextlib.contextmanager
def _open_temporary(
    path: str, *, staging: str | None, syncs: bool, finish: Callable[[str, str], None]
) -> Iterator[IO[bytes]]:
    """Yields a temporary file; calls `finish(temporary, path)` if the block ends without an error."""
    folder, name = os.path.split(path)
    temporary = os.path.join(staging or folder, f"{name}.tmp-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        for needed in {folder, staging or folder} - {""}:
            file_stat.make_folder(needed)
        with open(temporary, "wb", buffering=_WRITE_BYTES) as file:
            yield file
            if syncs:
                file.flush()
                os.fsync(file.fileno())
        finish(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        if isinstance(error, OSError):
            _raise_fault(error, path, temporary)
        raise


def _create(temporary: str, path: str, *, check: Check) -> None:
    """Gives a complete file its name unless the name is taken; removes the name again if the check fails."""
    with contextlib.ExitStack() as stack:
        try:
            os.link(temporary, path)
            made: IO[bytes] = stack.enter_context(open(temporary, "rb"))
        except FileExistsError:
            # Over NFS, the response to a successful link may be lost.
            if os.stat(temporary).st_nlink < 2:
                raise
            made = stack.enter_context(open(temporary, "rb"))
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            made = stack.enter_context(_copy_exclusively(temporary, path))
        try:
            check()
        except BaseException:
            # Another build that has taken over may have removed the file and written its own.
            if is_at(made, path):
                os.remove(path)
            raise
    os.remove(temporary)


def _copy_exclusively(source: str, path: str) -> IO[bytes]:
    """Copies a file to an unused name; returns the open copy.

    A rename over a placeholder would not be safe: in between, another build may replace the placeholder.
    """
    file = open(path, "xb")  # noqa: SIM115
    try:
        with open(source, "rb") as opened:
            shutil.copyfileobj(opened, file, _WRITE_BYTES)
        file.flush()
        os.fsync(file.fileno())
    except BaseException:
        if is_at(file, path):
            os.remove(path)
        file.close()
        raise
    return file


def _raise_fault(error: OSError, path: str, temporary: str) -> None:
    """Raises BuildError if the disk is the reason that a file cannot be written."""
    # Otherwise the error is about another file.
    is_own = error.filename is None or temporary.startswith(error.filename)
    if is_own and (error.errno in _REMEDIES or is_service_fault(error)):
        remedy = _REMEDIES.get(error.errno or 0, "it can be")
        raise BuildError(
            f"{path} cannot be written: {error.strerror}; the same command resumes once {remedy}"
        ) from error


def read_state(path: str) -> tuple[bytes, str] | None:
    """Reads a state; see `storage.read_state`. The version is a digest, because two writes may have the same times."""
    try:
        data = read_bytes(path, version="")
    except FileNotFoundError:
        return None
    return data, hashlib.sha256(data).hexdigest()


def replace(path: str, data: bytes, *, version: str) -> bool:
    """See `storage.replace`."""
    with _locked(path, version) as is_version:
        if is_version:
            try:
                with _open_temporary(path, staging=None, syncs=True, finish=os.replace) as file:
                    file.write(data)
            except FileNotFoundError:
                # Another process has cleaned the folder in the meantime.
                return False
    return is_version


def delete(path: str, *, version: str) -> bool:
    """See `storage.delete`."""
    with _locked(path, version) as is_version:
        if is_version:
            os.remove(path)
    return is_version


@contextlib.contextmanager
def _locked(path: str, version: str) -> Iterator[bool]:
    """Yields whether the file has this version, and keeps it so until the block ends."""
    while True:
        try:
            opened = open_regular(path, os.O_RDWR)
        except FileNotFoundError:
            yield False
            return
        with open(opened, "r+b") as file:
            lock_file(file, wait=True)
            # The previous holder of the lock may have replaced the file.
            if is_at(file, path):
                yield hashlib.sha256(file.read()).hexdigest() == version
                return


def concatenate(
    sources: Sequence[FileRange], target: str, *, staging: str | None, replaces: bool, check: Check
) -> None:
    """See `storage.concatenate`."""
    opened = open_write(target, staging=staging) if replaces else open_new(target, staging=staging, check=check)
    with opened as file:
        for source in sources:
            with open(source.path, "rb") as part:
                size = source.length_in(os.fstat(part.fileno()).st_size)
                part.seek(source.offset)
                before = file.tell()
                _append(part, file, size)
                copied = file.tell() - before
            if copied < size:
                raise BuildError(f"{source.path}: only {copied} of {size} bytes can be read")


def _append(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copies bytes of an open file, inside the kernel if possible."""
    try:
        while size and (copied := _copy_file_range(source.fileno(), target.fileno(), min(size, _COPY_BYTES))):
            size -= copied
    except OSError as error:
        if error.errno not in _NOT_COPIED:
            raise
    # Copy the rest: everything if the kernel cannot copy. Some file systems return 0 before the end.
    target.seek(0, os.SEEK_END)
    for chunk in read_chunks(source, limit=size):
        target.write(chunk)
    target.flush()


def sync_folder(folder: str) -> None:
    """See `storage.sync_folder`."""
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


def list_files(root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_files`."""
    glob = _glob_of(root, literal=literal)
    if glob is not None and not glob.crosses:
        listed: Iterator[FileEntry] = itertools.chain.from_iterable(map(glob.files, glob.folders()))
    else:
        listed = (entry for path, entries in _visit(root, glob) for entry in _listed_in(path, entries))
    return itertools.islice((entry for entry in listed if special or entry.size >= 0), limit)


def partition_listing(root: str, *, literal: bool) -> list[Partition]:
    """Partitions a listing by folders; splits a very large folder. See `storage.partition_listing`."""
    counts = list(_count_files(root, literal=literal))
    most = max(_LEAST_PART, sum(count for _, count in counts) // _MOST_PARTS)
    parts: list[Partition] = []
    folders, files = list[str](), 0
    for folder, count in counts:
        if count > most:
            shares = min(-(-count // most), _MOST_SHARES)
            parts += [(share, shares, folder) for share in range(shares)]
            continue
        folders.append(folder)
        files += count
        if files >= most:
            parts.append((0, 1, *folders))
            folders, files = [], 0
    return [*parts, (0, 1, *folders)] if folders else parts


def _count_files(root: str, *, literal: bool) -> Iterator[tuple[str, int]]:
    """Yields the folders with files that `list_files` lists, and their counts; a link to such a folder ends in a slash.

    Reads only names, which takes a fortieth of the time of a listing.
    """
    glob = _glob_of(root, literal=literal)
    if glob is not None and not glob.crosses:
        for folder in glob.folders():
            yield folder, sum(1 for _ in glob.files(folder))
        return
    for folder, entries in _visit(root, glob):
        if entries is None:
            yield f"{folder}/", 1
        elif count := sum(1 for _ in entries):
            yield folder, count


def list_partition(root: str, part: Partition, *, special: bool, literal: bool) -> Iterator[FileEntry]:
    """See `storage.list_partition`."""
    share, shares, *folders = part
    glob = _glob_of(root, literal=literal)

    def is_mine(path: str) -> bool:
        return shares == 1 or zlib.crc32(os.fsencode(os.path.basename(path))) % int(shares) == share

    for folder in map(str, folders):
        if folder.endswith("/") and folder != root:
            found: Iterable[FileEntry] = [FileEntry(folder, -1, 0)]
        elif glob is not None and not glob.crosses:
            found = glob.files(folder, is_mine)
        else:
            found = _list_share(folder, is_mine, glob)
        yield from (entry for entry in found if special or entry.size >= 0)


def _list_share(folder: str, is_mine: Callable[[str], bool], glob: _Glob | None) -> Iterator[FileEntry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_mine(entry.name) and (glob is None or glob.takes(entry)) and not file_stat.is_folder_entry(entry):
                yield _listed(entry)


def list_folders(root: str) -> list[str]:
    """See `storage.list_folders`."""
    with os.scandir(root) as entries:
        return sorted(entry.name for entry in entries if file_stat.is_folder_entry(entry))


def delete_tree(root: str) -> None:
    """See `storage.delete_tree`."""

    def ignore_nothing(_function: object, _path: str, raised: tuple[type, BaseException, object]) -> None:
        # Another process may delete files at the same time.
        if not isinstance(raised[1], FileNotFoundError):
            raise raised[1]

    if file_stat.is_link(root):
        delete_files([root])
    else:
        shutil.rmtree(root, onerror=ignore_nothing)


def delete_if_empty(folder: str) -> None:
    """See `storage.delete_if_empty`."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def delete_checked(path: str, *, staging: str, check: Check) -> None:
    """Deletes a file; see `storage.delete_checked`. Moves the file aside first, and back if the check fails."""
    file_stat.make_folder(staging)
    aside = os.path.join(staging, f"{os.path.basename(path)}.old-{os.urandom(4).hex()}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    try:
        check()
    except BaseException:
        os.rename(aside, path)
        raise
    os.remove(aside)


def delete_files(files: Iterable[str]) -> None:
    """See `storage.delete_files`."""
    for file in files:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.remove(file)


def _visit(root: str, glob: _Glob | None) -> Iterator[tuple[str, Iterator[os.DirEntry[str]] | None]]:
    """Yields the results of `_walk` for a folder, or those that a glob across folders matches."""
    if glob is None:
        yield from _walk(root)
    elif file_stat.is_folder(glob.base):
        for path, entries in _walk(glob.base):
            if entries is not None:
                yield path, filter(glob.takes, entries)
            elif glob.matches(f"{path}/"):
                yield path, None


def _listed_in(folder: str, entries: Iterator[os.DirEntry[str]] | None) -> Iterator[FileEntry]:
    return iter([FileEntry(f"{folder}/", -1, 0)]) if entries is None else map(_listed, entries)


def _walk(folder: str) -> Iterator[tuple[str, Iterator[os.DirEntry[str]] | None]]:
    """Yields every folder once, with its files; a link to a folder that was yielded before has None instead.

    Links are followed last, in order. Use the files of one folder before the next iteration.
    """
    pending, links = [folder], list[str]()
    listed = set[tuple[int, int]]()

    def files(entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in entries:
            if not file_stat.is_folder_entry(entry):
                yield entry
            elif file_stat.is_link_entry(entry):
                heapq.heappush(links, entry.path)
            else:
                pending.append(entry.path)

    while pending or links:
        path = pending.pop() if pending else heapq.heappop(links)
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in listed:
            yield path, None
            continue
        listed.add((status.st_dev, status.st_ino))
        with os.scandir(path) as entries:
            yield path, files(entries)


def _entry_of(path: str, status: os.stat_result | None) -> FileEntry:
    """Returns the entry of a listed file; the status of a dangling link is None."""
    if status is None or not file_stat.is_regular(status):
        return FileEntry(path, -1, 0)
    return FileEntry(path, status.st_size, status.st_mtime_ns, version=_version_of(status))


def _listed(entry: os.DirEntry[str]) -> FileEntry:
    return _entry_of(entry.path, file_stat.look_at_entry(entry))


def _glob_of(root: str, *, literal: bool) -> _Glob | None:
    """Returns the glob of a path; None if the path is a folder."""
    return None if literal or not paths.is_glob(root) or file_stat.is_folder(root) else _Glob(root)


class _Glob:
    """A glob of files. The module `glob` would follow link cycles, and skip entries that it cannot stat.

    A dangling link may stand for a folder of matches on an unmounted disk: the glob lists it wherever a folder could
    be, as a listing of a folder does.

    Attributes:
      base: the folder before the first wildcard.
      crosses: whether the glob crosses folders (`**`).
    """

    def __init__(self, pattern: str) -> None:
        self.base = paths.literal_prefix(pattern).rpartition("/")[0] or "/"
        self.crosses = "**" in pattern
        *self._folders, self._name = pattern.split("/")
        self._matches = paths.compile_glob(pattern).fullmatch
        self._names_hidden = "/." in pattern
        before = pattern.partition("**")[0].split("/")[:-1]
        self._before = [paths.compile_glob(name).fullmatch for name in before]

    def matches(self, path: str) -> bool:
        """Whether a glob that crosses folders matches a path below its base; hidden files need a dot in the glob."""
        return bool(self._matches(path)) and self._shows(path)

    def takes(self, entry: os.DirEntry[str]) -> bool:
        """Whether a glob that crosses folders lists a file, or a dangling link in place of a folder."""
        if self.matches(entry.path):
            return True
        leads = all(matches(name) for matches, name in zip(self._before, entry.path.split("/"), strict=False))
        return leads and self._shows(entry.path) and file_stat.is_broken_entry(entry)

    def _shows(self, path: str) -> bool:
        return self._names_hidden or "/." not in path[len(self.base) :]

    def folders(self) -> Iterator[str]:
        """Yields the folders that may hold matches of a glob that crosses none, and dangling links in their place."""
        root, *names = self._folders
        return self._find_folders(root or "/", names) if names else iter([root or "/"])

    def _find_folders(self, folder: str, names: Sequence[str]) -> Iterator[str]:
        name, *below = names
        if paths.is_glob(name):
            fits = _fitting(name)
            with os.scandir(folder) as entries:
                found = [
                    entry.path
                    for entry in entries
                    if fits(entry.name) and (file_stat.is_folder_entry(entry) or file_stat.is_broken_entry(entry))
                ]
        else:
            path = os.path.join(folder, name)
            found = [path] if file_stat.is_folder(path) or file_stat.is_broken_link(path) else []
        for path in found:
            if below and file_stat.is_folder(path):
                yield from self._find_folders(path, below)
            else:
                yield path

    def files(self, folder: str, is_wanted: Callable[[str], bool] = lambda _: True) -> Iterator[FileEntry]:
        """Yields the matches in one of `folders`, or the dangling link in its place.

        Args:
          folder: one of `folders`.
          is_wanted: filters by path or name.
        """
        if not file_stat.is_folder(folder):
            if is_wanted(folder):
                yield FileEntry(folder, -1, 0)
        elif not paths.is_glob(self._name):
            path = os.path.join(folder, self._name)
            if is_wanted(path) and not file_stat.is_folder(path) and file_stat.look(path, follow=False) is not None:
                yield _entry_of(path, file_stat.look(path))
        else:
            fits = _fitting(self._name)
            with os.scandir(folder) as entries:
                for entry in entries:
                    if fits(entry.name) and is_wanted(entry.name) and not file_stat.is_folder_entry(entry):
                        yield _listed(entry)


def _fitting(pattern: str) -> Callable[[str], bool]:
    """Returns a matcher of names for a component of a glob; a leading dot must be matched explicitly."""
    matches = paths.compile_glob(pattern).fullmatch
    return lambda name: bool(matches(name)) and (name[0] != "." or pattern[0] == ".")
