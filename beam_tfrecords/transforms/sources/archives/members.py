"""Members of archives of any format, and the limit of their expansion."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs.sample_refs import Locator
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles

# An archive that expands beyond both this size and this ratio counts as a zip bomb. Apache POI uses the same ratio;
# photos hardly compress at all.
_FREE_BYTES = 1 << 30
_MOST_EXPANSION = 100


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an archive, other than a folder. Its functions are valid until the next member is read.

    Attributes:
      name: name in the archive.
      size: bytes.
      offset: offset of the member in bytes, unique in the archive.
      locate: (staging, name in messages) -> locator of the bytes, in the archive or in a staging file.
      chunks: yields the bytes in pieces; for a zip member only the first megabytes.
      can_peek: whether calling `chunks` is cheap, and `locate` still works afterwards.
      kind: kind of a member that is not a file, as `Skipped` counts it.
      failure: (reason, detail) of a member that is rejected without being read.
    """

    name: str
    size: int
    offset: int
    locate: Callable[[StagingFiles, str], Locator]
    chunks: Callable[[], Iterator[bytes]]
    can_peek: bool
    kind: str | None = None
    failure: tuple[str, str] | None = None

    def may_be_an_image(self) -> bool:
        """Whether the first bytes may be an image; True if they cannot be read cheaply."""
        return not self.can_peek or may_be_an_image(next(self.chunks(), b"")[:SNIFFED_BYTES])


class Archive(Protocol):
    """An open archive."""

    def members(self) -> Iterator[Member]:
        """Yields the members other than folders, in bounded memory.

        Raises:
          SampleError: the archive is damaged or unreadable from here on; the members so far are valid.
        """


# Opens an archive and reads its first header. Raises SampleError if the file is not an archive, `storage.ChangedError`
# if it is no longer the listed version, and OSError after a service fault. Picklable.
OpenArchive: TypeAlias = Callable[[Container], AbstractContextManager[Archive]]


def check_expansion(size: int, container: Container) -> None:
    """Checks that an archive is not a zip bomb.

    Args:
      size: expanded size so far, in bytes.
      container: the archive.

    Raises:
      SampleError: the archive expands too much.
    """
    if size > max(_FREE_BYTES, _MOST_EXPANSION * container.size):
        detail = (
            f"the archive of {container.size:,} bytes expands to more than {_MOST_EXPANSION} times its size; "
            "extract it if that is meant"
        )
        raise SampleError(Stage.LIST, FailureReason.TOO_LARGE_FILE, detail)
