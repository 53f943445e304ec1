"""RemoveTemporary: removes the temporary files of a build that nobody waits for, once its dataset is published."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from transforms.workspace.build_folder import Workspace

# Files that one worker deletes at a time.
_BATCH = 1000


def delete_temporary(output: str) -> None:
    """Deletes the temporary files of all builds into an output; the lease stays its holder's."""
    workspace = Workspace(output)
    if not storage.has_scheme(output):
        for folder in (*workspace.list_builds(), *workspace.list_listings()):
            storage.delete_tree(folder)
    entries = storage.list_files(workspace.path, literal=True)
    storage.delete_files(entry.path for entry in entries if not entry.path.startswith(workspace.lease))


def list_batches(_: Any, *, folder: str, success: str, outcome: str) -> Iterator[Sequence[str]]:
    """The files to delete; a local folder as a whole."""
    if not storage.exists(success) or storage.exists(outcome):
        return
    if not storage.has_scheme(folder):
        yield [folder]
        return
    paths = (entry.path for entry in storage.list_files(folder, literal=True))
    while batch := list(itertools.islice(paths, _BATCH)):
        yield batch


def delete_batch(paths: Sequence[str]) -> None:
    """Deletes files, or local folders with what is in them."""
    if storage.has_scheme(paths[0]):
        storage.delete_files(paths)
    else:
        for path in paths:
            storage.delete_tree(path)
