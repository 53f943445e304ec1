"""The source for WebDatasets: tar archives whose consecutive members with the same stem form a sample.

Follows the rules of webdataset 1.0 (`base_plus_ext`, `tar_file_iterator` and `decoders`) for names and contents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.members import Member, member_path
from beam_tfrecords.storage.tar_archive import TarReader, open_tar
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, Locator, Range, SampleRef, one_image
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import describe_splits, quote_input
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.names import FOLDER_MARKER, IMAGE_EXTENSIONS, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.row_source import RowSource
from beam_tfrecords.transforms.sources.tables.row_values import Located
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings
from beam_tfrecords.transforms.sources.tally import Tally

# Number of samples for finding the columns, and of members for recognizing a WebDataset.
_SAMPLES = 32
_MEMBERS = 64
# Suffix of captions.
_TEXTS = "txt"
_META = re.compile(r"__[^/]*__($|/)")
_CROSSES = "; samples that cross archives are not read"


@dataclasses.dataclass(frozen=True)
class _Start(FirstRows):
    """The first samples of an archive, presented as a table.

    Attributes:
      images: suffix of images -> number of samples with such an image.
      pickles: suffixes of pickles, which are never opened.
      suffixes: suffixes of all members.
    """

    images: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pickles: frozenset[str] = frozenset()
    suffixes: frozenset[str] = frozenset()


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


class WebDatasetSource(RowSource):
    """WebDataset archives.

    Raises:
      RequestError: the archives do not fit the request.
    """

    description = Description(unit="sample")

    def __init__(self, files: Sequence[Partition], start: _Start, request: OpenRequest, needs: Needs) -> None:
        inputs, settings = request.inputs, request.spec
        super().__init__(files, inputs)
        self.notes += describe_splits({file.uri: file.split for file in files}, inputs)
        image, mask = _choose_images(start, settings, needs)
        label = _choose_label(start, settings, needs)
        cells = self._take_columns(start, settings, needs, label, has_mask=mask is not None, images={IMAGE: False})
        others = [suffix for suffix in sorted(start.images) if suffix not in (image, mask) and (image or "." in suffix)]
        self._describe(other_images=others)
        self._cells, self._image, self._mask = cells, image, mask
        self._known = start.suffixes

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per sample; copies the plain bytes of a compressed archive.

        Raises:
          ChangedError: the archive is no longer the listed version.
          SampleError: the archive cannot be read to its end.
        """
        sample = _Sample("", edge="first")
        uri, size, version = partition.uri, partition.size, partition.version
        with open_tar(uri, size=size, version=version, copy=staging.start_copy) as archive:
            for key, suffix, member in _list_members(archive, partition, tally):
                if key != sample.key:
                    if sample.suffixes:
                        yield self._finish(sample, partition)
                    sample = _Sample(key, edge="" if sample.suffixes else "first")
                failure = self._add(sample, suffix, member, partition, tally)
                sample.failure = sample.failure or failure
        if sample.suffixes:
            sample.edge = sample.edge or "last"
            yield self._finish(sample, partition)

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
        if suffix not in self._known:
            # The first samples lack it.
            tally.see_field(storage.basename(partition.uri), suffix)
        if suffix == self._mask:
            sample.mask = _locate(member, partition)
        elif _kind_of(suffix) is _Content.IMAGE:
            if suffix != self._image and (self._image or "." in suffix):
                return None
            if sample.image is not None:
                return invalid_row("it has two images; name the suffix of one with `image_column`")
            sample.image = _locate(member, partition)
            sample.size, sample.fingerprint = member.size, f"{partition.fingerprint}@{member.offset}"
        elif suffix in self._cells.needed or (_kind_of(suffix) is _Content.OBJECT and self._needs_objects):
            if member.size > MOST_ROW_SIZE:
                detail = f"its member .{suffix} has {member.size:,} bytes; expected {MOST_ROW_SIZE:,} at most"
                return invalid_row(detail)
            data = b"".join(member.chunks())
            try:
                sample.row = {**_decode(suffix, data), **sample.row}
            except SampleError as error:
                return error
        elif _kind_of(suffix) not in (*_VALUES, _Content.OBJECT):
            tally.add(f".{suffix.rpartition('.')[2]}", partition.key_prefix + member_path(member.name))
        return None

    @property
    def _needs_objects(self) -> bool:
        return any(_kind_of(name) not in _VALUES for name in self._cells.needed)

    def _finish(self, sample: _Sample, partition: Partition) -> SampleRef:
        sample.images = dict(one_image(sample.image, sample.mask))
        row = {name: sample.row.get(name) for name in self._cells.needed}
        return self._cells.sample(self._problem(sample) or row, sample, partition)

    def _problem(self, sample: _Sample) -> SampleError | None:
        """Returns why a sample is invalid or incomplete; None if it is valid."""
        if sample.failure is not None:
            return sample.failure
        missing = [
            f".{name}"
            for name in self._cells.needed
            if _kind_of(name) in _VALUES and name not in (*sample.suffixes, *sample.row)
        ]
        if sample.image is None or (sample.edge and missing):
            found = ", ".join(f".{suffix}" for suffix in sorted(sample.suffixes))
            what = f"the {sample.edge} sample of its archive has" if sample.edge else "it has"
            lacks = "no image" if sample.image is None else f"no member {missing[0]}"
            return invalid_row(f"{what} {lacks}, but {found}{_CROSSES if sample.edge else ''}")
        if self._mask and sample.mask is None:
            return SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"it has no member .{self._mask}")
        return None


