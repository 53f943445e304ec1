"""Tracks files that are opened or checked, so that a change of one invalidates the results derived from them."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

# Tracking stops at this number of files; results that depend on more are always computed again.
MOST_NOTED = 1000

_noted: contextvars.ContextVar[DependencyTracker | None] = contextvars.ContextVar("noted", default=None)


class DependencyTracker:
    """The files that were opened or checked.

    Args:
      known: a file that is not tracked, such as the container that is being listed.
    """

    def __init__(self, known: str = "") -> None:
        self._known = known
        self._files: dict[str, str] = {}

    @property
    def fingerprints(self) -> dict[str, str] | None:
        """File -> its fingerprint before the first open, "" if it did not exist; None if there are too many files."""
        return None if len(self._files) > MOST_NOTED else self._files

    def add(self, path: str, find_fingerprint: Callable[[str], str]) -> None:
        """Tracks a file with the fingerprint that it has now, unless it is tracked already."""
        if path != self._known and path not in self._files and len(self._files) <= MOST_NOTED:
            self._files[path] = find_fingerprint(path)


@contextlib.contextmanager
def noting_files(noted: DependencyTracker) -> Iterator[None]:
    """Tracks the files that this thread opens in the block; in nested blocks, only the inner tracker does."""
    token = _noted.set(noted)
    try:
        yield
    finally:
        _noted.reset(token)


def note(path: str, find_fingerprint: Callable[[str], str]) -> None:
    """Adds a file to the active tracker, if there is one."""
    noted = _noted.get()
    if noted is not None:
        noted.add(path, find_fingerprint)
