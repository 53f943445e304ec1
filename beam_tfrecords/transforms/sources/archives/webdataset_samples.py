"""Groups the members of WebDatasets into samples.

Follows the rules of webdataset 1.0 (`base_plus_ext`, `tar_file_iterator` and `decoders`) for names and contents.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.members import Member, member_path
from beam_tfrecords.storage.tar_archive import TarReader, open_tar
from beam_tfrecords.transforms.refs.sample_refs import File, Locator, Range, SampleRef, one_image
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS, skipped_kind
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE
from beam_tfrecords.transforms.sources.tally import Tally

_INTEGERS = frozenset({"cls", "cls2", "index", "inx", "id"})
_TEXTS = frozenset({"txt", "text", "transcript"})
_OBJECTS = frozenset({"json", "jsn"})
# Unpickling can run arbitrary code.
PICKLES = frozenset({"pyd", "pickle", "pkl", "pth"})
_META = re.compile(r"__[^/]*__($|/)")
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

    def __call__(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per sample.

        Args:
          partition: the archive.
          staging: receives the plain bytes of a compressed archive.
          tally: counts the members that do not belong to samples.

        Raises:
          ChangedError: the archive is no longer the listed version.
          SampleError: the archive cannot be read to its end.
        """
        sample = _Sample("", edge="first")
        uri, size, version = partition.uri, partition.size, partition.version
        with open_tar(uri, size=size, version=version, copy=staging.start_copy) as archive:
            for key, suffix, member in list_members(archive, partition, tally):
                if key != sample.key:
                    if sample.suffixes:
                        yield self._read(sample, partition)
                    sample = _Sample(key, edge="" if sample.suffixes else "first")
                failure = self._add(sample, suffix, member, partition, tally)
                sample.failure = sample.failure or failure
        if sample.suffixes:
            sample.edge = sample.edge or "last"
            yield self._read(sample, partition)

    def _add(
        self, sample: _Sample, suffix: str, member: Member, partition: Partition, tally: Tally
    ) -> SampleError | None:
        """Adds a member to its sample; returns an error that rejects the sample if the member is invalid.

        Raises:
          SampleError: the archive cannot be read.
        """
        if suffix in sample.suffixes:
            return invalid_row(f"it has two members with the suffix .{suffix}")
        sample.suffixes.add(suffix)
        if suffix == self.mask:
            sample.mask = _locate(member, partition)
        elif is_image(suffix):
            if suffix != self.image and (self.image or "." in suffix):
                return None
            if sample.image is not None:
                return invalid_row("it has two images; name the suffix of one with `image_column`")
            sample.image = _locate(member, partition)
            sample.size, sample.fingerprint = member.size, f"{partition.fingerprint}@{member.offset}"
        elif suffix in self.cells.needed or (is_object(suffix) and self._needs_objects):
            if member.size > MOST_ROW_SIZE:
                detail = f"its member .{suffix} has {member.size:,} bytes; expected {MOST_ROW_SIZE:,} at most"
                return invalid_row(detail)
            data = b"".join(member.chunks())
            try:
                sample.row = {**decode(suffix, data), **sample.row}
            except SampleError as error:
                return error
        elif not (is_value(suffix) or is_object(suffix)):
            tally.add(f".{suffix.rpartition('.')[2]}", partition.key_prefix + member_path(member.name))
        return None

    @property
    def _needs_objects(self) -> bool:
        return not all(map(is_value, self.cells.needed))

    def _read(self, sample: _Sample, partition: Partition) -> SampleRef:
        sample.images = dict(one_image(sample.image, sample.mask))
        row = {name: sample.row.get(name) for name in self.cells.needed}
        split = self.splits.get(partition.uri)
        return self.cells.sample(self._problem(sample) or row, sample, prefix=partition.key_prefix, split=split)

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


def _locate(member: Member, partition: Partition) -> Locator:
    """Returns the locator of a member's bytes.

    Raises:
      SampleError: the archive ends in the member.
    """
    place, path = member.locate(), member_path(member.name)
    if not place.is_plain:
        return File(f"{partition.uri}#/{path}", place.pack())
    return Range(place.file, place.offset, place.length, f"{partition.uri}#{path}", place.version)


def list_members(
    archive: TarReader, partition: Partition, tally: Tally | None = None
) -> Iterator[tuple[str, str, Member]]:
    """Yields the members of samples as (key, suffix, member)."""
    for member in archive.members():
        path = member_path(member.name)
        kind = member.kind or meta_kind(path)
        name = split_name(path)
        if kind is None and name is not None:
            yield *name, member
        elif tally is not None:
            tally.add(kind or "no suffix", partition.key_prefix + path)


def split_name(path: str) -> tuple[str, str] | None:
    """Splits a path at the first dot of its base name into key and suffix, in lower case; None without both."""
    folder, slash, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and suffix else None


def meta_kind(path: str) -> str | None:
    """Returns why a member does not belong to a sample, as `Tally` counts it; None if it does."""
    if _META.match(path):
        return "metadata"
    kind = skipped_kind(path)
    if kind in ("hidden", "system folder", "folder marker"):
        return kind
    return "no suffix" if split_name(path) is None else None


def is_image(suffix: str) -> bool:
    """Whether members with this suffix are images."""
    return f".{_kind(suffix)}" in IMAGE_EXTENSIONS


def is_object(suffix: str) -> bool:
    """Whether members with this suffix are JSON objects, whose fields are columns."""
    return _kind(suffix) in _OBJECTS


def is_value(suffix: str) -> bool:
    """Whether members with this suffix are columns."""
    return _kind(suffix) in _INTEGERS or _kind(suffix) in _TEXTS


def is_index(suffix: str) -> bool:
    """Whether members with this suffix are whole numbers."""
    return _kind(suffix) in _INTEGERS


def is_pickle(suffix: str) -> bool:
    """Whether members with this suffix are pickles."""
    return _kind(suffix) in PICKLES


def decode(suffix: str, data: bytes) -> Mapping[str, Any]:
    """Decodes a member: returns column -> value.

    Raises:
      SampleError: the bytes do not have the format of the suffix.
    """
    if _kind(suffix) in _INTEGERS:
        try:
            return {suffix: int(data)}
        except ValueError:
            found = shorten(data[:100].decode(errors="replace"))
            raise invalid_row(f"the member .{suffix} has {found}; expected a whole number") from None
    if _kind(suffix) in _TEXTS:
        try:
            return {suffix: data.decode()}
        except UnicodeDecodeError as error:
            raise invalid_row(f"the member .{suffix} is not valid UTF-8") from error
    try:
        values = read_json(data)
    except RecursionError as error:
        raise invalid_row(f"the member .{suffix} is nested too deeply") from error
    except ValueError as error:
        raise invalid_row(f"the member .{suffix} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise invalid_row(f"the member .{suffix} is not a JSON object")
    return values


def _kind(suffix: str) -> str:
    return suffix.rpartition(".")[2]
