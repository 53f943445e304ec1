"""Reads Parquet files that contain the image bytes, as Hugging Face stores its datasets.

Each file is a partition, which one worker reads.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence

import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.reading import is_damage
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import (
    choose_image,
    choose_mask,
    find_image_column,
    name_images,
)
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.image_roots import pair_roots
from beam_tfrecords.transforms.sources.inputs import InputFile, find_files, find_files_below
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.hf_rows import ReadHfParquet, parse_features
from beam_tfrecords.transforms.sources.tables.parquet_table import (
    ParquetTable,
    is_binary,
    is_list,
    may_hold_images,
    open_parquet,
    opened,
)
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

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
        self,
        files: Sequence[InputFile],
        table: ParquetTable,
        schema: pa.Schema,
        request: OpenRequest,
        needs: Needs,
    ) -> None:
        super().__init__(files, request.inputs)
        settings = request.spec
        images = _choose_images(table, schema, settings, needs)
        kinds = {field.name: field.type for field in schema}
        self._describe(images={name: is_list(kinds[column]) for name, column in images.items() if name != MASK})
        rest = dataclasses.replace(
            table,
            embedded=tuple(name for name in table.embedded if name not in images.values()),
            columns=tuple(name for name in table.columns if name not in images.values()),
            column_types={name: kind for name, kind in table.column_types.items() if name not in images.values()},
        )
        declared = parse_features(schema)
        label = choose_label(rest, settings, needs, declared=declared.classes)
        cells = self._take_columns(
            rest, settings, needs, label, has_several=label in declared.several, has_mask=MASK in images
        )
        of = cells.columns.objects
        column = of.classes if of else label or ""
        declaring = _names_by_file(files, column) if column in declared.classes else ()
        class_names = tuple(dict.fromkeys(itertools.chain.from_iterable(declaring)))
        wanted = (name for name in declared.classes if name in (needs.columns or ()))
        several = {name: {*_names_by_file(files, name)} for name in wanted}
        self._describe(
            class_names=class_names,
            column_classes={name: min(found) if len(found) == 1 else () for name, found in several.items()},
            labels_may_be_indices=not class_names,
        )
        by_name = needs.splits.are_auto and settings.split_column is None
        splits = splits_of(files) or (_shard_or_path_splits(files) if by_name else {})
        if cells.columns.split is None:
            self._note_splits(splits)
        paired = zip(files, pair_roots(files, settings.image_root), strict=True)
        roots = {file.entry.path: one.own or one.every for file, one in paired}
        self.read: ReadHfParquet = ReadHfParquet(
            cells, images, splits, roots, settings.allow_outside_root, declared.classes
        )


def _shard_or_path_splits(files: Sequence[InputFile]) -> dict[str, str]:
    """Returns file -> split by the shard names if these have a usual one, else by folders, as for shards named `data`.

    All names, or else all paths such as train/0000.parquet, must have a split.
    """
    paths = [file.entry.path for file in files]
    words = [match["split"].lower() for match in map(_SPLIT.fullmatch, map(storage.basename, paths)) if match]
    # `name_train` is a dataset name and a split; `train_extra` is a split.
    shards = [SPLIT_NAMES.get(word.rpartition("_")[2], word) for word in words] if len(words) == len(files) else []
    if not {*SPLIT_NAMES.values()} & {*shards}:
        parts = [file.key_prefix.strip("/").removesuffix(".parquet").split("/") for file in files]
        folders = [split for of in parts if (split := next(filter(None, map(split_in_name, reversed(of))), None))]
        shards = folders if len(folders) == len(files) else shards
    return dict(zip(paths, shards, strict=False))


def _names_by_file(files: Sequence[InputFile], column: str) -> list[tuple[str, ...]]:
    """Returns the class names of a column in each file."""

    def read(file: InputFile) -> tuple[str, ...]:
        try:
            return tuple(parse_features(_schema(Partition.of(file.entry, key_prefix=""))).classes.get(column, ()))
        except Exception as error:  # Arrow may raise any exception for a malformed file.
            is_fault = isinstance(error, OSError) and storage.is_service_fault(error)
            if is_fault or (not is_damage(error) and not isinstance(error, OSError)):
                raise
            return ()  # Listing the file reports the error.

    return list(map_in_threads(read, files, threads=_THREADS))


def recognises(partition: Partition, settings: TableSettings, needs: Needs) -> bool:
    """Whether a Parquet file has a column of images, and not of image paths."""
    try:
        schema = _schema(partition)
    except Exception as error:  # Arrow may raise any exception for a malformed file.
        if not is_damage(error) and (not isinstance(error, OSError) or storage.is_unanswered(error)):
            raise
        return False  # Opening the file as a table reports the error.
    if any(map(_is_image, schema.types)):
        return True
    paths = [field.name for field in schema if not is_binary(field.type)]
    return find_image_column(paths) is None and any(map(may_hold_images, schema))


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the files, and reads the schema of the first file.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    inputs, needs = request.inputs, request.needs
    if any(storage.is_folder(path) for path in inputs.paths):
        files = find_files_below(inputs, _BELOW, "Parquet file in it")
    else:
        files = find_files(inputs, by_name=needs.splits.are_auto and not request.spec.split_column)
    first, schema = open_parquet(files[0].entry.path), _schema(Partition.of(files[0].entry, key_prefix=""))
    return functools.partial(HfParquetSource, files, first, schema, request)


def _schema(partition: Partition) -> pa.Schema:
    with opened(partition.uri, version=partition.version) as file:
        return file.schema_arrow


def _is_image(kind: pa.DataType) -> bool:
    """Whether a type is `struct<bytes: binary, path: string>`, in any field order, or a list of such structs."""
    kind = kind.value_type if is_list(kind) else kind
    if not pa.types.is_struct(kind):
        return False
    fields = {field.name: field.type for field in kind}
    return is_binary(fields.get("bytes", pa.null()))


def _choose_images(table: ParquetTable, schema: pa.Schema, settings: TableSettings, needs: Needs) -> dict[str, str]:
    """Returns the name of each image, and of the mask -> its column."""
    kinds = {field.name: field.type for field in schema}
    found = [[name for name, kind in kinds.items() if is_one(kind)] for is_one in (_is_image, is_binary)]
    mask = None
    if Content.MASK in needs.contents:
        mask = choose_mask(next(filter(None, found), ()), table, settings.mask_column)
    others = [[name for name in names if name != mask] for names in found]
    images = name_images(next(filter(None, others), ()), table, settings, needs.images)
    if not images or images.get(IMAGE) == "":
        column = choose_image(others, table, settings.image_column, lacks="no column with bytes")
        name = column if is_list(kinds[column]) else IMAGE
        images = {**{one: other for one, other in images.items() if one != IMAGE}, name: column}
    return {**images, MASK: mask} if mask else images
