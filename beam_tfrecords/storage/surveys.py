"""Surveys of small folders in a store: one listing answers what else would be many requests.

A launcher asks whether its input is a dataset of ours, a folder, has files of class names, and then lists it. Where one
page of a listing shows all objects below the input, the page answers these questions.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from beam_tfrecords.storage.entries import AccessDeniedError, AnonymousAccessError, FileEntry

# Objects on a page of a listing.
PAGE = 1000
# Seconds; a request is opened and listed at once.
_MOST_AGE = 10.0
# Folder -> when it was listed, and the store with its page.
_surveyed: dict[str, tuple[float, _Surveyed]] = {}
_is_surveying = False
_is_listing = False


class _Surveyed:
    """A store that answers questions about a folder from a page that has all of its objects."""

    def __init__(self, system: Any, root: str, entries: Mapping[str, FileEntry]) -> None:
        self._system = system
        self._root = root
        self._entries = entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def exists(self, path: str) -> bool:
        """See `storage.exists`."""
        known: bool = path in self._entries if path != self._root else self._system.exists(path)
        return known

    is_file = exists

    def list_files(self, root: str, *, limit: int | None, special: bool, literal: bool) -> Iterator[FileEntry]:
        """See `storage.list_files`."""
        if not literal and any(sign in root for sign in "*?["):
            yield from self._system.list_files(root, limit=limit, special=special, literal=literal)
            return
        below = (entry for path, entry in self._entries.items() if path.startswith(f"{root}/"))
        yield from below if limit is None else (entry for _, entry in zip(range(limit), below, strict=False))

    def list_folders(self, root: str) -> list[str]:
        """See `storage.list_folders`; leaves out folders without objects."""
        below = (path[len(root) + 1 :] for path in self._entries if path.startswith(f"{root}/"))
        return sorted({name.partition("/")[0] for name in below if "/" in name})


@contextlib.contextmanager
def surveying() -> Iterator[None]:
    """Lets `survey_folder` list folders while a request is opened; forgets them afterwards."""
    global _is_surveying
    before, _is_surveying = _is_surveying, True
    try:
        yield
    finally:
        _is_surveying = before
        _surveyed.clear()


def survey_folder(system: Any, root: str) -> None:
    """Lists the first page below a folder of a store, and keeps it if it has all objects."""
    global _is_listing
    if not _is_surveying:
        return
    _is_listing = True
    try:
        entries = {entry.path: entry for entry in system.list_files(root, limit=PAGE, special=False, literal=True)}
    except (AccessDeniedError, AnonymousAccessError):  # without the permission to list, each question is asked
        return
    finally:
        _is_listing = False
    if len(entries) < PAGE:
        _surveyed[root] = time.monotonic(), _Surveyed(system, root, entries)


def is_listing() -> bool:
    """Whether a survey sends requests now. A denied survey does not search for credentials again."""
    return _is_listing


def find_survey(path: str) -> Any:
    """Returns the store that knows a path from a survey, or None."""
    for root, (began, surveyed) in _surveyed.items():
        if (path == root or path.startswith(f"{root}/")) and time.monotonic() - began < _MOST_AGE:
            return surveyed
    return None
