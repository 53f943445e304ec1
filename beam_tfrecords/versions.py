"""Versions of a dataset: `out/<UTC time>/` each, and `out/LATEST`, which names the one to read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools

from beam_tfrecords import storage
from beam_tfrecords.dataset import open_whole, read_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.files import LATEST, MANIFEST, REMOVED, SUCCESS, VERSION_NAME

_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclasses.dataclass(frozen=True)
class Version:
    """One version.

    Attributes:
      name: of its folder, the time when its build began.
      published: seconds since the epoch, or None if it is not finished.
    """

    name: str
    published: float | None


def new_version(root: str, now: float) -> str:
    """The name of a version that begins at `now` (seconds since the epoch), or a second after the newest one."""
    time, second = datetime.datetime.fromtimestamp(now, datetime.timezone.utc), datetime.timedelta(seconds=1)
    names = list(filter(VERSION_NAME.fullmatch, storage.list_folders(root) if storage.is_folder(root) else ()))
    # This machine's clock may be behind that of another one. A name may also be no time.
    with contextlib.suppress(ValueError, OverflowError):
        newest = datetime.datetime.strptime(f"{max(names)}+0000", f"{_FORMAT}%z")
        time = max(time, newest + second)
    while (name := time.strftime(_FORMAT)) in names:
        time += second
    return name


def list_versions(root: str) -> list[Version]:
    """The versions below a folder, the oldest first; none if there is no such folder."""
    if not storage.is_folder(root):
        return []
    names = sorted(name for name in storage.list_folders(root) if VERSION_NAME.fullmatch(name))
    versions = []
    for name in names:
        success = storage.join(root, name, SUCCESS)
        published = storage.stat(success).modified if storage.exists(success) else None
        versions.append(Version(name, published))
    return versions


def _is_damaged(root: str, name: str) -> bool:
    """Whether a version was finished, and its manifest is not the one that was published."""
    try:
        return open_whole(storage.join(root, name))[1] is not None
    except RequestError:  # a later version of beam-tfrecords has made it
        return False


def point_to(root: str, name: str, *, staging: str) -> None:
    """Makes a finished version the one to read.

    Args:
      root: the folder of the versions.
      name: of the version.
      staging: folder for temporary files.

    Raises:
      BuildError: another build has published a newer version meanwhile.
    """
    pointer, content = storage.join(root, LATEST), f"{name}\n".encode()
    if not storage.has_scheme(root):  # nobody else has the lease: it is a lock
        storage.write_bytes(pointer, content, staging=staging)
        storage.sync_folder(root)
        return
    while (state := storage.read_state(pointer)) is None or state[0] != content:
        latest = read_latest(root)
        is_whole = latest and storage.exists(storage.join(root, latest, SUCCESS)) and not _is_damaged(root, latest)
        if latest and latest > name and is_whole:
            raise BuildError(f"{pointer} names {latest} by now, which is newer than {name}; both are published")
        if storage.replace(pointer, content, version=state[1]) if state else storage.write_new(pointer, content):
            return


def find_unfinished(root: str) -> list[str]:
    """Versions that builds have left without `_SUCCESS`, and what is left of removed ones."""
    unfinished = [version.name for version in list_versions(root) if version.published is None]
    return [name for name in unfinished if not _is_damaged(root, name)]


def find_old(root: str, *, keep: int, grace: float, now: float) -> list[str]:
    """Finished versions that are not needed any more.

    The newest ones stay, and the one that `LATEST` names, and all that a newer one has replaced only lately:
    somebody may still read them. Damaged ones are not counted, and left as they are.

    Args:
      keep: number of versions that stay.
      grace: seconds that a version stays after a newer one was published.
      now: seconds since the epoch.
    """
    published = [version for version in list_versions(root) if version.published is not None]
    finished = [version for version in published if not _is_damaged(root, version.name)]
    latest = read_latest(root)
    old = []
    for version, newer in list(itertools.pairwise(finished))[: len(finished) - keep]:
        assert newer.published is not None
        if version.name != latest and now - newer.published >= grace:
            old.append(version.name)
    return old


def remove(root: str, name: str) -> None:
    """Removes one version, `_SUCCESS` first: what is left of it is no dataset any more."""
    storage.write_bytes(storage.join(root, name, REMOVED), b"")
    storage.delete_files([storage.join(root, name, SUCCESS)])
    storage.delete_files([storage.join(root, name, MANIFEST)])
    storage.delete_tree(storage.join(root, name))
