"""Exports records of a finished dataset: images in folders, a table of everything else, and boxes as COCO."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.export.file_paths import FilePaths
from beam_tfrecords.beam_pipelines.export.rows import IMAGE, KEY, LABEL, OBJECTS, SPLIT, NotTextError, RowPlan, Values
from beam_tfrecords.beam_pipelines.messages.progress import ReadProgress
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.errors import BuildError, RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.reading.records import Records, open_records
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.sources.needs import ONLY_CLASS
from beam_tfrecords.transforms.sources.tables.parquet_table import opened

# Names in the folder: the table, and the folder of the COCO files.
TABLE, ANNOTATIONS = "samples.parquet", "annotations"
# File that marks the folder of an unfinished export.
UNFINISHED = "_UNFINISHED"
_THREADS = 16
# Files are written, and rows are added to the table, in groups of at most this many records and bytes.
_MOST_RECORDS, _MOST_BYTES = 256, 16 << 20
# Cells by column of a row of the table, (path, content) of its files, and bytes of the record.
_Row: TypeAlias = tuple[dict[str, Any], list[tuple[str, bytes]], int]
# Maximum number of rows in a row group of the table.
_MOST_ROWS = 1 << 14


def export_dataset(
    dataset: StoredDataset,
    to: str | os.PathLike[str],
    *,
    split: str | None,
    where: str | None,
    progress: ReadProgress | None = None,
) -> tuple[int, int]:
    """Exports records of a dataset to a new or empty folder.

    Args:
      dataset: the dataset.
      to: the folder; local or in a bucket.
      split: name of a split; None for all.
      where: a condition as in `records.filter`; None for all records.
      progress: its `done` counts the records.

    Returns:
      The number of records, and the number of files of images, masks and arrays.

    Raises:
      RequestError: the folder is not empty, no record satisfies the condition, or the dataset is compressed.
      BuildError: the dataset is damaged.
    """
    path = storage.absolute(os.fspath(to).rstrip("/") or "/")
    plan = RowPlan(dataset.layout, dataset.class_names, dataset.images)
    if f"{storage.real_path(path)}/".startswith(f"{storage.real_path(storage.absolute(dataset.path))}/"):
        raise RequestError(f"{path} is inside the dataset; choose a folder outside", code="overlapping_folders")
    _refuse_what_is_there(path)
    chosen = _choose_records(dataset, split, where)
    try:
        is_first = storage.write_new(storage.join(path, UNFINISHED), b"an export that has not ended\n")
    except OSError as error:
        reason = error.strerror or error
        raise RequestError(f"{path}: cannot be written: {reason}", code="output_not_writable") from error
    if not is_first:
        raise RequestError(f"{path}: another export writes to it", code="output_exists")
    keys = ((row[SPLIT], row[KEY], row[LABEL]) for row in chosen.index_rows())
    images = [column for one, column in plan.files.items() if one.holds_image]
    paths = FilePaths(
        [ANNOTATIONS, TABLE],
        [column for column in plan.files.values() if [column] != images],
        dataset.splits,
        dataset.class_names if any(cell.name == LABEL for cell in plan.cells) else (),
        keys,
    )
    while True:
        try:
            files, splits = _write_records(path, chosen, plan, paths, progress)
            break
        except NotTextError as error:
            plan = dataclasses.replace(plan, bytes_columns=plan.bytes_columns | {str(error)})
    for name in splits if Content.OBJECTS in plan.layout.required else ():
        file = storage.join(path, ANNOTATIONS, f"instances_{paths.folders[name]}.json")
        write_coco(storage.join(path, TABLE), file, name, dataset.class_names, plan.index_columns)
    storage.delete_files([storage.join(path, UNFINISHED)])
    return len(chosen), files


def _refuse_what_is_there(path: str) -> None:
    if storage.is_file(path):
        raise RequestError(f"{path} is a file; expected a new or empty folder", code="output_exists")
    found = next(iter(storage.list_files(path, literal=True)), None) if storage.is_folder(path) else None
    if found is None:
        return
    if storage.exists(storage.join(path, UNFINISHED)):
        raise RequestError(
            f"{path} has an export that has not ended; delete the folder if no export is running, or choose another",
            code="output_exists",
        )
    raise RequestError(
        f"{path} is not empty: there is {found.path}; expected a new or empty folder", code="output_exists"
    )


def _choose_records(dataset: StoredDataset, split: str | None, where: str | None) -> Records:
    """Finds the records of a split that satisfy a condition; None stands for all.

    Raises:
      RequestError: the split does not exist, no record satisfies the condition, or the dataset is compressed.
    """
    records = open_records(dataset, split, form="features", verify=True)
    chosen = records if where is None else records.filter(where)
    if not len(chosen):
        raise RequestError(
            f"{dataset.path}: no record{f' where {where}' if where else ''}; nothing to export", code="no_records"
        )
    return chosen


def _write_records(
    path: str, chosen: Records, plan: RowPlan, paths: FilePaths, progress: ReadProgress | None
) -> tuple[int, Sequence[str]]:
    """Writes the files and the table; returns the number of files, and the splits of the records."""
    count = done = 0
    splits: dict[str, None] = {}
    with (
        storage.open_write(storage.join(path, TABLE)) as file,
        pq.ParquetWriter(file, plan.schema, compression="zstd") as table,
    ):
        batches: list[pa.RecordBatch] = []
        for group in _group(_convert_all(chosen, plan, paths)):
            splits.update((cells[SPLIT], None) for cells, _, _ in group)
            files = [one for _, of_row, _ in group for one in of_row]
            _write_files(path, files)
            count += len(files)
            batches.append(pa.RecordBatch.from_pylist([cells for cells, _, _ in group], schema=plan.schema))
            is_full = sum(batch.num_rows for batch in batches) >= _MOST_ROWS
            if is_full or sum(batch.nbytes for batch in batches) >= _MOST_BYTES:
                table.write_table(pa.Table.from_batches(batches))
                batches = []
            done += len(group)
            if progress is not None:
                progress.done = done
        table.write_table(pa.Table.from_batches(batches, schema=plan.schema))
    return count, [*splits]


def _group(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    group: list[_Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += row[2]
        if len(group) >= _MOST_RECORDS or size >= _MOST_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _write_files(path: str, files: Sequence[tuple[str, bytes]]) -> None:
    def write(file: tuple[str, bytes]) -> None:
        storage.write_bytes(storage.join(path, file[0]), file[1])

    # On a disk, threads wait for each other, and together take 1.5 times as long as one.
    for _ in map_in_threads(write, files, threads=_THREADS) if storage.has_scheme(path) else map(write, files):
        pass


def _convert_all(chosen: Records, plan: RowPlan, paths: FilePaths) -> Iterator[_Row]:
    """Yields the row of each record.

    Raises:
      BuildError: a record does not fit its layout.
    """
    for row, values in zip(chosen.index_rows(), chosen, strict=True):
        try:
            yield _convert(row, values, plan, paths)
        except (SampleError, ValueError, LookupError) as error:
            raise BuildError(
                f"{chosen.path}, {row[KEY]}: {error}; run `beam-tfrecords verify --dataset={chosen.path}`"
            ) from error


def _convert(row: dict[str, Any], values: Values, plan: RowPlan, paths: FilePaths) -> _Row:
    cells = {KEY: row[KEY], SPLIT: row[SPLIT], **{cell.name: cell.read(values) for cell in plan.cells}}
    cells |= {column: row[name] for name, column in plan.index_columns.items()}
    files: list[tuple[str, bytes]] = []
    for feature, column in plan.files.items():
        contents = plan.contents(feature, values, (row["height"], row["width"]))
        base = paths.of_record(row[SPLIT], row[KEY], row[LABEL], column)
        if feature.several:
            named = [(f"{base}/{number:03d}.{kind}", data) for number, (kind, data) in enumerate(contents)]
        else:
            named = [(f"{base}.{kind}", data) for kind, data in contents]
        found = [name for name, _ in named]
        cells[column] = found if feature.several else found[0]
        files += named
    return cells, files, row["length"]


_ROWS = 1024


class _ImageRow(NamedTuple):
    """A row of the table.

    Attributes:
      number: its number in the table, from 1.
      image: path of its image.
      size: (width, height) of the image in pixels.
      objects: its objects, with positions as shares of the image.
    """

    number: int
    image: str
    size: tuple[int, int]
    objects: Sequence[Mapping[str, Any]]


def write_coco(table: str, path: str, split: str, class_names: Sequence[str], index_columns: Mapping[str, str]) -> None:
    """Writes the images and objects of a split; reads the table twice, some rows at a time.

    Args:
      table: the exported table.
      path: the file to write.
      split: the split.
      class_names: the classes of objects; empty if the layout does not store them.
      index_columns: column of the index -> its name in the table.
    """
    numbers = {name: number for number, name in enumerate(class_names or [ONLY_CLASS], 1)}
    sizes = index_columns["width"], index_columns["height"]

    def rows() -> Iterator[_ImageRow]:
        return _read_rows(table, split, sizes)

    with storage.open_write(path) as file:
        file.write(b'{"images": [')
        _write_all(file, map(_image, rows()))
        file.write(b'], "annotations": [')
        _write_all(file, (one for row in rows() for one in _annotations(row, numbers)), numbered=True)
        categories = [{"id": number, "name": name} for name, number in numbers.items()]
        file.write(b'], "categories": ' + json.dumps(categories).encode() + b"}\n")


def _write_all(file: IO[bytes], values: Iterator[dict[str, Any]], *, numbered: bool = False) -> None:
    for number, value in enumerate(values, 1):
        value = {"id": number, **value} if numbered else value
        file.write((b",\n" if number > 1 else b"\n") + json.dumps(value).encode())


def _read_rows(table: str, split: str, sizes: tuple[str, str]) -> Iterator[_ImageRow]:
    """Yields the rows of a split."""
    number = 0
    with opened(table) as file:
        for batch in file.iter_batches(_ROWS, columns=[IMAGE, SPLIT, OBJECTS, *sizes], use_threads=False):
            for row in batch.to_pylist():
                number += 1
                if row[SPLIT] == split:
                    yield _ImageRow(number, row[IMAGE], (row[sizes[0]], row[sizes[1]]), row[OBJECTS])


def _image(row: _ImageRow) -> dict[str, Any]:
    width, height = row.size
    return {"id": row.number, "file_name": row.image, "width": width, "height": height}


def _annotations(row: _ImageRow, categories: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yields the objects of a row in pixels."""
    for one in row.objects:
        xmin, ymin, xmax, ymax = (side * size for side, size in zip(one["bbox"], row.size * 2, strict=True))
        found = {
            "image_id": row.number,
            "category_id": categories.get(one.get("category", ONLY_CLASS)),
            "bbox": [xmin, ymin, xmax - xmin, ymax - ymin],
            "area": one.get("area", (xmax - xmin) * (ymax - ymin)),
            "iscrowd": one.get("is_crowd", 0),
        }
        outline = one.get("segmentation")
        if isinstance(outline, list):
            outline = [[side * row.size[n % 2] for n, side in enumerate(part)] for part in outline]
        if outline:
            found["segmentation"] = outline
        if points := one.get("keypoints"):
            # COCO counts pixels: the center of the first one is 0.
            found["keypoints"] = [
                share if n % 3 == 2 or not points[n - n % 3 + 2] else share * row.size[n % 3] - 0.5
                for n, share in enumerate(points)
            ]
            found["num_keypoints"] = sum(visibility > 0 for visibility in points[2::3])
        yield found
