"""Lists the rows of Parquet files that contain the image bytes, and parses the description of their columns.

References to an uncompressed column point into the Parquet file. Images of a compressed column are copied to a staging
file, because a page can only be decompressed as a whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.reading import parsing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, File, Range, SampleRef
from beam_tfrecords.transforms.sources.image_files import find_image, join_fingerprints, look, of_path
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, reject_missing
from beam_tfrecords.transforms.sources.tables.cells import check_columns
from beam_tfrecords.transforms.sources.tables.object_cells import CLASS_FIELDS
from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
from beam_tfrecords.transforms.sources.tables.parquet_table import fitting_rows, is_list, opened, read_rows
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.table_rows import list_rows
from beam_tfrecords.transforms.sources.tally import Tally

# Most rows of a batch.
_MOST_ROWS = 512
# Largest gap between two images of a column: a page header with statistics, and levels.
_GAP_BYTES = 16 << 10
# Bytes and path of an image; either may be None.
_Image: TypeAlias = "tuple[bytes | None, str | None]"
# Name of an image -> (column, bytes, path).
_Images: TypeAlias = "Mapping[str, tuple[str, bytes | None, str | None]]"


@dataclasses.dataclass(frozen=True)
class ReadHfParquet:
    """Lists the rows of one file. Picklable.

    Attributes:
      cells: reads the values of a row.
      images: name of an image, or of the mask -> its column.
      splits: file -> split of its rows, if known.
      roots: file -> folders of images that rows give by path.
      allow_outside_root: whether paths may leave these folders.
      classes: column -> class names, used for a file that declares none.
    """

    cells: RowReader
    images: Mapping[str, str]
    splits: Mapping[str, str]
    roots: Mapping[str, Sequence[str]]
    allow_outside_root: bool
    classes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def __call__(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields one reference per row.

        Args:
          staging: receives the images of compressed columns.

        Raises:
          ChangedError: the file is no longer the listed version.
          SampleError: the footer, which contains the number of rows, cannot be read.
        """
        with contextlib.ExitStack() as stack:
            with parsing():
                file = stack.enter_context(opened(partition.uri, version=partition.version))
                plain = stack.enter_context(storage.open_read(partition.uri, version=partition.version))
            cells = self._named(parse_features(file.schema_arrow).classes)
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
        split, count = self.splits.get(partition.uri), 0
        metadata = file.metadata.row_group(group)
        try:
            needed = [*self.cells.needed, *self.images.values()]
            check_columns(needed, file.schema_arrow.names)
            with parsing():
                check_pages(plain, file.metadata, group, needed)
            finders = {of: _StoredImageFinder(partition, plain, metadata, of) for of in self.images.values()}

            unread = {next(iter(self.images)): ("", None, None)}

            def locate(number: int, row: Row) -> Located:
                return _CellImages(
                    number_key(number),
                    cells=unread if isinstance(row, InvalidRow) else _name_cells(self.images, row),
                    row=number,
                    partition=partition,
                    reader=self,
                    finders=finders,
                    staging=staging,
                )

            rows = self._rows(file, group)
            for ref in list_rows(cells, rows, locate, prefix=partition.key_prefix, split=split, first=first):
                yield ref
                count += 1
            if count < metadata.num_rows:
                detail = f"its group of rows has {metadata.num_rows:,} by the footer, and fewer there"
                raise SampleError(Stage.LIST, FailureReason.CORRUPT, detail)
        except SampleError as error:
            lost = SampleError(error.stage, error.reason, f"from row {first + count:,} on: {error.detail}")
            yield from reject_missing(partition, range(first + count, first + metadata.num_rows), lost, split=split)

    def _named(self, classes: Mapping[str, Sequence[str]]) -> RowReader:
        """Returns the row reader with the class order of this file."""
        of = self.cells.columns
        names = {**self.classes, **classes}
        of_objects = of.objects.classes if of.objects else of.boxes.label if of.boxes else None
        class_names, object_classes = (names.get(column or "", ()) for column in (of.label, of_objects))
        return dataclasses.replace(self.cells, class_names=class_names, object_classes=object_classes)

    def _rows(self, file: pq.ParquetFile, group: int) -> Iterator[Row]:
        """Yields the rows of a row group; a cell of an image column has its bytes and its path, or a list of these.

        Raises:
          SampleError: the file is damaged.
        """
        metadata = file.metadata.row_group(group)
        named = list(self.images.values())
        columns = list(self.cells.needed)
        rows = fitting_rows(metadata, [*columns, *named], most=_MOST_ROWS)
        with parsing():
            for batch in file.iter_batches(rows, row_groups=[group], columns=[*columns, *named], use_threads=False):
                of_rows = zip(*(_image_cells(batch.column(name)) for name in named), strict=True)
                for images, row in zip(of_rows, read_rows(batch, columns), strict=True):
                    yield row if isinstance(row, InvalidRow) else {**row, **dict(zip(named, images, strict=True))}


