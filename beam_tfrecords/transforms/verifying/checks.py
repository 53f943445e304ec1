"""Checks the files of a dataset, and reports all problems by shard, record and offset."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import hashlib
import io
import itertools
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

import numpy as np
import pyarrow as pa

from beam_tfrecords import crc32c, storage
from beam_tfrecords.dataset.dataset import DatasetRef, StoredDataset
from beam_tfrecords.dataset.files import MANIFEST, SUCCESS
from beam_tfrecords.dataset.index import read_batches
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError, RequestError, SampleError
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import DTYPE_FIELD, SHAPE_FIELD, Per, Stored
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import check_features, parse_example
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.tfrecord import Compression, Record, RecordError, open_stream, scan_records
from beam_tfrecords.transforms.images.convert_image import check_file, is_of_kept_kind
from beam_tfrecords.transforms.images.formats import PNG_START, png_depth
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.masks import read_mask
from beam_tfrecords.transforms.settings import read_settings
from beam_tfrecords.transforms.workspace.counts import add_records

# Index columns that the checks compare with records.
_INDEX_COLUMNS = ["key", "offset", "length", "label", "height", "width", "objects"]
# Seconds between updates of the count of checked records. The clock is read only every _COUNT_RECORDS records, because
# reading it takes longer than checking a small record.
_COUNT_SECONDS, _COUNT_RECORDS = 1.0, 16
# Numbers of shards that a job hands to a worker at once.
_GROUP = 256
# Decodes a stored image without changes, and without the limits of the build, which applied to its sources.
_AS_STORED = ImageSpec(
    image_encoding=ImageEncoding.KEEP, channels=None, max_pixels=sys.maxsize, max_image_memory=sys.maxsize
)


Element = TypeVar("Element")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One problem.

    Attributes:
      file: path of the file relative to the dataset.
      record: number of the record in the file, from 0; None if the problem concerns no single record.
    """

    file: str
    problem: str
    record: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        record = "" if self.record is None else f", record {self.record}"
        offset = "" if self.offset is None else f" at offset {self.offset}"
        return escape(f"{self.file}{record}{offset}: {self.problem}")


