"""Opens a finished dataset, or explains why that is not possible."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.dataset.dataset import Dataset, read_dataset
from beam_tfrecords.dataset.files import SUCCESS, VERSION_NAME
from beam_tfrecords.dataset.pointers import find_latest_damage
from beam_tfrecords.dataset.published import DamagedError, is_foreign, read_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.beside import does_not_exist

if TYPE_CHECKING:
    from beam_tfrecords.storage.cache_folder import CacheFolder

# Default size of a local cache.
_CACHE_SIZE = "50GB"


def open_dataset(
    path: str | os.PathLike[str], *, cache: str | os.PathLike[str] | None = None, cache_size: int | str = _CACHE_SIZE
) -> Dataset:
    """Opens a finished dataset; in a folder with versions, the one that `LATEST` names now.

        >>> dataset = open_dataset("out/")
        >>> dataset.splits
        {'train': 12}

    Args:
      path: folder of the dataset.
      cache: a local folder that keeps records and indices read from a bucket; processes and datasets may share it. None
        for no cache.
      cache_size: size limit of the folder in bytes, or text such as "50GB"; evicts the least recently used data first.

    Raises:
      RequestError: the dataset does not exist, or a later version of beam-tfrecords wrote it; or the cache is in a
        bucket.
      BuildError: the manifest cannot be read, or LATEST is damaged.
      ValueError: the cache size cannot be parsed.
    """
    folder = _open_cache(cache, cache_size)
    path = storage.absolute(os.fspath(path)).rstrip("/")
    version, is_published = storage.run_concurrently(
        path, functools.partial(read_latest, path), functools.partial(storage.exists, storage.join(path, SUCCESS))
    )
    root, path = path, storage.join(path, version) if version else path
    if not (storage.exists(storage.join(path, SUCCESS)) if version else is_published):
        _check_latest(root)
        if not storage.exists(path):
            raise RequestError(f"{path} {does_not_exist(path)}; expected the `output` of a build", code="no_dataset")
        gone = "; the version was removed, or never finished" if VERSION_NAME.fullmatch(storage.basename(path)) else ""
        raise RequestError(
            f"{path}: no finished dataset (there is no {SUCCESS}){gone}; expected the `output` of a build",
            code="no_dataset",
        )
    try:
        return dataclasses.replace(read_dataset(path), cache=folder)
    except DamagedError as error:
        if is_foreign(path):
            raise RequestError(
                f"{path}: no finished dataset (another program, such as Spark, has written the {SUCCESS}); expected "
                "the `output` of a build",
                code="no_dataset",
            ) from error
        raise BuildError(f"{path}: there is a {SUCCESS}, but {error}") from error


def _open_cache(cache: str | os.PathLike[str] | None, size: int | str) -> CacheFolder | None:
    if cache is None:
        if size != _CACHE_SIZE:
            raise ValueError(f"cache_size={size!r}: there is no cache; give its folder too, such as cache='/tmp/c'")
        return None
    from beam_tfrecords.storage.cache_folder import CacheFolder

    path = os.fspath(cache)
    if storage.has_scheme(path):
        raise RequestError(f"`cache={path}`: expected a folder of this machine", code="invalid_value")
    try:
        return CacheFolder(storage.absolute(path), number_of_bytes(size))
    except ValueError as error:
        raise ValueError(f"cache_size={size!r}: {error}") from error


def _check_latest(root: str) -> None:
    """Raises BuildError if LATEST names no version although versions exist."""
    damage = find_latest_damage(root)
    if damage:
        raise BuildError(
            f"{root}: {damage}; `beam-tfrecords status --output={root} --unpin` repairs it, and so does the next build"
        )
