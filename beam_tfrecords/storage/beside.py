"""Says that a path does not exist, and what is beside it."""

from __future__ import annotations

import contextlib

from beam_tfrecords import storage
from beam_tfrecords.nearest import find_near


def does_not_exist(path: str) -> str:
    """Returns `does not exist`, with the file or folder beside a missing local path that its name may mean."""
    near = None
    with contextlib.suppress(OSError):
        if not storage.has_scheme(path) and storage.is_folder(folder := storage.dirname(path)):
            files = (file.path for file in storage.list_files(storage.join(folder, "*")))
            names = {storage.basename(one) for one in (*storage.list_folders(folder), *files)}
            near = find_near(storage.basename(path), names)
    return f"does not exist; {near} is beside it" if near else "does not exist"
