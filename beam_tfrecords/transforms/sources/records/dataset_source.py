"""The source for beam-tfrecords datasets: records with their metadata from manifest and index."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.files import REPORT
from beam_tfrecords.dataset.index import CONVERSION_COLUMNS, fits_packed_hash
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.features.fields import OBJECT_MASKS, SOURCE_ID, ClassValue
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.nearest import list_known
from beam_tfrecords.reading.index_files import read_index
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError
from beam_tfrecords.transforms.labels import numbers_of
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import pack_polygons, run_lengths
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Range, RecordRange, SampleRef, Value, one_image
from beam_tfrecords.transforms.sources.description import Description, Labels, StoredRecords
from beam_tfrecords.transforms.sources.inputs import describe_divided, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.records.datasets import (
    common_image_spec,
    common_layout,
    join_datasets,
    merge_class_names,
)
from beam_tfrecords.transforms.sources.records.record_files import corrupt, scan_file
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_cell, read_value
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import Splits

# Settings whose information the manifest already contains.
_KNOWN = (
    "label_column", "label_columns", "label_separator", "unknown_labels", "split_column", "key_column", "image_column",
    "image_path", "mask_column", "pixels",
)  # fmt: skip
# Number of index rows to convert to Python values at once.
_ROWS = 1024
_COLUMNS = ("key", "uri", "offset", "length", *CONVERSION_COLUMNS)


def _stored_as(field: str) -> tuple[str, ...]:
    """Returns the fields of a layout that store a field of a dataset; () if each layout stores it in its own way."""
    kind = field.partition(".")[0]
    return (field,) if kind == "column" else (kind,) if kind in ("label", "objects", "mask") else ()


@dataclasses.dataclass(frozen=True)
class StoredShard:
    """A shard of an input, with metadata of its dataset.

    Attributes:
      path: path of the dataset.
      shard: the shard's entry in the manifest.
      class_names: class names of the dataset.
      raw_type: as in `RecordRange`.
    """

    path: str
    shard: Shard
    class_names: tuple[str, ...]
    raw_type: str


class DatasetSource(Source):
    """Existing beam-tfrecords datasets.

    Args:
      datasets: input -> dataset.
      files: shard files of the datasets.
      shards: file -> input of its dataset, and the shard.
      joins: tables whose columns are joined to the records.
      notes: notes on the rows of these tables.
      request: the request; of the settings of rows, datasets accept only `group_column`.
      needs: requested contents.

    Raises:
      RequestError: the datasets do not fit the request.
    """

    description = Description(unit="record")

    def __init__(
        self,
        datasets: Mapping[str, StoredDataset],
        files: Sequence[Partition],
        shards: Mapping[str, tuple[str, Shard]],
        joins: Sequence[JoinedTable],
        notes: Sequence[str],
        request: OpenRequest,
        needs: Needs,
    ) -> None:
        inputs, group_column = request.inputs, request.spec.group_column
        super().__init__()
        self.partitions = []
        own = {place: Counter[str]() for place in datasets}
        for file in files:
            place, shard = shards[file.uri]
            own[place][shard.split] += shard.records
            split = inputs.splits.get(place) or _split_of(shard, needs.splits)
            self.partitions.append(dataclasses.replace(file, split=split))
        divides = needs.splits.fractions is not None
        self.notes += [*describe_divided(inputs, own, "record", divides=divides), *notes]
        _refuse_settings(next(iter(datasets)), request.spec)
        layout = common_layout(datasets)
        records = StoredRecords(layout, common_image_spec(list(datasets.values())))
        column_types = {
            name: "bytes" if one.is_class else one.type for one in layout.features for name in one.read_columns
        }
        for join in joins:
            column_types |= join.types
        columns = tuple(column_types)
        images = {IMAGE: False} if layout.has_image else {}
        images |= {one.image: one.several for one in layout.features if one.image is not None}
        self._describe(
            # Masks can be drawn from stored polygons.
            provides=layout.required
            | {*([Content.COLUMNS] if columns else []), *(OUTLINES if Content.POLYGONS in layout.required else [])},
            images=images,
            columns=columns,
            column_types=column_types,
            has_several_labels=layout.has_several_labels,
            labels=Labels(
                merge_class_names([dataset.class_names for dataset in datasets.values()]),
                {dataset.path: numbers_of(dataset.class_names) for dataset in datasets.values()},
            ),
            records=records,
            uses={one.name: _stored_as(one.field) for one in layout.features if one.field},
        )
        if records.image is None:
            self.notes.append("the inputs store their images differently; each is converted from what is stored")
        wanted = columns if needs.takes_all else sorted(needs.columns or ())
        for name in (*wanted, *([group_column] if group_column else [])):
            if name not in columns:
                raise RequestError(
                    f"{quote_input(inputs.paths[0])} has no column {name!r}; {list_known(name, columns)}",
                    code="unknown_column",
                )
        stored = {
            path: StoredShard(
                datasets[place].path,
                shard,
                datasets[place].class_names,
                datasets[place].images.dtype if datasets[place].images.encoding == "raw" else "",
            )
            for path, (place, shard) in shards.items()
        }
        self.folders = [dataset.path for dataset in datasets.values()]
        self._files = {storage.join(one.path, file) for one in datasets.values() for file in (*one.files, REPORT)}
        self._shards, self._layout, self._columns, self._group = stored, layout, wanted, group_column
        # Stored masks are better than polygons unless these are wanted, because some objects have no polygon.
        self._contents, self._joins = needs.contents, joins
        # Column -> its feature, and its place among the columns of the feature.
        self._places: dict[str, tuple[Feature | None, int | None]] = {}
        for feature in layout.features:
            self._places |= {feature.column: (feature, None)} if feature.column else {}
            self._places |= {name: (feature, place) for place, name in enumerate(feature.columns)}
        self._objects = StoredObjects.of(layout.features)
        # Lists and names are preferred, because they identify a class across datasets.
        labels = [one for one in layout.features if one.is_of_label]
        self._label = min(
            labels, key=lambda one: (not one.kind.several, one.class_value is not ClassValue.NAME), default=None
        )

    def has_read(self, path: str) -> bool:
        """See `Source.has_read`."""
        return super().has_read(path) or path in self._files

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields one reference per record; rejects damaged records and all missing records of a damaged shard.

        Raises:
          ChangedError: the shard is no longer the listed version.
          SampleError: the shard has more records than its index, or the joined table is damaged.
        """
        stored = self._shards[partition.uri]
        name = storage.basename(stored.path)
        for feature in self._layout.features:
            tally.see_field(name, feature.name, stored.shard.records)
        try:
            # Reads the whole index before using any of its rows.
            offsets = [one.as_py() for rows in read_index(stored.path, stored.shard, ["offset"]) for one in rows[0]]
        except BuildError as error:
            damage = SampleError(Stage.LIST, FailureReason.CORRUPT, str(error))
            yield from reject_missing(partition, range(stored.shard.records), damage)
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
                yield _rejected(partition, lost, error)

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
            values = {one.name: features.get(one.name, ("", []))[1] for one in self._layout.features}
            columns: dict[str, Value] = {name: self._cell(name, values) for name in self._columns}
            for of_table in joined:
                one = of_table[row["key"]]
                if isinstance(one, SampleError):
                    raise one
                columns |= {name: read_value(one, name) for name in self._columns if name in one}
            group = self._cell(self._group, values, may_be_list=False) if self._group else None
            has_objects = Content.OBJECTS in self._layout.required
            has_image = Content.IMAGE in self._layout.required
            image = self._locate(stored, partition, record, row, staging) if has_image else None
            return SampleRef(
                partition.key_prefix + row["key"],
                one_image(image),
                len(record.data),
                # Includes the CRC of the record, so it changes with any part of the record.
                row["sample_hash"],
                self._read_label(values, stored.class_names),
                partition.split,
                columns,
                group=None if group is None else str(group),
                objects=self._read_objects(values, stored.class_names) if has_objects else None,
            )
        except SampleError as error:
            return _rejected(partition, row, error)

    def _cell(self, column: str, values: Mapping[str, list[Any]], *, may_be_list: bool = True) -> Value:
        """Returns the value of a column: of its own feature, or of its place in a feature of several columns."""
        feature, place = self._places.get(column, (None, None))
        if feature is None:
            return None
        found = values[feature.name]
        if feature.is_class:
            found = [ClassValue.INDEX.find(one, feature.class_names) for one in found]
        if place is not None:
            found = found[place : place + 1]
        is_list = may_be_list and place is None and (feature.several or feature.length)
        return found if is_list else read_cell(("", found))

    def _join(self, stored: StoredShard) -> Sequence[Mapping[str, Mapping[str, Any] | SampleError]]:
        """Returns key of a record -> its joined values, or the error of its row, for each table."""
        batches = read_index(stored.path, stored.shard, ["key"]) if self._joins else ()
        keys = {*itertools.chain.from_iterable(rows["key"].to_pylist() for rows in batches)}
        return [join.find(keys) for join in self._joins]

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
        where = Range(partition.uri, record.offset + HEADER_BYTES, len(record.data), name, partition.version)
        if staging is not None:
            where = staging.add([record.data], size=len(record.data), name=name)
        return RecordRange(where.uri, where.offset, where.length, name, where.version, index_columns, stored.raw_type)

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
        ids = (values[one.name] for one in self._layout.features if one.field == SOURCE_ID)
        return Objects(
            tuple(boxes.ravel().tolist()),
            tuple(labels),
            found,
            image_id="".join(map(_as_text, next(ids, []))),
            is_normalized=True,
            polygons=self._read_polygons(values, len(labels)) if OUTLINES & self._contents else (),
            keypoints=tuple(points.astype("<f4").tobytes() for points in keypoints) if keypoints.size else (),
        )

    def _read_polygons(self, values: Mapping[str, list[Any]], count: int) -> tuple[bytes, ...]:
        """Packs the polygons of objects as shares of the image, or their masks."""
        if OBJECT_MASKS in self._objects.features and Content.POLYGONS not in self._contents:
            return tuple(map(_run_lengths_of, self._objects.masks(values)))
        try:
            polygons = self._objects.polygons(values)
        except ValueError:
            polygons = []
        if len(polygons) != count:
            raise invalid_row(f"the polygons of its {count} objects have other numbers of points than it says")
        return tuple(pack_polygons([corners.ravel().tolist()]) for corners in polygons)


