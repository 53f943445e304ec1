"""Archives of images, whatever their format: the folders inside say class and split, by the rules of folders."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs import Locator, SampleRef, one_image
from beam_tfrecords.transforms.sources.containers import Container, Spool, member_path
from beam_tfrecords.transforms.sources.detect.inference import ApplyInterpretations, assume_folders, change_refs
from beam_tfrecords.transforms.sources.detect.interpretation import Assumption, Interpretation, Request
from beam_tfrecords.transforms.sources.detect.names import is_known
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.inferred import InferredSource
from beam_tfrecords.transforms.sources.inputs import InputFile, describe_splits, find_files, quote_input
from beam_tfrecords.transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from beam_tfrecords.transforms.sources.path_labels import (
    OUTSIDE_SPLITS,
    compile_pattern,
    find_path_columns,
    path_columns,
    path_group,
    path_label,
)
from beam_tfrecords.transforms.sources.registry import find_source
from beam_tfrecords.transforms.sources.source import ContainerSource, MakeSource
from beam_tfrecords.transforms.sources.source_spec import Skipped, SourceSpec

# An archive that expands to more than this, and to more than so many times its size, is a bomb. Apache POI takes the
# same ratio; photos hardly shrink at all.
_FREE_BYTES = 1 << 30
_MOST_EXPANSION = 100
# ImageNet's classes.
_WORDNET_ID = re.compile(r"n\d{8}")


@dataclasses.dataclass(frozen=True)
class Member:
    """A member of an archive that is not a folder; what reads it is valid until the next member is asked for.

    Attributes:
      name: as the archive has it.
      size: bytes.
      offset: where it is, which no other member has.
      locate: (spool, name that people see) -> where its bytes are: in the archive, or in the spool.
      chunks: its bytes, in pieces; of a member of a zip archive only the first.
      can_peek: whether reading them here is cheap, and `locate` is possible afterwards.
      kind: what it is if it is no file, as `Skipped` counts it.
      failure: (reason, detail) if it is rejected unread.
    """

    name: str
    size: int
    offset: int
    locate: Callable[[Spool, str], Locator]
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


class ArchiveSource(InferredSource, ContainerSource):
    """Archives of one format."""

    # GNU tar, unzip and Python extract them so; `tar -r` adds the newer one at the end.
    last_member_wins = True

    def __init__(self, files: Sequence[InputFile], read: ReadArchive, spec: SourceSpec) -> None:
        super().__init__(files)
        self.name = spec.source
        self._splits = {file.key_prefix: file.split for file in files if file.split}
        self.notes += describe_splits([file.entry.path for file in files], [file.split for file in files], spec)
        self.read_container: ReadArchive = read
        self._spec = spec
        self._take_columns(read.label_pattern, spec)

    def check_containers(self) -> None:
        """Refuses the only archive if it is none; with many, looking into each would take long."""
        if len(self._containers) > 1:
            return
        try:
            # Listing tries again after a service fault.
            with contextlib.suppress(OSError), self.read_container.open(self._containers[0]):
                pass
        except SampleError as error:
            where = quote_input(self._containers[0].uri)
            raise RequestError(f"{where} is not a {self.name} archive: {error.detail}") from error

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """See `Source.infer`; the folders of all archives are taken together."""
        prefix = self._containers[0].key_prefix
        tree = folders.joined() if prefix else folders.tree()
        names = [storage.basename(container.uri) for container in self._containers]
        where = quote_input(",".join(self._spec.input))
        if prefix and tree.images("") == tree.total() and self._names_are_classes(names):
            self.notes.append(f"{where}: the archives have no folders; the name of each is the class")
            keeps_splits = not self._spec.splits_auto and self._spec.split_folders is None
            return ApplyInterpretations({"*": Interpretation()}, _archive_name(self.name), keeps_splits, self._splits)
        uri = self._containers[0].uri
        archive = "" if prefix or storage.has_scheme(uri) else uri
        request = Request(self._spec, where, names[0].partition(".")[0], None, prefix, names if prefix else (), archive)
        found = self._infer(tree, request)
        key = "*" if prefix else ""
        return change_refs({key: found}, {key: tree}, self._spec, folders=folders, splits=self._splits)

    def _names_are_classes(self, names: Sequence[str]) -> bool:
        """Whether the names of archives say what is in the pictures, and are no numbered parts, splits or the like."""
        spec = self._spec
        if spec.label_pattern is not None or not spec.needs_label or len(names) < 2:
            return False
        stems = [name.partition(".")[0] for name in names]
        if all(map(_WORDNET_ID.fullmatch, stems)):
            return True
        words = {re.sub(r"[\d_.-]", "", stem) for stem in stems}
        return len(words) == len(names) and not any(map(is_known, words))


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

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image.

        Args:
          spool: receives the images of a compressed archive.

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
                images = one_image(member.locate(spool, f"{container.uri}#{path}"))
                fingerprint = f"{container.fingerprint}@{member.offset}"
                if self.label_pattern is not None:
                    label = path_label(key, self.label_pattern)
                group = path_group(key, self.label_pattern)
                columns = path_columns(key, self.label_pattern, self.columns)
                yield SampleRef(key, images, member.size, fingerprint, label, split, columns, member.failure, group)


def open_archives(spec: SourceSpec, open_archive: OpenArchive) -> MakeSource:
    """Finds the archives of a request.

    Raises:
      RequestError: an archive does not exist.
    """
    pattern = compile_pattern(spec)
    files = find_files(spec)

    def make(request: SourceSpec) -> ArchiveSource:
        _, columns = find_path_columns(pattern, request)
        only_splits = request.split_folders is not None
        read = ReadArchive(open_archive, assume_folders(request), only_splits, pattern, columns)
        return ArchiveSource(files, read, request)

    return make


def _archive_name(source: str) -> re.Pattern[str]:
    """The pattern by which the label is the name of an archive without its extension."""
    endings = "|".join(map(re.escape, find_source(source, "").extensions))
    return re.compile(f"^(?P<label>[^/]+?)(?:{endings})/", re.IGNORECASE)


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
