"""Handles paths and URIs as strings, without access to a file system."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import os
import posixpath
import re

from beam_tfrecords.errors import RequestError
from beam_tfrecords.storage.members import shown_member

_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_MISTYPED_SCHEME = re.compile(r"(gs|s3|s3a|hdfs|abfss?|https?|file)(:/|//)(?!/)")
_WILDCARD = re.compile(r"[*?[]")
# `**/` is one wildcard only at the start of a component: `a**/b` does not match `ab`.
_GLOB_TOKEN = re.compile(r"(?:\A|(?<=/))\*\*/|\*\*|[*?]|\[!?\]?[^]]*\]|.", re.DOTALL)
_GLOB_PATTERNS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def has_scheme(path: str) -> bool:
    """Whether the path names a file system other than the local one."""
    return "://" in path and bool(_SCHEME.match(path))


def is_web(path: str) -> bool:
    """Whether the path is a URL of the web."""
    return path[:8].lower().startswith(("http://", "https://"))


def shown(path: str) -> str:
    """Returns a path as messages, files and keys show it: `photos.zip#cat/1.jpg` for a member of an archive.

    URLs lose user info, query and fragment.

    A query may contain a password, as in signed URLs, or be all that distinguishes two images: a keyed hash replaces
    it.
    """
    if not is_web(path):
        return shown_member(path)
    scheme, _, rest = path.partition("://")
    rest = rest.partition("#")[0]
    rest, _, query = rest.partition("?")
    authority, slash, name = rest.partition("/")
    where = f"{scheme}://{authority.rpartition('@')[2]}{slash}{name}"
    if not query:
        return where
    digest = hashlib.blake2b(query.encode(errors="surrogatepass"), digest_size=8, key=b"query of a URL")
    return f"{where}#{digest.hexdigest()}"


def is_glob(path: str) -> bool:
    """Whether the path has wildcards."""
    return bool(_WILDCARD.search(path))


def join(base: str, *parts: str) -> str:
    """Joins path components, with `/` in URIs and the system's separator in local paths."""
    if has_scheme(base):
        return "/".join([base.rstrip("/"), *(part.strip("/") for part in parts)])
    return os.path.join(base, *parts)


def basename(path: str) -> str:
    """Returns the last component of a path."""
    return path.rstrip("/").rsplit("/", 1)[-1]


def dirname(path: str) -> str:
    """Returns a path without its last component."""
    if has_scheme(path):
        return path.rstrip("/").rsplit("/", 1)[0]
    return os.path.dirname(path)


def absolute(path: str) -> str:
    """Returns an absolute path, for workers with another working directory.

    Raises:
      RequestError: the path is relative to a working directory that has been deleted, or is a URI that lacks a slash.
    """
    if mistyped := _MISTYPED_SCHEME.match(path):
        slashes = ":///" if mistyped[1] == "file" else "://"
        raise RequestError(
            f"{path}: a location begins with {mistyped[1]}{slashes}; did you mean "
            f"{mistyped[1]}{slashes}{path[mistyped.end() :]}?",
            code="mistyped_scheme",
        )
    try:
        return path if has_scheme(path) else os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError as error:
        raise RequestError(
            f"{path} is in the working folder, which has been deleted; go to another folder, or give absolute paths",
            code="working_folder_deleted",
        ) from error


def plain_uri(uri: str) -> str:
    """Returns a URI without empty components, `.` and `..`, to compare locations."""
    scheme, _, rest = uri.partition("://")
    return f"{scheme.lower()}://{posixpath.normpath(rest)}"


def without_dots(path: str) -> str:
    """Returns a path or URI without `.` and `..`, which never lead out of a bucket or above `/`."""
    scheme = _SCHEME.match(path)
    if not scheme:
        return posixpath.normpath(path)
    bucket, _, name = path[scheme.end() :].partition("/")
    return f"{scheme[0]}{bucket}{posixpath.normpath('/' + name)}" if ".." in name else path


def is_inside(path: str, root: str) -> bool:
    """Whether an absolute path or a URI is a folder or something below it; does not follow links."""
    plain, within = without_dots(path), without_dots(root).rstrip("/")
    return plain.rstrip("/") == within or plain.startswith(f"{within}/")


def folder_prefix(name: str) -> str:
    """Returns the common prefix of all object names in a folder."""
    return name.rstrip("/") + "/" if name else ""


def literal_prefix(pattern: str) -> str:
    """Returns the common prefix of all matches of a glob, up to its first wildcard."""
    return _WILDCARD.split(pattern, maxsplit=1)[0]


@functools.lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Returns the regular expression of a glob, for `fullmatch`.

    `*` and `?` match within a component, `**` crosses components, `**/` also matches nothing, `[a-z]` and `[!a-z]`
    are character classes. A backslash is an ordinary character, unlike in wcmatch, where it is always an escape.
    """
    return re.compile("".join(map(_translate, _GLOB_TOKEN.findall(pattern))), re.DOTALL)


def _translate(token: str) -> str:
    if len(token) > 1 and token[0] == "[":
        # The last two characters are the end-of-string anchor.
        return "(?!/)" + fnmatch.translate(token)[:-2]
    return _GLOB_PATTERNS.get(token) or re.escape(token)
