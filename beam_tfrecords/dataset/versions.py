"""Versions of a dataset, in folders `out/<UTC time>/`: finds them, and decides which ones to remove."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import functools
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import open_published, open_whole
from beam_tfrecords.dataset.files import (
    FOLDERS,
    MANIFEST,
    PINNED,
    REMOVED,
    REPORT,
    SUCCESS,
    VERSION_NAME,
    is_dataset_file,
)
from beam_tfrecords.dataset.published import read_changes, read_latest, read_pointer, read_success, was_finished
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.threads import map_in_threads

_FORMAT = "%Y%m%dT%H%M%SZ"
# Folders of a store that are examined in parallel.
_THREADS = 8


class State(enum.Enum):
    """The state of a folder with the name of a version.

    FINISHED: `_SUCCESS` contains the folder's own name. DAMAGED: it was finished, and a file is missing or differs from
    the published one. UNFINISHED: it has no `_SUCCESS`, and may not be ours. FOREIGN: `_SUCCESS` does not contain the
    folder's name, as in a copy or a renamed version; it belongs to the user.
    """

    FINISHED = enum.auto()
    DAMAGED = enum.auto()
    UNFINISHED = enum.auto()
    FOREIGN = enum.auto()


@dataclasses.dataclass(frozen=True)
class Version:
    """A folder with the name of a version.

    Attributes:
      name: name of the folder, the start time of its build.
      state: see `State`.
      published: seconds since the epoch; None without a readable `_SUCCESS`.
      is_link: whether the folder is a link, such as to an archive disk.
    """

    name: str
    state: State
    published: float | None = None
    is_link: bool = False


def new_version(root: str, now: float, *, names: Iterable[str]) -> str:
    """Returns the name of a version that starts at `now`, or one second after the newest version.

    Args:
      root: the folder of the versions.
      now: seconds since the epoch, by the clock of this machine.
      names: names of the finished versions.
    """
    time, second = datetime.datetime.fromtimestamp(now, datetime.timezone.utc), datetime.timedelta(seconds=1)
    # This machine's clock may be behind that of another one. A name may also be an invalid time.
    with contextlib.suppress(ValueError, OverflowError):
        newest = datetime.datetime.strptime(f"{max(names)}+0000", f"{_FORMAT}%z")
        time = max(time, newest + second)
    taken = set(storage.list_folders(root, missing_ok=True))
    while (name := time.strftime(_FORMAT)) in taken:
        time += second
    return name


def list_versions(root: str) -> list[Version]:
    """Returns the folders with the name of a version, the oldest first; checks only their `_SUCCESS`.

    Returns an empty list if `root` does not exist.
    """
    names = sorted(filter(VERSION_NAME.fullmatch, storage.list_folders(root, missing_ok=True)))
    read = functools.partial(_read_folder, root)
    return list(map_in_threads(read, names, threads=_THREADS) if storage.has_scheme(root) else map(read, names))


def _read_folder(root: str, name: str) -> Version:
    path = storage.join(root, name)
    file = storage.join(path, SUCCESS)
    success = read_success(path)
    is_link = _is_link(root, name)
    if success is not None:
        state = State.FINISHED if success.version == name else State.FOREIGN
        with contextlib.suppress(OSError):  # removed in the meantime
            return Version(name, state, storage.stat(file).modified, is_link)
    if was_finished(path):
        return Version(name, State.DAMAGED, is_link=is_link)
    # Other programs also write files of this name.
    is_foreign = success is None and storage.exists(file)
    return Version(name, State.FOREIGN if is_foreign else State.UNFINISHED, is_link=is_link)


def read_listed(root: str, name: str) -> Sequence[str]:
    """Returns the versions that existed when a version was built; empty if its `changes.json` is missing or damaged."""
    try:
        changes = read_changes(storage.join(root, name))
    except BuildError:
        changes = None
    return changes["versions"] if changes else ()


def find_newest(root: str) -> str | None:
    """Returns the name of the newest whole version; None if there is none."""
    for version in reversed(list_versions(root)):
        if version.state is State.FINISHED and is_whole(root, version.name):
            return version.name
    return None


def is_whole(root: str, name: str) -> bool:
    """Whether all files of a version exist as published, and this version of beam-tfrecords can read it."""
    with contextlib.suppress(RequestError):
        return open_whole(storage.join(root, name))[0] is not None
    return False


def find_unfinished(root: str, registered: Collection[str]) -> list[str]:
    """Returns versions that builds have left without `_SUCCESS`, and remains of removed versions.

    Args:
      root: the folder of the versions.
      registered: the versions that builds have started; any other folder is the user's.
    """
    return [
        version.name
        for version in list_versions(root)
        if version.state is State.UNFINISHED and not version.is_link
        if version.name in registered or is_being_removed(root, version.name)
    ]


def is_being_removed(root: str, name: str) -> bool:
    """Whether the removal of this version has started; false for a copy of such a version."""
    mark = storage.join(root, name, REMOVED)
    return storage.exists(mark) and _read_mark(mark)[0] in (None, name)


def find_old(root: str, *, pinned: str | None, keep: int, grace: float, now: float) -> list[str]:
    """Returns finished versions that are no longer needed, as `choose_removals` chooses them.

    Versions whose removal was interrupted before `_SUCCESS` was deleted come last.
    """
    versions = [
        dataclasses.replace(version, state=State.DAMAGED)
        if version.state is State.FINISHED and not is_whole(root, version.name)
        else version
        for version in list_versions(root)
    ]
    begun = [one.name for one in versions if one.state is State.DAMAGED and not one.is_link]
    return [
        *choose_removals(versions, latest=read_latest(root), pinned=pinned, keep=keep, grace=grace, now=now),
        *(name for name in begun if is_being_removed(root, name)),
    ]


def choose_removals(
    versions: Iterable[Version], *, latest: str | None, pinned: str | None, keep: int, grace: float, now: float
) -> list[str]:
    """Returns the versions to remove, the oldest first. A pure function.

    For all arguments:
    - only finished versions are removed; other folders neither count nor are removed;
    - the newest `keep` finished versions stay, so at least min(keep, finished) are left;
    - versions that LATEST and PINNED name stay, and so do links: they count, and their targets are elsewhere;
    - a version is removed only if the next finished one was published at least `grace` seconds ago, because somebody
      may still be reading it. So the newest stays, even with `keep` of 0.

    Args:
      versions: the folders, in any order.
      latest: the version that LATEST names, or None.
      pinned: the version that PINNED names, or None.
      keep: number of versions that stay, 0 or more.
      grace: seconds that a version stays after a newer one was published.
      now: seconds since the epoch.
    """
    finished = sorted(
        (version for version in versions if version.state is State.FINISHED), key=lambda version: version.name
    )
    return [
        version.name
        for version, after in list(itertools.pairwise(finished))[: max(0, len(finished) - keep)]
        if version.name not in (latest, pinned) and not version.is_link
        if after.published is not None and now - after.published >= grace
    ]


def remove(root: str, name: str, *, delete: Callable[[Sequence[str]], None] = storage.delete_files) -> bool:
    """Removes one version, `_SUCCESS` first, so that the rest is no longer a dataset.

    Deletes the files that the manifest names; in an unfinished version, those with names of dataset files. Keeps other
    files, and the targets of links.

    Args:
      root: the folder of the versions.
      name: name of the version.
      delete: deletes files.

    Returns:
      False if LATEST or PINNED names the version by now, so that it stays.
    """
    path = storage.join(root, name)
    if _is_link(root, name):
        raise storage.StorageError(f"{path} is a link")
    # If this call is interrupted, the mark lists the files for the next call.
    mark = storage.join(path, REMOVED)
    _, names = _read_mark(mark)
    if not names:
        dataset = open_published(path)[0]
        names = [*dataset.files, SUCCESS, REPORT] if dataset else _list_names(path)
    if names:
        storage.write_bytes(mark, json.dumps({"version": name, "files": names}).encode())
    # `pin` writes PINNED first, and then checks for the mark, so one of the two processes notices the other.
    if storage.exists(storage.join(path, SUCCESS)) and name in (read_latest(root), read_pointer(root, PINNED)):
        delete([mark])
        return False
    delete([storage.join(path, SUCCESS)])
    delete([storage.join(path, MANIFEST)])
    delete_dataset_files(path, names, delete=delete)
    delete([mark])
    storage.delete_if_empty(path)
    return True


def delete_dataset_files(folder: str, names: Sequence[str], *, delete: Callable[[Sequence[str]], None]) -> None:
    """Deletes files of a dataset, and then its empty folders; never follows links.

    Args:
      folder: folder of the dataset.
      names: names of the files, relative to the folder.
      delete: deletes files.
    """
    links = tuple(f"{below}/" for below in FOLDERS if _is_link(folder, below))
    delete([storage.join(folder, name) for name in names if not name.startswith(links)])
    for below in FOLDERS:
        storage.delete_if_empty(storage.join(folder, below))


def _is_link(folder: str, name: str) -> bool:
    return storage.real_path(storage.join(folder, name)) != storage.join(storage.real_path(folder), name)


def _read_mark(path: str) -> tuple[str | None, Sequence[str]]:
    """Reads a `_REMOVED` file.

    Returns:
      Name of the version that is being removed, or None if a power loss emptied the file; and the names of its files,
      empty if unknown.
    """
    if not storage.exists(path):
        return None, ()
    try:
        values: Any = json.loads(storage.read_bytes(path))
        return str(values["version"]), [name for name in map(str, values["files"]) if is_dataset_file(name)]
    except (ValueError, TypeError, KeyError):
        return None, ()


def _list_names(folder: str) -> list[str]:
    """Returns the files in a version that have names of dataset files."""
    if not storage.is_folder(folder):
        return []
    start = len(folder.rstrip("/")) + 1
    names = [entry.path[start:] for entry in storage.list_files(folder, special=True, literal=True)]
    return [name for name in names if is_dataset_file(name)]
