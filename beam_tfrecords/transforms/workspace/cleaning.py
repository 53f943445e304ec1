"""Removes the temporary files that builds have left in an output, but never foreign files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.workspace.build_folder import Workspace

# Maximum number of files in one deletion of a worker.
_BATCH = 1000


def delete_temporary(output: str, *, keeps: Collection[str] = ()) -> None:
    """Deletes the temporary files of all builds into an output.

    Keeps the lease, the fence, and the registrations of unfinished versions.

    Args:
      output: the folder that was given to `convert`.
      keeps: files, and folders of builds, to keep.
    """
    _delete(_list_temporary(output, keeps))


def list_batches(_: Any, *, fence: Fence) -> Iterator[Sequence[str]]:
    """Yields batches of temporary files to delete; local folders instead of the files in them.

    Args:
      fence: the fence of a finished build; nothing is deleted if another build has taken over.
    """
    if fence.is_lost():
        return
    output = storage.dirname(storage.dirname(fence.path))
    # The fence comes last, because it belongs to the deleting job.
    paths = itertools.chain(_list_temporary(output), [fence.path])
    while batch := list(itertools.islice(paths, _BATCH)):
        yield batch


def delete_batch(paths: Sequence[str]) -> None:
    """Deletes files, and local folders with their content, and then the folder of the last one if it is empty."""
    _delete(paths)
    storage.delete_if_empty(storage.dirname(paths[-1]))


def _delete(paths: Iterable[str]) -> None:
    def delete_folders() -> Iterator[str]:
        for path in paths:
            if storage.has_scheme(path) or not storage.is_folder(path):
                yield path
            else:
                storage.delete_tree(path)

    storage.delete_files(delete_folders())


def _list_temporary(output: str, keeps: Collection[str] = ()) -> Iterator[str]:
    """Yields the folders of all builds, and our files that no build needs any more.

    In a store, yields the files in the folders instead, from a single listing, so that few requests delete them.
    """
    workspace, kept = Workspace(output), tuple(f"{one}/" for one in keeps)
    own: list[str] = []
    if storage.has_scheme(output):
        for entry in storage.list_files(workspace.path, literal=True):
            if not workspace.is_in_build(entry.path):
                own.append(entry.path)
            elif not entry.path.startswith(kept):
                yield entry.path
    else:
        own += workspace.list_own_files()
        yield from (folder for folder in workspace.list_folders() if folder not in keeps)
    yield from _leave_held(output, [path for path in own if workspace.is_own_file(path) and path not in keeps])


def _leave_held(output: str, files: Sequence[str]) -> Iterator[str]:
    """Yields our files that no build needs any more."""
    workspace = Workspace(output)
    unfinished = {
        workspace.version(name)
        for name in workspace.find_versions(files)
        if storage.is_folder(storage.join(output, name)) and not storage.exists(storage.join(output, name, SUCCESS))
    }
    held = {workspace.lease, f"{workspace.lease}.lock", workspace.fence, *unfinished}
    # This process holds the lease, and its thread may be writing a renewal.
    renewal = f"{workspace.lease}.tmp-{os.getpid()}-"
    for path in files:
        # Deletes the temporary files of killed builds. A live build rewrites its own.
        if path not in held and not path.startswith(renewal):
            yield path
