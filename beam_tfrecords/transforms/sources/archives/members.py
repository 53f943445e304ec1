"""Lists the images among the members of an archive of any format."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs.sample_refs import Locator, SampleRef, one_image
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, member_path
from beam_tfrecords.transforms.sources.detect.document_formats import FormatFinder
from beam_tfrecords.transforms.sources.detect.interpretation import Assumption, Interpretation
from beam_tfrecords.transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from beam_tfrecords.transforms.sources.path_labels import OUTSIDE_SPLITS, path_columns, path_group, path_label
from beam_tfrecords.transforms.sources.skipped import Skipped

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


@dataclasses.dataclass(frozen=True)
class ReadArchive:
    """Lists the images of an archive. Picklable.

    Attributes:
      open: opens an archive.
      guess: preliminary interpretation of the folders.
      only_splits: whether to skip members outside the split folders.
      label_pattern: pattern that gives the labels; None for folders.
      columns: groups of the pattern that are columns.
      arrays: whether members of arrays may be samples.
    """

    open: OpenArchive
    guess: Assumption | Interpretation
    only_splits: bool
    label_pattern: re.Pattern[str] | None
    columns: Sequence[str] = ()
    arrays: bool = False

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image.

        Args:
          container: the archive.
          staging: receives the images of a compressed archive.
          skipped: counts the members that are not images.

        Raises:
          ChangedError: the archive is no longer the listed version.
          SampleError: the archive cannot be read to its end.
        """
        finder = FormatFinder()
        with self.open(container) as archive:
            for member in archive.members():
                path = member_path(member.name)
                key = container.key_prefix + path
                label, split = self.guess.place(path)
                kind = member.kind or skipped_kind(path, arrays=self.arrays)
                if kind is None and not has_extension(path) and not member.may_be_an_image():
                    kind = NOT_AN_IMAGE
                if kind is None and split is None and self.only_splits:
                    kind = OUTSIDE_SPLITS
                if kind is not None:
                    skipped.add(kind, key)
                    if member.kind is None and finder.looks_into(path):
                        skipped.folders.add_formats(key, finder.find(path, member.chunks()))
                    continue
                images = one_image(member.locate(staging, f"{container.uri}#{path}"))
                fingerprint = f"{container.fingerprint}@{member.offset}"
                if self.label_pattern is not None:
                    label = path_label(key, self.label_pattern)
                group = path_group(key, self.label_pattern)
                columns = path_columns(key, self.label_pattern, self.columns)
                yield SampleRef(key, images, member.size, fingerprint, label, split, columns, member.failure, group)


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
