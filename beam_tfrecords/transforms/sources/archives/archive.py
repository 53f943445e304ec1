"""The source for image archives of any format: folders inside give class and split, as for image folders."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, one_image
from beam_tfrecords.transforms.sources.archives.members import OpenArchive
from beam_tfrecords.transforms.sources.archives.tar_reader import open_tar
from beam_tfrecords.transforms.sources.archives.zip_reader import open_zip
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, member_path
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.document_formats import FormatFinder
from beam_tfrecords.transforms.sources.detect.inference import ApplyInterpretations, assume_folders
from beam_tfrecords.transforms.sources.detect.interpretation import Assumption, Interpretation, Request
from beam_tfrecords.transforms.sources.detect.names import is_known
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.inferred import InferredSource
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, describe_splits, find_files, quote_input
from beam_tfrecords.transforms.sources.names import NOT_AN_IMAGE, has_extension, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_labels import (
    OUTSIDE_SPLITS,
    compile_pattern,
    find_path_columns,
    path_columns,
    path_group,
    path_label,
)
from beam_tfrecords.transforms.sources.registry import find_source
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.source import ContainerSource, MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

# Class ids of ImageNet.
_WORDNET_ID = re.compile(r"n\d{8}")


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


class ArchiveSource(InferredSource, ContainerSource):
    """Archives of one format."""

    # GNU tar, unzip and Python behave like this; `tar -r` appends newer versions at the end.
    description = Description(last_member_wins=True)

    def __init__(
        self, files: Sequence[InputFile], inputs: Inputs, spec: SourceSpec, read: ReadArchive, needs: Needs
    ) -> None:
        super().__init__(files)
        self._splits = {file.key_prefix: file.split for file in files if file.split}
        self.notes += describe_splits([file.entry.path for file in files], [file.split for file in files], inputs)
        self.read_container: ReadArchive = read
        self._take_request(inputs, spec, needs, [file.key_prefix for file in files])

    def check_containers(self) -> None:
        """Checks that a single archive is valid; skips the check for several archives, because it would take long."""
        if len(self._containers) > 1:
            return
        try:
            # Ignores service faults, because the listing retries.
            with contextlib.suppress(OSError), self.read_container.open(self._containers[0]):
                pass
        except SampleError as error:
            where = quote_input(self._containers[0].uri)
            raise RequestError(f"{where} is not a {self.name} archive: {error.detail}", code="invalid_file") from error

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """See `Source.infer`; interprets the folders of all archives together."""
        prefix = self._containers[0].key_prefix
        prefixes = dict.fromkeys(container.key_prefix for container in self._containers)
        tree = folders.joined(prefixes)
        names = [storage.basename(container.uri) for container in self._containers]
        where = quote_input(",".join(self._inputs.paths))
        if prefix and tree.images("") == tree.total() and self._names_are_classes(names):
            self.notes.append(f"{where}: the archives have no folders; the name of each is the class")
            keeps_splits = self._needs.splits.fractions is not None
            found = dict.fromkeys(prefixes, Interpretation())
            return ApplyInterpretations(found, _archive_name(self.name), keeps_splits, self._splits)
        uri = self._containers[0].uri
        archive = "" if prefix or storage.has_scheme(uri) else uri
        request = Request(
            self._spec,
            self._needs,
            where,
            name=names[0].partition(".")[0],
            key_prefix=prefix,
            inputs=names if prefix else (),
            archive=archive,
            says_splits=bool(self._inputs.splits),
        )
        found = dict.fromkeys(prefixes, self._infer(tree, request))
        return self._change(found, {prefix: tree}, folders=folders, splits=self._splits)

    def _names_are_classes(self, names: Sequence[str]) -> bool:
        """Whether the names of the archives are classes, rather than numbered parts, splits or other known words."""
        if self._spec.label_pattern is not None or not self._needs.label or len(names) < 2:
            return False
        stems = [name.partition(".")[0] for name in names]
        if all(map(_WORDNET_ID.fullmatch, stems)):
            return True
        words = {re.sub(r"[\d_.-]", "", stem) for stem in stems}
        return len(words) == len(names) and not any(map(is_known, words))


def open_input(inputs: Inputs, spec: SourceSpec, needs: Needs) -> MakeSource:
    """Finds the archives of a request.

    Raises:
      RequestError: an archive does not exist.
    """
    pattern = compile_pattern(spec.label_pattern, needs)
    files = find_files(inputs, by_name=needs.splits.are_auto)
    open_archive = open_zip if spec.source == "zip" else open_tar

    def make(needs: Needs) -> ArchiveSource:
        _, columns = find_path_columns(pattern, needs)
        only_splits = needs.splits.folders is not None
        read = ReadArchive(open_archive, assume_folders(pattern, needs), only_splits, pattern, columns, needs.array)
        return ArchiveSource(files, inputs, spec, read, needs)

    return make


def _archive_name(source: str) -> re.Pattern[str]:
    """Returns the pattern that uses an archive's name without its extension as label."""
    endings = "|".join(map(re.escape, find_source(source, "").extensions))
    return re.compile(f"^(?P<label>[^/]+?)(?:{endings})/", re.IGNORECASE)
