"""What is in an output folder before a build: files that the new dataset replaces, and files that are not ours."""

from __future__ import annotations

import glob
import json
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset import open_dataset
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.files import (
    CARD,
    CROISSANT,
    DALI_FOLDER,
    DUPLICATES,
    FAILURES,
    INDEX_FOLDER,
    MANIFEST,
    REPORT,
    SUCCESS,
)
from transforms.workspace.build_folder import Workspace
from transforms.workspace.state_files import naming_damage

_NAMES = frozenset(
    {SUCCESS, MANIFEST, FAILURES, DUPLICATES, REPORT, CARD, CROISSANT, "dataset_info.json", "features.json"}
)
_MOST_SHOWN = 3


def find_old_files(output: str) -> list[str]:
    """The files in an output folder that have names like ours, relative to it.

    Ours are the files that a build writes, and all that readers find with globs such as `*.tfrecord*`.

    Raises:
      RequestError: some of them are neither of a finished dataset nor of an unfinished build.
    """
    found = {name for name in _list_names(output, "*") if _is_like_ours(name)}
    for folder, pattern in ((INDEX_FOLDER, "*.parquet"), (DALI_FOLDER, "*.idx")):
        found.update(f"{folder}/{name}" for name in _list_names(storage.join(output, folder), pattern))
    if SUCCESS in found:
        foreign = found - _files_of_dataset(output)
    elif storage.exists(Workspace(output).claim):
        foreign = set()
    else:
        foreign = found
    if foreign:
        shown = ", ".join(sorted(foreign)[:_MOST_SHOWN])
        more = f" and {len(foreign) - _MOST_SHOWN:,} more" if len(foreign) > _MOST_SHOWN else ""
        raise RequestError(
            f"`output={output}`: has files that belong to no dataset of beam-tfrecords and would mix with the new one: "
            f"{shown}{more}; move or delete them, or choose another folder"
        )
    return sorted(found)


def claim_output(output: str, old_files: Sequence[str]) -> None:
    """Notes the files that a build replaces, and marks the folder as owned by a build.

    Args:
      output: the folder.
      old_files: from `find_old_files`.
    """
    workspace = Workspace(output)
    # Deleting it later takes a permission that a build into a new folder can do without.
    if old_files or storage.exists(workspace.old_files):
        storage.write_bytes(workspace.old_files, json.dumps(old_files).encode())
    storage.write_bytes(workspace.claim, b"")
    storage.sync_folder(workspace.path)


def remove_old_files(output: str) -> None:
    """Removes the files that were noted, `_SUCCESS` first; the second call does nothing.

    So a second attempt at a build never removes what the first has composed under the same names since.
    """
    note = Workspace(output).old_files
    if not storage.exists(note):
        return
    storage.delete_files([storage.join(output, SUCCESS)])
    storage.sync_folder(output)
    with naming_damage(note):
        files = [storage.join(output, file) for file in json.loads(storage.read_bytes(note))]
    storage.delete_files(files)
    storage.delete_files([note])


def is_open(output: str) -> bool:
    """Whether the files that were noted have been removed, so that a `_SUCCESS` would be the new dataset's."""
    return not storage.exists(Workspace(output).old_files)


def _list_names(folder: str, pattern: str) -> list[str]:
    entries = storage.list_files(storage.join(glob.escape(folder), pattern), special=True)
    return [storage.basename(entry.path) for entry in entries]


def _is_like_ours(name: str) -> bool:
    return name in _NAMES or ".tfrecord" in name or name.endswith(".labels.txt")


def _files_of_dataset(output: str) -> set[str]:
    """The files of the finished dataset; none if the folder has a `_SUCCESS` that is not ours."""
    try:
        return {*open_dataset(output).files, SUCCESS, REPORT}
    except BuildError:
        return set()