@dataclasses.dataclass(frozen=True)
class ShardCheck:
    """Checks one shard. Instances are picklable, so that they can be sent to workers.

    Attributes:
      counts: folder to which a worker writes the number of checked records; None writes nothing.
    """

    path: str
    layout: Layout
    image: ImageSpec
    class_names: tuple[str, ...]
    compression: Compression
    counts: str | None = None

    @classmethod
    def of(cls, dataset: StoredDataset) -> ShardCheck:
        """Makes the check for the shards of a dataset.

        Raises:
          BuildError: the manifest's settings cannot be read.
        """
        try:
            image = read_settings(ImageSpec, dataset.manifest["spec"])
        except RequestError as error:
            raise BuildError(f"{dataset.path}: {MANIFEST} cannot be read: {error}") from error
        return cls(
            path=dataset.path,
            layout=dataset.layout,
            image=image,
            class_names=tuple(dataset.manifest["class_names"]),
            compression=dataset.compression,
        )

    def find_all(self, shard: Shard) -> list[Finding]:
        """Returns all problems of a shard and its index."""
        return list(self(shard))

    def __call__(self, shard: Shard) -> Iterator[Finding]:
        """Yields all problems of a shard and its index."""
        rows, problem = self._read_index(shard)
        if problem:
            yield Finding(shard.index or "", problem)
        try:
            with storage.open_read(storage.join(self.path, shard.file)) as file:
                reader = _CheckingReader(file)
                yield from self._check_file(shard, reader, rows)
        except OSError as error:
            yield Finding(shard.file, f"cannot be read: {error.strerror or error}")

    def _check_file(self, shard: Shard, file: _CheckingReader, rows: _IndexBatches | None) -> Iterator[Finding]:
        classes = ClassCheck(self.layout, self.class_names)
        stream = open_stream(io.BufferedReader(file), self.compression)
        records = 0
        try:
            for record in self._count(scan_records(stream, offsets=rows.offsets if rows else ())):
                records += 1
                if isinstance(record, RecordError):
                    yield Finding(shard.file, str(record), record.record, record.offset)
                    continue
                row = rows[record.number] if rows is not None and record.number < len(rows) else None
                for problem in self._check_record(record, row, classes):
                    yield Finding(shard.file, problem, record.number, record.offset)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            offset = rows.offsets[records] if rows is not None and records < len(rows) else None
            yield Finding(shard.file, f"the GZIP stream is damaged: {error}", records, offset)
        file.drain()
        if records != shard.records:
            yield Finding(shard.file, f"has {records} records; the manifest says {shard.records}")
        if rows is not None and len(rows) != shard.records:
            yield Finding(shard.index or "", f"has {len(rows)} rows; the manifest says {shard.records} records")
        if file.size != shard.bytes:
            yield Finding(shard.file, f"has {file.size} bytes; the manifest says {shard.bytes}")
        if crc32c.to_hex(file.crc32c) != shard.crc32c:
            yield Finding(shard.file, "is not the file that was published: its CRC-32C is not the manifest's")

    def _count(self, records: Iterator[Element]) -> Iterator[Element]:
        """Yields the records, and regularly writes their number to a file."""
        if self.counts is None:
            yield from records
            return
        new, due = 0, time.monotonic() + _COUNT_SECONDS
        for record in records:
            yield record
            new += 1
            if not new % _COUNT_RECORDS and time.monotonic() > due:
                add_records(self.counts, new)
                new, due = 0, time.monotonic() + _COUNT_SECONDS
        add_records(self.counts, new)

    def _read_index(self, shard: Shard) -> tuple[_IndexBatches | None, str | None]:
        try:
            data = storage.read_bytes(storage.join(self.path, shard.index or ""))
            if hashlib.sha256(data).hexdigest() != shard.index_sha256:
                return None, "is not the index that was published: its SHA-256 is not the manifest's"
            return _IndexBatches(data), None
        except (OSError, pa.ArrowInvalid) as error:
            return None, f"cannot be read: {error}"

    def _check_record(self, record: Record, row: Mapping[str, Any] | None, classes: ClassCheck) -> Iterator[str]:
        try:
            parsed = parse_example(record.data)
        except ValueError as error:
            yield str(error)
            return
        problems = [problem for _, problem in check_features(parsed, self.layout)]
        yield from problems
        if row is not None and (row["offset"], row["length"]) != (record.offset, record.length):
            yield f"the index says offset {row['offset']} and length {row['length']}; found length {record.length}"
        if not problems:
            values = {name: values for name, (_, values) in parsed.items()}
            yield from classes.find_problems(values, row)
            yield from self._check_values(values, row)

    def _check_values(self, values: Mapping[str, list[Any]], row: Mapping[str, Any] | None) -> Iterator[str]:
        by_field = {feature.field: values.get(feature.name, []) for feature in self.layout.features}
        # The index has only the size of the first image.
        size = self.image.image_size if self.image.has_fixed_size else None
        expected = dict(zip(("height", "width"), size, strict=True)) if size else None
        # The image comes first, then those with names, and then masks.
        for feature in sorted(self.layout.features, key=_order_of_checks):
            for data in values.get(feature.name, []) if feature.kind.stored is not Stored.VALUES else ():
                if feature.is_image:
                    yield from self._check_image(data, by_field, row)
                elif feature.holds_image:
                    problems = self._check_image(data, {}, expected)
                    yield from (f"feature {feature.name!r}: {problem}" for problem in problems)
                else:
                    bits = self.image.mask_bit_depth if feature.kind.stored is Stored.MASK else 8
                    yield from self._check_mask(data, row, bits=bits)

    def _check_image(
        self, data: bytes, by_field: Mapping[str, list[Any]], row: Mapping[str, Any] | None
    ) -> Iterator[str]:
        stored = {"height": by_field.get("image.height", [None])[0], "width": by_field.get("image.width", [None])[0]}
        expected = {side: row[side] if row is not None else stored[side] for side in ("height", "width")}
        for side, size in stored.items():
            if size is not None and size != expected[side]:
                yield f"the record says {side} {size}; the index says {expected[side]}"
        if self.image.image_encoding is ImageEncoding.RAW:
            height, width = expected["height"], expected["width"]
            kind = self.image.array_type.value if self.image.array_type else "uint8"
            pixels = height * width * np.dtype(kind).itemsize if height and width else len(data)
            channels = by_field.get("image.channels", [self.image.channels])[0]
            if not pixels or len(data) % pixels or (channels and len(data) != pixels * channels):
                shape = f"{height} x {width} x {channels or 'any'}"
                yield f"the image has {len(data)} bytes of pixels; expected {shape} of {kind}"
            yield from _check_array(by_field, [height, width, self.image.channels], kind)
            return
        try:
            image = check_file(data, _AS_STORED)
        except SampleError as error:
            yield f"the image does not decode: {error.detail}"
            return
        if self.image.bit_depth == 16 and (image.format != "png" or png_depth(data) != 16):
            yield f"the image is a {image.format.upper()} of other than 16 bits; expected a PNG of 16 bits per channel"
        if self.image.image_encoding is ImageEncoding.KEEP and not is_of_kept_kind(data, image.format):
            kind = "JPEG of an unusual kind" if image.format == "jpeg" else image.format.upper()
            yield f"the image is stored as {kind}, which not every TensorFlow reads"
        for side, size in (("height", image.height), ("width", image.width)):
            if expected[side] not in (None, size):
                yield f"the image has {side} {size}; expected {expected[side]}"

    def _check_mask(self, data: bytes, row: Mapping[str, Any] | None, *, bits: int) -> Iterator[str]:
        try:
            height, width = read_mask(data, _AS_STORED).shape
        except SampleError as error:
            yield f"the mask does not decode: {error.detail}"
            return
        if not data.startswith(PNG_START) or png_depth(data) != bits:
            yield f"the mask is not a PNG of {bits} bits"
        if row is not None and (row["height"], row["width"]) != (height, width):
            yield f"the mask has height {height} and width {width}; its image {row['height']} and {row['width']}"


