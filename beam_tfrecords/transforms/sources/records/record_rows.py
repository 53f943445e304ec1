"""The records of TFRecord files as rows.

The image of a record is read where it is, inside the record; those of compressed files are copied to a staging file.
"""

from __future__ import annotations

import dataclasses
import gzip
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.parse import parse_example
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError, masked_crc32c, scan_records
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, PixelRange, Range, SampleRef, Value
from beam_tfrecords.transforms.sources.archives.members import check_expansion
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.reading import reading
from beam_tfrecords.transforms.sources.records.object_features import ObjectFeatures, read_objects
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows

# A longer record is damaged: no image has as many bytes, and they are held in memory.
_MOST_BYTES = 1 << 30
# Records of the first file that show which features there are.
_RECORDS = 32
_MOST_TRIED = 1000


@dataclasses.dataclass(frozen=True)
class ReadTfrecord:
    """Lists the records of one file. Picklable.

    Attributes:
      cells: reads the values of a record.
      image: feature with the image.
      class_names: folder -> names of the classes whose indices are the labels; empty if the dataset has none.
      splits: file -> split of its records, if its name says it.
      sides: features with height, width and channels of images that are pixels; the channels may be missing. Empty for
        encoded images.
      objects: features with annotated objects; None if they are not asked for.
      mask: feature with the mask; None if it is not asked for.
      lengths: file -> number of its records, if something says it.
    """

    cells: RowReader
    image: str
    class_names: Mapping[str, Sequence[str]]
    splits: Mapping[str, str]
    sides: Sequence[str] = ()
    objects: ObjectFeatures | None = None
    mask: str | None = None
    lengths: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __call__(self, container: Container, staging: StagingFiles, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per record; a damaged one is rejected, and reading goes on where the framing allows.

        The records that something announces and that are not there are rejected.

        Args:
          staging: receives the images of a compressed file.

        Raises:
          ChangedError: the file is no longer the version that is listed.
          SampleError: nothing says how many records the file lacks.
        """
        length, number, end = self.lengths.get(container.uri), 0, 0
        cells = dataclasses.replace(self.cells, class_names=self.class_names.get(storage.dirname(container.uri), ()))
        try:
            for record, is_compressed in scan_file(container):
                if isinstance(record, RecordError):
                    if record.ends:
                        raise corrupt(record)
                else:
                    end = record.offset + record.length
                yield self._read(cells, container, record, staging if is_compressed else None)
                number += 1
            if number < (length or 0):
                detail = f"the file ends at byte {end:,}, after {number:,} of its {length:,} records"
                raise SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)
        except SampleError as error:
            if length is None or number >= length:
                raise
            split = self.splits.get(container.uri)
            yield from reject_missing(container, range(number, length), error, split=split)

    def _read(
        self, cells: RowReader, container: Container, record: Record | RecordError, staging: StagingFiles | None
    ) -> SampleRef:
        number = record.number if isinstance(record, Record) else record.record
        located = _RecordImages(
            number_key(number), number=number, record=record, container=container, reader=self, staging=staging
        )
        row: Mapping[str, Any] | SampleError
        if isinstance(record, RecordError):
            row = corrupt(record)
        else:
            try:
                located.features = parse_example(record.data)
                row = {column: read_cell(located.features.get(column)) for column in cells.needed}
            except ValueError as error:
                row = invalid_row(f"record {number} at byte {record.offset:,}: {error}")
        return cells.sample(row, located, prefix=container.key_prefix, split=self.splits.get(container.uri))


@dataclasses.dataclass(kw_only=True)
class _RecordImages(Located):
    """The image of a record, and its mask and objects.

    Attributes:
      features: of the record; empty for one that cannot be parsed.
      staging: receives the images of a compressed file; None for others.
    """

    number: int
    record: Record | RecordError
    container: Container
    reader: ReadTfrecord
    staging: StagingFiles | None
    features: Mapping[str, tuple[str, list[Any]]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._name = f"{self.container.uri}#{self.number}"
        self.images[IMAGE] = Range(self.container.uri, self.record.offset, 0, self._name)

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        reader = self.reader
        image = _only_image(self.features, reader.image)
        if image is None:
            count = len(self.features.get(reader.image, ("", []))[1])
            raise invalid_row(f"the feature {reader.image!r} has {count} images; expected 1")
        self.images[IMAGE] = place = self._locate(image)
        mask = _only_image(self.features, reader.mask) if reader.mask else None
        if reader.mask and not mask:
            raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"the feature {reader.mask!r} has no mask")
        mask_place = self._locate(mask) if mask else None
        if reader.sides:
            self.images[IMAGE] = _as_pixels(place, [read_cell(self.features.get(side)) for side in reader.sides])
        if reader.objects:
            names = reader.class_names.get(storage.dirname(self.container.uri), ())
            self.objects = read_objects(self.features, reader.objects, names)
        if mask_place is not None:
            self.images[MASK] = mask_place
        self.size, self.fingerprint = len(image), f"{self.container.fingerprint}@{self.record.offset}"

    def _locate(self, image: bytes) -> Range:
        """Where an image of the record is."""
        assert isinstance(self.record, Record)
        if self.staging is not None:
            return self.staging.add([image], size=len(image), name=self._name)
        offset = self.record.offset + HEADER_BYTES + self.record.data.index(image)
        return Range(self.container.uri, offset, len(image), self._name, self.container.version)


def corrupt(error: RecordError) -> SampleError:
    """The failure of a damaged record."""
    detail = f"record {error.record} at byte {error.offset:,}: {error}"
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def _only_image(features: Mapping[str, tuple[str, list[Any]]], name: str) -> bytes | None:
    """The only value of a feature, if it is of bytes."""
    kind, values = features.get(name, ("", []))
    return values[0] if kind == "bytes" and len(values) == 1 else None


def scan_file(container: Container, *, offsets: Sequence[int] = ()) -> Iterator[tuple[Record | RecordError, bool]]:
    """The records of a file, and whether it is compressed.

    Args:
      offsets: as in `scan_records`.

    Raises:
      SampleError: it cannot be read.
    """
    end = 0

    def describe(error: Exception) -> SampleError:
        detail = f"the compressed file is damaged behind byte {end:,} of its records: {error}"
        return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)

    with reading(describe), storage.open_read(container.uri, version=container.version) as file:
        is_compressed = _is_gzip(file)
        stream = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if is_compressed else file
        most = _MOST_BYTES if is_compressed else min(container.size, _MOST_BYTES)
        for record in scan_records(stream, most_bytes=most, offsets=offsets):
            check_expansion(record.offset, container)
            yield record, is_compressed
            end = record.offset + (record.length if isinstance(record, Record) else 0)


def _is_gzip(file: IO[bytes]) -> bool:
    """Whether a file is compressed; the length of a record may have the same first bytes, but then its CRC is right."""
    header = file.read(HEADER_BYTES)
    file.seek(0)
    return header[:2] == b"\x1f\x8b" and int.from_bytes(header[8:], "little") != masked_crc32c(header[:8])


def is_length(value: Any) -> bool:
    """Whether a value may be the side of an image in pixels."""
    return isinstance(value, int) and value > 0


def _as_pixels(place: Range, shape: Sequence[Any]) -> PixelRange:
    """The pixels of an image of this shape.

    Raises:
      SampleError: they are not as many.
    """
    if not all(map(is_length, shape)) or math.prod(shape) != place.length or shape[2:] not in ([], [1], [3], [4]):
        raise invalid_row(f"{place.length:,} bytes of pixels, where the record says {list(shape)}")
    axes = "HWC"[: len(shape)]
    where = place.uri, place.offset, place.length, place.name, place.version
    return PixelRange(*where, shape=tuple(shape), axes=axes)


def read_cell(feature: tuple[str, list[Any]] | None) -> Value:
    """A feature as a cell; None for one without a value."""
    values = feature[1] if feature else []
    return values[0] if len(values) == 1 else values or None


def read_first_records(container: Container) -> FirstRows:
    """The first records.

    Raises:
      SampleError: there is none, or none is whole.
    """
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    damage = ""
    try:
        for record, _ in itertools.islice(scan_file(container), _MOST_TRIED):
            if isinstance(record, RecordError):
                damage = damage or f"record {record.record}: {record}"
                continue
            try:
                features = parse_example(record.data)
            except ValueError as error:
                damage = damage or str(error)
                continue
            rows.append({name: read_cell(feature) for name, feature in features.items()})
            types |= {name: kind for name, (kind, _) in features.items() if kind}
            if len(rows) == _RECORDS:
                break
    except SampleError as error:
        damage = damage or error.detail
    # A damaged record beside a whole one is a rejected one, when all are listed.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(container.uri, tuple(types), types, rows)