@dataclasses.dataclass(kw_only=True)
class _CellImages(Located):
    """The images of a row, given as bytes or as paths.

    Attributes:
      cells: name of an image -> its column, bytes and path; images of a list have numbered names.
      row: number of the row in its file.
      finders: column -> finder of its images in this row group.
    """

    cells: _Images
    row: int
    partition: Partition
    reader: ReadHfParquet
    finders: Mapping[str, _StoredImageFinder]
    staging: StagingFiles

    def __post_init__(self) -> None:
        for first in itertools.islice(self.cells, 1):
            self.images[first] = Range(self.partition.uri, 0, 0, self._shown(first))

    def _shown(self, name: str) -> str:
        """Returns the name of an image for messages."""
        path = self.cells[name][2]
        return f"{self.partition.uri}#{self.key}" + (f"/{path}" if path else "")

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        sizes, fingerprints = list[int](), dict[str, None]()
        for name, (column, data, path) in self.cells.items():
            if data is not None:
                shown = self._shown(name)
                self.images[name] = self.finders[column].find(data, shown) or self.staging.add(
                    [data], size=len(data), name=shown
                )
                sizes.append(len(data))
                fingerprints[f"{self.partition.fingerprint}@{self.row}"] = None
            elif path:
                size, fingerprint = self._find_file(name, path)
                sizes.append(size)
                fingerprints[of_path(fingerprint, path)] = None
            else:
                reason = FailureReason.MASK_MISSING if name == MASK else FailureReason.INVALID_ROW
                raise SampleError(Stage.LIST, reason, f"column {column!r} has neither bytes nor a path")
        self.size, self.fingerprint = next(iter(sizes), 0), join_fingerprints(fingerprints)

    def _find_file(self, name: str, path: str) -> tuple[int, str]:
        roots = self.reader.roots[self.partition.uri]
        try:
            uri = find_image(path, roots=roots, allow_outside_root=self.reader.allow_outside_root)
            self.images[name] = File(uri)
            size, fingerprint, version = look(uri)
        except SampleError as error:
            raise (error if name == IMAGE else error.about(name)) from error
        self.images[name] = File(uri, version)
        return size, fingerprint


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


def _image_cells(column: pa.Array) -> Iterator[_Image | list[_Image]]:
    """Yields (bytes, path) for each row, or a list of such pairs."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    for cell in column:
        value = cell.as_py()
        yield list(map(_image_cell, value or [])) if is_list(column.type) else _image_cell(value)


def _image_cell(cell: Any) -> _Image:
    return (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)


class Declared(NamedTuple):
    """The classes that the description declares.

    Attributes:
      classes: column -> its class names; for a column of objects, the class names of their label field.
      several: columns with a list of classes.
    """

    classes: Mapping[str, Sequence[str]]
    several: frozenset[str]


def parse_features(schema: pa.Schema) -> Declared:
    """Reads the description of the columns; returns an empty one if the schema has none."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"].items()
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return Declared({}, frozenset())
    plain = {column: _inner(feature) for column, feature in features}
    classes = {column: names for column, feature in plain.items() if (names := _names_of(feature))}
    for column, feature in plain.items():
        if isinstance(feature, dict) and "_type" not in feature:
            field = next((feature[name] for name in CLASS_FIELDS if name in feature), None)
            classes |= {column: names} if (names := _names_of(_inner(field))) else {}
    several = {column for column, feature in features if column in classes and feature is not plain[column]}
    return Declared(classes, frozenset(several))


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
