"""Members of archives, whatever their format, and the images among them."""

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
from beam_tfrecords.transforms.sources.detect.interpretation import Assumption, Interpretation
from beam_tfrecords.transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from beam_tfrecords.transforms.sources.path_labels import OUTSIDE_SPLITS, path_columns, path_group, path_label
from beam_tfrecords.transforms.sources.skipped import Skipped

# An archive that expands to more than this, and to more than so many times its size, is a bomb. Apache POI takes the
# same ratio; photos hardly shrink at all.
_FREE_BYTES = 1 << 30
_MOST_EXPANSION = 100


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an archive that is not a folder; what reads it is valid until the next member is asked for.

    Attributes:
      name: as the archive has it.
      size: bytes.
      offset: where it is, which no other member has.
      locate: (staging, name that people see) -> where its bytes are: in the archive, or in a staging file.
      chunks: its bytes, in pieces; of a member of a zip archive only the first.
      can_peek: whether reading them here is cheap, and `locate` is possible afterwards.
      kind: what it is if it is no file, as `Skipped` counts it.
      failure: (reason, detail) if it is rejected unread.
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
        """Whether the first bytes may be an image's, as far as they can be looked at."""
        return not self.can_peek or may_be_an_image(next(self.chunks(), b"")[:SNIFFED_BYTES])


class Archive(Protocol):
    """An open archive."""

    def members(self) -> Iterator[Member]:
        """The members other than folders, in bounded memory.

        Raises:
          SampleError: the archive is damaged or cannot be read further; the members before are valid.
        """


# Opens an archive and reads its first header; raises SampleError if it is none, `storage.ChangedError` if it is no
# longer the version that is listed, and OSError after a service fault. Picklable.
OpenArchive: TypeAlias = Callable[[Container], AbstractContextManager[Archive]]


@dataclasses.dataclass(frozen=True)
class ReadArchive:
    """Lists the images of one archive. Picklable.

    Attributes:
      open: opens an archive.
      guess: what the folders are taken for.
      only_splits: whether members outside the split folders are skipped.
      label_pattern: where labels come from; None for folders.
      columns: its groups that are columns.
    """

    open: OpenArchive
    guess: Assumption | Interpretation
    only_splits: bool
    label_pattern: re.Pattern[str] | None
    columns: Sequence[str] = ()

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image.

        Args:
          staging: receives the images of a compressed archive.

        Raises:
          ChangedError: the archive is no longer the version that is listed.
          SampleError: the archive cannot be read to its end.
        """
        with self.open(container) as archive:
            for member in archive.members():
                path = member_path(member.name)
                key = container.key_prefix + path
                label, split = self.guess.place(path)
                kind = member.kind or skipped_kind(path)
                if kind is None and not has_extension(path) and not member.may_be_an_image():
                    kind = NOT_AN_IMAGE
                if kind is None and split is None and self.only_splits:
                    kind = OUTSIDE_SPLITS
                if kind is not None:
                    skipped.add(kind, key)
                    continue
                images = one_image(member.locate(staging, f"{container.uri}#{path}"))
                fingerprint = f"{container.fingerprint}@{member.offset}"
                if self.label_pattern is not None:
                    label = path_label(key, self.label_pattern)
                group = path_group(key, self.label_pattern)
                columns = path_columns(key, self.label_pattern, self.columns)
                yield SampleRef(key, images, member.size, fingerprint, label, split, columns, member.failure, group)


def check_expansion(size: int, container: Container) -> None:
    """Refuses an archive whose content is out of proportion to its file.

    Args:
      size: bytes of the content so far.

    Raises:
      SampleError: it is a bomb.
    """
    if size > max(_FREE_BYTES, _MOST_EXPANSION * container.size):
        detail = (
            f"the archive of {container.size:,} bytes expands to more than {_MOST_EXPANSION} times its size; "
            "extract it if that is meant"
        )
        raise SampleError(Stage.LIST, FailureReason.TOO_LARGE_FILE, detail)
