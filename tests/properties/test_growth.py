"""With four times the input, no line of the program runs much more than four times as often, for every kind of input.

Runs are counted, not timed, so that a busy machine says the same. What C does within one line, such as a search in a
list, is not seen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import RequestError, plan
from tests.archive_files import pack_folder
from tests.pictures import picture
from tests.writers import MEANING, WRITERS, Meaning, Settings, save

# How often a line may run for each unit more that an input has, beside four times the runs.
_RUNS = 25
_PICTURE = picture("red 8x8")


@contextlib.contextmanager
def _counted() -> Iterator[Counter[tuple[str, int]]]:
    """Counts how often each line runs, in this thread and in those that start meanwhile."""
    runs: Counter[tuple[str, int]] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            runs[frame.f_code.co_filename, frame.f_lineno] += 1
        return trace

    before = sys.gettrace()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        yield runs
    finally:
        sys.settrace(before)
        threading.settrace(before)  # type: ignore[arg-type]  # takes None


def _runs(settings: Settings, output: Path) -> Counter[tuple[str, int]]:
    """Returns how often each line runs in a dry run, or until the question that ends it."""
    with _counted() as runs, contextlib.suppress(RequestError):
        plan(**settings, output=str(output))
    return runs


def _assert_linear(make: Callable[[int, Path], Settings], count: int, folder: Path) -> None:
    once, again = (_runs(make(number, folder / str(number)), folder / "out") for number in (count, 4 * count))
    most = 4 * count * _RUNS
    grown = {line: (once[line], runs) for line, runs in again.items() if runs > 5 * once[line] + most}
    assert not grown


def _times(count: int) -> Meaning:
    items = [
        dataclasses.replace(item, name=f"{item.name}_{number}") for number in range(count) for item in MEANING.items
    ]
    return dataclasses.replace(MEANING, items=items)


_FORMATS = sorted(WRITERS.keys() - {"function"})


@pytest.mark.nightly
@pytest.mark.parametrize("name", _FORMATS)
def test_samples(name, tmp_path):
    _assert_linear(lambda count, folder: WRITERS[name].make(folder, _times(count)), 8, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("name", _FORMATS)
def test_samples_of_which_nothing_is_said(name, tmp_path):
    def make(count: int, folder: Path) -> Settings:
        WRITERS[name].make(folder, _times(count))
        return {"input": str(folder)}

    _assert_linear(make, 8, tmp_path)


def _class_folders(count: int, folder: Path) -> Settings:
    for number in range(count):
        save(folder / f"in/class {number}/{number}.png", _PICTURE)
    return {"input": f"{folder}/in"}


def _split_class_folders(count: int, folder: Path) -> Settings:
    for number in range(count):
        save(folder / f"in/{('train', 'test')[number % 2]}/class {number // 2}/{number}.png", _PICTURE)
    return {"input": f"{folder}/in"}


def _folder_of_each_image(count: int, folder: Path) -> Settings:
    for number in range(count):
        save(folder / f"in/{('cat', 'dog')[number % 2]}/patient {number}/{number}.png", _PICTURE)
    return {"input": f"{folder}/in", "label_pattern": "(?P<label>cat|dog)"}


def _groups(count: int, folder: Path) -> Settings:
    rows = "".join(f"{number % 4}.png,{number}\n" for number in range(count))
    save(folder / "in.csv", f"image,patient\n{rows}")
    splits = {"splits": "train=0.5,test=0.5", "group_column": "patient", "layout": "image"}
    return {**_beside(folder, "in.csv"), **splits}


def _zip_of_class_folders(count: int, folder: Path) -> Settings:
    _class_folders(count, folder)
    pack_folder(folder / "in", folder / "in.zip")
    return {"input": f"{folder}/in.zip"}


def _rows(count: int) -> list[dict[str, Any]]:
    return [
        {"image": f"{row}.png", "label": ("cat", "dog")[row % 2], **{f"column {one}": row for one in range(count)}}
        for row in range(4)
    ]


def _columns_of_csv(count: int, folder: Path) -> Settings:
    rows = _rows(count)
    save(
        folder / "in.csv",
        "".join(",".join(map(str, row)) + "\n" for row in ([*rows[0]], *(row.values() for row in rows))),
    )
    return _beside(folder, "in.csv")


def _columns_of_json(count: int, folder: Path) -> Settings:
    save(folder / "in.jsonl", "".join(json.dumps(row) + "\n" for row in _rows(count)))
    return _beside(folder, "in.jsonl")


def _columns_of_parquet(count: int, folder: Path) -> Settings:
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(_rows(count)), folder / "in.parquet")
    return _beside(folder, "in.parquet")


def _beside(folder: Path, table: str) -> Settings:
    for row in range(4):
        save(folder / f"{row}.png", _PICTURE)
    return {"input": f"{folder}/{table}"}


def _table_beside_images(count: int, folder: Path) -> Settings:
    return {**_columns_of_csv(count, folder), "input": str(folder)}


def _classes_of_coco(count: int, folder: Path) -> Settings:
    save(folder / "a.png", _PICTURE)
    document = {
        "images": [{"id": 1, "file_name": "a.png", "width": 8, "height": 8}],
        "categories": [{"id": number, "name": f"class {number}"} for number in range(1, count + 1)],
        "annotations": [
            {"id": number, "image_id": 1, "category_id": number, "bbox": [1, 1, 4, 4], "area": 16, "iscrowd": 0}
            for number in range(1, count + 1)
        ],
    }
    save(folder / "in.json", json.dumps(document))
    return {"input": f"{folder}/in.json", "layout": "detection"}


def _keys_of_documents(count: int, folder: Path) -> Settings:
    for row in range(4):
        save(folder / f"{row}.png", _PICTURE)
        save(folder / f"{row}.json", json.dumps({f"key {number}": number for number in range(count)}))
    return {"input": str(folder)}


def _files_beside_images(count: int, folder: Path) -> Settings:
    _class_folders(4, folder)
    for number in range(count):
        save(folder / f"in/class {number % 4}/notes {number}.txt", f"{number} words")
    return {"input": f"{folder}/in"}


def _tables_beside_images(count: int, folder: Path) -> Settings:
    _class_folders(4, folder)
    for number in range(count):
        save(folder / f"in/table {number}.csv", f"image,value\n{number % 4}.png,{number}\n")
    return {"input": f"{folder}/in"}


@pytest.mark.parametrize(
    "make",
    [
        _class_folders, _split_class_folders, _folder_of_each_image, _groups, _zip_of_class_folders, _columns_of_csv,
        _columns_of_json, _columns_of_parquet, _table_beside_images, _classes_of_coco, _keys_of_documents,
        _files_beside_images, _tables_beside_images,
    ],
)  # fmt: skip
def test_whatever_is_many(make, tmp_path):
    _assert_linear(make, 60, tmp_path)
