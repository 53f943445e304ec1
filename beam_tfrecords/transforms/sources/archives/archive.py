"""The source for image archives of any format: folders inside give class and split, as for image folders."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.members import Archive, Member, member_path
from beam_tfrecords.storage.tar_archive import open_tar
from beam_tfrecords.storage.zip_archive import open_zip
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.folder_meaning import FolderMeaning
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.names import is_known
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.folders.image_folder import InferredSource
from beam_tfrecords.transforms.sources.folders.roots import Root
from beam_tfrecords.transforms.sources.inputs import describe_splits, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, find_files
from beam_tfrecords.transforms.sources.registry import find_source
from beam_tfrecords.transforms.sources.source import Finish, MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tally import Tally

# Class ids of ImageNet.
_WORDNET_ID = re.compile(r"n\d{8}")


class ArchiveSource(InferredSource):
    """Archives of one format."""

    # GNU tar, unzip and Python behave like this; `tar -r` appends newer versions at the end.
    description = Description(last_member_wins=True)

    def __init__(self, files: Sequence[Partition], request: OpenRequest, needs: Needs) -> None:
        super().__init__(files)
        self.notes += describe_splits({file.uri: file.split for file in files}, request.inputs)
        self._take_request(request, needs, [file.key_prefix for file in files])

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields a reference to each image; copies the plain bytes of a compressed archive.

        Raises:
          ChangedError: the archive is no longer the listed version.
          SampleError: the archive cannot be read to its end.
        """
        folder = f"{partition.uri}#"
        last: Member
        damage: SampleError | None = None

        def list_files(archive: Archive) -> Iterator[storage.FileEntry]:
            nonlocal last, damage
            try:
                for last in archive.members():
                    if last.kind:
                        tally.add_special(last.kind, partition.key_prefix + member_path(last.name))
                    else:
                        yield last.entry(partition.uri, partition.fingerprint)
            except SampleError as error:
                damage = error

        with self._open(partition, staging) as archive:
            yield from self._list_images(
                list_files(archive),
                Root(folder, folder, partition.key_prefix),
                tally,
                is_image=lambda _: not last.can_peek or may_be_an_image(next(last.chunks(), b"")[:SNIFFED_BYTES]),
                find_failure=lambda _: last.failure,
            )
            # After the samples before it, which are read in batches.
            if damage is not None:
                raise damage

    def _open(self, partition: Partition, staging: StagingFiles | None = None) -> AbstractContextManager[Archive]:
        """Opens an archive, and reads its first header or finds its directory.

        Raises:
          SampleError: the file is not an archive, or cannot be read.
          ChangedError: the archive is no longer the listed version.
          OSError: a service fault.
        """
        if self._spec.source == "zip":
            return open_zip(partition.uri, size=partition.size, version=partition.version)
        copy = staging.start_copy if staging is not None else None
        return open_tar(partition.uri, size=partition.size, version=partition.version, copy=copy)

    def check(self, most_missing: float) -> None:
        """See `Source.check`; skips the check for several archives, because it would take long."""
        if len(self.partitions) > 1:
            return
        try:
            # Ignores service faults, because the listing retries.
            with contextlib.suppress(OSError), self._open(self.partitions[0]):
                pass
        except SampleError as error:
            where = quote_input(self.partitions[0].uri)
            raise RequestError(f"{where} is not a {self.name} archive: {error.detail}", code="invalid_file") from error

    def questions(self, folders: FolderSummary, tally: Tally) -> Mapping[str, tuple[FolderTree, Request]]:
        """See `Source.questions`; asks about the folders of all archives together."""
        prefix = self.partitions[0].key_prefix
        roots = [f"{partition.uri}#" for partition in self.partitions]
        self._leave_joined(folders, tally, {one.key_prefix: f"{one.uri}#" for one in self.partitions})
        tree = folders.joined({one.key_prefix for one in self.partitions})
        names = [storage.basename(partition.uri) for partition in self.partitions]
        where = quote_input(",".join(self._inputs.paths))
        if prefix and tree.images("") == tree.total() and self._names_are_classes(names):
            tally.notes.append(f"{where}: the archives have no folders; the name of each is the class")
            return {}
        request = Request(
            self._spec,
            self._needs,
            where,
            names[0].partition(".")[0],
            None if prefix or self._names_paths() else roots[0],
            prefix,
            names if prefix else (),
            says_splits=bool(self._inputs.splits),
            folders=roots,
        )
        return {prefix: (tree, request)}

    def finish(self, folders: FolderSummary, tally: Tally, found: Mapping[str, Interpretation]) -> Finish:
        """See `Source.finish`."""
        splits = {one.key_prefix: one.split for one in self.partitions if one.split}
        meaning = next(iter(found.values()), Interpretation())
        every = dict.fromkeys((one.key_prefix for one in self.partitions), meaning)
        if found:
            return self._decide(every, folders=folders, splits=splits)
        keeps_splits = self._needs.splits.fractions is not None
        return Finish(self.description, FolderMeaning(every, _archive_name(self.name), False, keeps_splits, splits))

    def _names_are_classes(self, names: Sequence[str]) -> bool:
        """Whether the names of the archives are classes, rather than numbered parts, splits or other known words."""
        if self._spec.label_pattern is not None or Content.LABEL not in self._needs.contents or len(names) < 2:
            return False
        stems = [name.partition(".")[0] for name in names]
        if all(map(_WORDNET_ID.fullmatch, stems)):
            return True
        words = {re.sub(r"[\d_.-]", "", stem) for stem in stems}
        return len(words) == len(names) and not any(map(is_known, words))


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the archives of a request.

    Raises:
      RequestError: an archive does not exist.
    """
    files = find_files(request.inputs, by_name=request.needs.splits.are_auto)
    return functools.partial(ArchiveSource, files, request)


def _archive_name(source: str) -> str:
    """Returns the pattern that uses an archive's name without its extension as label."""
    endings = "|".join(map(re.escape, find_source(source, "").extensions))
    return f"(?i)^(?P<label>[^/]+?)(?:{endings})/"