def recognizes(partition: Partition, settings: TableSettings, needs: Needs) -> bool:
    """Whether a tar archive is a WebDataset.

    Members with the same name may also be a photo and a program's sidecar file. So a WebDataset must have a class
    number, or a text or JSON object outside folders, or a mask if the request needs masks.
    """
    try:
        with open_tar(partition.uri, size=partition.size, version=partition.version) as archive:
            found = [(key, suffix) for key, suffix, _ in itertools.islice(_list_members(archive, partition), _MEMBERS)]
    except SampleError:
        return False
    kinds = Counter(key for key, suffix in found if _kind_of(suffix) is _Content.IMAGE)
    beside = [(key, suffix) for key, suffix in found if kinds[key]]
    return any(_kind_of(suffix) is _Content.NUMBER for _, suffix in beside) or any(
        ("/" not in key and _kind_of(suffix) in (*_VALUES, _Content.OBJECT))
        or (
            Content.MASK in needs.contents
            and kinds[key] > 1
            and _kind_of(suffix) is _Content.IMAGE
            and is_mask_name(suffix)
        )
        for key, suffix in beside
    )


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the archives, and reads the first samples.

    Raises:
      RequestError: an archive does not exist, or the archives do not fit the request.
    """
    files = request.find_files()
    try:
        start = _read_start(files[0])
    except SampleError as error:
        where = quote_input(files[0].uri)
        raise RequestError(f"{where} is not a tar archive: {error.detail}", code="invalid_file") from error
    return functools.partial(WebDatasetSource, files, start, request)


def _read_start(partition: Partition) -> _Start:
    rows: dict[str, dict[str, Any]] = {}
    images: Counter[str] = Counter()
    pickles: set[str] = set()
    with open_tar(partition.uri, size=partition.size) as archive, contextlib.suppress(SampleError):
        # Ignores damage after the first header, because the listing rejects the damaged sample.
        for key, suffix, member in _list_members(archive, partition):
            if key not in rows and len(rows) == _SAMPLES:
                break
            row = rows.setdefault(key, {})
            images[suffix] += _kind_of(suffix) is _Content.IMAGE
            if _kind_of(suffix) is _Content.PICKLE:
                pickles.add(suffix)
            if _kind_of(suffix) in (*_VALUES, _Content.OBJECT):
                found: Mapping[str, Any] = {suffix: None}
                if member.size <= MOST_ROW_SIZE:
                    with contextlib.suppress(SampleError):
                        found = _decode(suffix, b"".join(member.chunks()))
                row.update(found)
    columns = tuple(dict.fromkeys(name for row in rows.values() for name in row))
    return _Start(
        partition.uri,
        columns,
        list(rows.values()),
        images=+images,
        pickles=frozenset(pickles),
        suffixes=frozenset(images),
    )


def _choose_images(start: _Start, settings: TableSettings, needs: Needs) -> tuple[str, str | None]:
    """Returns the suffix of the images, "" for any without a dot, and the suffix of the masks or None."""
    suffixes = dataclasses.replace(start, columns=sorted(start.images))
    mask = None
    if Content.MASK in needs.contents:
        mask = choose_mask(suffixes.columns, suffixes, _plain_suffix(settings.mask_column))
    images = [suffix for suffix in suffixes.columns if suffix != mask]
    named = _plain_suffix(settings.image_column)
    plain = [""] if not images or any("." not in suffix for suffix in images) else []
    return choose_image([plain, images], suffixes, named, lacks="no image in its first samples"), mask


def _plain_suffix(suffix: str | None) -> str | None:
    return suffix and suffix.lower().lstrip(".")


def _choose_label(start: _Start, settings: TableSettings, needs: Needs) -> str | None:
    """Returns the label column; None if none is needed."""
    named = [name for name in (settings.label_column, *settings.label_columns, *sorted(needs.columns or ())) if name]
    pickle = next((name for name in named if name in start.pickles or _KINDS.get(name) is _Content.PICKLE), None)
    if pickle is not None:
        raise RequestError(
            f"{quote_input(start.path)}: the members .{pickle} are pickles, which can run any code and are never "
            "opened; write them as .cls, .txt or .json",
            code="pickle_labels",
        )
    try:
        return choose_label(start, settings, needs, first=("cls",), lacks="no .cls and no field 'label'")
    except RequestError as error:
        texts = {"label_column": _TEXTS, "label_type": LabelType.TEXT.value}
        captions = [Reading("the texts of .txt as captions", texts)] if _TEXTS in start.columns else []
        raise RequestError(error.message, [*captions, *error.suggestions], code=error.code) from None


def _locate(member: Member, partition: Partition) -> Locator:
    """Returns the locator of a member's bytes.

    Raises:
      SampleError: the archive ends in the member.
    """
    place, path = member.locate(), member_path(member.name)
    if not place.is_plain:
        return File(f"{partition.uri}#/{path}", place.pack())
    return Range(place.file, place.offset, place.length, f"{partition.uri}#{path}", place.version)


def _list_members(
    archive: TarReader, partition: Partition, tally: Tally | None = None
) -> Iterator[tuple[str, str, Member]]:
    """Yields the members of samples as (key, suffix, member)."""
    for member in archive.members():
        path = member_path(member.name)
        kind = member.kind or _meta_kind(path)
        name = _split_name(path)
        if kind is None and name is not None:
            yield *name, member
        elif tally is not None:
            tally.add(kind or "no suffix", partition.key_prefix + path)


def _split_name(path: str) -> tuple[str, str] | None:
    """Splits a path at the first dot of its base name into key and suffix, in lower case; None without both."""
    folder, slash, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and suffix else None


def _meta_kind(path: str) -> str | None:
    """Returns why a member does not belong to a sample, as `Tally` counts it; None if it does."""
    kind = "metadata" if _META.match(path) else skipped_kind(path)
    return kind if kind in ("metadata", "hidden", "system folder", FOLDER_MARKER) else None


class _Content(enum.Enum):
    """The content of a member, by the last part of its suffix."""

    IMAGE = enum.auto()
    NUMBER = enum.auto()
    TEXT = enum.auto()
    OBJECT = enum.auto()
    PICKLE = enum.auto()
    OTHER = enum.auto()


_VALUES = (_Content.NUMBER, _Content.TEXT)


def _kind_of(suffix: str) -> _Content:
    last = suffix.rpartition(".")[2]
    return _Content.IMAGE if f".{last}" in IMAGE_EXTENSIONS else _KINDS.get(last, _Content.OTHER)


# Unpickling can run arbitrary code, so that pickles are never opened.
_KINDS = {
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), _Content.NUMBER),
    **dict.fromkeys(("txt", "text", "transcript"), _Content.TEXT),
    **dict.fromkeys(("json", "jsn"), _Content.OBJECT),
    **dict.fromkeys(("pyd", "pickle", "pkl", "pth"), _Content.PICKLE),
}


def _decode(suffix: str, data: bytes) -> Mapping[str, Any]:
    """Decodes a member: returns column -> value.

    Raises:
      SampleError: the bytes do not have the format of the suffix.
    """
    if _kind_of(suffix) is _Content.NUMBER:
        try:
            return {suffix: int(data)}
        except ValueError:
            found = shorten(data[:100].decode(errors="replace"))
            raise invalid_row(f"the member .{suffix} has {found}; expected a whole number") from None
    if _kind_of(suffix) is _Content.TEXT:
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
    return values if isinstance(values, dict) else {suffix: values}
