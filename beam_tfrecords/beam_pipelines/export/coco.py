"""Writes the objects of an exported table as COCO, for other programs.

Format: https://cocodataset.org/#format-data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.export.rows import IMAGE, OBJECTS, SPLIT
from beam_tfrecords.transforms.sources.needs import ONLY_CLASS
from beam_tfrecords.transforms.sources.tables.parquet_table import opened

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
