"""WebDataset: tar archives in which consecutive members of one name, up to its first dot, are one sample."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.refs import Locator, SampleRef, one_image
from beam_tfrecords.transforms.sources.archives.archive import Member
from beam_tfrecords.transforms.sources.archives.tar_reader import TarReader, open_tar
from beam_tfrecords.transforms.sources.archives.webdataset_members import (
    PICKLES,
    decode,
    is_image,
    is_index,
    is_object,
    is_pickle,
    is_value,
    meta_kind,
    split_name,
)
from beam_tfrecords.transforms.sources.containers import Container, Spool, member_path
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import (
    InputFile,
    describe_splits,
    find_files,
    quote_input,
)
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import Skipped, SourceSpec
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, FirstRows

# Samples of the first archive that show which columns there are, and members that show whether it is a WebDataset.
_SAMPLES = 32
_MEMBERS = 64
_CROSSES = "; samples that cross archives are not read"


@dataclasses.dataclass(frozen=True)
class _Start(FirstRows):
    """The first samples of an archive, as a table.

    Attributes:
      images: suffix of images -> samples that have one.
      pickles: suffixes that are not opened.
    """

    images: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pickles: frozenset[str] = frozenset()


class WebDatasetSource(RowSource):
    """Archives of samples.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "sample"
    labels_may_be_indices = True

    def __init__(self, files: Sequence[InputFile], start: _Start, spec: SourceSpec) -> None:
        super().__init__(files)
        self.name = spec.source
        self.notes += describe_splits([file.entry.path for file in files], [file.split for file in files], spec)
        image, mask = _choose_images(start, spec)
        label = _choose_label(start, spec)
        cells = self._take_columns(start, spec, label, has_mask=mask is not None)
        self.read_container: ReadWebDataset = ReadWebDataset(cells, image, splits_of(files), mask)


@dataclasses.dataclass
class _Sample(Located):
    """A sample while its members are read.

    Attributes:
      edge: "first" or "last" of its archive, or "".
      suffixes: of the members so far.
      row: column -> value.
    """

    edge: str = ""
    suffixes: set[str] = dataclasses.field(default_factory=set)
    row: dict[str, Any] = dataclasses.field(default_factory=dict)
    image: Locator | None = None
    mask: Locator | None = None
    failure: SampleError | None = None


@dataclasses.dataclass(frozen=True)
class ReadWebDataset:
    """Lists the samples of one archive. Picklable.

    Attributes:
      cells: reads the values of a sample.
      image: suffix of the image; "" for any without a dot.
      splits: archive -> split of its samples, if the inputs say it.
      mask: suffix of the mask; None if it is not asked for.
    """

    cells: RowReader
    image: str
    splits: Mapping[str, str]
    mask: str | None = None

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per sample.

        Args:
          spool: receives the images of a compressed archive.

        Raises:
          ChangedError: the archive is no longer the version that is listed.
          SampleError: the archive cannot be read to its end.
        """
        sample = _Sample("", edge="first")
        with open_tar(container) as archive:
            for key, suffix, member in _members(archive, container, skipped):
                if key != sample.key:
                    if sample.suffixes:
                        yield self._read(sample, container)
                    sample = _Sample(key, edge="" if sample.suffixes else "first")
                try:
                    self._add(sample, suffix, member, container, spool, skipped)
                except _MemberError as error:
                    sample.failure = sample.failure or error.reason
        if sample.suffixes:
            sample.edge = sample.edge or "last"
            yield self._read(sample, container)

    def _add(
        self, sample: _Sample, suffix: str, member: Member, container: Container, spool: Spool, skipped: Skipped
    ) -> None:
        """Adds a member to its sample.

        Raises:
          _MemberError: the sample is rejected.
          SampleError: the archive cannot be read.
        """
        if suffix in sample.suffixes:
            raise _MemberError(invalid_row(f"it has two members with the suffix .{suffix}"))
        sample.suffixes.add(suffix)
        if suffix == self.mask:
            sample.mask = member.locate(spool, f"{container.uri}#{member_path(member.name)}")
        elif is_image(suffix):
            if suffix != self.image and (self.image or "." in suffix):
                return
            if sample.image is not None:
                raise _MemberError(invalid_row("it has two images; name the suffix of one with `image_column`"))
            sample.image = member.locate(spool, f"{container.uri}#{member_path(member.name)}")
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
        """Why the members of a sample do not make one."""
        if sample.failure is not None:
            return sample.failure
        missing = [f".{name}" for name in self.cells.needed if is_value(name) and name not in sample.suffixes]
        if sample.image is None or (sample.edge and missing):
            found = ", ".join(f".{suffix}" for suffix in sorted(sample.suffixes))
            what = f"the {sample.edge} sample of its archive has" if sample.edge else "it has"
            lacks = "no image" if sample.image is None else f"no member {missing[0]}"
            return invalid_row(f"{what} {lacks}, but {found}{_CROSSES if sample.edge else ''}")
        if self.mask and sample.mask is None:
            return SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"it has no member .{self.mask}")
        return None


class _MemberError(Exception):
    """A member rejects its sample; a `SampleError` of the archive ends it."""

    def __init__(self, reason: SampleError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@contextlib.contextmanager
def _rejecting() -> Iterator[None]:
    try:
        yield
    except SampleError as error:
        raise _MemberError(error) from error


def recognises(container: Container, spec: SourceSpec) -> bool:
    """Whether a tar archive is a WebDataset.

    Members of one name may also be a photo and what a program has written beside it. So there must be the number of a
    class, or a text or an object and no folder; or a mask, if the request asks for masks.
    """
    try:
        with open_tar(container) as archive:
            found = [(key, suffix) for key, suffix, _ in itertools.islice(_members(archive, container), _MEMBERS)]
    except SampleError:
        return False
    kinds = Counter(key for key, suffix in found if is_image(suffix))
    beside = [(key, suffix) for key, suffix in found if kinds[key]]
    return any(is_index(suffix) for _, suffix in beside) or any(
        ("/" not in key and (is_value(suffix) or is_object(suffix)))
        or (spec.needs_mask and kinds[key] > 1 and is_image(suffix) and is_mask_name(suffix))
        for key, suffix in beside
    )


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the archives, and looks at the first samples.

    Raises:
      RequestError: an archive does not exist, or they do not fit the request.
    """
    files = find_files(spec)
    try:
        start = _read_start(Container.of(files[0].entry, key_prefix=""))
    except SampleError as error:
        where = quote_input(files[0].entry.path)
        raise RequestError(f"{where} is not a tar archive: {error.detail}") from error
    return functools.partial(WebDatasetSource, files, start)