def _order_of_checks(feature: Feature) -> tuple[bool, bool, bool]:
    stored = feature.kind.stored
    return not feature.is_image, not feature.holds_image, stored is not Stored.MASK


def _check_array(by_field: Mapping[str, list[Any]], shape: list[int | None], kind: str) -> Iterator[str]:
    """Compares what an example says about its array with the index and the settings."""
    if by_field.get(SHAPE_FIELD, shape) != shape:
        yield f"the record says the shape {by_field[SHAPE_FIELD]}; expected {shape}"
    if by_field.get(DTYPE_FIELD, [kind.encode()]) != [kind.encode()]:
        yield f"the record says the type {by_field[DTYPE_FIELD][0]!r}; expected {kind}"


class _IndexBatches:
    """The rows of an index, read in batches from first to last.

    Attributes:
      offsets: start offset of each record in bytes.

    Raises:
      pyarrow.ArrowInvalid: the index is damaged.
    """

    def __init__(self, data: bytes) -> None:
        batches = [batch["offset"].to_numpy() for batch in read_batches(data, _INDEX_COLUMNS)]
        self.offsets = np.concatenate([np.empty(0, np.int64), *batches]).data
        self._batches = read_batches(data, _INDEX_COLUMNS)
        self._rows: list[dict[str, Any]] = []
        self._begin = 0

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Returns a row. Row numbers must not decrease from call to call."""
        while number >= self._begin + len(self._rows):
            self._begin += len(self._rows)
            self._rows = next(self._batches).to_pylist()
        return self._rows[number - self._begin]


def number_groups(shards: int) -> list[range]:
    """Returns the numbers of shards in groups, which a worker expands with `read_shards`."""
    return [range(start, min(start + _GROUP, shards)) for start in range(0, shards, _GROUP)]


def read_shards(group: range, ref: DatasetRef) -> Iterator[Shard]:
    """Yields the shards of a group.

    Raises:
      BuildError: another dataset has replaced this one.
    """
    shards = _open(ref).shards
    yield from (shards[number] for number in group)


_open = functools.lru_cache(maxsize=1)(DatasetRef.open)


def verify_files(dataset: StoredDataset) -> Iterator[Finding]:
    """Checks the dataset as a whole: which files it has, and the checksums of all but the shards and their indices."""
    if not dataset.is_whole:
        yield Finding(MANIFEST, "has been changed since it was published")
    own = set(dataset.files)
    expected = own | {SUCCESS}
    prefix = dataset.manifest["name"] + "-"
    for entry in storage.list_files(dataset.path, literal=True):
        file = entry.path[len(dataset.path) :].lstrip("/")
        expected.discard(file)
        if file.startswith((prefix, f"index/{prefix}")) and file not in own:
            yield Finding(file, "does not belong to this build")
    for file in sorted(expected):
        yield Finding(file, "is missing")
    for file, sha256 in dataset.manifest["files"].items():
        if file not in expected and storage.sha256(storage.join(dataset.path, file)) != sha256:
            yield Finding(file, "has been changed since it was published: its SHA-256 is not the manifest's")


class _CheckingReader(io.RawIOBase):
    """A file that computes the CRC-32C and the number of the bytes read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.size = self.crc32c = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self.crc32c = crc32c.extend(self.crc32c, data)
        self.size += len(data)
        return len(data)

    def drain(self) -> None:
        """Reads the rest of the file, so that checksum and size cover the whole file."""
        buffer = bytearray(1 << 20)
        while self.readinto(buffer):
            pass


