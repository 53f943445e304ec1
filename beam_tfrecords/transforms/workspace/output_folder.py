"""What is in an output folder before a build: files that the new dataset replaces, and files that are not ours."""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.output.files import DUPLICATES, FAILURES, FOLDERS, LATEST, REPORT, SUCCESS, is_dataset_file
from beam_tfrecords.output.versions import State, Version, delete_dataset_files
from beam_tfrecords.reading.dataset import read_pointer
from beam_tfrecords.reading.opening import open_dataset
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import naming_damage, read_if_there

_MOST_SHOWN = 3
_MOST_LINES = 1000
# Where a disk is mounted.
_OF_THE_SYSTEM = ("lost+found",)


def find_old_files(output: str) -> list[str]:
    """The files in an output folder that have names like ours, relative to it.

    Ours are those of a finished dataset, and those that builds have listed before they wrote them.

    Raises:
      RequestError: some of them are neither; or nothing in the folder is ours, and there are other files in it.
    """
    workspace = Workspace(output)
    claim, old_files, names, *below = storage.run_concurrently(
        output,
        functools.partial(_read, workspace.claim),
        functools.partial(_read, workspace.old_files),
        functools.partial(_list_names, output),
        *(functools.partial(_list_names, storage.join(output, folder)) for folder in FOLDERS),
    )
    found = {name for name in names if is_dataset_file(name)}
    for (folder, end), listed in zip(FOLDERS.items(), below, strict=True):
        found.update(f"{folder}/{name}" for name in listed if name.endswith(end))
    claimed = _parse_names(claim)
    if claimed is None and claim is not None:
        # A power cut has emptied it. What a refused build leaves can be told by what it says.
        claimed = {name for name in found if _is_list_of_ours(output, name)}
    ours = {*(claimed or ()), *(_parse_names(old_files) or ())}
    if SUCCESS in found:
        ours |= _files_of_dataset(output)
    if foreign := found - ours:
        raise RequestError(
            f"`output={output}`: has files that belong to no dataset of beam-tfrecords and would mix with the new one: "
            f"{_show(foreign)}; move or delete them, or choose another folder"
        )
    if not (found or claim is not None):
        _refuse_foreign(output, names)
    return sorted(found)


def check_versions_root(output: str, versions: Iterable[Version]) -> None:
    """Checks that what LATEST is in a folder of versions is ours; other files do no harm beside versions.

    Args:
      output: the folder.
      versions: that are there.

    Raises:
      RequestError: it is somebody else's.
    """
    if any(version.state in (State.FINISHED, State.DAMAGED) for version in versions):
        return
    if read_pointer(output, LATEST) == "":
        raise RequestError(
            f"`output={output}`: has a {LATEST} that names no version, and there is none; move or delete it, or choose "
            "another folder"
        )


def _refuse_foreign(output: str, names: Iterable[str]) -> None:
    """Refuses a folder of somebody's: a dataset is a dozen files among his own."""
    if not storage.has_scheme(output) and storage.is_folder(output):
        names = [*names, *(f"{name}/" for name in storage.list_folders(output))]
    foreign = {name for name in names if not name.startswith((".", *_OF_THE_SYSTEM))}
    if foreign:
        raise RequestError(
            f"`output={output}`: the folder holds other files: {_show(foreign)}; choose an empty folder or a new one, "
            f"such as `output={storage.join(output, 'dataset')}`"
        )


def _show(names: Iterable[str]) -> str:
    first = sorted(names)
    more = f" and {len(first) - _MOST_SHOWN:,} more" if len(first) > _MOST_SHOWN else ""
    return f"{', '.join(first[:_MOST_SHOWN])}{more}"