def _read_start(container: Container) -> _Start:
    rows: dict[str, dict[str, Any]] = {}
    images: Counter[str] = Counter()
    pickles: set[str] = set()
    with open_tar(container) as archive, contextlib.suppress(SampleError):
        # What is damaged behind the first header is a rejected sample, when all is listed.
        for key, suffix, member in _members(archive, container):
            if key not in rows and len(rows) == _SAMPLES:
                break
            row = rows.setdefault(key, {})
            images[suffix] += is_image(suffix)
            if is_pickle(suffix):
                pickles.add(suffix)
            if (is_value(suffix) or is_object(suffix)) and member.size <= MOST_ROW_SIZE:
                data = b"".join(member.chunks())
                with contextlib.suppress(SampleError):
                    row.update(decode(suffix, data))
            if is_value(suffix):
                row.setdefault(suffix, None)
    columns = tuple(dict.fromkeys(name for row in rows.values() for name in row))
    return _Start(container.uri, columns, None, list(rows.values()), images=+images, pickles=frozenset(pickles))


def _members(
    archive: TarReader, container: Container, skipped: Skipped | None = None
) -> Iterator[tuple[str, str, Member]]:
    """The members of samples: (key, suffix, member)."""
    for member in archive.members():
        path = member_path(member.name)
        kind = member.kind or meta_kind(path)
        name = split_name(path)
        if kind is None and name is not None:
            yield *name, member
        elif skipped is not None:
            skipped.add(kind or "no suffix", container.key_prefix + path)


def _choose_images(start: _Start, spec: SourceSpec) -> tuple[str, str | None]:
    """The suffix of the images, "" for any without a dot, and that of the masks if they are asked for."""
    suffixes = dataclasses.replace(start, columns=sorted(start.images))
    spec = dataclasses.replace(
        spec, image_column=_plain_suffix(spec.image_column), mask_column=_plain_suffix(spec.mask_column)
    )
    mask = choose_mask(suffixes.columns, suffixes, spec)
    images = [suffix for suffix in suffixes.columns if suffix != mask]
    plain = [""] if not images or any("." not in suffix for suffix in images) else []
    return choose_image([plain, images], suffixes, spec, lacks="no image in its first samples"), mask


def _plain_suffix(suffix: str | None) -> str | None:
    return suffix and suffix.lower().lstrip(".")


def _choose_label(start: _Start, spec: SourceSpec) -> str | None:
    """The column of the labels; None if none is needed."""
    named = [name for name in (spec.label_column, *spec.label_columns, *sorted(spec.columns or ())) if name]
    pickle = next((name for name in named if name in start.pickles or name in PICKLES), None)
    if pickle is not None:
        raise RequestError(
            f"{quote_input(start.path)}: the members .{pickle} are pickles, which can run any code and are never "
            "opened; write them as .cls, .txt or .json"
        )
    return choose_label(start, spec, first=("cls",), lacks="no .cls and no field 'label'")