class ClassCheck:
    """Checks the classes of records.

    Args:
      layout: layout of the records.
      class_names: class names in index order.
    """

    def __init__(self, layout: Layout, class_names: Sequence[str]) -> None:
        self._heads = layout.heads
        self._has_objects = Content.OBJECTS in layout.required
        self._class_names = class_names
        self._known = frozenset(class_names)
        self._objects = StoredObjects.of(layout.features)
        self._of_label = [one for one in layout.features if one.is_of_label and one.class_value]
        self._of_objects = [one for one in self._objects.features.values() if one.class_value]

    def find_problems(self, values: Mapping[str, list[Any]], row: Mapping[str, Any] | None) -> Iterator[str]:
        """Yields the problems of a record's classes.

        Args:
          values: name of a feature of the layout -> its values.
          row: index row of the record; None if the index cannot be read.
        """
        problems: list[str] = []
        labels = self._compare(self._of_label, values, problems)
        self._compare(self._of_objects, values, problems)
        problems += self._compare_lengths(values, row)
        if row is not None and labels is not None and None not in labels:
            # The index has the label only for records with a single label, and not for classes of annotated objects.
            label = labels[0] if len(labels) == 1 and not self._has_objects else None
            if row["label"] != label:
                shown = label if label is not None else (labels or None)
                problems.append(f"the label is {shown!r}; the index says {row['label']!r}")
        for feature, head in self._heads.items():
            (index,), names = values[feature], head.class_names
            if not 0 <= index < len(names):
                problems.append(f"feature {feature!r}: class {index} is outside the {len(names)} classes")
        yield from problems

    def _compare(
        self, features: Sequence[Any], values: Mapping[str, list[Any]], problems: list[str]
    ) -> list[str | None] | None:
        """Returns the classes of the first feature, and compares the others with it; None if there is no feature."""
        named = [(feature.name, self._name(feature, values[feature.name], problems)) for feature in features]
        for (one, found), (other, expected) in itertools.pairwise(named):
            # An unknown class (None) is already reported as another problem.
            if len(found) != len(expected) or any(a != b and None not in (a, b) for a, b in zip(found, expected)):  # noqa: B905
                problems.append(f"feature {one!r} has the classes {found}; feature {other!r} {expected}")
        return named[0][1] if named else None

    def _name(self, feature: Any, values: list[Any], problems: list[str]) -> list[str | None]:
        names: list[str | None] = []
        # Samples of a split without labels have neither.
        for value in values if feature.is_of_objects else (one for one in values if one not in (-1, b"")):
            name = feature.class_value.find(value, self._class_names)
            names.append(name if name in self._known else None)
            if names[-1] is None:
                is_name = isinstance(value, bytes)
                said = f"{value.decode(errors='replace')!r} is not one of" if is_name else f"label {value} is outside"
                problems.append(f"feature {feature.name!r}: {said} the {len(self._class_names)} classes")
        return names

    def _compare_lengths(self, values: Mapping[str, list[Any]], row: Mapping[str, Any] | None) -> Iterator[str]:
        """Checks that every feature of annotated objects has one value per object."""
        counts, points = (self._objects.lengths(values, per) for per in (Per.OBJECT, Per.KEYPOINT))
        try:
            self._objects.polygons(values)
        except ValueError as error:
            yield str(error)
        expected = row.get("objects") if row is not None else None
        if expected is not None:
            yield from (
                f"feature {name!r} is of {count:g} objects; the index says {expected}"
                for name, count in counts.items()
                if count != expected
            )
        elif len(set(counts.values())) > 1:
            yield "features are of different numbers of objects: " + _show(counts)
        # The number of points per object is unknown, so only the features are compared with each other.
        if len(set(points.values())) > 1:
            yield "features are of different numbers of keypoints: " + _show(points)


def _show(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name!r} {count:g}" for name, count in counts.items())
