"""Locks between processes on one machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from typing import IO

from beam_tfrecords.storage import file_stat
from beam_tfrecords.storage.paths import has_scheme


@contextlib.contextmanager
def try_lock(path: str) -> Iterator[bool | None]:
    """Holds a local lock file until the block or this process ends.

    Yields:
      False if another process holds the lock; None where locks do not exist: object stores, some network disks.
    """
    if has_scheme(path):
        yield None
        return
    while True:
        file_stat.make_folder(os.path.dirname(path))
        with open(path, "ab") as file:
            is_held = lock_file(file)
            # The previous holder may have deleted the file after it was opened here.
            if is_held is False or is_at(file, path):
                yield is_held
                return


def is_at(file: IO[bytes], path: str) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def lock_file(file: IO[bytes], *, wait: bool = False) -> bool | None:
    """Locks an open file until it is closed.

    Returns:
      False if another process holds the lock and `wait` is False; None if locks do not exist.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        return None
    return True