def claim_files(output: str, names: Iterable[str], *, claimed: Collection[str] | None = None) -> list[str]:
    """Lists files of an output as ours; called before they are written.

    Args:
      output: the folder.
      names: of the files.
      claimed: what is listed so far; None if that is not known.

    Returns:
      All that is listed now.
    """
    workspace = Workspace(output)
    before = _parse_names(_read(workspace.claim)) if claimed is None else set(claimed)
    listed = (before or set()).union(names)
    if before != listed:
        storage.write_bytes(workspace.claim, json.dumps(sorted(listed)).encode(), staging=workspace.path)
        storage.sync_folder(workspace.path)
    return sorted(listed)


def register_version(output: str, name: str) -> None:
    """Lists the folder of a version as ours; called before anything is written to it."""
    workspace = Workspace(output)
    storage.write_bytes(workspace.version(name), b"", staging=workspace.path)
    storage.sync_folder(workspace.path)


@dataclasses.dataclass(frozen=True)
class Claim:
    """What is known of an output when a build begins to write to it.

    Attributes:
      names: the files that are listed as ours; None if that is not known.
      replaces: whether files may be noted that the build replaces.
    """

    names: Collection[str] | None = None
    replaces: bool = True


def claim_output(output: str, old_files: Sequence[str], *, is_new: bool = False) -> Claim:
    """Notes the files that a build replaces, and marks the folder as owned by a build.

    Args:
      output: the folder.
      old_files: from `find_old_files`.
      is_new: whether there was nothing in a store.
    """
    workspace = Workspace(output)
    if is_new:
        storage.write_bytes(workspace.claim, b"[]")
        return Claim([], replaces=False)
    # Deleting it later takes a permission that a build into a new folder can do without.
    replaces = bool(old_files) or storage.exists(workspace.old_files)
    if replaces:
        storage.write_bytes(workspace.old_files, json.dumps(old_files).encode())
    names = claim_files(output, [])
    storage.sync_folder(workspace.path)
    return Claim(names, replaces)


def remove_old_files(output: str, *, delete: Callable[[Sequence[str]], None]) -> None:
    """Removes the files that were noted, `_SUCCESS` first; the second call does nothing.

    So a second attempt at a build never removes what the first has composed under the same names since.

    Args:
      output: the folder.
      delete: deletes files, but none of a build that has taken over.
    """
    note = Workspace(output).old_files
    if not storage.exists(note):
        return
    delete([storage.join(output, SUCCESS)])
    storage.sync_folder(output)
    with naming_damage(note):
        files = [str(file) for file in json.loads(storage.read_bytes(note))]
    delete_dataset_files(output, files, delete=delete)
    storage.delete_files([note])


def is_open(output: str) -> bool:
    """Whether the files that were noted have been removed, so that a `_SUCCESS` would be the new dataset's."""
    return not storage.exists(Workspace(output).old_files)


def _list_names(folder: str) -> list[str]:
    """The names of what is directly in a folder and is no folder."""
    entries = storage.list_files(storage.join(glob.escape(folder), "*"), special=True)
    return [storage.basename(entry.path) for entry in entries]


def _read(path: str) -> bytes | None:
    return read_if_there(path, read=storage.read_bytes)


def _parse_names(content: bytes | None) -> set[str] | None:
    """The names that a file lists; None if it is missing, or was emptied by a power cut."""
    try:
        return set(map(str, json.loads(content))) if content is not None else None
    except (ValueError, TypeError):
        return None


def _is_list_of_ours(output: str, name: str) -> bool:
    """Whether a file is a list of failures or of duplicates as builds write them."""
    field = {FAILURES: "reason", DUPLICATES: "across_splits"}.get(name)
    if field is None:
        return False
    try:
        with storage.open_read(storage.join(output, name)) as file:
            return all(field in json.loads(line) for line in itertools.islice(file, _MOST_LINES))
    except (ValueError, TypeError):
        return False


def _files_of_dataset(output: str) -> set[str]:
    """The files of the finished dataset; none if the folder has a `_SUCCESS` that is not ours."""
    try:
        return {*open_dataset(output).files, SUCCESS, REPORT}
    except BuildError:
        return set()
