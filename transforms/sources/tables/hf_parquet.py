"""Parquet files that hold the bytes of the images, as Hugging Face's datasets are stored.

The workers read the files, one each. Where a column is not compressed, the images are read where they are; else they
are copied to a spool, because a page is decompressed as a whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.refs import IMAGE, MASK, File, Range, SampleRef
from beam_tfrecords.transforms.sources.containers import Container, Spool, reject_missing
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import (
    choose_image,
    choose_mask,
    find_image_column,
    name_images,
)
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.image_files import find_image
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.inputs import InputFile, find_files, find_files_below
from beam_tfrecords.transforms.sources.reading import is_damage, parsing
from beam_tfrecords.transforms.sources.source import ContainerSource, MakeSource
from beam_tfrecords.transforms.sources.source_spec import Skipped, SourceSpec
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.hf_features import parse_features
from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
from beam_tfrecords.transforms.sources.tables.parquet_table import (
    ParquetTable,
    fitting_rows,
    is_binary,
    is_list,
    may_hold_images,
    open_parquet,
    opened,
    read_rows,
)
from beam_tfrecords.transforms.sources.tables.row_values import (
    Located,
    RowReader,
    choose_cells,
    note_splits,
    number_key,
    shard_splits,
    splits_of,
)
from beam_tfrecords.transforms.sources.tables.table import InvalidRow
from beam_tfrecords.transforms.sources.tables.table_source import join_fingerprints, look, of_path
from beam_tfrecords.transforms.splits import SPLIT_NAMES

# train-00000-of-00004.parquet, also with a hash behind the numbers.
_SPLIT = re.compile(r"(?P<split>[A-Za-z]\w*)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?\.parquet", re.IGNORECASE)
# Below a folder, but not in hidden ones.
_BELOW = re.compile(r"(?!(?:.*/)?[._]).*\.parquet", re.IGNORECASE)
# Rows of a batch, so that their images take about so many bytes.
_BATCH_BYTES = 32 << 20
_MOST_ROWS = 512
# Files whose schemas are read at once.
_THREADS = 8
# Bytes between two images of a column: the header of a page with its statistics, and its levels.
_GAP_BYTES = 16 << 10
# Bytes and path of an image; either may be None.
_Image: TypeAlias = "tuple[bytes | None, str | None]"
# By the names of images, with their columns.
_Images: TypeAlias = "Mapping[str, tuple[str, bytes | None, str | None]]"


class HfParquetSource(ContainerSource):
    """Parquet files with the bytes of images.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "row"

    def __init__(self, files: Sequence[InputFile], table: ParquetTable, schema: pa.Schema, spec: SourceSpec) -> None:
        super().__init__(files)
        self.name = spec.source
        images = _choose_images(table, schema, spec)
        kinds = {field.name: field.type for field in schema}
        self.images = {name: is_list(kinds[column]) for name, column in images.items() if name != MASK}
        rest = dataclasses.replace(
            table,
            embedded=(),
            columns=tuple(name for name in table.columns if name not in images.values()),
            column_types={name: kind for name, kind in table.column_types.items() if name not in images.values()},
        )
        declared = parse_features(schema)
        label = choose_label(rest, spec, declared=declared.classes)
        cells, notes = choose_cells(rest, spec, label, has_several=label in declared.several)
        self.notes += notes
        self.columns, self.column_types, self.label_column = rest.columns, rest.column_types, label
        self.table, self.has_several_labels = rest, cells.has_several_labels
        self.provides = cells.provides | {Content.IMAGE, *([Content.MASK] if MASK in images else [])}
        has_several = len(self.images) > 1 or any(self.images.values())
        self.provides |= {Content.IMAGES} if has_several else frozenset()
        column = cells.columns.objects or label or ""
        self.class_names = _all_names(files, column) if column in declared.classes else ()
        self.labels_may_be_indices = not self.class_names
        # Shards of a split in its own folder are all called `data`.
        shards = shard_splits(files, _SPLIT, spec)
        are_said = not set(SPLIT_NAMES.values()).isdisjoint(shards.values())
        splits = splits_of(files) or (are_said and shards) or _splits_of_paths(files, spec) or shards
        self.notes += note_splits(splits, spec) if cells.columns.split is None else []
        paired = zip(files, pair_roots(files, spec.image_root), strict=True)
        roots = {file.entry.path: one.own or one.every for file, one in paired}
        self.read_container: ReadHfParquet = ReadHfParquet(
            cells, images, splits, roots, spec.allow_outside_root, declared.classes
        )


