"""A local folder that caches ranges of files in stores, shared by processes and bounded in bytes.

Each range is at its own offset in a sparse file, and nothing records which ranges exist: a checksum tells the reader
whether the bytes are correct. Readers and writers therefore need no lock, and a hole, a write cut short by a power
loss and a damaged disk are all treated alike.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator

from beam_tfrecords.escaping import escape
from beam_tfrecords.storage import file_stat
from beam_tfrecords.storage.locks import lock_file, try_lock

# Only files with this prefix are ever removed.
_PREFIX = "beam-tfrecords-"
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
_LOCKS = 64
# A process checks the folder's size each time it has written this many bytes, or this share of the folder.
_LOOK_BYTES, _LOOK_SHARE = 64 << 20, 16
# Seconds before another read updates a file's time of use.
_USED_SECONDS = 60.0
# Seconds that a process waits for another one that fills the same range; then it reads the range itself.
_WAIT_SECONDS = 30.0
_MOST_OPEN = 256
# Unit of `st_blocks` in bytes.
_DISK_BLOCK = 512

_LOG = logging.getLogger(__name__)


class CacheFolder:
    """A folder that caches ranges of files.

    Args:
      path: the folder; created by the first write.
      most_bytes: maximum size on disk; the least recently used files are evicted first. Each process may exceed it by a
        sixteenth, and by 64 MiB at most.
    """

    def __init__(self, path: str, most_bytes: int) -> None:
        self.path, self.most_bytes = path, most_bytes
        self._look_bytes = min(_LOOK_BYTES, most_bytes // _LOOK_SHARE)
        self._files: dict[str, _CachedFile] = {}
        # The first write already checks the size.
        self._written = self._look_bytes
        self._has_failed = False

    def __reduce__(self) -> tuple[type[CacheFolder], tuple[str, int]]:
        return type(self), (self.path, self.most_bytes)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Returns bytes of a file: cached ones, zeros, or fewer; the caller needs a checksum to tell.

        Args:
          name: 32 hex digits that identify the content.
          offset: offset of the first byte.
          length: length in bytes; None for the rest of the file.
        """
        try:
            file = self._open(name)
            return file.read(offset, file.size() if length is None else length) if file else b""
        except OSError as error:
            self._note(error)
            return b""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Caches bytes of a file. A disk error is not raised: the bytes will be read from the store again."""
        try:
            file_stat.make_folder(self.path)
            file = self._open(name, creates=True)
            if file:
                file.write(offset, data)
        except OSError as error:
            self._note(error)
        self._written += len(data)
        if self._written > self._look_bytes:
            self._written = 0
            self.remove_oldest()

    @contextlib.contextmanager
    def filling(self, name: str, offset: int) -> Iterator[None]:
        """Keeps other threads and processes from filling the same range during the block, for up to 30 s."""
        number = zlib.crc32(f"{name} {offset}".encode()) % _LOCKS
        try:
            file_stat.make_folder(self.path)
            file = open(os.path.join(self.path, f"{_PREFIX}lock-{number:02d}"), "ab")  # noqa: SIM115
        except OSError as error:
            self._note(error)
            yield
            return
        with file:
            end = time.monotonic() + _WAIT_SECONDS
            while lock_file(file) is False and time.monotonic() < end:
                time.sleep(0.005)
            try:
                yield
            finally:
                # A process that was forked in the meantime has the file open too.
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_UN)

    def remove_oldest(self) -> None:
        """Evicts the least recently used files until the rest is small enough."""
        try:
            with try_lock(os.path.join(self.path, f"{_PREFIX}lock")) as is_held:
                if is_held is not False:
                    self._remove_oldest()
        except OSError as error:
            self._note(error)

    def _remove_oldest(self) -> None:
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                status = file_stat.look_at_entry(entry) if _NAME.fullmatch(entry.name) else None
                if file_stat.is_regular(status) and status:
                    found.append((status.st_mtime_ns, entry.path, status.st_blocks * _DISK_BLOCK))
        excess = sum(size for _, _, size in found) - self.most_bytes
        for _, path, size in sorted(found):
            if excess <= 0:
                return
            # Another process may have removed it. Processes that have it open notice at the next read that it has no
            # name.
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            excess -= size

    def _path_of(self, name: str) -> str:
        return os.path.join(self.path, _PREFIX + name)

    def _open(self, name: str, *, creates: bool = False) -> _CachedFile | None:
        file = self._files.get(name)
        if file and file.is_there():
            return file
        try:
            file = _CachedFile(self._path_of(name), os.O_CREAT if creates else 0)
        except FileNotFoundError:
            return None
        if len(self._files) >= _MOST_OPEN:
            # Other threads may change the dict.
            with contextlib.suppress(StopIteration, RuntimeError):
                self._files.pop(next(iter(self._files)), None)
        self._files[name] = file
        return file

    def _note(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            full = " (the disk is full)" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            path = escape(self.path)
            _LOG.warning("cache %s cannot be used%s: %s; datasets are read from their store", path, full, error)


class _CachedFile:
    """An open file of a cache, closed when it is garbage-collected; threads and forked processes may share it."""

    def __init__(self, path: str, flags: int) -> None:
        self._number = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o666)
        self._used = 0.0

    def is_there(self) -> bool:
        """Whether the file still has its name."""
        return os.fstat(self._number).st_nlink > 0

    def size(self) -> int:
        return os.fstat(self._number).st_size

    def read(self, offset: int, length: int) -> bytes:
        now = time.monotonic()
        if now - self._used > _USED_SECONDS:
            self._used = now
            os.utime(self._number)
        return os.pread(self._number, length, offset)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(self._number, rest, offset)
            rest, offset = rest[written:], offset + written

    # An argument, because module globals are gone when the interpreter exits.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "_number"):
            close(self._number)