def open_datasets(datasets: Mapping[str, StoredDataset], request: OpenRequest) -> MakeSource:
    """Finds the shards.

    Args:
      datasets: input -> dataset.
      request: the request.

    Raises:
      RequestError: a shard is missing, or two inputs have the same last component.
    """
    files: list[Partition] = []
    shards: dict[str, tuple[str, Shard]] = {}
    for (place, dataset), prefix in zip(datasets.items(), key_prefixes([*datasets]), strict=True):
        entries = {entry.path: entry for entry in storage.list_files(dataset.path, literal=True)}
        for shard in dataset.shards:
            path = storage.join(dataset.path, shard.file)
            if path not in entries:
                raise RequestError(
                    f"{quote_input(place)}: the dataset is incomplete: {shard.file} is missing", code="damaged_dataset"
                )
            files.append(Partition.of(entries[path], key_prefix=prefix))
            shards[path] = place, shard
    joins, notes = join_datasets(datasets, request.joined)
    return functools.partial(DatasetSource, datasets, files, shards, joins, notes, request)


def _split_of(shard: Shard, splits: Splits) -> str | None:
    if splits.folders is None:
        return shard.split if splits.are_auto else None
    return splits.folders.get(shard.split, shard.split)


def _refuse_settings(path: str, settings: TableSettings) -> None:
    named = next((name for name in _KNOWN if getattr(settings, name)), None)
    if named:
        raise RequestError(
            f"`{named}`: {quote_input(path)} is a dataset of beam-tfrecords, which defines it; leave `{named}` out",
            code="setting_not_applicable",
        )


def _read_rows(stored: StoredShard) -> Iterator[dict[str, Any]]:
    """Yields the index rows of a shard.

    Raises:
      BuildError: as `read_index`.
    """
    for batch in read_index(stored.path, stored.shard, _COLUMNS):
        for start in range(0, batch.num_rows, _ROWS):
            yield from batch.slice(start, _ROWS).to_pylist()


def _rejected(partition: Partition, row: Mapping[str, Any], error: SampleError) -> SampleRef:
    images = one_image(Range(partition.uri, 0, 0, row["uri"] or row["key"]))
    failure = error.reason.value, f"{partition.uri}: {error.detail}"
    return SampleRef(partition.key_prefix + row["key"], images, split=partition.split, failure=failure)


def _as_text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _run_lengths_of(data: bytes) -> bytes:
    """Returns the mask of an object as packed run lengths."""
    mask = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE) if data else None
    if mask is None:
        raise SampleError(Stage.LIST, FailureReason.INVALID_MASK, "the mask of an object cannot be decoded")
    return run_lengths(mask).pack()
