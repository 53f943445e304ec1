"""Versions of a dataset: `out/<UTC time>/` each, and `out/LATEST`, which names the one to read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset import find_newest, open_whole, read_latest, read_pointer
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.files import (
    FOLDERS,
    LATEST,
    MANIFEST,
    PINNED,
    REMOVED,
    REPORT,
    SUCCESS,
    VERSION_NAME,
    is_dataset_file,
)

_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclasses.dataclass(frozen=True)
class Version:
    """One version.

    Attributes:
      name: of its folder, the time when its build began.
      published: seconds since the epoch, or None if it is not finished.
      is_damaged: whether it was finished, and its manifest is not the one that was published.
    """

    name: str
    published: float | None
    is_damaged: bool = False


def new_version(root: str, now: float) -> str:
    """The name of a version that begins at `now` (seconds since the epoch), or a second after the newest one."""
    time, second = datetime.datetime.fromtimestamp(now, datetime.timezone.utc), datetime.timedelta(seconds=1)
    names = list(filter(VERSION_NAME.fullmatch, storage.list_folders(root, missing_ok=True)))
    # This machine's clock may be behind that of another one. A name may also be no time.
    with contextlib.suppress(ValueError, OverflowError):
        newest = datetime.datetime.strptime(f"{max(names)}+0000", f"{_FORMAT}%z")
        time = max(time, newest + second)
    while (name := time.strftime(_FORMAT)) in names:
        time += second
    return name


def list_versions(root: str) -> list[Version]:
    """The folders with the name of a version, the oldest first, without a look at their manifests.

    None if there is no folder `root`. One that is not finished may be somebody else's.
    """
    names = sorted(filter(VERSION_NAME.fullmatch, storage.list_folders(root, missing_ok=True)))
    versions = []
    for name in names:
        success = storage.join(root, name, SUCCESS)
        published = storage.stat(success).modified if storage.exists(success) else None
        versions.append(Version(name, published))
    return versions


def is_damaged(root: str, name: str) -> bool:
    """Whether a version was finished, and its manifest is not the one that was published."""
    try:
        return open_whole(storage.join(root, name))[1] is not None
    except RequestError:  # a later version of beam-tfrecords has made it
        return False


def point_to(root: str, name: str, *, staging: str) -> str:
    """Makes a finished version the one to read, unless another one is pinned.

    Args:
      root: the folder of the versions.
      name: of the version.
      staging: folder for temporary files.

    Returns:
      The version that LATEST names now.

    Raises:
      BuildError: another build has published a newer version meanwhile, or PINNED is damaged.
    """
    while True:
        pinned = read_pinned(root)
        target = pinned or name
        if pinned is None or read_latest(root) != pinned:
            _write_latest(root, target, staging=staging, goes_back=pinned is not None)
        # Who pins a version writes PINNED first, and does not ask for the lease of a build.
        if read_pinned(root) == pinned:
            return target


def _write_latest(root: str, name: str, *, staging: str, goes_back: bool) -> None:
    pointer, content = storage.join(root, LATEST), f"{name}\n".encode()
    if not storage.has_scheme(root):  # nobody else has the lease: it is a lock
        storage.write_bytes(pointer, content, staging=staging)
        storage.sync_folder(root)
        return
    while (state := storage.read_state(pointer)) is None or state[0] != content:
        latest = read_latest(root)
        is_whole = latest and storage.exists(storage.join(root, latest, SUCCESS)) and not is_damaged(root, latest)
        if latest and latest > name and is_whole and not goes_back:
            raise BuildError(f"{pointer} names {latest} by now, which is newer than {name}; both are published")
        if _swap(pointer, content, state):
            return


def _swap(path: str, content: bytes, state: tuple[bytes, str] | None) -> bool:
    """Writes a file if it is what `storage.read_state` has read; False if it is not."""
    return storage.replace(path, content, version=state[1]) if state else storage.write_new(path, content)


def read_pinned(root: str) -> str | None:
    """The version that LATEST is held at; None if it is not held.

    Raises:
      BuildError: PINNED names no version.
    """
    name = read_pointer(root, PINNED)
    if name == "":
        raise BuildError(
            f"{storage.join(root, PINNED)} names no version; `beam-tfrecords status --output={root} --pin=VERSION` "
            "writes it anew, and `--unpin` removes it"
        )
    return name


def check_pointers(root: str) -> str | None:
    """Checks that LATEST and PINNED are or can be files; returns the version that is pinned.

    Raises:
      RequestError: one is a folder, or PINNED names no version.
    """
    _refuse_folders(root)
    try:
        return read_pinned(root)
    except BuildError as error:
        raise RequestError(str(error)) from error


def _refuse_folders(root: str) -> None:
    for name in (LATEST, PINNED):
        pointer = storage.join(root, name)
        if not storage.has_scheme(root) and storage.is_folder(pointer):
            raise RequestError(f"{pointer} is a folder; expected a file with the name of a version: move or delete it")


def pin(root: str, name: str, *, staging: str) -> None:
    """Lets LATEST name a version, and holds it there: builds that run or come are published beside it.

    Args:
      root: the folder of the versions.
      name: of the version.
      staging: folder for temporary files.

    Raises:
      RequestError: the version is not whole.
    """
    whole, damage = open_whole(storage.join(root, name)) if VERSION_NAME.fullmatch(name) else (None, None)
    if whole is None:
        newest = find_newest(root)
        raise RequestError(
            f"{storage.join(root, name)}: "
            + (f"is damaged: {damage}" if damage else f"no finished version (there is no {SUCCESS})")
            + (f"; the newest whole version is {newest}" if newest else "; there is no whole version")
        )
    _refuse_folders(root)
    path, content = storage.join(root, PINNED), f"{name}\n".encode()
    if storage.has_scheme(root):
        while not _swap(path, content, storage.read_state(path)):
            pass
    else:
        storage.write_bytes(path, content, staging=staging)
        storage.sync_folder(root)
    point_to(root, name, staging=staging)


def unpin(root: str, *, staging: str) -> str | None:
    """Ends what `pin` began: LATEST names the newest whole version again; returns what it names."""
    _refuse_folders(root)
    path = storage.join(root, PINNED)
    while (state := storage.read_state(path)) is not None and not storage.delete(path, version=state[1]):
        pass
    while read_pinned(root) is None and (newest := find_newest(root)) not in (None, read_latest(root)):
        assert newest
        # A build may publish a newer one meanwhile, and LATEST never goes back.
        with contextlib.suppress(BuildError):
            point_to(root, newest, staging=staging)
    return read_latest(root)


def find_unfinished(root: str, registered: Collection[str]) -> list[str]:
    """Versions that builds have left without `_SUCCESS`, and what is left of removed ones.

    Args:
      root: the folder of the versions.
      registered: the versions that builds have begun; a folder like one that no build has begun is somebody's own.
    """
    unfinished = [version.name for version in list_versions(root) if version.published is None]
    return [
        name
        for name in unfinished
        if (name in registered and not is_damaged(root, name)) or storage.exists(storage.join(root, name, REMOVED))
    ]


def find_old(root: str, *, pinned: str | None, keep: int, grace: float, now: float) -> list[str]:
    """Finished versions that are not needed any more, as `choose_removals` chooses them."""
    versions = [
        dataclasses.replace(version, is_damaged=version.published is not None and is_damaged(root, version.name))
        for version in list_versions(root)
    ]
    return choose_removals(versions, latest=read_latest(root), pinned=pinned, keep=keep, grace=grace, now=now)


def choose_removals(
    versions: Iterable[Version], *, latest: str | None, pinned: str | None, keep: int, grace: float, now: float
) -> list[str]:
    """The versions that are removed, the oldest first. A pure function.

    Finished versions are those that are published and not damaged. Whatever the arguments:
    - only finished versions are removed: damaged and unfinished ones neither count nor go;
    - the newest `keep` finished ones stay, so that at least min(keep, finished) are left;
    - those that LATEST and PINNED name stay;
    - a version goes only if the finished one after it was published `grace` seconds ago or earlier: somebody may
      still read it. So the newest stays, even with `keep` of 0.

    Args:
      versions: those of a folder, in any order.
      latest: the version that LATEST names, or None.
      pinned: the version that PINNED names, or None.
      keep: number of versions that stay, 0 or more.
      grace: seconds that a version stays after a newer one was published.
      now: seconds since the epoch.
    """
    published = [
        (version.name, version.published)
        for version in sorted(versions, key=lambda version: version.name)
        if version.published is not None and not version.is_damaged
    ]
    removed = []
    for (name, _), (_, replaced) in list(itertools.pairwise(published))[: max(0, len(published) - keep)]:
        if name not in (latest, pinned) and now - replaced >= grace:
            removed.append(name)
    return removed


def remove(root: str, name: str, *, delete: Callable[[Sequence[str]], None] = storage.delete_files) -> None:
    """Removes one version, `_SUCCESS` first: what is left of it is no dataset any more.

    The files that its manifest names go, of an unfinished version those with names like ours; files of others and
    what links lead to stay.

    Args:
      root: the folder of the versions.
      name: of the version.
      delete: deletes files.
    """
    path = storage.join(root, name)
    if _is_link(root, name):
        raise storage.StorageError(f"{path} is a link")
    # It also says, to the next call, what this one has not come to.
    mark = storage.join(path, REMOVED)
    names = _read_names(mark)
    if not names:
        dataset = open_whole(path)[0]
        names = [*dataset.files, SUCCESS, REPORT] if dataset else _list_names(path)
    if names:
        storage.write_bytes(mark, json.dumps(names).encode())
    delete([storage.join(path, SUCCESS)])
    delete([storage.join(path, MANIFEST)])
    delete_dataset_files(path, names, delete=delete)
    delete([mark])
    storage.delete_if_empty(path)


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


def _read_names(mark: str) -> list[str]:
    """The names in a `_REMOVED`; none if an earlier version of beam-tfrecords, or a power cut, has left it empty."""
    if not storage.exists(mark):
        return []
    try:
        return [name for name in map(str, json.loads(storage.read_bytes(mark))) if is_dataset_file(name)]
    except (ValueError, TypeError):
        return []


def _list_names(folder: str) -> list[str]:
    """The files in a version that have names like ours."""
    if not storage.is_folder(folder):
        return []
    start = len(folder.rstrip("/")) + 1
    names = [entry.path[start:] for entry in storage.list_files(folder, special=True, literal=True)]
    return [name for name in names if is_dataset_file(name)]
