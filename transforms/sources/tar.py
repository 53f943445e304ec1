"""Tar archives: the class is the first folder inside the archive. The pipeline lists the archives in parallel."""

from __future__ import annotations

import dataclasses
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence

from transforms.errors import RequestError, SampleError
from transforms.refs import SampleRef
from transforms.sources.containers import Container, Spool, member_path
from transforms.sources.inputs import find_files, quote_input, refuse_columns
from transforms.sources.names import SPLIT_FOLDERS, skipped_kind
from transforms.sources.path_labels import OUTSIDE_SPLITS, compile_pattern, named_split_folders, path_label
from transforms.sources.source import Source
from transforms.sources.source_spec import Skipped, SourceSpec
from transforms.sources.tar_reader import open_tar


class TarSource(Source):
    """Tar archives, plain or compressed.

    Args:
      containers: the archives.
      read: lists the samples of one.
    """

    name = "tar"

    def __init__(self, containers: Sequence[Container], read: ReadTar) -> None:
        super().__init__()
        self._containers = containers
        self.read_container = read

    def containers(self) -> Sequence[Container]:
        """The archives."""
        return self._containers


@dataclasses.dataclass(frozen=True)
class ReadTar:
    """Lists the images of one archive. Picklable.

    A damaged archive gives the samples before the damage and one rejected sample for the archive itself.

    Attributes:
      splits: first folder inside the archive -> split.
      only_splits: whether members outside these folders are skipped.
      needs_class: whether such a folder is a split only where folders below it can be the classes.
      label_pattern: where labels come from; None for folders.
    """

    splits: Mapping[str, str]
    only_splits: bool
    needs_class: bool
    label_pattern: re.Pattern[str] | None

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per image.

        Args:
          container: the archive.
          spool: receives the images of a compressed archive.
          skipped: counts the members that are not images.
        """
        try:
            with open_tar(container) as archive:
                for member in archive.members():
                    path = member_path(member.name)
                    key = container.key_prefix + path
                    split, below = self._find_split(path)
                    kind = _skipped_kind(member, path)
                    if kind is None and split is None and self.only_splits:
                        kind = OUTSIDE_SPLITS
                    if kind is not None:
                        skipped.add(kind, key)
                        continue
                    locator = archive.locate(member, spool, name=f"{container.uri}#{path}")
                    fingerprint = f"{container.fingerprint}@{member.offset_data}"
                    label = path_label(key, below, self.label_pattern)
                    yield SampleRef(key, locator, member.size, fingerprint, label, split)
        except SampleError as error:
            yield container.rejected(error)

    def _find_split(self, path: str) -> tuple[str | None, str]:
        """The split of a member, and its path below the split folder."""
        first, slash, below = path.partition("/")
        split = self.splits.get(first) if slash else None
        if split is None or (self.needs_class and "/" not in below):
            return None, path
        return split, below


def open_source(spec: SourceSpec) -> TarSource:
    """Finds the archives.

    Raises:
      RequestError: an archive does not exist, or the only one is not a tar archive.
    """
    refuse_columns(spec)
    pattern = compile_pattern(spec)
    named = named_split_folders(spec)
    containers = [
        Container(file.path, file.size, file.fingerprint, prefix) for prefix, file in find_files(spec.input).items()
    ]
    if len(containers) == 1:  # With many, looking into each would take long.
        try:
            with open_tar(containers[0]):
                pass
        except SampleError as error:
            raise RequestError(f"{quote_input(containers[0].uri)} is not a tar archive: {error.detail}") from error
    read = ReadTar(
        splits=named or (SPLIT_FOLDERS if spec.splits_auto else {}),
        only_splits=named is not None,
        needs_class=named is None and pattern is None and spec.needs_label,
        label_pattern=pattern,
    )
    return TarSource(containers, read)


def _skipped_kind(member: tarfile.TarInfo, path: str) -> str | None:
    if member.islnk() or member.issym():
        return "link"
    if not member.isreg():
        return "special"
    return "hidden" if path.startswith("__MACOSX/") else skipped_kind(path)
