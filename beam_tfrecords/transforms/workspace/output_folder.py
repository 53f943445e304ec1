"""Finds out which files in an output folder a build replaces and which are foreign, and keeps the output's journal."""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import DUPLICATES, FAILURES, FOLDERS, LATEST, REPORT, SUCCESS, is_dataset_file
from beam_tfrecords.dataset.opening import open_dataset
from beam_tfrecords.dataset.published import read_pointer
from beam_tfrecords.dataset.versions import State, Version, delete_dataset_files
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import naming_damage, read_if_there

_MOST_SHOWN = 3
_MOST_LINES = 1000
# Folders that the system creates where a disk is mounted.
_OF_THE_SYSTEM = ("lost+found",)


def find_replaced_files(output: str) -> list[str]:
    """Returns the relative paths of the dataset files in an output folder, which a build replaces.

    The files of a finished dataset and the files in the journal are ours.

    Raises:
      RequestError: a foreign file has the name of a dataset file; or the folder has only foreign files.
    """
    workspace = Workspace(output)
    journal, replaced_files, names, *below = storage.run_concurrently(
        output,
        functools.partial(_read, workspace.journal),
        functools.partial(_read, workspace.replaced_files),
        functools.partial(_list_names, output),
        *(functools.partial(_list_names, storage.join(output, folder)) for folder in FOLDERS),
    )
    found = {name for name in names if is_dataset_file(name)}
    for (folder, end), listed in zip(FOLDERS.items(), below, strict=True):
        found.update(f"{folder}/{name}" for name in listed if name.endswith(end))
    listed_names = _parse_names(journal)
    if listed_names is None and journal is not None:
        # A power loss emptied the journal. Recognizes the lists that an unpublished build leaves by their content.
        listed_names = {name for name in found if _is_list_of_ours(output, name)}
    ours = {*(listed_names or ()), *(_parse_names(replaced_files) or ())}
    if SUCCESS in found:
        ours |= _files_of_dataset(output)
    if foreign := found - ours:
        raise RequestError(
            f"`output={output}`: has files that belong to no dataset of beam-tfrecords and would mix with the new one: "
            f"{_show(foreign)}; move or delete them, or choose another folder",
            code="output_not_empty",
        )
    if not (found or journal is not None):
        _refuse_foreign(output, names)
    return sorted(found)


def check_versions_root(output: str, versions: Iterable[Version]) -> None:
    """Checks that LATEST in a folder of versions is ours; other foreign files beside versions are harmless.

    Args:
      output: the folder.
      versions: versions in the folder.

    Raises:
      RequestError: LATEST is foreign.
    """
    if any(version.state in (State.FINISHED, State.DAMAGED) for version in versions):
        return
    if read_pointer(output, LATEST) == "":
        raise RequestError(
            f"`output={output}`: has a {LATEST} but no version; move or delete it, or choose another folder",
            code="invalid_latest",
        )


def _refuse_foreign(output: str, names: Iterable[str]) -> None:
    """Raises `RequestError` if a folder contains foreign files, among which the files of a dataset would be lost."""
    if not storage.has_scheme(output) and storage.is_folder(output):
        names = [*names, *(f"{name}/" for name in storage.list_folders(output))]
    foreign = {name for name in names if not name.startswith((".", *_OF_THE_SYSTEM))}
    if foreign:
        raise RequestError(
            f"`output={output}`: the folder holds other files: {_show(foreign)}; choose an empty folder or a new one, "
            f"such as `output={storage.join(output, 'dataset')}`",
            code="output_not_empty",
        )


def _show(names: Iterable[str]) -> str:
    first = sorted(names)
    more = f" and {len(first) - _MOST_SHOWN:,} more" if len(first) > _MOST_SHOWN else ""
    return f"{', '.join(first[:_MOST_SHOWN])}{more}"


