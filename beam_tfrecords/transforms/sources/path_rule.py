"""Resolves the paths that input files contain. Pure functions, without file access.

All sources share one rule: paths in the request are trusted; paths in a file must stay below the root.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.paths import is_inside, is_web, shown, without_dots

_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+)://")
_STORAGE_SCHEMES = frozenset({"gs", "s3", "hdfs", "azfs"})
_MOST_DETAIL = 200


def resolve(path: str, *, root: str, allow_outside_root: bool, base: str = "") -> str:
    """Returns the full path or URI of a file or folder that a table, a list or an annotation file names.

    Does not follow links: `link/x.jpg` is below the root, wherever the link points, and `link/../x.jpg` is `x.jpg`.

    Args:
      path: path in the file: relative to `base`, absolute, or a URI (`gs://…`, `https://…`, `file://…`).
      root: absolute folder that the path must stay in: the file's folder, or a folder that the request names.
      base: folder that a relative path starts from; the root by default.

    Raises:
      SampleError: the path leaves the root, or no file system can read it.
    """
    base = base or root
    if "\0" in path:
        raise _rejected(FailureReason.UNREADABLE, "a NUL character in the path", path)
    scheme = _SCHEME.match(path)
    if scheme and scheme[1] == "file":
        path = _local_path(path)
    elif scheme and is_web(path):
        return path
    elif scheme and scheme[1] not in _STORAGE_SCHEMES:
        raise _rejected(FailureReason.UNREADABLE, f"unknown scheme {scheme[1]}://", path)
    elif not scheme and base is root and ".." not in path and not path.startswith("/"):
        return _join(root, path)
    full = path if _SCHEME.match(path) else _join(base, path)
    if allow_outside_root:
        # A local path keeps its dots, because `..` after a link depends on the link's target.
        return without_dots(full) if _SCHEME.match(full) else full
    if not is_inside(full, root):
        raise _rejected(FailureReason.OUTSIDE_ROOT, f"outside {root}; `allow_outside_root` permits it", path)
    return without_dots(full)


def key_of_path(path: str) -> str:
    """Returns the key of an image from its path in a file: `./a/1.png` and `a//1.png` are `a/1.png`."""
    if _SCHEME.match(path):
        return shown(path)
    return posixpath.normpath(path) if "./" in path or "//" in path else path


def shorten(text: str) -> str:
    """Quotes a value from a file, and truncates it for a message."""
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


def _rejected(reason: FailureReason, detail: str, path: str) -> SampleError:
    return SampleError(Stage.LIST, reason, f"{detail}: {shorten(path)}")
