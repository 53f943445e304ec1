"""Reads the small files that say what a folder publishes: `_SUCCESS`, the pointers to versions and `changes.json`.

Explains why files of an open dataset are missing, or others than when it was opened.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import CHANGES, LATEST, MANIFEST, REMOVED, SUCCESS, VERSION_NAME
from beam_tfrecords.dataset.manifest import CHANGES_CHECK, CHANGES_FORMAT, SUCCESS_CHECK
from beam_tfrecords.dataset.schema import read_json
from beam_tfrecords.errors import BuildError

# Size limit in bytes of the manifest, which has 400 bytes per shard that it lists, and of the other JSON files.
_MOST_BYTES = 256 << 20
_MOST_NAME = 1 << 10


class DamagedError(Exception):
    """A file of a finished dataset differs from what was written."""


def read_latest(root: str) -> str | None:
    """Returns the name of the version to read; None if the folder has no versions, or LATEST is damaged."""
    return read_pointer(root, LATEST) or None


def read_pointer(root: str, file: str) -> str | None:
    """Reads the version name in a file; returns "" if it has none or is a folder, and None if it does not exist."""
    pointer = storage.join(root, file)
    if not storage.exists(pointer):
        return None
    try:
        name = storage.read_range(pointer, 0, _MOST_NAME).decode(errors="replace").strip()
    except IsADirectoryError:
        return ""
    return name if VERSION_NAME.fullmatch(name) else ""


class Success(NamedTuple):
    """Content of `_SUCCESS`.

    Attributes:
      manifest_sha256: hex digest of the published manifest.
      version: the version's own name; None without versions.
      location: `PublishedPaths.location` of a version's input, with the manifest's digest as salt; None for an input
        without local paths.
    """

    manifest_sha256: str
    version: str | None
    location: str | None

    @classmethod
    def parse(cls, data: bytes) -> Success:
        """Parses the file.

        Raises:
          ValueError: the content does not come from a build.
        """
        values = read_json(data, SUCCESS_CHECK)
        return cls(values["manifest_sha256"], values.get("version"), values.get("location"))


def read_success(path: str) -> Success | None:
    """Reads `_SUCCESS` of a folder; returns None if it is missing or damaged.

    Raises:
      BuildError: the store does not answer.
    """
    try:
        return Success.parse(read_published_file(path, SUCCESS))
    except (DamagedError, ValueError):
        return None


def is_foreign(path: str) -> bool:
    """Whether another program, such as Spark, wrote the `_SUCCESS` of a folder; False for a damaged dataset."""
    return read_success(path) is None and not storage.exists(storage.join(path, MANIFEST))


def read_changes(path: str) -> dict[str, Any] | None:
    """Reads `changes.json` in a folder; returns None if the file does not exist.

    Raises:
      BuildError: the file cannot be read.
    """
    if not storage.exists(storage.join(path, CHANGES)):
        return None
    try:
        changes: dict[str, Any] = read_json(_read_file(path, CHANGES), CHANGES_CHECK)
        if (number := changes["format"]) > CHANGES_FORMAT["format"]:
            raise ValueError(
                f"it has format {number}, and this version of beam-tfrecords reads up to {CHANGES_FORMAT['format']}"
            )
    except (OSError, ValueError) as error:
        raise BuildError(f"{path}: {CHANGES} cannot be read: {error}") from error
    return changes


def was_finished(path: str) -> bool:
    """Whether a folder without a valid `_SUCCESS` has the manifest of a dataset, which is written just before it."""
    return storage.exists(storage.join(path, MANIFEST)) and not storage.exists(storage.join(path, REMOVED))


def _read_file(path: str, name: str) -> bytes:
    data = storage.read_range(storage.join(path, name), 0, _MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    return data


def read_manifest(path: str) -> tuple[bytes, Success]:
    """Returns the manifest, and the content of `_SUCCESS`.

    Raises:
      DamagedError: `_SUCCESS` or the manifest is missing or damaged.
      BuildError: the store does not answer.
    """
    read = functools.partial(read_published_file, path)
    published, manifest = storage.run_concurrently(
        path, functools.partial(read, SUCCESS), functools.partial(read, MANIFEST)
    )
    try:
        return manifest, Success.parse(published)
    except ValueError as error:
        raise DamagedError(f"{SUCCESS} cannot be read: {error}") from error


def read_published_file(path: str, name: str) -> bytes:
    """Reads a file of a finished dataset.

    Raises:
      DamagedError: it is missing or cannot be read.
      BuildError: the store does not answer.
    """
    try:
        return _read_file(path, name)
    except (OSError, ValueError) as error:
        if storage.is_unanswered(error):
            # The file may be intact, so it must not count as damaged.
            raise BuildError(f"{path}: {name} cannot be read: {error.strerror or error}") from error
        raise DamagedError(f"{name} cannot be read: {error}") from error


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
            f"open {storage.dirname(path)} again to read the version that {LATEST} names now"
        )
    return BuildError(f"{path}: the dataset was removed, or is being replaced, while it was read; open it again")


def replaced(path: str, name: str) -> BuildError:
    """Returns the error for a file that differs from the manifest of its dataset."""
    return BuildError(
        f"{storage.join(path, name)} is not the file that was published with this manifest: the dataset was "
        f"replaced, or it is damaged; open it again, or run `beam-tfrecords verify --dataset={path}`"
    )
