"""Reads the records of TFRecord files as rows.

References point to the image inside its record; images of compressed files are copied to a staging file.
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

# Limit for a record, which is kept in memory; no image is that large, so a longer record is damaged.
_MOST_BYTES = 1 << 30
# Number of valid records for finding the features.
_RECORDS = 32
_MOST_TRIED = 1000


@dataclasses.dataclass(frozen=True)
class ReadTfrecord:
    """Lists the records of a file. Picklable.

    Attributes:
      cells: reads the values of a record.
      image: feature with the image.
      class_names: folder -> class names for labels that are indices; empty if the dataset has none.
      splits: file -> split of its records, if known.
      sides: features with height, width and optionally channels of images stored as pixels; empty for encoded images.
      objects: features with annotated objects; None if objects are not needed.
      mask: feature with the mask; None if masks are not needed.
      lengths: file -> number of its records, if known.
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
        """Yields one reference per record; rejects a damaged record, and continues after it if the framing allows.

        Also rejects missing records if the number of records in the file is known.

        Args:
          container: the file.
          staging: receives the images of a compressed file.
          skipped: not used.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the file is damaged, and the number of missing records is unknown.
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
    """The image, mask and objects of a record.

    Attributes:
      staging: receives the images of a compressed file; None for an uncompressed file.
      features: features of the record; empty if the record cannot be parsed.
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
        """Returns the byte range of an image of the record."""
        assert isinstance(self.record, Record)
        if self.staging is not None:
            return self.staging.add([image], size=len(image), name=self._name)
        offset = self.record.offset + HEADER_BYTES + self.record.data.index(image)
        return Range(self.container.uri, offset, len(image), self._name, self.container.version)


def corrupt(error: RecordError) -> SampleError:
    """Returns the error of a damaged record."""
    detail = f"record {error.record} at byte {error.offset:,}: {error}"
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def _only_image(features: Mapping[str, tuple[str, list[Any]]], name: str) -> bytes | None:
    """Returns the only value of a bytes feature; None for any other feature."""
    kind, values = features.get(name, ("", []))
    return values[0] if kind == "bytes" and len(values) == 1 else None


def scan_file(container: Container, *, offsets: Sequence[int] = ()) -> Iterator[tuple[Record | RecordError, bool]]:
    """Yields the records of a file, each with whether the file is compressed.

    Args:
      container: the file.
      offsets: as in `scan_records`.

    Raises:
      SampleError: the file cannot be read.
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
    """Whether a file is gzip. A record length may start with gzip's magic bytes, but then the length's CRC matches."""
    header = file.read(HEADER_BYTES)
    file.seek(0)
    return header[:2] == b"\x1f\x8b" and int.from_bytes(header[8:], "little") != masked_crc32c(header[:8])


def is_length(value: Any) -> bool:
    """Whether a value is a valid width, height or number of channels."""
    return isinstance(value, int) and value > 0


def _as_pixels(place: Range, shape: Sequence[Any]) -> PixelRange:
    """Returns the locator of an image with this shape, stored as pixels.

    Raises:
      SampleError: the shape does not match the number of bytes.
    """
    if not all(map(is_length, shape)) or math.prod(shape) != place.length or shape[2:] not in ([], [1], [3], [4]):
        raise invalid_row(f"{place.length:,} bytes of pixels, where the record says {list(shape)}")
    axes = "HWC"[: len(shape)]
    where = place.uri, place.offset, place.length, place.name, place.version
    return PixelRange(*where, shape=tuple(shape), axes=axes)


def read_cell(feature: tuple[str, list[Any]] | None) -> Value:
    """Converts a feature to a cell; returns None if it has no value."""
    values = feature[1] if feature else []
    return values[0] if len(values) == 1 else values or None


def read_first_records(container: Container) -> FirstRows:
    """Reads the first valid records of a file.

    Raises:
      SampleError: there are no records, or all first records are damaged.
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
    # Ignores damaged records if some are valid, because the listing rejects the damaged ones.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(container.uri, tuple(types), rows, column_types=types)
