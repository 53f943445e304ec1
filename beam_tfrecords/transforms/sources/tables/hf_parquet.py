"""Reads Parquet files that contain the image bytes, as Hugging Face stores its datasets.

Each file is a partition. References to an uncompressed column point into the file. Images of a compressed column are
copied to a staging file, because a page can only be decompressed as a whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.reading import is_damage, parsing
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.labels import numbers_of
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, Locator, Range, SampleRef
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_names import MASK_NAMES, USUAL_LABELS
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import (
    choose_image,
    choose_mask,
    find_image_column,
    name_images,
)
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.image_files import join_fingerprints, of_path
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, find_files_below, reject_missing
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.cells import check_columns
from beam_tfrecords.transforms.sources.tables.object_cells import CLASS_FIELDS
from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
from beam_tfrecords.transforms.sources.tables.parquet_table import (
    ParquetTable,
    fitting_rows,
    is_binary,
    is_image,
    is_list,
    may_hold_images,
    open_table,
    opened,
    read_rows,
)
from beam_tfrecords.transforms.sources.tables.row_source import NamedImages, RowSource, list_rows
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowImages, RowReader
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.sources.tally import Tally

# Most rows of a batch.
_MOST_ROWS = 512
# Largest gap between two images of a column: a page header with statistics, and levels.
_GAP_BYTES = 16 << 10
# Name of an image -> (column, bytes, path).
_Images: TypeAlias = "Mapping[str, tuple[str, bytes | None, str | None]]"
# train-00000-of-00004.parquet, optionally with a hash after the numbers.
_SPLIT = re.compile(r"(?P<split>[A-Za-z]\w*)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet", re.IGNORECASE)
# Files below a folder, except in hidden folders.
_BELOW = re.compile(r"(?!(?:.*/)?[._]).*\.parquet", re.IGNORECASE)
# Number of schemas to read concurrently.
_THREADS = 8


class HfParquetSource(RowSource):
    """Parquet files that contain the image bytes.

    Raises:
      RequestError: the files do not fit the request.
    """

    description = Description(unit="row")

    def __init__(
        self, files: Sequence[Partition], table: ParquetTable, schema: pa.Schema, request: OpenRequest, needs: Needs
    ) -> None:
        settings = request.spec
        super().__init__(files, request.inputs)
        images = _choose_images(table, schema, settings, needs)
        kinds = {field.name: field.type for field in schema}
        rest = dataclasses.replace(
            table,
            embedded=tuple(name for name in table.embedded if name not in images.values()),
            columns=tuple(name for name in table.columns if name not in images.values()),
            column_types={name: kind for name, kind in table.column_types.items() if name not in images.values()},
        )
        declared, several = _declared_classes(schema)
        label = choose_label(rest, settings, needs, declared=declared)
        cells = self._take_columns(
            rest,
            settings,
            needs,
            label,
            has_several=label in several,
            has_mask=MASK in images,
            images={name: is_list(kinds[column]) for name, column in images.items() if name != MASK},
        )
        of = cells.columns.objects
        column = of.classes if of else label or ""
        declaring = _names_by_file(files, column) if column in declared else ()
        class_names = tuple(dict.fromkeys(itertools.chain.from_iterable(declaring)))
        first_of = {names: file.uri for names, file in reversed([*zip(declaring, files, strict=False)]) if names}
        wanted = (name for name in declared if name in (needs.columns or ()))
        by_file = {name: {*_names_by_file(files, name)} for name in wanted}
        self._describe(
            labels=dataclasses.replace(
                self.description.labels,
                names=class_names,
                numbers={file: numbers_of(names) for names, file in first_of.items()},
                may_be_indices=not class_names,
            ),
            column_classes={name: min(found) if len(found) == 1 else () for name, found in by_file.items()},
        )
        self._split_files(_shard_or_path_splits(files), request, needs)
        if cells.columns.split is None:
            self._note_splits()
        paired = zip(files, pair_roots(files, settings.image_root), strict=True)
        self._roots = {file.uri: one.own or one.every for file, one in paired}
        self._cells, self._images, self._classes = cells, images, declared
        self._allow_outside_root = settings.allow_outside_root

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields one reference per row; copies the images of compressed columns.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the footer, which contains the number of rows, cannot be read.
        """
        with contextlib.ExitStack() as stack:
            with parsing():
                file = stack.enter_context(opened(partition.uri, version=partition.version))
                plain = stack.enter_context(storage.open_read(partition.uri, version=partition.version))
            cells = self._named(_declared_classes(file.schema_arrow)[0])
            others = [name for name in file.schema_arrow.names if name not in self._images.values()]
            self._see_others(partition, others, file.metadata.num_rows, tally)
            first = 0
            for group in range(file.num_row_groups):
                yield from self._read_group(cells, file, plain, group, partition, staging, first)
                first += file.metadata.row_group(group).num_rows
                # Otherwise Arrow keeps the memory of this group and allocates more for the next.
                pa.default_memory_pool().release_unused()

    def _read_group(
        self,
        cells: RowReader,
        file: pq.ParquetFile,
        plain: IO[bytes],
        group: int,
        partition: Partition,
        staging: StagingFiles,
        first: int,
    ) -> Iterator[SampleRef | RefColumns]:
        """Yields the references of a row group, whose first row has the number `first`; damage rejects the rest."""
        count = 0
        metadata = file.metadata.row_group(group)
        try:
            needed = [*self._cells.needed, *self._images.values()]
            check_columns(needed, file.schema_arrow.names)
            with parsing():
                check_pages(plain, file.metadata, group, needed)
            stored = {of: _StoredImageFinder(partition, plain, metadata, of) for of in self._images.values()}
            named = NamedImages(cells.columns, self._roots[partition.uri], allow_outside_root=self._allow_outside_root)
            images = _CellImages(self._images, named, stored, partition, staging)
            for ref in list_rows(cells, self._rows(file, group), images, partition, first=first):
                yield ref
                count += 1
            if count < metadata.num_rows:
                detail = f"its group of rows has {metadata.num_rows:,} by the footer, and fewer there"
                raise SampleError(Stage.LIST, FailureReason.CORRUPT, detail)
        except SampleError as error:
            lost = SampleError(error.stage, error.reason, f"from row {first + count:,} on: {error.detail}")
            yield from reject_missing(partition, range(first + count, first + metadata.num_rows), lost)

    def _named(self, classes: Mapping[str, Sequence[str]]) -> RowReader:
        """Returns the row reader with the class order of this file."""
        of = self._cells.columns
        names = {**self._classes, **classes}
        of_objects = of.objects.classes if of.objects else of.boxes.label if of.boxes else None
        class_names, object_classes = (names.get(column or "", ()) for column in (of.label, of_objects))
        return dataclasses.replace(self._cells, class_names=class_names, object_classes=object_classes)

    def _rows(self, file: pq.ParquetFile, group: int) -> Iterator[Row]:
        """Yields the rows of a row group; a cell of an image column has its bytes and its path, or a list of these.

        Raises:
          SampleError: the file is damaged.
        """
        metadata = file.metadata.row_group(group)
        named = list(self._images.values())
        columns = list(self._cells.needed)
        rows = fitting_rows(metadata, {*columns, *named}, most=_MOST_ROWS)
        with parsing():
            for batch in file.iter_batches(rows, row_groups=[group], columns=[*columns, *named], use_threads=False):
                of_rows = zip(*(_image_cells(batch.column(name)) for name in named), strict=True)
                for images, row in zip(of_rows, read_rows(batch, columns), strict=True):
                    yield row if isinstance(row, InvalidRow) else {**row, **dict(zip(named, images, strict=True))}


