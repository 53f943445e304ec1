"""Reads the records of TFRecord files as rows.

References point to the image inside its record; images of compressed files are copied to a staging file.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.layouts import SAME, Layout
from beam_tfrecords.features.parse import ParsedExample, check_features, parse_plain_example
from beam_tfrecords.storage.members import check_expansion
from beam_tfrecords.storage.reading import reading
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError, scan_records
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, RECORD, PixelRange, Range, SampleRef
from beam_tfrecords.transforms.sources.image_files import join_fingerprints
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.path_rule import key_of_path
from beam_tfrecords.transforms.sources.pixels.pixel_reader import PixelReader
from beam_tfrecords.transforms.sources.records.compressed import open_records
from beam_tfrecords.transforms.sources.records.file_names import FILE_NAMES, file_name
from beam_tfrecords.transforms.sources.records.object_features import ObjectFeatures, read_objects
from beam_tfrecords.transforms.sources.records.record_images import FoundImage, NamedFiles
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_cell
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tally import Tally

# Limit for a record, which is kept in memory; no image is that large, so a longer record is damaged.
_MOST_BYTES = 1 << 30
# Number of valid records for finding the features.
_RECORDS = 32
# The search for features stops earlier after this many numbers in lists.
_MOST_NUMBERS = 1 << 22
_MOST_TRIED = 1000


@dataclasses.dataclass(frozen=True)
class ReadTfrecord:
    """Lists the records of a file. Picklable.

    Attributes:
      cells: reads the values of a record.
      image: feature with the image; None if `named` or `files` have the images, and for records without.
      class_names: folder -> class names for labels that are indices; empty if the dataset has none.
      splits: file -> split of its records, if known.
      pixels: feature -> reader of its images that are stored as numbers; encoded ones have none.
      objects: features with annotated objects; None if objects are not needed.
      mask: feature with the mask; None if masks are not needed.
      lengths: file -> number of its records, if known.
      kept: layout of records that are stored as they are; None for records of which parts are read.
      named: name of a further image in the record -> its feature.
      lists: names in `named` whose feature has any number of images.
      files: image files that records name; None for images in records.
      known: features of the first records.
      names_images: whether records may have the file names of their images, which end the keys.
    """

    cells: RowReader
    image: str | None
    class_names: Mapping[str, Sequence[str]]
    splits: Mapping[str, str]
    pixels: Mapping[str, PixelReader] = dataclasses.field(default_factory=dict)
    objects: ObjectFeatures | None = None
    mask: str | None = None
    lengths: Mapping[str, int] = dataclasses.field(default_factory=dict)
    kept: Layout | None = None
    named: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    files: NamedFiles | None = None
    known: frozenset[str] = frozenset()
    names_images: bool = False

    def __call__(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per record; rejects a damaged record, and continues after it if the framing allows.

        Also rejects missing records if the number of records in the file is known.

        Args:
          partition: the file.
          staging: receives the images of a compressed file.
          tally: counts the features that the first records do not have.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the file is damaged, and the number of missing samples is unknown.
        """
        length = self.lengths.get(partition.uri)
        number, end = 0, 0
        cells = dataclasses.replace(self.cells, class_names=self.class_names.get(storage.dirname(partition.uri), ()))
        try:
            for record, is_compressed in scan_file(partition):
                if isinstance(record, RecordError):
                    if record.ends:
                        raise corrupt(record)
                else:
                    end = record.offset + record.length
                yield self._read(cells, partition, record, staging, tally, is_compressed=is_compressed)
                number += 1
            if number < (length or 0):
                detail = f"the file ends at byte {end:,}, after {number:,} of its {length:,} records"
                raise SampleError(Stage.LIST, FailureReason.TRUNCATED, detail)
        except SampleError as error:
            if length is None or number >= length:
                raise
            split = self.splits.get(partition.uri)
            yield from reject_missing(partition, range(number, length), error, split=split)

    def _read(
        self,
        cells: RowReader,
        partition: Partition,
        record: Record | RecordError,
        staging: StagingFiles,
        tally: Tally,
        *,
        is_compressed: bool,
    ) -> SampleRef:
        """Returns the sample of a record; a rejected one for a damaged record."""
        number = record.number if isinstance(record, Record) else record.record
        located = _RecordImages(
            # A number is only unique with the name of its file; a key from a feature stays in other files.
            partition.key_prefix + number_key(number),
            number=number,
            record=record,
            partition=partition,
            reader=self,
            staging=staging,
            is_compressed=is_compressed,
        )
        row: Mapping[str, Any] | SampleError
        try:
            if isinstance(record, RecordError):
                raise corrupt(record)
            located.features = parse_plain_example(record.data)
            for feature in located.features.keys() - self.known:
                tally.see_field(printable(storage.basename(partition.uri)), feature)
            row = {column: read_cell(located.features.get(column)) for column in cells.needed}
            if self.names_images and (name := file_name(_names_of(located.features))):
                located.key = f"{located.key}/{name}"
        except ValueError as error:
            row = invalid_row(f"record {number} at byte {record.offset:,}: {error}")
        except SampleError as error:
            row = error
        return cells.sample(row, located, prefix="", split=self.splits.get(partition.uri))


