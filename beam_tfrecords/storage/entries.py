"""What storage returns and raises."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from beam_tfrecords.errors import RequestError
from beam_tfrecords.escaping import escape

# What a file system knows a part of a listing by: names of folders, or the range of the names of objects.
Part: TypeAlias = "tuple[int | str, ...]"
# Called when a file was created, to raise if it may not stay.
Check: TypeAlias = "Callable[[], None]"


def no_check() -> None:
    """The check of a file that stays."""


class StorageError(OSError):
    """A storage operation failed; the message names the path."""

    def __str__(self) -> str:
        return escape(super().__str__())


class ChangedError(StorageError):
    """The file is no longer the version that was asked for."""


class ServiceFaultError(StorageError):
    """The store is at fault, not the file: no permission, too many requests, damaged answers."""


class AccessDeniedError(ServiceFaultError):
    """The credentials lack a permission.

    Attributes:
      permission: as the store names it.
    """

    def __init__(self, path: str, permission: str) -> None:
        super().__init__(f"{path}: access denied: the credentials lack the permission {permission}")
        self.path, self.permission = path, permission

    def __reduce__(self) -> tuple[type[AccessDeniedError], tuple[str, str]]:
        return type(self), (self.path, self.permission)


class SchemeError(RequestError):
    """There is no file system for the path's scheme: it is unknown, or its extra is not installed."""


class FileRange(NamedTuple):
    """Consecutive bytes of a file.

    Attributes:
      path: of the file.
      offset: of the first byte.
      length: in bytes; a file that is shorter gives what it has.
    """

    path: str
    offset: int = 0
    length: int = sys.maxsize

    @property
    def is_whole(self) -> bool:
        """Whether it is the file from its beginning to its end."""
        return self.offset == 0 and self.length == sys.maxsize

    def length_in(self, size: int) -> int:
        """Its bytes in a file of `size` bytes."""
        return max(0, min(self.length, size - self.offset))


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """One listed file.

    Attributes:
      path: full path or URI.
      size: bytes; -1 for an entry that is not a regular file, such as a dangling link or a pipe. A path that
        ends in `/` is then a link to a folder that was listed under another path.
      modified_ns: nanoseconds since the epoch, with the precision of the file system.
      generation: of an object, the number of its write or the ETag of its content; None if the store has neither.
      version: identifies this state of the content to the functions that read; "" if the store has no means to.
    """

    path: str
    size: int
    modified_ns: int
    generation: int | str | None = None
    version: str = ""

    @property
    def modified(self) -> float:
        """Seconds since the epoch, to be compared with clocks; as a float they are exact to a microsecond at best."""
        return self.modified_ns / 1e9

    @property
    def fingerprint(self) -> str:
        """Changes when the file does.

        Earlier releases wrote the time in seconds with six decimals. That equals no fingerprint of now, so the files of
        their datasets are read again, once.
        """
        if self.generation is not None:
            return f"{self.size}-{self.generation}"
        return f"{self.size}-{self.modified_ns}"
