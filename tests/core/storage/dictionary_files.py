"""A file system of Beam's that keeps its files in a dictionary."""

from __future__ import annotations

import io
import time
from typing import Any, ClassVar

import requests
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem


class _Writer(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def close(self) -> None:
        DictionaryFiles.files[self._path] = (self.getvalue(), time.time())
        super().close()


class _Answer(Exception):
    """An error of a client library."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


class DictionaryFiles(FileSystem):
    """Files as a remote store has them: published when their writer is closed, whatever happened before.

    Attributes:
      files: path -> content and time of writing.
      calls: questions and deletions.
      status: of what a file called `refused` or `unwrapped` answers.
    """

    files: ClassVar[dict[str, tuple[bytes, float]]] = {}
    calls: ClassVar[list[str]] = []
    status: ClassVar[int]

    @classmethod
    def scheme(cls) -> str:
        return "dictionary"

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> _Writer:
        return _Writer(path)

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> io.BytesIO:
        if path.endswith("/silent"):
            raise RuntimeError("no connection")
        if path.endswith("/refused"):
            raise BeamIOError("refused", {path: _Answer(self.status)})
        if path.endswith("/unwrapped"):
            raise _Answer(self.status)
        if path.endswith("/unreachable"):
            raise requests.ConnectionError("no route")
        return io.BytesIO(self._find(path)[0])

    def exists(self, path: str) -> bool:
        self.calls.append("exists")
        return path in self.files

    def metadata(self, path: str) -> FileMetadata:
        data, written = self._find(path)
        return FileMetadata(path, len(data), written)

    def _find(self, path: str) -> tuple[bytes, float]:
        if path not in self.files:
            raise BeamIOError(f"{path} is not there")
        return self.files[path]

    def _list(self, dir_or_prefix: str) -> list[FileMetadata]:
        return [self.metadata(path) for path in self.files if path.startswith(dir_or_prefix)]

    def delete(self, paths: list[str]) -> None:
        self.calls.append("delete")
        missing = {path: "missing" for path in paths if self.files.pop(path, None) is None}
        if missing:
            raise BeamIOError("missing", missing)

    def has_dirs(self) -> bool:
        return False

    def join(self, basepath: str, *paths: str) -> Any:
        raise NotImplementedError

    split = mkdirs = copy = rename = size = last_updated = checksum = join