def _names_of(features: ParsedExample) -> dict[str, Any]:
    return {name: read_cell(features[name]) for name in FILE_NAMES if name in features}


@dataclasses.dataclass(kw_only=True)
class _RecordImages(Located):
    """The image, mask and objects of a record.

    Attributes:
      staging: receives images whose bytes are not in the file.
      is_compressed: whether the file is compressed.
      features: features of the record; empty if the record cannot be parsed.
      paths: name of an image -> its path in the record.
    """

    number: int
    record: Record | RecordError
    partition: Partition
    reader: ReadTfrecord
    staging: StagingFiles
    is_compressed: bool
    features: ParsedExample = dataclasses.field(default_factory=dict)
    paths: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._name = f"{self.partition.uri}#{self.number}"
        self.images[IMAGE] = Range(self.partition.uri, self.record.offset, 0, self._name)

    def read_paths(self, row: Mapping[str, Any]) -> None:
        """See `Located.read_paths`."""
        if self.reader.files is not None:
            self.paths = self.reader.files.paths(row)
            self.key = next(map(key_of_path, self.paths.values()), self.key)

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        assert isinstance(self.record, Record)
        reader = self.reader
        if reader.kept is not None:
            self._keep(reader.kept)
            return
        found = dict(self._find_images())
        self.images = {name: one.place for name, one in found.items()}
        self.size = next((one.size for one in found.values()), 0)
        files = [one.fingerprint for one in found.values() if one.fingerprint is not None]
        # The same record in another file is the same sample.
        self.fingerprint = join_fingerprints(files or [content_hash(self.record.data)])
        image = self.images.get(IMAGE)
        if isinstance(image, PixelRange):
            # Reading the same record in another way is a change.
            self.fingerprint += f":{image.axes}{list(image.shape)}{image.dtype}{image.limits or ''}"
        mask = self._image_of(reader.mask) if reader.mask else None
        if reader.mask and not mask:
            raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"the feature {reader.mask!r} has no mask")
        if reader.objects:
            names = reader.class_names.get(storage.dirname(self.partition.uri), ())
            self.objects = read_objects(self.features, reader.objects, names)
        if mask is not None:
            self.images[MASK] = mask

    def _find_images(self) -> Iterator[tuple[str, FoundImage]]:
        """Yields the name of each image, and the image.

        Raises:
          SampleError: an image is missing, or a feature has several.
        """
        reader = self.reader
        if reader.image is not None:
            image = self._image_of(reader.image)
            if image is None:
                count = len(self.features.get(reader.image, ("", []))[1])
                raise invalid_row(f"the feature {reader.image!r} has {count} images; expected 1")
            yield IMAGE, FoundImage(image, image.length, None)
        for name, feature in reader.named.items():
            kind, values = self.features.get(feature, ("", []))
            is_list = name in reader.lists
            if kind not in ("", "bytes") or not (is_list or len(values) == 1):
                raise invalid_row(f"the feature {feature!r} has {len(values)} images; expected 1")
            for number, value in enumerate(values):
                found = FoundImage(self._locate(value), len(value), None)
                yield f"{name}[{number}]" if is_list else name, found
        if reader.files is not None:
            yield from reader.files.find(self.paths, self.partition.uri)

    def _keep(self, layout: Layout) -> None:
        """Locates the whole record."""
        assert isinstance(self.record, Record)
        _check_kept(self.record, self.features, layout)
        self.images = {RECORD: self._locate(self.record.data)}
        self.size, self.fingerprint = len(self.record.data), content_hash(self.record.data)

    def _image_of(self, name: str) -> Range | None:
        """Returns the place of the image in a feature; None if it has none, or several.

        Raises:
          SampleError: its pixels do not fit the size, the type or the range.
        """
        pixels = self.reader.pixels.get(name)
        if pixels is not None:
            read = pixels.read({one: read_cell(self.features.get(one)) for one in pixels.features})
            at = self._locate(read.data)
            where = at.uri, at.offset, at.length, at.name, at.version
            return PixelRange(*where, shape=read.shape, axes=read.axes, dtype=read.dtype, limits=read.limits)
        image = _only_image(self.features, name)
        return image if image is None else self._locate(image)

    def _locate(self, image: bytes) -> Range:
        """Returns the byte range of an image: in the record, if it has these bytes, else in a staging file."""
        assert isinstance(self.record, Record)
        at = -1 if self.is_compressed else self.record.data.find(image)
        if at < 0:
            return self.staging.add([image], size=len(image), name=self._name)
        return Range(
            self.partition.uri, self.record.offset + HEADER_BYTES + at, len(image), self._name, self.partition.version
        )