@dataclasses.dataclass(frozen=True)
class _CellImages(RowImages):
    """Finds the images of a row group, given as bytes or as paths.

    Attributes:
      columns: name of an image -> its column.
      named: finds images that are given as paths.
      stored: column -> finder of its images in this row group.
    """

    columns: Mapping[str, str]
    named: NamedImages
    stored: Mapping[str, _StoredImageFinder]
    partition: Partition
    staging: StagingFiles

    def place(self, row: Row | SampleError, found: Located) -> dict[str, Locator]:
        """See `RowImages.place`."""
        cells = _name_cells(self.columns, row) if isinstance(row, Mapping) else {}
        name, (*_, path) = next(iter(cells.items()), (IMAGE, (None,)))
        return {name: Range(self.partition.uri, 0, 0, self._shown(found, path))}

    def _shown(self, found: Located, path: str | None) -> str:
        """Returns the name of an image for messages."""
        return f"{self.partition.uri}#{found.key}" + (f"/{path}" if path else "")

    def find(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.find`."""
        fingerprints = dict[str, None]()
        for name, (column, data, path) in _name_cells(self.columns, row).items():
            if data is not None:
                size, shown = len(data), self._shown(found, path)
                found.images[name] = self.stored[column].find(data, shown) or self.staging.add(
                    [data], size=size, name=shown
                )
                fingerprints[f"{self.partition.fingerprint}@{found.number}"] = None
            elif path:
                size, fingerprint = self.named.add_file(found, name, path)
                fingerprints[of_path(fingerprint, path)] = None
            else:
                reason = FailureReason.MASK_MISSING if name == MASK else FailureReason.INVALID_ROW
                raise SampleError(Stage.LIST, reason, f"column {column!r} has neither bytes nor a path")
            found.size = found.size if len(found.images) > 1 else size
        found.fingerprint = join_fingerprints(fingerprints)


def _name_cells(images: Mapping[str, str], row: Mapping[str, Any]) -> _Images:
    """Returns the images of a row by name; the names of images in a list end with their index."""
    found: dict[str, tuple[str, bytes | None, str | None]] = {}
    for name, column in images.items():
        cell = row[column]
        if isinstance(cell, list):
            found |= {f"{name}[{number}]": (column, *image) for number, image in enumerate(cell)}
        else:
            found[name] = (column, *cell)
    return found


class _StoredImageFinder:
    """Finds the uncompressed images of a row group in the file, in order.

    Images that it does not find, such as repeated images in a dictionary, are copied like compressed ones.
    """

    def __init__(self, partition: Partition, file: IO[bytes], group: pq.RowGroupMetaData, image: str) -> None:
        self._container = partition
        self._file = file
        self._at = self._end = 0
        for column in map(group.column, range(group.num_columns)):
            parts = column.path_in_schema.split(".")
            if parts[0] == image and parts[-1] in (image, "bytes") and column.compression == "UNCOMPRESSED":
                self._at = column.dictionary_page_offset or column.data_page_offset
                self._end = self._at + column.total_compressed_size

    def find(self, data: bytes, name: str) -> Range | None:
        """Returns the byte range of an image; searches for the exact bytes, so the page encoding does not matter."""
        window = min(self._end - self._at, len(data) + _GAP_BYTES)
        if window < len(data) or not data:
            return None
        with parsing():
            self._file.seek(self._at)
            at = self._file.read(window).find(data)
        if at < 0:
            return None
        offset = self._at + at
        self._at = offset + len(data)
        return Range(self._container.uri, offset, len(data), name, self._container.version)


def _image_cells(column: pa.Array) -> Iterator[Any]:
    """Yields (bytes, path) for each row, or a list of such pairs."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if is_list(column.type):
        return ([*_image_cells(cell.values)] if cell.is_valid else [] for cell in column)
    fields = {"bytes": column}
    if pa.types.is_struct(column.type):
        fields = {field.name: cells for field, cells in zip(column.type, column.flatten(), strict=True)}
    lacks = pa.nulls(len(column))
    # Only one image is in Python's memory at a time.
    data = (cell.as_py() for cell in fields.get("bytes", lacks))
    return zip(data, fields.get("path", lacks).to_pylist(), strict=True)


def _shard_or_path_splits(files: Sequence[Partition]) -> Sequence[str | None]:
    """Returns the splits of files by shard names if these have a usual one, else by folders, as of shards named `data`.

    All names, or else all paths such as train/0000.parquet, must have a split.
    """
    names = [storage.basename(file.uri) for file in files]
    words = [match["split"].lower() for match in map(_SPLIT.fullmatch, names) if match]
    # `name_train` is a dataset name and a split; `train_extra` is a split.
    shards = [SPLIT_NAMES.get(word.rpartition("_")[2], word) for word in words] if len(words) == len(files) else []
    if not {*SPLIT_NAMES.values()} & {*shards}:
        parts = [file.key_prefix.strip("/").removesuffix(".parquet").split("/") for file in files]
        folders = [split for of in parts if (split := next(filter(None, map(split_in_name, reversed(of))), None))]
        shards = folders if len(folders) == len(files) else shards
    return shards or [None] * len(files)


def _names_by_file(files: Sequence[Partition], column: str) -> list[tuple[str, ...]]:
    """Returns the class names of a column in each file."""

    def read(file: Partition) -> tuple[str, ...]:
        try:
            return tuple(_declared_classes(_schema(file))[0].get(column, ()))
        except Exception as error:  # Arrow may raise any exception for a malformed file.
            is_fault = isinstance(error, OSError) and storage.is_service_fault(error)
            if is_fault or (not is_damage(error) and not isinstance(error, OSError)):
                raise
            return ()  # Listing the file reports the error.

    return list(map_in_threads(read, files, threads=_THREADS))


def recognizes(partition: Partition, settings: TableSettings, needs: Needs) -> bool:
    """Whether a Parquet file has a column of images, and not of image paths."""
    try:
        schema = _schema(partition)
    except Exception as error:  # Arrow may raise any exception for a malformed file.
        if not is_damage(error) and (not isinstance(error, OSError) or storage.is_unanswered(error)):
            raise
        return False  # Opening the file as a table reports the error.
    if any(map(is_image, schema.types)):
        return True
    paths = [field.name for field in schema if not is_binary(field.type)]
    return find_image_column(paths) is None and any(map(may_hold_images, schema))


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and reads the schema of the first file.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs = request.inputs
    if any(storage.is_folder(path) for path in inputs.paths):
        files = find_files_below(inputs, _BELOW, "Parquet file in it")
    else:
        files = request.find_files()
    first, schema = open_table(files[0].uri), _schema(files[0])
    return functools.partial(HfParquetSource, files, first, schema, request)


def _schema(partition: Partition) -> pa.Schema:
    with opened(partition.uri, version=partition.version) as file:
        return file.schema_arrow


def _choose_images(table: ParquetTable, schema: pa.Schema, settings: TableSettings, needs: Needs) -> dict[str, str]:
    """Returns the name of each image, and of the mask -> its column."""
    kinds = {field.name: field.type for field in schema}
    found = [[name for name, kind in kinds.items() if is_one(kind)] for is_one in (is_image, is_binary)]
    mask = None
    if Content.MASK in needs.contents:
        # A label that is an image has a class for each pixel.
        usual = (*MASK_NAMES, *USUAL_LABELS)
        mask = choose_mask(next(filter(None, found), ()), table, settings.mask_column, usual)
    others = [[name for name in names if name != mask] for names in found]
    images = name_images(next(filter(None, others), ()), table, settings, needs.images)
    if not images or images.get(IMAGE) == "":
        column = choose_image(others, table, settings.image_column, lacks="no column with bytes")
        name = column if is_list(kinds[column]) else IMAGE
        images = {**{one: other for one, other in images.items() if one != IMAGE}, name: column}
    return {**images, MASK: mask} if mask else images


def _declared_classes(schema: pa.Schema) -> tuple[dict[str, Sequence[str]], set[str]]:
    """Reads the description of the columns, if the schema has one.

    Returns:
      Column -> its class names; for a column of objects, the class names of their label field. And the columns with a
      list of classes.
    """
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"].items()
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return {}, set()
    plain = {column: _inner(feature) for column, feature in features}
    classes: dict[str, Sequence[str]] = {name: names for name, one in plain.items() if (names := _names_of(one))}
    for column, feature in plain.items():
        if isinstance(feature, dict) and "_type" not in feature:
            field = next((feature[name] for name in CLASS_FIELDS if name in feature), None)
            classes |= {column: names} if (names := _names_of(_inner(field))) else {}
    several = {column for column, feature in features if column in classes and feature is not plain[column]}
    return classes, several


def _inner(feature: Any) -> Any:
    """Returns the element feature of a `Sequence`, `List` or one-element list; other features unchanged."""
    while True:
        if isinstance(feature, list) and len(feature) == 1:
            feature = feature[0]
        elif isinstance(feature, dict) and feature.get("_type") in ("Sequence", "List", "LargeList"):
            feature = feature.get("feature")
        else:
            return feature


def _names_of(feature: Any) -> tuple[str, ...]:
    is_label = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    return tuple(map(str, feature.get("names") or ())) if is_label else ()
