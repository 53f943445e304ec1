"""Versions of a dataset, `out/<UTC time>/` each: which folders are versions, and which of them are removed."""

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
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.output.files import (
    CHANGES,
    FOLDERS,
    MANIFEST,
    PINNED,
    REMOVED,
    REPORT,
    SUCCESS,
    VERSION_NAME,
    is_dataset_file,
)
from beam_tfrecords.reading.dataset import (
    Success,
    open_published,
    open_whole,
    read_changes,
    read_latest,
    read_pointer,
    read_success,
)
from beam_tfrecords.storage.threads import map_in_threads

_FORMAT = "%Y%m%dT%H%M%SZ"
# Folders of a store that are looked at in parallel.
_THREADS = 8


class State(enum.Enum):
    """The state of a folder that has the name of a version.

    FINISHED: it names itself in `_SUCCESS`. DAMAGED: it was finished, and a file is missing or not the one that was
    published. UNFINISHED: it has no `_SUCCESS`; it may be somebody else's. FOREIGN: it does not name itself, as a copy
    or a renamed version does not; it belongs to the user.
    """

    FINISHED = enum.auto()
    DAMAGED = enum.auto()
    UNFINISHED = enum.auto()
    FOREIGN = enum.auto()


@dataclasses.dataclass(frozen=True)
class Version:
    """A folder that has the name of a version.

    Attributes:
      name: of the folder, the time when its build began.
      state: see `State`.
      published: seconds since the epoch; None if it has no readable `_SUCCESS`.
      is_link: whether it is a link, such as to an archive disk.
    """

    name: str
    state: State
    published: float | None = None
    is_link: bool = False


def new_version(root: str, now: float, *, names: Iterable[str]) -> str:
    """The name of a version that begins at `now` (seconds since the epoch), or a second after the newest one.

    Args:
      root: the folder of the versions.
      now: by the clock of this machine.
      names: of the versions that are there and finished.
    """
    time, second = datetime.datetime.fromtimestamp(now, datetime.timezone.utc), datetime.timedelta(seconds=1)
    # This machine's clock may be behind that of another one. A name may also be no time.
    with contextlib.suppress(ValueError, OverflowError):
        newest = datetime.datetime.strptime(f"{max(names)}+0000", f"{_FORMAT}%z")
        time = max(time, newest + second)
    taken = set(storage.list_folders(root, missing_ok=True))
    while (name := time.strftime(_FORMAT)) in taken:
        time += second
    return name


def list_versions(root: str) -> list[Version]:
    """The folders that have the name of a version, the oldest first; their manifests and other files are not checked.

    There is none if there is no folder `root`.
    """
    names = sorted(filter(VERSION_NAME.fullmatch, storage.list_folders(root, missing_ok=True)))
    read = functools.partial(_read_folder, root)
    found = map_in_threads(read, names, threads=_THREADS) if storage.has_scheme(root) else map(read, names)
    read_all = list(found)
    unnamed = {version.name for version, success in read_all if success and success.version is None}
    own = {version.name for version, success in read_all if success and success.version == version.name}
    earlier = _find_unnamed(root, unnamed, own) if unnamed else set()
    return [
        dataclasses.replace(version, state=State.FINISHED) if version.name in earlier else version
        for version, _ in read_all
    ]


def _read_folder(root: str, name: str) -> tuple[Version, Success | None]:
    path = storage.join(root, name)
    file = storage.join(path, SUCCESS)
    success = read_success(path)
    is_link = _is_link(root, name)
    if success is not None:
        state = State.FINISHED if success.version == name else State.FOREIGN
        with contextlib.suppress(OSError):  # removed meanwhile
            return Version(name, state, storage.stat(file).modified, is_link), success
    if _lost_success(path):
        return Version(name, State.DAMAGED, is_link=is_link), None
    # Other programs write files of this name too.
    is_foreign = success is None and storage.exists(file)
    return Version(name, State.FOREIGN if is_foreign else State.UNFINISHED, is_link=is_link), None


def _lost_success(path: str) -> bool:
    # A manifest is written just before `_SUCCESS`.
    return storage.exists(storage.join(path, MANIFEST)) and not storage.exists(storage.join(path, REMOVED))


def _find_unnamed(root: str, unnamed: Collection[str], own: Collection[str]) -> set[str]:
    """The versions that earlier versions of beam-tfrecords wrote, without their names in `_SUCCESS`.

    They are recognised once, by their manifests: the first version that names itself lists them in `changes.json`, and
    from then on only what is listed there is a version. A copy or a renamed version is not.

    Args:
      root: the folder of the versions.
      unnamed: folders whose `_SUCCESS` has no name.
      own: folders that name themselves.
    """
    latest = {name for name in unnamed if name == read_latest(root)}
    if own:
        return latest.union(*(read_listed(root, name) for name in own)).intersection(unnamed)
    by_manifest: dict[str, list[str]] = {}
    for name in unnamed:
        with contextlib.suppress(RequestError):  # a later version of beam-tfrecords has made it
            dataset, _ = open_published(storage.join(root, name))
            if dataset and CHANGES in dataset.manifest["files"]:
                by_manifest.setdefault(dataset.manifest_sha256, []).append(name)
    known = latest.union(*(read_listed(root, name) for names in by_manifest.values() for name in names))
    # Of a version and its copies, later versions know the version alone; else nobody knows which is which.
    chosen = (names if len(names) == 1 else known.intersection(names) for names in by_manifest.values())
    return latest.union(*(names for names in chosen if len(names) == 1))


