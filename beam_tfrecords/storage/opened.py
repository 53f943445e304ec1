"""Notes the files that are opened or asked for, so that what is made of them is known to be stale when one changes."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

# More are not noted: what depends on so many is read again.
MOST_NOTED = 1000

_noted: contextvars.ContextVar[DependencyTracker | None] = contextvars.ContextVar("noted", default=None)


class DependencyTracker:
    """The files that were opened or asked for.

    Args:
      known: a file that is not noted, such as the container that is listed.
    """

    def __init__(self, known: str = "") -> None:
        self._known = known
        self._files: dict[str, str] = {}
        self._are_too_many = False

    @property
    def fingerprints(self) -> dict[str, str] | None:
        """File -> its fingerprint before it was first opened, "" if it was not there; None if they are too many."""
        return None if self._are_too_many else self._files

    def add(self, path: str, find_fingerprint: Callable[[str], str]) -> None:
        """Notes a file; what it was first is what counts."""
        if path == self._known or path in self._files or self._are_too_many:
            return
        self._are_too_many = len(self._files) == MOST_NOTED
        if not self._are_too_many:
            self._files[path] = find_fingerprint(path)


@contextlib.contextmanager
def noting_files(noted: DependencyTracker) -> Iterator[None]:
    """Notes what this thread opens in the block; of nested blocks, the inner one notes."""
    token = _noted.set(noted)
    try:
        yield
    finally:
        _noted.reset(token)


def note(path: str, find_fingerprint: Callable[[str], str]) -> None:
    """Notes a file, if files are noted."""
    noted = _noted.get()
    if noted is not None:
        noted.add(path, find_fingerprint)
