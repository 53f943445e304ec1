"""Inputs of every format and layout: pictures with labels, masks, objects, captions, further pictures and vectors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.pictures import picture
from tests.writers import WRITERS, save

SIZES = {"a.png": (60, 40), "b.png": (50, 50), "c.png": (32, 64)}
BOXES = {"a.png": [(0, 0, 30, 20), (15, 10, 45, 30)], "b.png": [(10, 10, 10, 35)], "c.png": []}
_OBJECTS = {"input": "x.json", "image_size": "20x30", "resize_mode": "exact"}
_ROWS = {"input": "t.jsonl", "image_size": "20x30", "resize_mode": "exact"}
LAYOUTS: dict[str, dict[str, Any]] = {
    "segmentation": {"input": "images", "mask_root": "masks", "image_size": "20x30", "resize_mode": "exact"},
    **{f"detection_{name}": {**_OBJECTS, "layout": f"detection_{name}"} for name in ("masks", "keypoints", "polygons")},
    "tfds": {**_OBJECTS, "layout": "tfds"},
    "captions": {**_ROWS, "layout": "captions"},
    **{
        name: {**_ROWS, "image_column": "image,right,views", "layout": "image", "image_encoding": encoding}
        for name, encoding in (("several", "png"), ("several_raw", "raw"), ("several_webp", "webp"))
    },
    "vector": {
        **_ROWS,
        "layout": {"image": "image.encoded", "points": {"field": "columns.x0..x2", "type": "float"}, "key": "key"},
    },
}


def write_tree(root: Path) -> None:
    annotations, images, rows = [], [], []
    for number, (name, (width, height)) in enumerate(SIZES.items()):
        save(root / f"images/{name}", picture(f"gray {width}x{height}"))
        save(root / f"masks/{name}", picture(f"mask {width}x{height} 1=0,0,{width // 2},9 255=9,9,{width},{height}"))
        save(root / f"views/{name}", picture(f"blue {number + 4}x4"))
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        for x, y, w, h in BOXES[name]:
            outline = [x, y, x + w, y, x + w, y + h]
            one = {"image_id": number, "category_id": 1 + number, "bbox": [x, y, w, h], "area": w * h / 2, "iscrowd": 0}
            annotations.append({**one, "segmentation": [outline], "keypoints": [x, y, 2, x + w - 1, y, 1]})
        views = [f"views/{other}" for other in [*SIZES][:number]]
        vector = {f"x{place}": number + place / 4 for place in range(3)}
        captions = [f"{name} ünd {place}" for place in range(number)]
        rows.append({"image": f"images/{name}", "right": "views/a.png", "views": views, "captions": captions, **vector})
    categories = [{"id": 1 + number, "name": name} for number, name in enumerate(("cat", "dog", "emu"))]
    content = {"images": images, "annotations": annotations, "categories": categories}
    save(root / "x.json", json.dumps(content))
    save(root / "t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def settings_of(name: str, root: Path) -> dict[str, Any]:
    """Returns the settings of a layout's build from a tree."""
    paths = {key: str(root / LAYOUTS[name][key]) for key in ("input", "mask_root") if key in LAYOUTS[name]}
    images = {"image_root": str(root / "images")} if LAYOUTS[name]["input"] == "x.json" else {}
    return {"image_encoding": "png", **LAYOUTS[name], **paths, **images}


def _rows(root: Path, *, has_images: bool) -> dict[str, Any]:
    """Rows of several labels, numbers, texts and lists."""
    lines = []
    for number, name in enumerate(SIZES):
        labels = [["cat", "dog"], [], ["emu"]][number]
        cells = f'"age": {7 * number}, "note": "größer {number}", "vector": [{number / 7}, 1e-3, {number}]'
        image = f'"image": "images/{name}", ' if has_images else ""
        lines.append(f'{{{image}"label": {json.dumps(labels)}, {cells}}}\n')
    save(root / "rows.jsonl", "".join(lines))
    return {"input": f"{root}/rows.jsonl"}


_OWN = {
    **{"picture": "image.encoded", "k": "key", "f": "filename", "s": "source_id", "channels": "image.channels"},
    **{"form": "image.format", "labels": "labels.name", "note": {"field": "column.note", "type": "bytes"}},
    "numbers": {"field": "labels.index", "type": "float", "several": True},
    "age": {"field": "column.age", "type": "int64"},
    "vector": {"field": "column.vector", "type": "float", "several": True},
}
_RAW = {"image_encoding": "raw", "resize_mode": "crop", "channels": 1}
# What is more of a folder of images, and of rows.
_OF_FOLDERS: dict[str, dict[str, Any]] = {
    **{name: {"layout": name, "image_size": 16, "resize_mode": "crop"} for name in ("array", "imagenet", "raw")},
    **{name: {"layout": name} for name in ("image", "tutorial")},
    "gzip": {"compression": "gzip", "splits": "train=0.5,test=0.5"},
    "webp": {"image_encoding": "webp", "channels": 4},
    "gray pixels": {**_RAW, "image_size": 16},
    "16 bits": {"image_encoding": "png", "bit_depth": 16},
}
_OF_ROWS: dict[str, dict[str, Any]] = {
    **{"multilabel": {"layout": "multilabel"}, "own": {"layout": _OWN}},
    "no image": {"layout": {name: _OWN[name] for name in ("age", "note")}},
    "float": {"label_column": "age", "label_type": "float"},
    "text": {"label_column": "note", "label_type": "text"},
}


def _of_tree(name: str) -> Callable[[Path], dict[str, Any]]:
    def write(root: Path) -> dict[str, Any]:
        write_tree(root)
        if name in LAYOUTS:
            return settings_of(name, root)
        return {**_rows(root, has_images=name != "no image"), **_OF_ROWS[name]}

    return write


def _of_writer(name: str, more: Mapping[str, Any]) -> Callable[[Path], dict[str, Any]]:
    return lambda root: {**WRITERS[name].make(root), **more}


# Name -> what writes an input below a folder and returns the settings that read it.
EVERY = {
    **{f"layout {name}": _of_tree(name) for name in (*LAYOUTS, *_OF_ROWS)},
    **{f"folder {name}": _of_writer("class_folders", more) for name, more in _OF_FOLDERS.items()},
    **{f"source {name}": _of_writer(name, {}) for name in WRITERS},
}


def write_input(name: str, root: Path) -> dict[str, Any]:
    """Writes one of them into a new folder; returns the settings that read it."""
    root.mkdir()
    return EVERY[name](root)