def read_listed(root: str, name: str) -> Sequence[str]:
    """The versions that were there when a version was built; none if its `changes.json` is missing or damaged."""
    try:
        return (read_changes(storage.join(root, name)) or {}).get("versions", ())
    except BuildError:
        return ()


def find_newest(root: str) -> str | None:
    """The name of the newest version that is whole; None if there is none."""
    for version in reversed(list_versions(root)):
        if version.state is State.FINISHED and is_whole(root, version.name):
            return version.name
    return None


def is_whole(root: str, name: str) -> bool:
    """Whether all files of a version are there as they were published, and this version of beam-tfrecords reads it."""
    with contextlib.suppress(RequestError):
        return open_whole(storage.join(root, name))[0] is not None
    return False


def find_unfinished(root: str, registered: Collection[str]) -> list[str]:
    """Versions that builds have left without `_SUCCESS`, and what is left of removed ones.

    Args:
      root: the folder of the versions.
      registered: the versions that builds have begun; a folder like one that no build has begun is somebody's own.
    """
    return [
        version.name
        for version in list_versions(root)
        if version.state is State.UNFINISHED and not version.is_link
        if version.name in registered or is_being_removed(root, version.name)
    ]


def is_being_removed(root: str, name: str) -> bool:
    """Whether a removal of this version has begun; the copy of such a version is none."""
    mark = storage.join(root, name, REMOVED)
    return storage.exists(mark) and _read_mark(mark).version in (None, name)


def find_old(root: str, *, pinned: str | None, keep: int, grace: float, now: float) -> list[str]:
    """Finished versions that are not needed any more, as `choose_removals` chooses them.

    Those whose removal was interrupted before `_SUCCESS` was deleted come last.
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
    """The versions that are removed, the oldest first. A pure function.

    Whatever the arguments:
    - only finished versions are removed: others neither count nor go;
    - the newest `keep` finished ones stay, so that at least min(keep, finished) are left;
    - those that LATEST and PINNED name stay, and links: they count, and what they lead to is somewhere else;
    - a version goes only if the finished one after it was published `grace` seconds ago or earlier: somebody may
      still read it. So the newest stays, even with `keep` of 0.

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
    """Removes one version, `_SUCCESS` first: what is left of it is no dataset any more.

    The files that its manifest names go, of an unfinished version those with names like ours; files of others and
    what links lead to stay.

    Args:
      root: the folder of the versions.
      name: of the version.
      delete: deletes files.

    Returns:
      False if LATEST or PINNED names it by now, so that it stays.
    """
    path = storage.join(root, name)
    if _is_link(root, name):
        raise storage.StorageError(f"{path} is a link")
    # It also says, to the next call, what this one has not come to.
    mark = storage.join(path, REMOVED)
    names = _read_mark(mark).files
    if not names:
        dataset = open_published(path)[0]
        names = [*dataset.files, SUCCESS, REPORT] if dataset else _list_names(path)
    if names:
        storage.write_bytes(mark, json.dumps({"version": name, "files": names}).encode())
    # Who pins a version writes PINNED first, and then looks for the mark: one of the two sees the other.
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
    """Deletes files of a dataset, and its folders if they are empty then; nothing that a link leads to.

    Args:
      folder: of the dataset.
      names: of the files, relative to it.
      delete: deletes files.
    """
    links = tuple(f"{below}/" for below in FOLDERS if _is_link(folder, below))
    delete([storage.join(folder, name) for name in names if not name.startswith(links)])
    for below in FOLDERS:
        storage.delete_if_empty(storage.join(folder, below))


def _is_link(folder: str, name: str) -> bool:
    return storage.real_path(storage.join(folder, name)) != storage.join(storage.real_path(folder), name)


@dataclasses.dataclass(frozen=True)
class _Mark:
    """What a `_REMOVED` says.

    Attributes:
      version: name of the version that is being removed; None if an earlier version of beam-tfrecords wrote the mark,
        or a power cut has emptied it.
      files: names of its files; none if they are not known.
    """

    version: str | None = None
    files: Sequence[str] = ()


def _read_mark(path: str) -> _Mark:
    if not storage.exists(path):
        return _Mark()
    try:
        values: Any = json.loads(storage.read_bytes(path))
        version, files = (str(values["version"]), values["files"]) if isinstance(values, dict) else (None, values)
        return _Mark(version, [name for name in map(str, files) if is_dataset_file(name)])
    except (ValueError, TypeError, KeyError):
        return _Mark()


def _list_names(folder: str) -> list[str]:
    """The files in a version that have names like ours."""
    if not storage.is_folder(folder):
        return []
    start = len(folder.rstrip("/")) + 1
    names = [entry.path[start:] for entry in storage.list_files(folder, special=True, literal=True)]
    return [name for name in names if is_dataset_file(name)]
