"""Local paths as published files contain them: relative, so that they say nothing about the machine of a build."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import posixpath
import re
from collections.abc import Iterable
from urllib.parse import unquote

from beam_tfrecords.escaping import escape
from beam_tfrecords.storage.members import archive_of

# Marks the names that no file of the input has: those of folders that share only `/` with the first input, and of files
# outside all inputs.
_ELSEWHERE = "@"
_WILDCARD = re.compile(r"[*?[{]")
_FILE_URI = re.compile("file://(?:localhost)?/")
_CODE_FILE = re.compile(r'File "/(?:[^"\n]*/)?([^"/\n]*)"')


@dataclasses.dataclass(frozen=True)
class PublishedPaths:
    """Converts local paths of a request to published paths, and back.

    A published path starts at the folder that contains all inputs: `photos/cat/1.jpg` for an image of
    `--input=/data/photos`. URIs stay unchanged, because they name the same object on every machine.

    Attributes:
      roots: (prefix of local paths, its replacement) of the inputs; None leaves all paths unchanged, for values
        that are not published.
      others: (path, its replacement) of paths that only texts contain, such as the output.
    """

    roots: tuple[tuple[str, str], ...] | None = None
    others: tuple[tuple[str, str], ...] = dataclasses.field(default=(), compare=False)

    @classmethod
    def of(cls, inputs: Iterable[str], others: Iterable[str] = ()) -> PublishedPaths:
        """Returns the published paths of a request.

        Args:
          inputs: paths and URIs of the input: folders, files and globs.
          others: other paths of the request.
        """
        # The names of members begin with those of their archives.
        paths = [archive_of(path) or path for path in map(_local, inputs)]
        local = list(dict.fromkeys(path.rstrip("/") for path in paths if path.startswith("/")))
        folders = list(dict.fromkeys(map(_folder_of, local)))
        common = posixpath.commonpath(folders) if folders else "/"
        roots = [(f"{common.rstrip('/')}/", "")] if folders else []
        others = [*others, *(path for path in local if common == "/")]
        if common == "/" and len(folders) > 1:
            # `/` contains everything, so each folder is a root of its own, and each input in `/`.
            ordered = sorted(folders, key="/".__eq__)
            starts = {folder: f"{_ELSEWHERE}{number}/" if number else "" for number, folder in enumerate(ordered)}
            roots = [(f"{folder}/", start) for folder, start in starts.items() if folder != "/"]
            roots += [(path, f"{starts['/']}{path[1:]}") for path in local if _folder_of(path) == "/"]
        names = {path: posixpath.basename(path.rstrip("/")) for path in others if path.strip("/") and path[0] == "/"}
        return cls(tuple(sorted(roots, key=_by_length)), tuple(sorted(names.items(), key=_by_length)))

    def publish(self, path: str) -> str:
        """Returns the published form of a path, of a URI, or of the name of a member in a local file."""
        if self.roots is None:
            return path
        if not path.startswith("/"):
            local = _local(path)
            return path if local == path else self.publish(local)
        for prefix, replacement in self.roots:
            if path.startswith(prefix):
                published = replacement + path[len(prefix) :]
                return f"./{published}" if not replacement and published.startswith(_ELSEWHERE) else published
        folder, _, name = path.rpartition("/")
        if above := self._find_above(folder):
            return f"{above}/{name}"
        digest = hashlib.blake2b(folder.encode(errors="surrogateescape"), digest_size=6).hexdigest()
        return f"{_ELSEWHERE}{digest}/{name}"

    def find(self, path: str) -> str | None:
        """Reverses `publish`; returns None for a file outside all inputs, whose published path has only a hash."""
        if path.startswith("/") or "://" in path:
            return path
        for prefix, replacement in sorted(self.roots or (), key=lambda root: -len(root[1])):
            if path.startswith(replacement) and (replacement or not path.startswith(_ELSEWHERE)):
                rest = path[len(replacement) :].removeprefix("./")
                return posixpath.normpath(prefix + rest) if rest.startswith("../") else prefix + rest
        return path if self.roots is None else None

    def _find_above(self, folder: str) -> str:
        """Returns the path of a folder beside the inputs, as in `../labels`; "" if it is farther away."""
        start = next((prefix for prefix, replacement in self.roots or () if not replacement), "").rstrip("/")
        for up in ("..", "../.."):
            start = start.rpartition("/")[0]
            if folder == start:
                return up
            if start and folder.startswith(f"{start}/"):
                return f"{up}{folder[len(start) :]}"
        return ""

    def publish_fingerprint(self, fingerprint: str, files: Iterable[str]) -> str:
        """Returns the published form of a sample's fingerprint, which may contain the paths of the sample's files."""
        # A path may start with another one.
        for file in sorted(files, key=len, reverse=True):
            fingerprint = fingerprint.replace(f"@{file}", f"@{self.publish(file)}")
        return fingerprint

    def publish_text(self, text: str) -> str:
        """Replaces the paths of the request in a message."""
        for pattern, replacement in self._patterns if "/" in text else ():
            text = pattern.sub(replacement, text)
        return text

    def publish_traceback(self, trace: str) -> str:
        """Replaces the paths of the request in a traceback; files of code lose their folders."""
        return trace if self.roots is None else self.publish_text(_CODE_FILE.sub(r'File "\1"', trace))

    def location(self, salt: str) -> str | None:
        """Returns a digest of where the input is; None if it has no local paths.

        Args:
          salt: makes digests of two datasets incomparable.
        """
        if not self.roots:
            return None
        prefixes = "\0".join([salt, *(prefix for prefix, _ in self.roots)])
        return hashlib.blake2b(prefixes.encode(errors="surrogateescape"), digest_size=16).hexdigest()

    @functools.cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        found = []
        for prefix, replacement in sorted([*(self.roots or ()), *self.others], key=_by_length):
            path, name = prefix.rstrip("/"), replacement.rstrip("/")
            if not path:
                continue
            # Messages quote paths, and escape what a terminal would not show.
            for form in dict.fromkeys((path, escape(path), repr(path)[1:-1])):
                start = rf"(?<![\w.-]){re.escape(form)}"
                found.append((re.compile(f"{start}/"), f"{name}/" if name else ""))
                found.append((re.compile(rf"{start}(?![\w-]|\.\w)"), name or "."))
        return [(pattern, name.replace("\\", r"\\")) for pattern, name in found]


UNCHANGED = PublishedPaths()


def _local(path: str) -> str:
    """Returns the local path of a `file://` URI; any other path as it is."""
    return unquote("/" + path.partition("://")[2].partition("/")[2]) if _FILE_URI.match(path) else path


def _by_length(pair: tuple[str, str]) -> int:
    return -len(pair[0])


def _folder_of(path: str) -> str:
    """Returns the folder that contains an input, or the folder before the wildcards of a glob."""
    return _WILDCARD.split(path, maxsplit=1)[0].rpartition("/")[0] or "/"
