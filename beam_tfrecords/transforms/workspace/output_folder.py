"""Finds out which files in an output folder a build replaces and which are foreign, and keeps the output's journal."""

from __future__ import annotations

import functools
import glob
import itertools
import json
from collections.abc import Callable, Collection, Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import DUPLICATES, FAILURES, FOLDERS, LATEST, REPORT, SUCCESS, is_dataset_file
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.dataset.published import read_pointer
from beam_tfrecords.dataset.versions import State, Version, delete_dataset_files
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.state_files import read_if_there

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
    journal, names, *below = storage.run_concurrently(
        output,
        functools.partial(_read_journal, output),
        functools.partial(_list_names, output),
        *(functools.partial(_list_names, storage.join(output, folder)) for folder in FOLDERS),
    )
    found = {name for name in names if is_dataset_file(name)}
    for (folder, end), listed in zip(FOLDERS.items(), below, strict=True):
        found.update(f"{folder}/{name}" for name in listed if name.endswith(end))
    listed, replaced = journal or ((), ())
    if replaced is None:
        # Recognizes the lists that an unpublished build leaves by their content.
        listed = [name for name in found if _is_list_of_ours(output, name)]
    ours = set(listed)
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


def start_journal(output: str, replaced_files: Sequence[str]) -> None:
    """Records the files that a build will replace.

    Args:
      output: the folder.
      replaced_files: result of `find_replaced_files`.
    """
    listed, _ = _read_journal(output) or ((), ())
    _write_journal(output, {*listed, *replaced_files}, replaced=replaced_files)


def replace_files(output: str, names: Iterable[str], *, is_new: bool, delete: Callable[[Sequence[str]], None]) -> None:
    """Removes the files recorded as replaced, `_SUCCESS` first, and then lists the files that the build will write.

    A second call removes nothing, so a second attempt at a build never removes files that the first one composed under
    the same names.

    Args:
      output: the folder.
      names: names of the files to write.
      is_new: whether the output was empty, so that there is no journal.
      delete: deletes files, after checking that no other build has taken over.
    """
    listed, replaced = (None if is_new else _read_journal(output)) or ((), ())
    if replaced is None:
        raise BuildError(f"{Workspace(output).journal} is damaged; delete it and run the same command again")
    if replaced:
        delete([storage.join(output, SUCCESS)])
        storage.sync_folder(output)
        delete_dataset_files(output, replaced, delete=delete)
    _write_journal(output, {*listed, *names})


def is_open(output: str) -> bool:
    """Whether the replaced files have been removed, so that any `_SUCCESS` belongs to the new dataset."""
    _, replaced = _read_journal(output) or ((), ())
    return replaced is not None and not replaced


def register_version(output: str, name: str) -> None:
    """Registers the folder of a version as ours. Builds call this before writing to the folder."""
    workspace = Workspace(output)
    storage.write_bytes(workspace.version(name), b"", staging=workspace.path)
    storage.sync_folder(workspace.path)


def _list_names(folder: str) -> list[str]:
    """Returns the names of all files directly in a folder, including special files."""
    entries = storage.list_files(storage.join(glob.escape(folder), "*"), special=True)
    return [storage.basename(entry.path) for entry in entries]


def _read_journal(output: str) -> tuple[Sequence[str], Sequence[str] | None] | None:
    """Returns the listed files, and those among them that are still to be replaced; None if there is no journal.

    If a power loss damaged the journal, no file is known to be listed, and the replaced files are None.
    """
    content = read_if_there(Workspace(output).journal, read=storage.read_bytes)
    if content is None:
        return None
    try:
        journal = json.loads(content)
        return [str(name) for name in journal["files"]], [str(name) for name in journal["replaced"]]
    except (ValueError, TypeError, LookupError):
        return (), None


def _write_journal(output: str, files: Collection[str], *, replaced: Collection[str] = ()) -> None:
    workspace, journal = Workspace(output), {"files": sorted(files), "replaced": sorted(replaced)}
    storage.write_bytes(workspace.journal, json.dumps(journal).encode(), staging=workspace.path)
    storage.sync_folder(workspace.path)


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
        return {*open_latest(output).files, SUCCESS, REPORT}
    except BuildError:
        return set()
    except RequestError as error:
        if error.code != "no_dataset":
            raise
        return set()
