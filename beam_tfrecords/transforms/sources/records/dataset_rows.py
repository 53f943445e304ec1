"""Lists the records of a beam-tfrecords dataset, using their examples and index rows."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from beam_tfrecords.dataset.index import CONVERSION_COLUMNS, fits_packed_hash
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.features.fields import OBJECT_MASKS, SOURCE_ID, ClassValue
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.parse import parse_example
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import pack_mask, pack_polygons
from beam_tfrecords.transforms.refs.sample_refs import Range, RecordRange, SampleRef, Value, one_image
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.records.record_rows import corrupt, scan_file
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_cell, read_value
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable
from beam_tfrecords.transforms.sources.tally import Tally

# Number of index rows to convert to Python values at once.
_ROWS = 1024
_COLUMNS = ("key", "uri", "offset", "length", *CONVERSION_COLUMNS)


@dataclasses.dataclass(frozen=True)
class StoredShard:
    """A shard of an input, with metadata of its dataset.

    Attributes:
      path: path of the dataset.
      shard: the shard's entry in the manifest.
      class_names: class names of the dataset.
      split: split of the samples; None if the request determines the splits.
      raw_type: as in `RecordRange`.
    """

    path: str
    shard: Shard
    class_names: tuple[str, ...]
    split: str | None
    raw_type: str


@dataclasses.dataclass(frozen=True)
class ReadDataset:
    """Lists the records of a shard. Picklable.

    Attributes:
      shards: file -> shard.
      layout: layout of the examples.
      columns: columns that the layout of the request needs.
      group: column whose equal values keep samples in one split, or None.
      contents: contents that the samples get. Stored masks are better than polygons unless these are wanted, because
        some objects have no polygon.
      joins: tables whose columns are joined to the records.
    """

    shards: Mapping[str, StoredShard]
    layout: Layout
    columns: Sequence[str]
    group: str | None = None
    contents: frozenset[Content] = frozenset()
    joins: Sequence[JoinedTable] = ()

    def __call__(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per record; rejects damaged records and all missing records of a damaged shard.

        Args:
          partition: the shard.
          staging: receives the examples of a compressed shard.
          tally: not used.

        Raises:
          ChangedError: the shard is no longer the listed version.
          SampleError: the shard has more records than its index, or the joined table is damaged.
        """
        stored = self.shards[partition.uri]
        try:
            # Reads the whole index before using any of its rows.
            offsets = [one.as_py() for rows in read_index(stored.path, stored.shard, ["offset"]) for one in rows[0]]
        except BuildError as error:
            damage = SampleError(Stage.LIST, FailureReason.CORRUPT, str(error))
            yield from reject_missing(partition, range(stored.shard.records), damage, split=stored.split)
            return
        rows = _read_rows(stored)
        joined = self._join(stored)
        row = next(rows, None)
        try:
            for record, is_compressed in scan_file(partition, offsets=offsets):
                if isinstance(record, RecordError) and record.ends:
                    raise corrupt(record)
                if row is None:
                    detail = f"it has more records than the {len(offsets):,} of its index"
                    raise SampleError(Stage.LIST, FailureReason.CORRUPT, detail)
                yield self._read(stored, partition, record, row, joined, staging if is_compressed else None)
                row = next(rows, None)
            if row is not None:
                raise SampleError(Stage.LIST, FailureReason.TRUNCATED, "the file ends before its last record")
        except SampleError as error:
            if row is None:
                raise
            for lost in itertools.chain([row], rows):
                yield _rejected(stored, partition, lost, error)

    def _read(
        self,
        stored: StoredShard,
        partition: Partition,
        record: Record | RecordError,
        row: Mapping[str, Any],
        joined: Sequence[Mapping[str, Mapping[str, Any] | SampleError]],
        staging: StagingFiles | None,
    ) -> SampleRef:
        try:
            if isinstance(record, RecordError):
                raise corrupt(record)
            if not fits_packed_hash(row["sample_hash"], record.data):
                raise SampleError(Stage.LIST, FailureReason.CORRUPT, "the record is not the one of its index row")
            try:
                features = parse_example(record.data)
            except ValueError as error:
                raise invalid_row(f"record {record.number} at byte {record.offset:,}: {error}") from error
            stored_values = {one.name: features.get(one.name, ("", []))[1] for one in self.layout.features}
            values = {one.field: stored_values[one.name] for one in self.layout.features}
            found: Mapping[str, Value] = {}
            for of_table in joined:
                one = of_table[row["key"]]
                if isinstance(one, SampleError):
                    raise one
                found = {**found, **{name: read_value(one, name) for name in self.columns if name in one}}
            for feature in self.layout.features:
                if feature.is_class:
                    values[feature.field] = [
                        ClassValue.INDEX.find(one, feature.class_names) for one in values[feature.field]
                    ]
                values |= {
                    f"column.{name}": [one] for name, one in zip(feature.columns, values[feature.field], strict=False)
                }
            several = {feature.column for feature in self.layout.features if feature.several or feature.length}
            cells = {name: values.get(f"column.{name}", []) for name in self.columns if name not in found}
            group = read_cell(("", values.get(f"column.{self.group}", []))) if self.group else None
            has_objects = Content.OBJECTS in self.layout.required
            has_image = Content.IMAGE in self.layout.required
            image = self._locate(stored, partition, record, row, staging) if has_image else None
            return SampleRef(
                partition.key_prefix + row["key"],
                one_image(image),
                len(record.data),
                # Includes the CRC of the record, so it changes with any part of the record.
                row["sample_hash"],
                self._read_label(stored_values, stored.class_names),
                stored.split,
                {**{name: cell if name in several else read_cell(("", cell)) for name, cell in cells.items()}, **found},
                group=None if group is None else str(group),
                objects=self._read_objects(stored_values, stored.class_names) if has_objects else None,
            )
        except SampleError as error:
            return _rejected(stored, partition, row, error)

    def _join(self, stored: StoredShard) -> Sequence[Mapping[str, Mapping[str, Any] | SampleError]]:
        """Returns key of a record -> its joined values, or the error of its row, for each table."""
        batches = read_index(stored.path, stored.shard, ["key"]) if self.joins else ()
        keys = {*itertools.chain.from_iterable(rows["key"].to_pylist() for rows in batches)}
        return [join.find(keys) for join in self.joins]

    def _locate(
        self,
        stored: StoredShard,
        partition: Partition,
        record: Record,
        row: Mapping[str, Any],
        staging: StagingFiles | None,
    ) -> RecordRange:
        name = row["uri"] or row["key"]
        index_columns = {
            column: row[column]
            for column in CONVERSION_COLUMNS
            if row.get(column) is not None and column != "sample_hash"
        }
        if staging is not None:
            place = staging.add([record.data], size=len(record.data), name=name)
            return RecordRange(place.uri, place.offset, place.length, name, "", index_columns, stored.raw_type)
        start, length = record.offset + HEADER_BYTES, len(record.data)
        return RecordRange(partition.uri, start, length, name, partition.version, index_columns, stored.raw_type)

    @functools.cached_property
    def _objects(self) -> StoredObjects:
        return StoredObjects.of(self.layout.features)

    @functools.cached_property
    def _label(self) -> Feature | None:
        """The feature with the label; prefers lists, and names, because they identify a class across datasets."""
        found = [one for one in self.layout.features if one.is_of_label]
        return min(found, key=lambda one: (not one.kind.several, one.class_value is not ClassValue.NAME), default=None)

    def _read_label(self, values: Mapping[str, list[Any]], class_names: Sequence[str]) -> Value:
        """Returns the class or list of classes of a record, or None."""
        if self._label is None or self._label.class_value is None:
            return None
        found: list[Any] = [self._label.class_value.find(one, class_names) for one in values[self._label.name]]
        return found if self._label.kind.several else found[0] if len(found) == 1 else None

    def _read_objects(self, values: Mapping[str, list[Any]], class_names: Sequence[str]) -> Objects:
        """Returns the objects of a record, normalized by the size of the stored image.

        Args:
          values: name of a feature -> its values.
        """
        of = self._objects
        boxes, labels = of.boxes(values), of.classes(values, class_names)
        found = {name: tuple(map(_as_text, column)) for name, column in of.attributes(values).items()}
        lengths = {len(boxes), len(labels), *map(len, found.values())}
        if len(lengths) > 1:
            raise invalid_row(f"the features of its objects have {' and '.join(map(str, sorted(lengths)))} values")
        keypoints = of.keypoints(values, len(boxes))
        ids = (values[one.name] for one in self.layout.features if one.field == SOURCE_ID)
        return Objects(
            tuple(boxes.ravel().tolist()),
            tuple(labels),
            found,
            image_id="".join(map(_as_text, next(ids, []))),
            is_normalized=True,
            polygons=self._read_polygons(values, len(labels)) if OUTLINES & self.contents else (),
            keypoints=tuple(points.astype("<f4").tobytes() for points in keypoints) if keypoints.size else (),
        )

    def _read_polygons(self, values: Mapping[str, list[Any]], count: int) -> tuple[bytes, ...]:
        """Packs the polygons of objects as shares of the image, or their masks."""
        if OBJECT_MASKS in self._objects.features and Content.POLYGONS not in self.contents:
            return tuple(map(_run_lengths_of, self._objects.masks(values)))
        try:
            polygons = self._objects.polygons(values)
        except ValueError:
            polygons = []
        if len(polygons) != count:
            raise invalid_row(f"the polygons of its {count} objects have other numbers of points than it says")
        return tuple(pack_polygons([corners.ravel().tolist()]) for corners in polygons)


def _read_rows(stored: StoredShard) -> Iterator[dict[str, Any]]:
    """Yields the index rows of a shard.

    Raises:
      BuildError: as `read_index`.
    """
    for batch in read_index(stored.path, stored.shard, _COLUMNS):
        for start in range(0, batch.num_rows, _ROWS):
            yield from batch.slice(start, _ROWS).to_pylist()


def _rejected(stored: StoredShard, partition: Partition, row: Mapping[str, Any], error: SampleError) -> SampleRef:
    images = one_image(Range(partition.uri, 0, 0, row["uri"] or row["key"]))
    failure = error.reason.value, f"{partition.uri}: {error.detail}"
    return SampleRef(partition.key_prefix + row["key"], images, split=stored.split, failure=failure)


def _as_text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _run_lengths_of(data: bytes) -> bytes:
    """Returns the mask of an object as packed run lengths."""
    mask = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE) if data else None
    if mask is None:
        raise SampleError(Stage.LIST, FailureReason.INVALID_MASK, "the mask of an object cannot be decoded")
    return pack_mask(mask)
