"""LATEST and PINNED of a folder of versions: the version to read, and the version that LATEST must keep naming.

Opens the dataset in a folder, or the version that LATEST names there.
"""

from __future__ import annotations

import contextlib
import functools
import os

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset, open_whole, read_dataset
from beam_tfrecords.dataset.files import LATEST, PINNED, SUCCESS, VERSION_NAME
from beam_tfrecords.dataset.published import DamagedError, is_foreign, read_latest, read_pointer, read_success
from beam_tfrecords.dataset.versions import State, find_newest, list_versions
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.beside import does_not_exist


def open_latest(path: str | os.PathLike[str]) -> StoredDataset:
    """Opens a finished dataset; in a folder with versions, the one that `LATEST` names now.

    Raises:
      RequestError: the dataset does not exist, or a later version of beam-tfrecords wrote it.
      BuildError: the manifest cannot be read, or LATEST is damaged.
    """
    root = storage.absolute(os.fspath(path)).rstrip("/")
    version, is_published = storage.run_concurrently(
        root, functools.partial(read_latest, root), functools.partial(storage.exists, storage.join(root, SUCCESS))
    )
    folder = storage.join(root, version) if version else root
    if not (storage.exists(storage.join(folder, SUCCESS)) if version else is_published):
        if damage := find_latest_damage(root):
            repair = f"`beam-tfrecords status --output={root} --unpin` repairs it, and so does the next build"
            raise BuildError(f"{root}: {damage}; {repair}")
        found = f"{folder}: no finished dataset (there is no {SUCCESS})"
        if VERSION_NAME.fullmatch(storage.basename(folder)):
            found += "; the version was removed, or never finished"
        if not storage.exists(folder):
            found = f"{folder} {does_not_exist(folder)}"
        raise RequestError(f"{found}; expected the `output` of a build", code="no_dataset")
    try:
        return read_dataset(folder)
    except DamagedError as error:
        if is_foreign(folder):
            raise RequestError(
                f"{folder}: no finished dataset (another program, such as Spark, has written the {SUCCESS}); expected "
                "the `output` of a build",
                code="no_dataset",
            ) from error
        raise BuildError(f"{folder}: there is a {SUCCESS}, but {error}") from error


def find_latest_damage(root: str) -> str | None:
    """Says why readers of a folder of versions fail now; returns None if they do not, or if there is no version.

    Raises:
      RequestError: a later version of beam-tfrecords wrote the version that LATEST names.
    """
    name = read_pointer(root, LATEST)
    if name:
        whole, damage = open_whole(storage.join(root, name))
        if whole:
            return None
        what = (
            f"names {name}, which is damaged: {damage}" if damage else f"names {name}, which is missing or unfinished"
        )
    else:
        what = "is missing" if name is None else "is damaged"
        # A first version may be unfinished, and a file named LATEST may not be ours.
        states = {version.state for version in list_versions(root)}
        if states.isdisjoint({State.FINISHED} if name is None else {State.FINISHED, State.DAMAGED}):
            return None
    newest = find_newest(root)
    return f"{LATEST} {what}; " + (f"the newest intact version is {newest}" if newest else "there is no intact version")


def point_to(root: str, name: str, *, staging: str) -> str:
    """Makes LATEST name a finished version, unless another one is pinned.

    Args:
      root: the folder of the versions.
      name: name of the version.
      staging: folder for temporary files.

    Returns:
      The version that LATEST names now.

    Raises:
      BuildError: another build has published a newer version in the meantime, or PINNED or the pinned version is
        damaged.
    """
    while True:
        pinned = read_pinned(root)
        target = pinned or name
        if pinned is not None and (damage := find_pin_damage(root, pinned)):
            raise BuildError(damage)
        if pinned is None or read_latest(root) != pinned:
            _write_latest(root, target, staging=staging, goes_back=pinned is not None)
        # `pin` writes PINNED first, without the lease of a build, so it may have changed.
        if read_pinned(root) == pinned:
            return target


def _write_latest(root: str, name: str, *, staging: str, goes_back: bool) -> None:
    pointer, content = storage.join(root, LATEST), f"{name}\n".encode()
    if not storage.has_scheme(root):  # the lease is a lock here, so no other build writes
        storage.write_bytes(pointer, content, staging=staging)
        storage.sync_folder(root)
        return
    while (state := storage.read_state(pointer)) is None or state[0] != content:
        latest = read_latest(root)
        if latest and latest > name and not goes_back and _is_newer_version(root, latest):
            raise BuildError(f"{pointer} names {latest} by now, which is newer than {name}; both are published")
        if _swap(pointer, content, state):
            return


def _is_newer_version(root: str, latest: str) -> bool:
    """Whether LATEST names a version that a build has published and that can be read."""
    path = storage.join(root, latest)
    success = read_success(path)
    try:
        return success is not None and success.version in (None, latest) and open_whole(path)[0] is not None
    except RequestError:  # a later version of beam-tfrecords wrote it
        return True


