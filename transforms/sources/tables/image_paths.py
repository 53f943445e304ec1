"""Paths of images in tables: where they lead, and whether that is allowed. Pure; no file is looked at."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from urllib.parse import unquote

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.paths import is_web

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_STORAGE_SCHEMES = frozenset({"gs", "s3", "hdfs", "azfs"})
_MOST_DETAIL = 200
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def resolve(path: str, *, root: str, allow_outside_root: bool) -> str:
    """Full path or URI of an image.

    Links are not followed: `link/x.jpg` is below the root, wherever the link leads.

    Args:
      path: as the table has it: relative to `root`, absolute, or a URI (`gs://…`, `https://…`, `file://…`).
      root: the table's folder or `image_root`, absolute.

    Raises:
      SampleError: the path leaves the root, or no storage can read it.
    """
    if "\0" in path:
        raise _rejected(FailureReason.UNREADABLE, "a NUL character in the path", path)
    scheme = _SCHEME.match(path)
    if scheme and scheme[1] == "file":
        path = _local_path(path)
    elif scheme and is_web(path):
        return path
    elif scheme and scheme[1] not in _STORAGE_SCHEMES:
        raise _rejected(FailureReason.UNREADABLE, f"unknown scheme {scheme[1]}://", path)
    elif not scheme and ".." not in path and not path.startswith("/"):
        return _join(root, path)
    full = path if _SCHEME.match(path) else _join(root, path)
    plain = _without_dots(full)
    if not allow_outside_root and not plain.startswith(_without_dots(root).rstrip("/") + "/"):
        raise _rejected(FailureReason.OUTSIDE_ROOT, f"outside {root}; `allow_outside_root` permits it", path)
    # In an object store dots are part of a name. A local path keeps them, because they matter after a link.
    return plain if _SCHEME.match(full) else full


def pattern_columns(pattern: str) -> list[str]:
    """The columns that a pattern such as `train/{id}.jpg` names."""
    return _PLACEHOLDER.findall(pattern)


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """The path that a pattern gives for the cells of a row."""
    return _PLACEHOLDER.sub(lambda match: cells[match[1]], pattern)


def shorten(text: str) -> str:
    """A value from a table, quoted and cut for a message."""
    quoted = repr(text[: _MOST_DETAIL + 1])
    return quoted if len(text) <= _MOST_DETAIL else repr(text[:_MOST_DETAIL])[:-1] + "…'"


def _join(root: str, path: str) -> str:
    return path if path.startswith("/") else f"{root.rstrip('/')}/{path}"


def _local_path(uri: str) -> str:
    host, slash, path = uri[len("file://") :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise _rejected(FailureReason.UNREADABLE, "a file:// URI of another machine", uri)
    path = "/" + unquote(path)
    if "\0" in path:
        raise _rejected(FailureReason.UNREADABLE, "a NUL character in the path", uri)
    return path


def _without_dots(path: str) -> str:
    scheme = _SCHEME.match(path)
    if not scheme:
        return posixpath.normpath(path)
    bucket, _, name = path[scheme.end() :].partition("/")
    if ".." not in name:
        return path
    # Dots do not lead out of a bucket, just as they do not lead above "/".
    return f"{scheme[0]}{bucket}{posixpath.normpath('/' + name)}"


def _rejected(reason: FailureReason, detail: str, path: str) -> SampleError:
    return SampleError(Stage.LIST, reason, f"{detail}: {shorten(path)}")
