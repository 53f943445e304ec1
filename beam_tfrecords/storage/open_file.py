"""A local file that stays open, for random access."""

from __future__ import annotations

import os
from collections.abc import Callable

from beam_tfrecords.storage.local import open_regular


class OpenFile:
    """An open local file, closed when it is garbage-collected.

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
