"""Tar archives: the folders inside say class and split. The pipeline lists the archives in parallel."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from transforms.refs import SampleRef, one_image
from transforms.sources.archives.tar_reader import open_tar
from transforms.sources.containers import Container, Spool, member_path
from transforms.sources.folder_advice import Place
from transforms.sources.folder_roles import Guess, Roles
from transforms.sources.folder_tree import FolderSummary
from transforms.sources.inputs import InputFile, describe_splits, find_files, quote_input, refuse_columns
from transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from transforms.sources.path_labels import OUTSIDE_SPLITS, compile_pattern, path_group, path_label
from transforms.sources.settling import guess_roles, relabel, settle_roles
from transforms.sources.source import Source
from transforms.sources.source_spec import Skipped, SourceSpec


class TarSource(Source):
    """Tar archives, plain or compressed."""

    name = "tar"
    is_settled_later = True

    def __init__(self, files: Sequence[InputFile], read: ReadTar, spec: SourceSpec) -> None:
        super().__init__()
        self._containers = [Container.of(file.entry, key_prefix=file.key_prefix) for file in files]
        self._splits = {file.key_prefix: file.split for file in files if file.split}
        self.notes += describe_splits([file.entry.path for file in files], [file.split for file in files], spec)
        self.read_container: ReadTar = read
        self._spec = spec

    def containers(self) -> Sequence[Container]:
        """The archives."""
        return self._containers

    def check_containers(self) -> None:
        """Refuses the only archive if it is none; with many, looking into each would take long."""
        if len(self._containers) > 1:
            return
        try:
            # Listing tries again after a service fault.
            with contextlib.suppress(OSError), open_tar(self._containers[0]):
                pass
        except SampleError as error:
            where = quote_input(self._containers[0].uri)
            raise RequestError(f"{where} is not a tar archive: {error.detail}") from error

    def settle(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """See `Source.settle`; the folders of all archives are taken together."""
        prefix = self._containers[0].key_prefix
        tree = folders.joined() if prefix else folders.tree()
        names = [storage.basename(container.uri) for container in self._containers]
        place = Place(quote_input(",".join(self._spec.input)), None, prefix, names if prefix else ())
        roles, notes = settle_roles(tree, self._spec, place, name=names[0].partition(".")[0])
        self.notes += notes
        key = "*" if prefix else ""
        return relabel({key: roles}, {key: tree}, self._spec, folders=folders, splits=self._splits)


@dataclasses.dataclass(frozen=True)
class ReadTar:
    """Lists the images of one archive. Picklable.

    A damaged archive gives the samples before the damage and one rejected sample for the archive itself.

    Attributes:
      guess: what the folders are taken for.
      only_splits: whether members outside the split folders are skipped.
      label_pattern: where labels come from; None for folders.
    """

    guess: Guess | Roles
    only_splits: bool
    label_pattern: re.Pattern[str] | None

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image.

        Args:
          spool: receives the images of a compressed archive.

        Raises:
          ChangedError: the archive is no longer the version that is listed.
        """
        try:
            with open_tar(container) as archive:
                for member in archive.members():
                    path = member_path(member.name)
                    key = container.key_prefix + path
                    label, split = self.guess.place(path)
                    kind = _skipped_kind(member, path)
                    if kind is None and not has_extension(path) and not archive.may_be_an_image(member):
                        kind = NOT_AN_IMAGE
                    if kind is None and split is None and self.only_splits:
                        kind = OUTSIDE_SPLITS
                    if kind is not None:
                        skipped.add(kind, key)
                        continue
                    locator = archive.locate(member, spool, name=f"{container.uri}#{path}")
                    fingerprint = f"{container.fingerprint}@{member.offset_data}"
                    if self.label_pattern is not None:
                        label = path_label(key, self.label_pattern)
                    group = path_group(key, self.label_pattern)
                    yield SampleRef(key, one_image(locator), member.size, fingerprint, label, split, group=group)
        except SampleError as error:
            yield container.rejected(error)


def open_source(spec: SourceSpec) -> TarSource:
    """Finds the archives.

    Raises:
      RequestError: an archive does not exist.
    """
    refuse_columns(spec)
    pattern = compile_pattern(spec)
    return TarSource(find_files(spec), ReadTar(guess_roles(spec), spec.split_folders is not None, pattern), spec)


def _skipped_kind(member: tarfile.TarInfo, path: str) -> str | None:
    if member.islnk() or member.issym():
        return "link"
    if not member.isreg():
        return "special"
    return skipped_kind(path)