def find_pin_damage(root: str, pinned: str) -> str | None:
    """Says why LATEST cannot name the pinned version, and what to do; returns None if it can."""
    whole, damage = open_whole(storage.join(root, pinned))
    if whole:
        return None
    command = f"beam-tfrecords status --output={root}"
    newest = find_newest(root)
    return (
        f"{storage.join(root, PINNED)} names {pinned}, which is "
        + (f"damaged: {damage}" if damage else "missing or unfinished")
        + f"; `{command} --unpin` points {LATEST} to the newest intact version"
        + (f", {newest}, and `{command} --pin=VERSION` to another version" if newest else ", once there is one")
    )


def _swap(path: str, content: bytes, state: tuple[bytes, str] | None) -> bool:
    """Writes a file if it still is as `storage.read_state` read it; returns whether it was."""
    return storage.replace(path, content, version=state[1]) if state else storage.write_new(path, content)


def read_pinned(root: str) -> str | None:
    """Returns the pinned version; None if none is pinned.

    Raises:
      BuildError: PINNED names no version.
    """
    name = read_pointer(root, PINNED)
    if name == "":
        raise BuildError(
            f"{storage.join(root, PINNED)} names no version; `beam-tfrecords status --output={root} --pin=VERSION` "
            "writes it again, and `--unpin` removes it"
        )
    return name


def check_pointers(root: str) -> None:
    """Checks that LATEST and PINNED are not folders, and that a pinned version can be read.

    Raises:
      RequestError: one is a folder, or PINNED names no whole version.
    """
    _refuse_folders(root)
    try:
        pinned = read_pinned(root)
    except BuildError as error:
        raise RequestError(str(error), code="invalid_pin") from error
    if pinned is not None and (damage := find_pin_damage(root, pinned)):
        raise RequestError(damage, code="invalid_pin")


def _refuse_folders(root: str) -> None:
    for name in (LATEST, PINNED):
        pointer = storage.join(root, name)
        if not storage.has_scheme(root) and storage.is_folder(pointer):
            raise RequestError(
                f"{pointer} is a folder; expected a file with the name of a version: move or delete it",
                code="not_a_file",
            )


def pin(root: str, name: str, *, staging: str) -> None:
    """Makes LATEST name a version permanently: current and later builds publish their versions beside it.

    Args:
      root: the folder of the versions.
      name: name of the version.
      staging: folder for temporary files.

    Raises:
      RequestError: the folder is not a version of the dataset, or the version is not whole.
    """
    _check_version(root, name)
    _refuse_folders(root)
    before = read_pointer(root, PINNED)
    _write_pinned(root, name, staging=staging)
    try:
        # A build may have started to remove it.
        _check_version(root, name)
    except RequestError:
        if before:
            _write_pinned(root, before, staging=staging)
        else:
            _delete_pinned(root)
        raise
    point_to(root, name, staging=staging)


def _check_version(root: str, name: str) -> None:
    """Raises RequestError unless a folder is a whole version of the dataset."""
    states = {version.name: version.state for version in list_versions(root)}
    state = states.get(name, State.UNFINISHED)
    whole, damage = (None, None) if state is State.UNFINISHED else open_whole(storage.join(root, name))
    if whole and state is not State.FOREIGN:
        return
    path = storage.join(root, name)
    newest = find_newest(root)
    remedy = f"the newest intact version is {newest}" if newest else "there is no intact version"
    if state is State.FOREIGN:
        raise RequestError(
            f"{path}: not a version of this dataset: its manifest has another name, as after a copy; {remedy}",
            code="foreign_version",
        )
    if damage:
        raise RequestError(f"{path}: is damaged: {damage}; {remedy}", code="damaged_dataset")
    raise RequestError(f"{path}: no finished version (there is no {SUCCESS}); {remedy}", code="no_dataset")


def _write_pinned(root: str, name: str, *, staging: str) -> None:
    path, content = storage.join(root, PINNED), f"{name}\n".encode()
    if storage.has_scheme(root):
        while not _swap(path, content, storage.read_state(path)):
            pass
    else:
        storage.write_bytes(path, content, staging=staging)
        storage.sync_folder(root)


def _delete_pinned(root: str) -> None:
    path = storage.join(root, PINNED)
    while (state := storage.read_state(path)) is not None and not storage.delete(path, version=state[1]):
        pass


def unpin(root: str, *, staging: str) -> str | None:
    """Reverses `pin`: LATEST names the newest whole version again; returns the version that LATEST names."""
    _refuse_folders(root)
    _delete_pinned(root)
    while read_pinned(root) is None and (newest := find_newest(root)) not in (None, read_latest(root)):
        assert newest
        # A build may publish a newer version in the meantime, and LATEST never goes back.
        with contextlib.suppress(BuildError):
            point_to(root, newest, staging=staging)
    return read_latest(root)
