"""Where a path in a manifest points, and whether it may point there; pure, no file is looked at."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from transforms.errors import FailureReason, SampleError, Stage

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_STORAGE_SCHEMES = frozenset({"gs", "s3", "hdfs", "azfs"})
_MOST_DETAIL = 200


def resolve(path: str, *, root: str, allow_outside_root: bool) -> str:
    """Full path or URI of an image.

    Links are not followed: `link/x.jpg` lies below the root, wherever the link leads.

    Args:
      path: as the manifest has it: relative to `root`, absolute, or a URI (`gs://…`, `file://…`).
      root: the manifest's folder, absolute.
      allow_outside_root: whether it may lie elsewhere.

    Raises:
      SampleError: the path leaves the root, or no storage can read it.
    """
    if "\0" in path:
        raise _refused(FailureReason.UNREADABLE, "a path with a NUL character", path)
    scheme = _SCHEME.match(path)
    if scheme and scheme[1] == "file":
        path = _local_path(path)
    elif scheme and scheme[1] in ("http", "https"):
        raise _refused(FailureReason.UNREADABLE, "images are not fetched from web addresses", path)
    elif scheme and scheme[1] not in _STORAGE_SCHEMES:
        raise _refused(FailureReason.UNREADABLE, f"no storage is known for {scheme[1]}://", path)
    elif not scheme and ".." not in path and not path.startswith("/"):
        return _join(root, path)
    full = path if _SCHEME.match(path) else _join(root, path)
    plain = _without_dots(full)
    if not allow_outside_root and not plain.startswith(_without_dots(root).rstrip("/") + "/"):
        raise _refused(FailureReason.OUTSIDE_ROOT, "outside the manifest's folder (--allow_outside_root lets it)", path)
    # An object store takes dots for part of a name; a local path keeps them, for they matter after a link.
    return plain if _SCHEME.match(full) else full


def shorten(text: str) -> str:
    """A value from a manifest as a message can quote it."""
    quoted = repr(text[: _MOST_DETAIL + 1])
    return quoted if len(text) <= _MOST_DETAIL else repr(text[:_MOST_DETAIL])[:-1] + "…'"


def _join(root: str, path: str) -> str:
    return path if path.startswith("/") else f"{root.rstrip('/')}/{path}"


def _local_path(uri: str) -> str:
    host, slash, path = uri[len("file://") :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise _refused(FailureReason.UNREADABLE, "a file:// path on another machine", uri)
    path = "/" + unquote(path)
    if "\0" in path:
        raise _refused(FailureReason.UNREADABLE, "a path with a NUL character", uri)
    return path


def _without_dots(path: str) -> str:
    scheme = _SCHEME.match(path)
    if not scheme:
        return posixpath.normpath(path)
    bucket, _, name = path[scheme.end() :].partition("/")
    if ".." not in name:
        return path
    # Dots never lead out of a bucket, as they never lead above "/".
    return f"{scheme[0]}{bucket}{posixpath.normpath('/' + name)}"


def _refused(reason: FailureReason, detail: str, path: str) -> SampleError:
    return SampleError(Stage.LIST, reason, f"{detail}: {shorten(path)}")