def add_to_journal(output: str, names: Iterable[str], *, journal: Collection[str] | None = None) -> list[str]:
    """Adds files to the journal of an output, which lists our files. Builds call this before writing the files.

    Args:
      output: the folder.
      names: names of the files.
      journal: names in the journal so far; None reads the journal.

    Returns:
      All names in the journal.
    """
    workspace = Workspace(output)
    before = _parse_names(_read(workspace.journal)) if journal is None else set(journal)
    listed = (before or set()).union(names)
    if before != listed:
        storage.write_bytes(workspace.journal, json.dumps(sorted(listed)).encode(), staging=workspace.path)
        storage.sync_folder(workspace.path)
    return sorted(listed)


def register_version(output: str, name: str) -> None:
    """Registers the folder of a version as ours. Builds call this before writing to the folder."""
    workspace = Workspace(output)
    storage.write_bytes(workspace.version(name), b"", staging=workspace.path)
    storage.sync_folder(workspace.path)


@dataclasses.dataclass(frozen=True)
class Journal:
    """The journal of an output when a build starts to write to it.

    Attributes:
      names: names of our files; None if unknown.
      replaces: whether the build may have to replace files.
    """

    names: Collection[str] | None = None
    replaces: bool = True


def start_journal(output: str, replaced_files: Sequence[str], *, is_new: bool = False) -> Journal:
    """Starts the journal of an output, and records the files that the build replaces.

    Args:
      output: the folder.
      replaced_files: result of `find_replaced_files`.
      is_new: whether the output is in a store and was empty.
    """
    workspace = Workspace(output)
    if is_new:
        # `add_to_journal` writes it before the first file of the dataset.
        return Journal([], replaces=False)
    # Does not write an empty list, because deleting it later would need a permission that a new output does not need.
    replaces = bool(replaced_files) or storage.exists(workspace.replaced_files)
    if replaces:
        storage.write_bytes(workspace.replaced_files, json.dumps(replaced_files).encode())
    names = add_to_journal(output, [])
    storage.sync_folder(workspace.path)
    return Journal(names, replaces)


def remove_replaced_files(output: str, *, delete: Callable[[Sequence[str]], None]) -> None:
    """Removes the files recorded as replaced, `_SUCCESS` first. A second call does nothing.

    So a second attempt at a build never removes files that the first one composed under the same names.

    Args:
      output: the folder.
      delete: deletes files, after checking that no other build has taken over.
    """
    note = Workspace(output).replaced_files
    if not storage.exists(note):
        return
    delete([storage.join(output, SUCCESS)])
    storage.sync_folder(output)
    with naming_damage(note):
        files = [str(file) for file in json.loads(storage.read_bytes(note))]
    delete_dataset_files(output, files, delete=delete)
    storage.delete_files([note])


def is_open(output: str) -> bool:
    """Whether the replaced files have been removed, so that any `_SUCCESS` belongs to the new dataset."""
    return not storage.exists(Workspace(output).replaced_files)


def _list_names(folder: str) -> list[str]:
    """Returns the names of all files directly in a folder, including special files."""
    entries = storage.list_files(storage.join(glob.escape(folder), "*"), special=True)
    return [storage.basename(entry.path) for entry in entries]


def _read(path: str) -> bytes | None:
    return read_if_there(path, read=storage.read_bytes)


def _parse_names(content: bytes | None) -> set[str] | None:
    """Parses a list of names; returns None if its file is missing, or damaged by a power loss."""
    try:
        return set(map(str, json.loads(content))) if content is not None else None
    except (ValueError, TypeError):
        return None


def _is_list_of_ours(output: str, name: str) -> bool:
    """Whether a file is a list of failures or of duplicates that a build has written."""
    field = {FAILURES: "reason", DUPLICATES: "across_splits"}.get(name)
    if field is None:
        return False
    try:
        with storage.open_read(storage.join(output, name)) as file:
            return all(field in json.loads(line) for line in itertools.islice(file, _MOST_LINES))
    except (ValueError, TypeError):
        return False


def _files_of_dataset(output: str) -> set[str]:
    """Returns the files of the finished dataset; empty if the `_SUCCESS` in the folder is foreign."""
    try:
        return {*open_dataset(output).files, SUCCESS, REPORT}
    except BuildError:
        return set()
    except RequestError as error:
        if error.code != "no_dataset":
            raise
        return set()