@dataclasses.dataclass(frozen=True)
class ReadHfParquet:
    """Lists the rows of one file. Picklable.

    Attributes:
      cells: reads the values of a row.
      images: name of an image, or of the mask -> its column.
      splits: file -> split of its rows, if its name says it.
      roots: file -> folders of images that are given by their paths.
      classes: column -> names of its classes, in a file that names none.
    """

    cells: RowReader
    images: Mapping[str, str]
    splits: Mapping[str, str]
    roots: Mapping[str, Sequence[str]]
    allow_outside_root: bool
    classes: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """Yields one reference per row.

        Args:
          spool: receives the images of compressed columns.

        Raises:
          ChangedError: the file is no longer the version that is listed.
          SampleError: the footer, which says how many rows there are, cannot be read.
        """
        split = self.splits.get(container.uri)
        with contextlib.ExitStack() as stack:
            with parsing():
                file = stack.enter_context(opened(container.uri, version=container.version))
                plain = stack.enter_context(storage.open_read(container.uri, version=container.version))
            cells = self._named(parse_features(file.schema_arrow).classes)
            number = end = 0
            for group in range(file.num_row_groups):
                metadata = file.metadata.row_group(group)
                end += metadata.num_rows
                try:
                    self._check_columns(file)
                    with parsing():
                        check_pages(plain, file.metadata, group, [*self.cells.needed, *self.images.values()])
                    finders = {of: _Finder(container, plain, metadata, of) for of in self.images.values()}
                    for images, row in self._rows(file, group):
                        located = _CellImages(
                            number_key(number),
                            cells=images,
                            row=number,
                            container=container,
                            reader=self,
                            finders=finders,
                            spool=spool,
                        )
                        yield cells.sample(row, located, prefix=container.key_prefix, split=split)
                        number += 1
                    if number < end:
                        detail = f"its group of rows has {metadata.num_rows:,} by the footer, and fewer there"
                        raise SampleError(Stage.LIST, FailureReason.CORRUPT, detail)
                except SampleError as error:
                    lost = SampleError(error.stage, error.reason, f"from row {number:,} on: {error.detail}")
                    yield from reject_missing(container, range(number, end), lost, split=split)
                    number = end
                # Arrow would keep the memory of one group, and with the next one take more.
                pa.default_memory_pool().release_unused()

    def _named(self, classes: Mapping[str, Sequence[str]]) -> RowReader:
        """The reader of a file that numbers classes in its own order."""
        of = self.cells.columns
        names = {**self.classes, **classes}
        return dataclasses.replace(
            self.cells, class_names=names.get(of.label or "", ()), object_classes=names.get(of.objects or "", ())
        )

    def _check_columns(self, file: pq.ParquetFile) -> None:
        missing = {*self.cells.needed, *self.images.values()} - set(file.schema_arrow.names)
        if missing:
            raise invalid_row(f"the file has no column {min(missing)!r}, which the first one has")

    def _rows(self, file: pq.ParquetFile, group: int) -> Iterator[tuple[_Images, dict[str, Any] | InvalidRow]]:
        """The rows of a group, each with the bytes and the path of its images.

        Raises:
          SampleError: the file is damaged.
        """
        metadata = file.metadata.row_group(group)
        named = list(self.images.values())
        size = sum(_image_bytes(metadata, name) for name in named) // max(metadata.num_rows, 1)
        columns = list(self.cells.needed)
        most = min(_MOST_ROWS, max(1, _BATCH_BYTES // max(size, 1)))
        rows = fitting_rows(metadata, columns, most=most)
        with parsing():
            for batch in file.iter_batches(rows, row_groups=[group], columns=[*columns, *named], use_threads=False):
                of_rows = zip(*(_image_cells(batch.column(name)) for name in named), strict=True)
                for images, row in zip(of_rows, read_rows(batch, columns), strict=True):
                    yield _name_cells(dict(zip(self.images.items(), images, strict=True))), row


@dataclasses.dataclass(kw_only=True)
class _CellImages(Located):
    """The images that a row has as bytes, or whose paths it has.

    Attributes:
      cells: name of an image -> its column, bytes and path; those of a list are numbered.
      row: number of the row in its file.
      finders: of the images of this group of rows.
    """

    cells: _Images
    row: int
    container: Container
    reader: ReadHfParquet
    finders: Mapping[str, _Finder]
    spool: Spool

    def __post_init__(self) -> None:
        for first in itertools.islice(self.cells, 1):
            self.images[first] = Range(self.container.uri, 0, 0, self._shown(first))

    def _shown(self, name: str) -> str:
        """The name of an image that people see."""
        path = self.cells[name][2]
        return f"{self.container.uri}#{self.key}" + (f"/{path}" if path else "")

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        sizes, fingerprints = list[int](), dict[str, None]()
        for name, (column, data, path) in self.cells.items():
            if data is not None:
                shown = self._shown(name)
                self.images[name] = self.finders[column].find(data, shown) or self.spool.add(
                    [data], size=len(data), name=shown
                )
                sizes.append(len(data))
                fingerprints[f"{self.container.fingerprint}@{self.row}"] = None
            elif path:
                size, fingerprint = self._find_file(name, path)
                sizes.append(size)
                fingerprints[of_path(fingerprint, path)] = None
            else:
                raise _without(name, f"column {column!r} has neither bytes nor a path")
        self.size, self.fingerprint = next(iter(sizes), 0), join_fingerprints(fingerprints)

    def _find_file(self, name: str, path: str) -> tuple[int, str]:
        roots = self.reader.roots[self.container.uri]
        try:
            uri = find_image(path, roots=roots, allow_outside_root=self.reader.allow_outside_root)
            self.images[name] = File(uri)
            size, fingerprint, version = look(uri)
        except SampleError as error:
            raise (error if name == IMAGE else error.about(name)) from error
        self.images[name] = File(uri, version)
        return size, fingerprint


def _name_cells(cells: Mapping[tuple[str, str], _Image | list[_Image]]) -> _Images:
    """The images of a row by their names; those of a list have their numbers behind it."""
    found: dict[str, tuple[str, bytes | None, str | None]] = {}
    for (name, column), cell in cells.items():
        if isinstance(cell, list):
            found |= {f"{name}[{number}]": (column, *image) for number, image in enumerate(cell)}
        else:
            found[name] = (column, *cell)
    return found


def _without(name: str, detail: str) -> SampleError:
    """The error of a row that lacks an image, or its mask."""
    return SampleError(Stage.LIST, FailureReason.MASK_MISSING, detail) if name == MASK else invalid_row(detail)


class _Finder:
    """Finds the images of one row group in the file, in their order, if they are not compressed.

    An image that is not found there, such as one that occurs twice in a dictionary, is copied like a compressed one.
    """

    def __init__(self, container: Container, file: IO[bytes], group: pq.RowGroupMetaData, image: str) -> None:
        self._container = container
        self._file = file
        self._at = self._end = 0
        for column in map(group.column, range(group.num_columns)):
            parts = column.path_in_schema.split(".")
            if parts[0] == image and parts[-1] in (image, "bytes") and column.compression == "UNCOMPRESSED":
                self._at = column.dictionary_page_offset or column.data_page_offset
                self._end = self._at + column.total_compressed_size

    def find(self, data: bytes, name: str) -> Range | None:
        """Where an image is; what is found there are its bytes, whatever the encoding of the page."""
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


def _all_names(files: Sequence[InputFile], column: str) -> Sequence[str]:
    """The names of the classes of a column in all files, in the order of the files."""

    def read(file: InputFile) -> Sequence[str]:
        try:
            return parse_features(_schema(Container.of(file.entry, key_prefix=""))).classes.get(column, ())
        except Exception as error:  # as `open_parquet`
            is_fault = isinstance(error, OSError) and storage.is_service_fault(error)
            if is_fault or (not is_damage(error) and not isinstance(error, OSError)):
                raise
            return ()  # Listing it says why.

    return tuple(dict.fromkeys(itertools.chain.from_iterable(map_in_threads(read, files, threads=_THREADS))))


def _splits_of_paths(files: Sequence[InputFile], spec: SourceSpec) -> dict[str, str]:
    """File -> split, where the paths of all files below a folder say one, as in train/0000.parquet."""
    words = {file.entry.path: file.key_prefix.strip("/").removesuffix(".parquet").split("/") for file in files}
    found = {path: next(filter(None, map(split_in_name, reversed(parts))), None) for path, parts in words.items()}
    if not spec.splits_auto or spec.split_column is not None or None in found.values():
        return {}
    return {path: split for path, split in found.items() if split}


def recognises(container: Container, spec: SourceSpec) -> bool:
    """Whether a Parquet file has a column of images and not of their paths."""
    try:
        schema = _schema(container)
    except Exception as error:  # as `open_parquet`
        if not is_damage(error) and (not isinstance(error, OSError) or storage.is_unanswered(error)):
            raise
        return False  # Opening it as a table says why.
    if any(map(_is_image, schema.types)):
        return True
    paths = [field.name for field in schema if not is_binary(field.type)]
    return find_image_column(paths) is None and any(map(may_hold_images, schema))


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the files, and reads the schema of the first.

    Raises:
      RequestError: a file does not exist, or they do not fit the request.
    """
    are_files = not any(storage.is_folder(path) for path in spec.input)
    files = find_files(spec) if are_files else find_files_below(spec, _BELOW, "Parquet file in it")
    table = open_parquet(files[0].entry.path)
    return functools.partial(HfParquetSource, files, table, _schema(Container.of(files[0].entry, key_prefix="")))


def _schema(container: Container) -> pa.Schema:
    with opened(container.uri, version=container.version) as file:
        return file.schema_arrow


def _is_image(kind: pa.DataType) -> bool:
    """Whether a type is `struct<bytes: binary, path: string>`, in any order, or a list of these."""
    kind = kind.value_type if is_list(kind) else kind
    if not pa.types.is_struct(kind):
        return False
    fields = {field.name: field.type for field in kind}
    return is_binary(fields.get("bytes", pa.null()))


def _choose_images(table: ParquetTable, schema: pa.Schema, spec: SourceSpec) -> dict[str, str]:
    """Name of an image, or of the mask -> its column."""
    kinds = {field.name: field.type for field in schema}
    found = [[name for name, kind in kinds.items() if is_one(kind)] for is_one in (_is_image, is_binary)]
    mask = choose_mask(next(filter(None, found), ()), table, spec)
    others = [[name for name in names if name != mask] for names in found]
    images = name_images(next(filter(None, others), ()), table, spec)
    if not images or images.get(IMAGE) == "":
        column = choose_image(others, table, spec, lacks="no column with bytes")
        name = column if is_list(kinds[column]) else IMAGE
        images = {**{one: other for one, other in images.items() if one != IMAGE}, name: column}
    return {**images, MASK: mask} if mask else images


def _image_bytes(group: pq.RowGroupMetaData, image: str) -> int:
    columns = map(group.column, range(group.num_columns))
    return sum(one.total_uncompressed_size for one in columns if one.path_in_schema.partition(".")[0] == image)


def _image_cells(column: pa.Array) -> Iterator[_Image | list[_Image]]:
    """(bytes, path) of every row, or a list of them."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if is_list(column.type):
        lists = ((cell.as_py() or []) for cell in column)
        return ([(one and one.get("bytes"), one and one.get("path")) for one in cell] for cell in lists)
    if not pa.types.is_struct(column.type):
        return ((cell.as_py(), None) for cell in column)
    # Unlike `field`, this knows which structs are null.
    fields = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    paths = fields.get("path")
    return (
        (data.as_py(), path.as_py() if path is not None else None)
        for data, path in zip(fields["bytes"], paths if paths is not None else [None] * len(column), strict=True)
    )
