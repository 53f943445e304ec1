"""Tar archives: the class is the first folder inside the archive. The pipeline lists the archives in parallel."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_tfrecords.errors import RequestError, SampleError
from transforms.refs import SampleRef
from transforms.sources.archives.tar_reader import open_tar
from transforms.sources.containers import Container, Spool, member_path
from transforms.sources.folder_roles import find_splits, refuse_fractions, refuse_wrapper
from transforms.sources.inputs import find_files, quote_input, refuse_columns, refuse_split_names
from transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from transforms.sources.path_labels import OUTSIDE_SPLITS, compile_pattern, named_split_folders, path_group, path_label
from transforms.sources.source import Source
from transforms.sources.source_spec import Skipped, SourceSpec
from transforms.splits import SPLIT_NAMES, split_of_folder

# As many members as give a picture of the folders, and as deep.
_MOST_KEYS = 200_000
_MOST_DEPTH = 6


class TarSource(Source):
    """Tar archives, plain or compressed.

    Args:
      containers: the archives.
      read: lists the samples of one.
      spec: the request.
    """

    name = "tar"

    def __init__(self, containers: Sequence[Container], read: ReadTar, spec: SourceSpec) -> None:
        super().__init__()
        self._containers = containers
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

    def check_keys(self, keys: Iterable[str]) -> None:
        """Refuses folders inside the archives that cannot be the classes or the splits."""
        folders: defaultdict[str, set[str]] = defaultdict(set)
        start = 1 if self._containers[0].key_prefix else 0
        for key in itertools.islice(keys, _MOST_KEYS):
            path = key.split("/")[start:-1][:_MOST_DEPTH]
            for depth, name in enumerate(path):
                folders["/".join(path[:depth])].add(name)
        _check_folders({path: sorted(names) for path, names in folders.items()}, self._spec)


def _check_folders(folders: Mapping[str, Sequence[str]], spec: SourceSpec) -> None:
    """See `TarSource.check_keys`; `folders` are the names of the folders in each."""

    def below(path: str) -> Sequence[str]:
        return folders.get(path, ())

    tops, where = below(""), quote_input(",".join(spec.input))
    splits: Mapping[str, str] | None = named_split_folders(spec)
    by_folders = spec.label_pattern is None and spec.needs_label
    if splits is None and (spec.splits_auto or by_folders):
        splits = find_splits(tops, below=below, class_names=spec.class_names, where=where)
        if not spec.splits_auto:
            names = "|".join(map(re.escape, splits or ()))
            refuse_fractions(splits, where=where, remedy=f"say `label_pattern=(?:{names})/(?P<label>[^/]+)/`")
    if splits is None and spec.splits_auto and by_folders:
        unclear = [name for name in tops if split_of_folder(name) and below(name) and name not in spec.class_names]
        if unclear:
            raise RequestError(
                f"{where}: {unclear[0]} beside other folders with images may be a split or a class; say which folders "
                f"are the splits (`splits={split_of_folder(unclear[0])}={unclear[0]},…`), or name all classes if it "
                f"is a class (`class_names={unclear[0]},…`)"
            )
    if by_folders:
        classes = [f"{top}/{name}" for top in splits or () for name in below(top)] if splits else tops
        refuse_wrapper(classes, below=below, class_names=spec.class_names, where=where, in_splits=True)


@dataclasses.dataclass(frozen=True)
class ReadTar:
    """Lists the images of one archive. Picklable.

    A damaged archive gives the samples before the damage and one rejected sample for the archive itself.

    Attributes:
      splits: first folder inside the archive -> split; in lower case unless `only_splits`.
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

        Raises:
          ChangedError: the archive is no longer the version that is listed.
          OSError: a service fault.
        """
        try:
            with open_tar(container) as archive:
                for member in archive.members():
                    path = member_path(member.name)
                    key = container.key_prefix + path
                    split, below = self._find_split(path)
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
                    label = path_label(key, below, self.label_pattern)
                    group = path_group(key, self.label_pattern)
                    yield SampleRef(key, locator, member.size, fingerprint, label, split, group=group)
        except SampleError as error:
            yield container.rejected(error)

    def _find_split(self, path: str) -> tuple[str | None, str]:
        """The split of a member, and its path below the split folder."""
        first, slash, below = path.partition("/")
        split = self.splits.get(first if self.only_splits else first.lower()) if slash else None
        if split is None or (self.needs_class and "/" not in below):
            return None, path
        return split, below


def open_source(spec: SourceSpec) -> TarSource:
    """Finds the archives.

    Raises:
      RequestError: an archive does not exist.
    """
    refuse_columns(spec)
    pattern = compile_pattern(spec)
    named = named_split_folders(spec)
    containers = [Container.of(file, key_prefix=prefix) for prefix, file in find_files(spec.input).items()]
    found: dict[str, str] = {}
    if spec.splits_auto:
        refuse_split_names([container.uri for container in containers])
        found = {name: split for name, split in SPLIT_NAMES.items() if name not in spec.class_names}
    read = ReadTar(
        splits=named or found,
        only_splits=named is not None,
        needs_class=named is None and pattern is None and spec.needs_label,
        label_pattern=pattern,
    )
    return TarSource(containers, read, spec)


def _skipped_kind(member: tarfile.TarInfo, path: str) -> str | None:
    if member.islnk() or member.issym():
        return "link"
    if not member.isreg():
        return "special"
    return skipped_kind(path)
