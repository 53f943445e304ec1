"""Files of an input name paths: none leads out of the input."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from tests.annotated_inputs import PICTURES, save_pictures, voc_of, write_coco
from tests.core.opened_sources import open_source


def _csv(folder: Path, path: str) -> Path:
    (folder / "t.csv").write_text(f'image,label\n"{path}",x\n')
    return folder / "t.csv"


def _jsonl(folder: Path, path: str) -> Path:
    (folder / "t.jsonl").write_text(json.dumps({"image": path, "label": "x"}))
    return folder / "t.jsonl"


def _parquet(folder: Path, path: str) -> Path:
    pq.write_table(pa.table({"image": [path], "label": ["x"]}), folder / "t.parquet")
    return folder / "t.parquet"


def _hf_parquet(folder: Path, path: str) -> Path:
    images = pa.array([{"bytes": None, "path": path}], pa.struct({"bytes": pa.binary(), "path": pa.string()}))
    pq.write_table(pa.table({"image": images, "label": ["x"]}), folder / "t.parquet")
    return folder / "t.parquet"


def _hf_folder(folder: Path, path: str) -> Path:
    (folder / "metadata.jsonl").write_text(json.dumps({"file_name": path, "label": "x"}))
    return folder


def _coco(folder: Path, path: str) -> Path:
    return write_coco(folder / "t.json", {path: PICTURES["a.jpg"]}) if "\0" not in path else _csv(folder, path)


def _yolo(text: str) -> Callable[[Path, str], Path]:
    def write(folder: Path, path: str) -> Path:
        (folder / "list.txt").write_text(path)
        above = os.path.dirname(path)
        names = json.dumps(f"{above or '.'}/names.txt"), json.dumps(above)
        (folder / "t.yaml").write_text(text.format(file=names[0], folder=names[1]))
        return folder / "t.yaml"

    return write


def _voc(folder: Path, path: str) -> Path:
    for name in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    save_pictures(folder / "JPEGImages", {"b.jpg": PICTURES["b.jpg"]})
    (folder / "Annotations/b.xml").write_text(voc_of(path, PICTURES["b.jpg"]))
    (folder / "ImageSets/Main/train.txt").write_text(f"{path.rpartition('.')[0]}\nb\n")
    return folder


# Source -> what writes an input that names one path, and the fields of its request.
NAMING = {
    "csv": (_csv, {}),
    "jsonl": (_jsonl, {}),
    "parquet": (_parquet, {}),
    "mask column": (_csv, {"mask_column": "image", "needs_mask": True}),
    "hf_parquet": (_hf_parquet, {}),
    "hf_folder": (_hf_folder, {"source": "hf_folder"}),
    "coco": (_coco, {}),
    "yolo path": (_yolo("path: {folder}\ntrain: .\nnames: [a, b, c]\n"), {}),
    "yolo train": (_yolo("train: {folder}\nnames: [a, b, c]\n"), {}),
    "yolo list": (_yolo("train: {file}\nnames: [a, b, c]\n"), {}),
    "yolo line": (_yolo("train: list.txt\nnames: [a, b, c]\n"), {}),
    "voc": (_voc, {"source": "voc", "needs_objects": True}),
}


def _paths(outside: Path, seed: int) -> list[str]:
    """Paths that lead out of a folder beside `outside`, and others, at random."""
    chosen = random.Random(seed)
    parts = ["..", "..", ".", "", "link", "sub", "outside", "in"]
    found = ["/".join([*chosen.choices(parts, k=chosen.randrange(6)), "a.jpg"]) for _ in range(20)]
    known = ["../outside/a.jpg", f"{outside}/a.jpg", f"file://{outside}/a.jpg", f"file://localhost{outside}/%61.jpg"]
    stores = [f"{scheme}://bucket/a.jpg" for scheme in ("s3", "gs", "hdfs", "azfs", "S3", "file", "ftp")]
    return [*known, "link/../../outside/a.jpg", "x\\..\\..\\outside\\a.jpg", *stores, *found]


@pytest.mark.parametrize("source", NAMING)
def test_no_file_of_an_input_leads_out_of_it(source, tmp_path, monkeypatch):
    root, outside = tmp_path / "in", tmp_path / "outside"
    for folder in (root, root / "sub", outside, tmp_path / "linked"):
        save_pictures(folder, {"a.jpg": PICTURES["a.jpg"]})
        (folder / "names.txt").write_text("a.jpg")
    (root / "link").symlink_to(tmp_path / "linked")
    asked, system = [], storage._system
    monkeypatch.setattr(storage, "_system", lambda path, *version: asked.append(path) or system(path, *version))
    write, fields = NAMING[source]
    found = 0
    for path in _paths(outside, seed=30):
        try:
            opened = open_source(write(root, path), **{"needs_label": False, **fields})
            samples = [*opened.read_all(tmp_path / "staging")]
        except RequestError:
            continue
        for sample in samples:
            if sample.failure is None:
                found += 1
                assert os.path.normpath(sample.uri).startswith(f"{root}/"), path
                assert ".." not in sample.uri
    assert found
    assert not [path for path in asked if storage.has_scheme(path)]
