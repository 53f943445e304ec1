"""Versions of a dataset: `out/<UTC time>/` each, and `out/LATEST`, which names the one to read."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import itertools
import json
import re

from beam_tfrecords import storage
from beam_tfrecords.files import LATEST, MANIFEST, REMOVED, SUCCESS

_FORMAT = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z")


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
    """The name of a version that begins at `now` (seconds since the epoch), or as soon after it as one is free."""
    time = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    taken = set(storage.list_folders(root)) if storage.is_folder(root) else set()
    while (name := time.strftime(_FORMAT)) in taken:
        time += datetime.timedelta(seconds=1)
    return name


def list_versions(root: str) -> list[Version]:
    """The versions below a folder, the oldest first; none if there is no such folder."""
    if not storage.is_folder(root):
        return []
    names = sorted(name for name in storage.list_folders(root) if _NAME.fullmatch(name))
    versions = []
    for name in names:
        success = storage.join(root, name, SUCCESS)
        published = storage.stat(success).modified if storage.exists(success) else None
        versions.append(Version(name, published))
    return versions


def read_latest(root: str) -> str | None:
    """The name of the version to read; None if the folder has no versions."""
    pointer = storage.join(root, LATEST)
    if not storage.exists(pointer):
        return None
    name = storage.read_bytes(pointer).decode(errors="replace").strip()
    return name if _NAME.fullmatch(name) else None


def find_damage(path: str) -> str | None:
    """What is wrong with a dataset that was finished; None if its manifest is the one that `_SUCCESS` names.

    A folder that never held a finished dataset is not damaged.

    Args:
      path: the dataset's folder.

    Raises:
      BuildError: the store does not answer.
    """
    success, manifest, removed = (storage.join(path, name) for name in (SUCCESS, MANIFEST, REMOVED))
    if not storage.exists(success):
        # A manifest is written just before `_SUCCESS`.
        was_finished = storage.exists(manifest) and not storage.exists(removed)
        return f"there is a {MANIFEST}, but no {SUCCESS}" if was_finished else None
    try:
        published = json.loads(storage.read_bytes(success))["manifest_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{SUCCESS} cannot be read: {error}"
    try:
        digest = hashlib.sha256(storage.read_bytes(manifest)).hexdigest()
    except OSError as error:
        return f"{MANIFEST} cannot be read: {error}"
    return None if digest == published else f"{MANIFEST} is not the one that {SUCCESS} names"


def point_to(root: str, name: str, *, staging: str) -> None:
    """Makes a finished version the one to read.

    Args:
      root: the folder of the versions.
      name: of the version.
      staging: folder for temporary files.
    """
    storage.write_bytes(storage.join(root, LATEST), f"{name}\n".encode(), staging=staging)
    storage.sync_folder(root)


def find_unfinished(root: str) -> list[str]:
    """Versions that builds have left without `_SUCCESS`, and what is left of removed ones."""
    unfinished = [version.name for version in list_versions(root) if version.published is None]
    return [name for name in unfinished if find_damage(storage.join(root, name)) is None]


def find_old(root: str, *, keep: int, grace: float, now: float) -> list[str]:
    """Finished versions that are not needed any more.

    The newest ones stay, and the one that `LATEST` names, and all that a newer one has replaced only lately:
    somebody may still read them. Damaged ones are not counted, and left as they are.

    Args:
      root: the folder of the versions.
      keep: number of versions that stay.
      grace: seconds that a version stays after a newer one was published.
      now: seconds since the epoch.
    """
    published = [version for version in list_versions(root) if version.published is not None]
    finished = [version for version in published if find_damage(storage.join(root, version.name)) is None]
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
