"""Groups the members of WebDatasets into samples."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.refs.sample_refs import Locator, SampleRef, one_image
from beam_tfrecords.transforms.sources.archives.members import Member
from beam_tfrecords.transforms.sources.archives.tar_reader import TarReader, open_tar
from beam_tfrecords.transforms.sources.archives.webdataset_members import (
    decode,
    is_image,
    is_object,
    is_value,
    meta_kind,
    split_name,
)
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, member_path
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE

_CROSSES = "; samples that cross archives are not read"


@dataclasses.dataclass
class _Sample(Located):
    """A sample while its members are read.

    Attributes:
      edge: "first" or "last" for the sample at the edge of its archive, else "".
      suffixes: suffixes of the members so far.
      row: column -> value.
      image: locator of the image.
      mask: locator of the mask.
      failure: error of the first invalid member.
    """

    edge: str = ""
    suffixes: set[str] = dataclasses.field(default_factory=set)
    row: dict[str, Any] = dataclasses.field(default_factory=dict)
    image: Locator | None = None
    mask: Locator | None = None
    failure: SampleError | None = None


@dataclasses.dataclass(frozen=True)
class ReadWebDataset:
    """Lists the samples of an archive. Picklable.

    Attributes:
      cells: reads the values of a sample.
      image: suffix of the image; "" for any without a dot.
      splits: archive -> split of its samples, if known.
      mask: suffix of the mask; None if masks are not needed.
    """

    cells: RowReader
    image: str
    splits: Mapping[str, str]
    mask: str | None = None

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per sample.

        Args:
          container: the archive.
          staging: receives the images of a compressed archive.
          skipped: counts the members that do not belong to samples.

        Raises:
          ChangedError: the archive is no longer the listed version.
          SampleError: the archive cannot be read to its end.
        """
        sample = _Sample("", edge="first")
        with open_tar(container) as archive:
            for key, suffix, member in list_members(archive, container, skipped):
                if key != sample.key:
                    if sample.suffixes:
                        yield self._read(sample, container)
                    sample = _Sample(key, edge="" if sample.suffixes else "first")
                try:
                    self._add(sample, suffix, member, container, staging, skipped)
                except _MemberError as error:
                    sample.failure = sample.failure or error.reason
        if sample.suffixes:
            sample.edge = sample.edge or "last"
            yield self._read(sample, container)

    def _add(
        self,
        sample: _Sample,
        suffix: str,
        member: Member,
        container: Container,
        staging: StagingFiles,
        skipped: Skipped,
    ) -> None:
        """Adds a member to its sample.

        Raises:
          _MemberError: the member is invalid, so that its sample is rejected.
          SampleError: the archive cannot be read.
        """
        if suffix in sample.suffixes:
            raise _MemberError(invalid_row(f"it has two members with the suffix .{suffix}"))
        sample.suffixes.add(suffix)
        if suffix == self.mask:
            sample.mask = member.locate(staging, f"{container.uri}#{member_path(member.name)}")
        elif is_image(suffix):
            if suffix != self.image and (self.image or "." in suffix):
                return
            if sample.image is not None:
                raise _MemberError(invalid_row("it has two images; name the suffix of one with `image_column`"))
            sample.image = member.locate(staging, f"{container.uri}#{member_path(member.name)}")
            sample.size, sample.fingerprint = member.size, f"{container.fingerprint}@{member.offset}"
        elif suffix in self.cells.needed or (is_object(suffix) and self._needs_objects):
            if member.size > MOST_ROW_SIZE:
                detail = f"its member .{suffix} has {member.size:,} bytes; expected {MOST_ROW_SIZE:,} at most"
                raise _MemberError(invalid_row(detail))
            data = b"".join(member.chunks())
            with _rejecting():
                sample.row = {**decode(suffix, data), **sample.row}
        elif not (is_value(suffix) or is_object(suffix)):
            skipped.add(f".{suffix.rpartition('.')[2]}", container.key_prefix + member_path(member.name))

    @property
    def _needs_objects(self) -> bool:
        return not all(map(is_value, self.cells.needed))

    def _read(self, sample: _Sample, container: Container) -> SampleRef:
        sample.images = dict(one_image(sample.image, sample.mask))
        row = {name: sample.row.get(name) for name in self.cells.needed}
        split = self.splits.get(container.uri)
        return self.cells.sample(self._problem(sample) or row, sample, prefix=container.key_prefix, split=split)

    def _problem(self, sample: _Sample) -> SampleError | None:
        """Returns why a sample is invalid or incomplete; None if it is valid."""
        if sample.failure is not None:
            return sample.failure
        missing = [
            f".{name}" for name in self.cells.needed if is_value(name) and name not in (*sample.suffixes, *sample.row)
        ]
        if sample.image is None or (sample.edge and missing):
            found = ", ".join(f".{suffix}" for suffix in sorted(sample.suffixes))
            what = f"the {sample.edge} sample of its archive has" if sample.edge else "it has"
            lacks = "no image" if sample.image is None else f"no member {missing[0]}"
            return invalid_row(f"{what} {lacks}, but {found}{_CROSSES if sample.edge else ''}")
        if self.mask and sample.mask is None:
            return SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"it has no member .{self.mask}")
        return None


class _MemberError(Exception):
    """An invalid member, which rejects only its sample; a `SampleError` ends the whole archive."""

    def __init__(self, reason: SampleError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@contextlib.contextmanager
def _rejecting() -> Iterator[None]:
    try:
        yield
    except SampleError as error:
        raise _MemberError(error) from error


def list_members(
    archive: TarReader, container: Container, skipped: Skipped | None = None
) -> Iterator[tuple[str, str, Member]]:
    """Yields the members of samples as (key, suffix, member)."""
    for member in archive.members():
        path = member_path(member.name)
        kind = member.kind or meta_kind(path)
        name = split_name(path)
        if kind is None and name is not None:
            yield *name, member
        elif skipped is not None:
            skipped.add(kind or "no suffix", container.key_prefix + path)
