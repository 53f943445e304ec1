"""Removes the temporary files that builds have left in an output, but never foreign files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Sequence
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
    workspace = Workspace(output)
    if storage.has_scheme(output):
        storage.delete_files(_list_temporary(output, keeps))
        return
    folders, files = workspace.list_folders(), [path for path in _list_files(output) if path not in keeps]
    for folder in folders:
        if folder not in keeps:
            storage.delete_tree(folder)
    storage.delete_files(files)


def list_batches(_: Any, *, fence: Fence) -> Iterator[Sequence[str]]:
    """Yields batches of temporary files to delete; local folders instead of the files in them.

    Args:
      fence: the fence of a finished build; nothing is deleted if another build has taken over.
    """
    if fence.is_lost():
        return
    output = storage.dirname(storage.dirname(fence.path))
    workspace = Workspace(output)
    # The fence comes last, because it belongs to the deleting job.
    if not storage.has_scheme(output):
        yield [*workspace.list_folders(), *_list_files(output), workspace.fence]
        return
    paths = itertools.chain(_list_temporary(output), [workspace.fence])
    while batch := list(itertools.islice(paths, _BATCH)):
        yield batch


def delete_batch(paths: Sequence[str]) -> None:
    """Deletes files, or local folders with their content, and then the parent folder if it is empty."""
    if paths and storage.has_scheme(paths[0]):
        storage.delete_files(paths)
        return
    for path in paths:
        if storage.is_folder(path):
            storage.delete_tree(path)
        else:
            storage.delete_files([path])
        storage.delete_if_empty(storage.dirname(path))


def _list_temporary(output: str, keeps: Collection[str] = ()) -> Iterator[str]:
    """Yields the temporary files of all builds in a store, from a single listing, so that few requests delete them."""
    workspace, kept = Workspace(output), tuple(f"{one}/" for one in keeps)
    own: list[str] = []
    for entry in storage.list_files(workspace.path, literal=True):
        if workspace.is_in_build(entry.path):
            if not entry.path.startswith(kept):
                yield entry.path
        elif workspace.is_own_file(entry.path) and entry.path not in keeps:
            own.append(entry.path)
    yield from _leave_held(output, own)


def _list_files(output: str) -> Iterator[str]:
    """Yields our files, directly in the folder of all builds, that no build needs any more."""
    return _leave_held(output, Workspace(output).list_own_files())


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
