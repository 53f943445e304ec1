"""Explains why files of an open dataset are missing, or others than when it was opened."""

from __future__ import annotations

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import LATEST, SUCCESS, VERSION_NAME
from beam_tfrecords.errors import BuildError


def explain_missing(path: str, file: str) -> BuildError:
    """Returns the error for a missing file of an open dataset.

    Args:
      path: the dataset's own folder.
      file: the file, relative to the folder.
    """
    if storage.exists(storage.join(path, SUCCESS)):
        return BuildError(
            f"{storage.join(path, file)} is missing: the dataset is damaged; run "
            f"`beam-tfrecords verify --dataset={path}`"
        )
    if VERSION_NAME.fullmatch(storage.basename(path)):
        return BuildError(
            f"{path}: the version was removed while it was read, as `--keep_versions` asks once `--grace` is over; "
            f"open {storage.dirname(path)} again for the one that {LATEST} names now"
        )
    return BuildError(f"{path}: the dataset was removed, or is being replaced, while it was read; open it again")


def replaced(path: str, name: str) -> BuildError:
    """Returns the error for a file that differs from the manifest of its dataset."""
    return BuildError(
        f"{storage.join(path, name)} is not the file that was published with this manifest: the dataset was "
        f"replaced, or it is damaged; open it again, or run `beam-tfrecords verify --dataset={path}`"
    )
