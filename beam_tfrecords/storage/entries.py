"""Values that storage returns, and errors that it raises."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape

# Opaque token for one partition of a listing: names of folders, or a range of object names.
Partition: TypeAlias = "tuple[int | str, ...]"
# Called after a file was created; raises if the file may not stay.
Check: TypeAlias = "Callable[[], None]"


def no_check() -> None:
    """Accepts every file."""


class StorageError(OSError):
    """A storage operation failed; the message names the path."""

    def __str__(self) -> str:
        return escape(super().__str__())


class MissingBucketError(StorageError):
    """The bucket does not exist, or its name is not the name of a bucket."""


class ChangedError(StorageError):
    """The file is no longer the requested version."""


class ServiceFaultError(StorageError):
    """The store is at fault, not the file: a denied request, an archived object, damaged responses."""


class AccessDeniedError(ServiceFaultError):
    """The store denied a request: a missing permission, a policy, an object lock, billing, a key.

    Attributes:
      path: the file or folder.
      said: the store's own code and sentence.
      permission: the permission that the credentials lack; None if the store gives another reason.
    """

    def __init__(self, path: str, said: str, permission: str | None = None) -> None:
        self.path, self.said, self.permission = path, said, permission
        super().__init__(f"{path}: {self.reason}")

    @property
    def reason(self) -> str:
        """Why the request was denied, without the path."""
        if self.permission is None:
            return f"access denied: {self.said}"
        return f"access denied: the credentials lack the permission {self.permission} ({self.said})"

    def __reduce__(self) -> tuple[type[AccessDeniedError], tuple[str, str, str | None]]:
        return type(self), (self.path, self.said, self.permission)


class SchemeError(RequestError):
    """No file system serves the path's scheme: it is unknown, or its extra is not installed."""


class FileRange(NamedTuple):
    """Consecutive bytes of a file.

    Attributes:
      path: path of the file.
      offset: offset of the first byte.
      length: length in bytes; shorter files end the range.
    """

    path: str
    offset: int = 0
    length: int = sys.maxsize

    @property
    def is_whole(self) -> bool:
        """Whether the range covers the whole file."""
        return self.offset == 0 and self.length == sys.maxsize

    def length_in(self, size: int) -> int:
        """Returns the bytes of the range in a file of `size` bytes."""
        return max(0, min(self.length, size - self.offset))


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """One listed file.

    Attributes:
      path: full path or URI.
      size: bytes; -1 for an entry that is not a regular file, such as a dangling link or a pipe. A path that
        ends in `/` is then a link to a folder that was listed under another path.
      modified_ns: nanoseconds since the epoch, with the precision of the file system.
      generation: generation number or ETag of an object; None if the store has neither.
      version: identifies this state of the content for the read functions; "" if the store does not support versions.
    """

    path: str
    size: int
    modified_ns: int
    generation: int | str | None = None
    version: str = ""

    @property
    def modified(self) -> float:
        """Seconds since the epoch, to compare with clocks; as a float, exact to a microsecond at best."""
        return self.modified_ns / 1e9

    @property
    def fingerprint(self) -> str:
        """Text that changes when the file changes."""
        if self.generation is not None:
            return f"{self.size}-{self.generation}"
        return f"{self.size}-{self.modified_ns}"