def _check_kept(record: Record, features: ParsedExample, layout: Layout) -> None:
    """Checks that a record has the features of the layout.

    Raises:
      SampleError: the features differ; the detail says how to accept them.
    """
    found = next(check_features(features, layout), None)
    if found is None:
        return
    name, problem = found
    known = next((feature.type for feature in layout.features if feature.name == name), "")
    kind = features.get(name, ("", []))[0] or known or "bytes"
    advice = ""
    if known in ("", kind):
        advice = f"; `layout={SAME},{name}:{kind}_list` accepts any number of its values"
    detail = f"record {record.number}: {problem}, as in the first records{advice}"
    raise SampleError(Stage.LIST, FailureReason.WRONG_TYPE, detail)


def corrupt(error: RecordError) -> SampleError:
    """Returns the error of a damaged record."""
    detail = f"record {error.record} at byte {error.offset:,}: {error}"
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def _only_image(features: Mapping[str, tuple[str, list[Any]]], name: str) -> bytes | None:
    """Returns the only value of a bytes feature; None for any other feature."""
    kind, values = features.get(name, ("", []))
    return values[0] if kind == "bytes" and len(values) == 1 else None


def scan_file(partition: Partition, *, offsets: Sequence[int] = ()) -> Iterator[tuple[Record | RecordError, bool]]:
    """Yields the records of a file, each with whether the file is compressed.

    Args:
      partition: the file.
      offsets: as in `scan_records`.

    Raises:
      SampleError: the file cannot be read.
    """
    end = 0

    def describe(error: Exception) -> SampleError:
        detail = f"the compressed file is damaged behind byte {end:,} of its records: {error}"
        return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)

    with reading(describe), storage.open_read(partition.uri, version=partition.version) as file:
        stream, is_compressed = open_records(file)
        most = _MOST_BYTES if is_compressed else min(partition.size, _MOST_BYTES)
        for record in scan_records(stream, most_bytes=most, offsets=offsets):
            check_expansion(record.offset, partition.size)
            yield record, is_compressed
            end = record.offset + (record.length if isinstance(record, Record) else 0)


def read_first_records(partition: Partition, *, most: int = _RECORDS) -> FirstRows:
    """Reads the first valid records of a file.

    Args:
      partition: the file.
      most: number of records that are enough.

    Raises:
      SampleError: there are no records, or all first records are damaged.
    """
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    damage, numbers = "", 0
    try:
        for record, _ in itertools.islice(scan_file(partition), _MOST_TRIED):
            if isinstance(record, RecordError):
                damage = damage or f"record {record.record}: {record}"
                continue
            try:
                features = parse_plain_example(record.data)
            except ValueError as error:
                damage = damage or str(error)
                continue
            rows.append({name: read_cell(feature) for name, feature in features.items()})
            types |= {name: kind for name, (kind, _) in features.items() if kind}
            numbers += sum(len(values) for kind, values in features.values() if kind != "bytes")
            if len(rows) >= most or numbers > _MOST_NUMBERS:
                break
    except SampleError as error:
        damage = damage or error.detail
    # Ignores damaged records if some are valid, because the listing rejects the damaged ones.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(partition.uri, tuple(types), rows, column_types=types)
