"""A local file that stays open, for reads at random places."""

from __future__ import annotations

import os
from collections.abc import Callable

from beam_tfrecords.storage.local import open_regular


class OpenFile:
    """An open file of this machine, closed when it is forgotten.

    Reads have no position, so threads and forked processes may share it. It stays the same file when another takes its
    path.

    Attributes:
      size: in bytes, when it was opened.
    """

    def __init__(self, path: str) -> None:
        self._number = open_regular(path)
        self.size = os.fstat(self._number).st_size

    def read_range(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`; fewer only at the end of the file."""
        return os.pread(self._number, length, offset)

    # As an argument, because a module's names are gone when the interpreter ends.
    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if hasattr(self, "_number"):
            close(self._number)
