"""One labelled set of pictures in every form that the product reads.

A writer writes what its format holds of a `Meaning`, and returns the settings that read it; `Meaning.lines` says what
the records have to be.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import gzip
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords import Sample, build
from tests.archive_files import pack_folder, tar_of
from tests.framing import example_of, framed
from tests.pictures import color_of, describe_pixels, picture
from tests.pixel_files import save_cifar, save_idx

Settings = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]
# xmin, ymin, xmax, ymax in pixels.
Box = tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True)
class Item:
    """A picture and what is known of it.

    Attributes:
      name: of its file, without extension.
      color: of all its pixels; "" for bytes that are no picture.
      label: its class.
      split: its split.
      objects: class and box of each.
      columns: other values.
    """

    name: str
    color: str
    label: str
    split: str
    objects: Sequence[tuple[str, Box]]
    columns: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Meaning:
    """A labelled set.

    Attributes:
      items: the pictures.
      classes: class names in the order of their numbers.
      size: width and height of every picture.
    """

    items: Sequence[Item]
    classes: Sequence[str]
    size: tuple[int, int] = (20, 16)

    def lines(self, writer: Writer) -> list[str]:
        """Returns what the records of a writer's format mean, as `Published.describe` does, after their splits."""
        return sorted(self._line(writer, item) for item in self.items)

    def _line(self, writer: Writer, item: Item) -> str:
        shown = f"{item.color} {self.size[0]}x{self.size[1]}"
        if writer.is_gray:
            shown = describe_pixels(self.gray(item))
        shown = "; ".join(f"{name}: {shown}" for name in writer.images) or shown
        parts = [f"{item.split if 'split' in writer.holds else 'train'}: {shown}"]
        if "label" in writer.holds:
            parts.append(item.label)
        if "mask" in writer.holds:
            parts.append("mask " + " ".join(_mask_words(self, item)))
        if "objects" in writer.holds:
            boxes = (f"{label} {','.join(map(str, box))}" for label, box in item.objects)
            parts.append(" | ".join(sorted(boxes)))
        if "columns" in writer.holds:
            parts += [f"{name}={value}" for name, value in sorted(item.columns.items())]
        return "; ".join(parts)

    def image(self, item: Item) -> bytes:
        """Returns the PNG of an item."""
        return picture(f"{item.color} {self.size[0]}x{self.size[1]}" if item.color else "broken")

    def pixels(self, item: Item) -> np.ndarray:
        """Returns the pixels of an item, [H, W, 3] uint8."""
        return np.full((self.size[1], self.size[0], 3), color_of(item.color), np.uint8)

    def gray(self, item: Item) -> np.ndarray:
        """Returns the brightness of an item, [H, W] uint8."""
        return (self.pixels(item) @ (0.3, 0.59, 0.11)).astype(np.uint8)

    def turned(self) -> Meaning:
        """Returns another meaning in files of the same names: each item has the picture and objects of the next one."""
        others = [*self.items[1:], self.items[0]]
        pairs = zip(self.items, others, strict=True)
        changes = ("color", "objects", "columns")
        items = [dataclasses.replace(one, **{name: getattr(other, name) for name in changes}) for one, other in pairs]
        return dataclasses.replace(self, items=items)

    def relabelled(self) -> Meaning:
        """Returns the same pictures, each with the other class."""
        items = [dataclasses.replace(one, label="dog" if one.label == "cat" else "cat") for one in self.items]
        return dataclasses.replace(self, items=items)

    def reversed(self) -> Meaning:
        """Returns the same meaning in the opposite order."""
        return dataclasses.replace(self, items=self.items[::-1])


MEANING = Meaning(
    [
        Item("a0", "red", "cat", "train", [("cat", (1, 2, 8, 12)), ("dog", (9, 3, 20, 16))], {"age": 3, "note": "x y"}),
        Item("a1", "green", "dog", "train", [("dog", (0, 0, 5, 6))], {"age": 40, "note": "ünd"}),
        Item("a2", "blue", "cat", "train", [("cat", (2, 2, 18, 9))], {"age": 7, "note": "comma, here"}),
        Item("a3", "yellow", "dog", "validation", [("dog", (3, 4, 9, 11))], {"age": 0, "note": "-"}),
        Item("a4", "cyan", "cat", "validation", [("cat", (6, 6, 12, 13))], {"age": 12, "note": "z"}),
        Item("a5", "white", "dog", "test", [("cat", (0, 8, 20, 16))], {"age": 9, "note": "last"}),
    ],
    ("cat", "dog"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Writer:
    """Writes a meaning in a format.

    Attributes:
      write: writes the files below a folder, and returns the settings of a build that reads them.
      holds: what the format holds beside pictures: `label`, `split`, `objects`, `mask`, `columns`.
      is_numbered: whether its samples are named by their places, so that another order is another dataset.
      is_raw: whether it has pixels instead of files of pictures, which may be broken one by one.
      is_gray: whether its pictures have one channel.
      size: of its pictures, if the format has one alone.
      images: names of the images of a sample, each the picture of its item; none for one image.
      source: the source for which it writes the input of tests/identity_inputs.py; "" for none.
    """

    write: Callable[[Path, Meaning], Settings]
    holds: frozenset[str]
    is_numbered: bool = False
    is_raw: bool = False
    is_gray: bool = False
    size: tuple[int, int] | None = None
    images: Sequence[str] = ()
    source: str = ""

    def make(self, folder: Path, meaning: Meaning | None = None) -> Settings:
        """Writes a meaning below a folder, with pictures of the format's size; returns the settings that read it."""
        folder.mkdir(parents=True, exist_ok=True)
        return self.write(folder, self.fit(meaning or MEANING))

    def fit(self, meaning: Meaning) -> Meaning:
        """Returns the meaning with pictures of the format's size."""
        return dataclasses.replace(meaning, size=self.size) if self.size else meaning


WRITERS: dict[str, Writer] = {}


def flags_of(settings: Settings) -> list[str]:
    """Returns the flags of a command with the same settings."""
    pairs = [
        (name, one)
        for name, value in settings.items()
        for one in (value if name == "input" and isinstance(value, list) else [value])
    ]
    return [f"--{name}={_word(value)}" for name, value in pairs]


def _word(value: Any) -> str:
    if callable(value):
        return f"{value.__module__}:{value.__name__}"
    return ",".join(value) if isinstance(value, list) else str(value)


def _writes(*holds: str, **facts: Any) -> Callable[[Callable[[Path, Meaning], Settings]], Any]:
    def register(write: Callable[[Path, Meaning], Settings]) -> Callable[[Path, Meaning], Settings]:
        WRITERS[write.__name__] = Writer(write, frozenset(holds), **facts)
        return write

    return register


def save(path: Path, content: bytes | str) -> None:
    """Writes a file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _save_images(folder: Path, meaning: Meaning, name: Callable[[Item], str] = lambda item: item.name) -> None:
    for item in meaning.items:
        save(folder / f"{name(item)}.png", meaning.image(item))


def _split_folder(item: Item) -> str:
    return f"{item.split}/{item.label}/{item.name}"


def _class_folder(item: Item) -> str:
    return f"{item.label}/{item.name}"


# Folders.


@_writes("label", source="image_folder")
def class_folders(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "in", meaning, _class_folder)
    return {"input": f"{folder}/in"}


@_writes("label", "split")
def split_folders(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "in", meaning, _split_folder)
    return {"input": f"{folder}/in"}


def _pattern(meaning: Meaning) -> str:
    return f"(?P<label>{'|'.join(map(re.escape, meaning.classes))})_"


@_writes("label", source="filename_pattern")
def class_in_names(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "in", meaning, lambda item: f"{item.label}_{item.name}")
    return {"input": f"{folder}/in", "label_pattern": _pattern(meaning)}


@_writes("label", "split")
def split_inputs(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning, _split_folder)
    return {"input": [f"{split}={folder}/{split}" for split in ("train", "validation", "test")]}


@_writes("label", images=("left", "right"), source="paired_images")
def paired_folders(folder: Path, meaning: Meaning) -> Settings:
    for side in ("left", "right"):
        _save_images(folder / side, meaning, lambda item: f"{item.label}_{item.name}")
    return {"images": f"left={folder}/left,right={folder}/right", "label_pattern": _pattern(meaning)}


@_writes("mask")
def mask_folder(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "images", meaning)
    for item in meaning.items:
        save(folder / f"masks/{item.name}.png", _mask(meaning, item))
    return {"input": f"{folder}/images", "mask_root": f"{folder}/masks"}


def _mask_words(meaning: Meaning, item: Item) -> list[str]:
    label, box = item.objects[0]
    return [f"{meaning.classes.index(label) + 1}={','.join(map(str, box))}"]


def _mask(meaning: Meaning, item: Item) -> bytes:
    return picture(f"mask {meaning.size[0]}x{meaning.size[1]} {' '.join(_mask_words(meaning, item))}")


# Archives of folders.


def _archive(form: str, folders: str) -> None:
    def write(folder: Path, meaning: Meaning) -> Settings:
        WRITERS[folders].write(folder, meaning)
        path = folder / f"pictures.{form}"
        pack_folder(folder / "in", path)
        shutil.rmtree(folder / "in")
        return {"input": str(path)}

    source = "tar" if (form, folders) == ("tar", "class_folders") else ""
    WRITERS[f"{form.replace('.', '_')}_of_{folders}"] = Writer(write, WRITERS[folders].holds, source=source)


for _form in ("zip", "tar", "tar.gz", "tar.zst"):
    for _folders in ("class_folders", "split_folders"):
        _archive(_form, _folders)


# Files of rows, in which a picture is `{"bytes": …, "path": …}`.


def csv_of(rows: Rows, *, delimiter: str = ",", end: str = "\r\n", has_header: bool = True) -> bytes:
    """Returns a table of text."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=end)
    writer.writerows(([rows[0]] if has_header else []) + [row.values() for row in rows])
    return file.getvalue().encode()


def jsonl_of(rows: Rows, **how: Any) -> bytes:
    """Returns lines of JSON; `how` goes to `json.dumps`."""
    return "".join(f"{json.dumps(row, **how)}\n" for row in rows).encode()


def parquet_of(rows: Rows, *, class_names: Mapping[str, Sequence[str]] | None = None, **how: Any) -> bytes:
    """Returns a Parquet file, whose schema declares classes as Hugging Face's does; `how` goes to pyarrow."""
    file, table = io.BytesIO(), pa.Table.from_pylist([*rows])
    if class_names:
        features = {name: {"names": names, "_type": "ClassLabel"} for name, names in class_names.items()}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, file, **how)
    return file.getvalue()


def webdataset_of(rows: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Returns a shard of WebDataset: key -> pictures, `cls` and `txt` as members of their names, and a JSON file."""
    members: dict[str, bytes] = {}
    for key, row in rows.items():
        own = {name: value for name, value in row.items() if isinstance(value, dict) and "bytes" in value}
        members |= {f"{key}.{name}": value["bytes"] for name, value in own.items()}
        own |= {name: row[name] for name in ("cls", "txt") if isinstance(row.get(name), str | int)}
        members |= {f"{key}.{name}": str(value).encode() for name, value in own.items() if not isinstance(value, dict)}
        if document := {name: value for name, value in row.items() if name not in own}:
            members[f"{key}.json"] = json.dumps(document).encode()
    return tar_of(members)


def tfrecord_of(rows: Rows) -> bytes:
    """Returns a file of examples."""
    plain = ({name: _bytes_of(value) for name, value in row.items()} for row in rows)
    return framed(*(example_of({name: value for name, value in row.items() if value is not None}) for row in plain))


def _bytes_of(value: Any) -> Any:
    return value["bytes"] if isinstance(value, dict) else value


def _file(path: Path, content: bytes | str) -> Settings:
    save(path, content)
    return {"input": str(path)}


# Tables.


def rows_of(meaning: Meaning) -> list[dict[str, Any]]:
    """Returns a row for each item; without a split if it has none."""
    return [
        {"image": f"{item.name}.png", "label": item.label}
        | ({"split": item.split} if item.split else {})
        | {**item.columns}
        for item in meaning.items
    ]


def _columns(meaning: Meaning) -> Settings:
    return {"layout": "tfds,age:int64,note:bytes"} if meaning.items[0].columns else {}


def _table(name: str, file: str, content: Callable[[Rows], bytes], source: str = "") -> None:
    def write(folder: Path, meaning: Meaning) -> Settings:
        _save_images(folder, meaning)
        return {**_file(folder / file, content(rows_of(meaning))), **_columns(meaning)}

    WRITERS[name] = Writer(write, frozenset(("label", "split", "columns")), source=source)


_table("csv_table", "table.csv", csv_of, "csv")
_table("tsv_table", "table.tsv", functools.partial(csv_of, delimiter="\t"))
_table("gzip_table", "table.csv.gz", lambda rows: gzip.compress(csv_of(rows)))
_table("jsonl_table", "table.jsonl", jsonl_of, "jsonl")
_table("parquet_table", "table.parquet", functools.partial(parquet_of, compression="none"), "parquet")


@_writes("label", "split", "columns")
def joined_tables(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    rows = rows_of(meaning)
    more = [{name: row[name] for name in ("image", "age", "note")} for row in rows][::-1]
    save(folder / "more.csv", csv_of(more))
    first = _file(
        folder / "table.csv", csv_of([{name: row[name] for name in ("image", "label", "split")} for row in rows])
    )
    return {**first, "join": f"{folder}/more.csv", **_columns(meaning)}


def _metadata(folder: Path, meaning: Meaning, name: str, content: Callable[[Rows], bytes], rows: Rows) -> Settings:
    _save_images(folder, meaning)
    save(
        folder / name,
        content([{"file_name": row["image"], **{n: row[n] for n in row if n != "image"}} for row in rows]),
    )
    return {"input": str(folder), "source": "hf_folder"}


@_writes("label", "split", "columns", source="hf_folder")
def metadata_folder(folder: Path, meaning: Meaning) -> Settings:
    return {**_metadata(folder / "in", meaning, "metadata.csv", csv_of, rows_of(meaning)), **_columns(meaning)}


@_writes("label", "split", images=("left", "views"))
def image_columns(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    rows = [
        {"left": row["image"], "views": [row["image"]], "label": row["label"], "split": row["split"]}
        for row in rows_of(meaning)
    ]
    return {**_file(folder / "table.jsonl", jsonl_of(rows)), "image_column": "left,views"}


@_writes("label")
def numbered_classes(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    save(folder / "names.json", json.dumps({name: number for number, name in enumerate(meaning.classes)}))
    rows = [{"image": f"{item.name}.png", "label": meaning.classes.index(item.label)} for item in meaning.items]
    return {**_file(folder / "table.csv", csv_of(rows)), "class_names": f"{folder}/names.json"}


@_writes("label")
def list_file(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "images", meaning)
    lines = (f"images/{item.name}.png {meaning.classes.index(item.label)}\n" for item in meaning.items)
    save(folder / "classes.txt", "".join(f"{name}\n" for name in meaning.classes))
    return {**_file(folder / "list.txt", "".join(lines)), "source": "csv"}


# Files that hold the pictures, with labels, masks or objects.


def _embedded(rows: Rows, meaning: Meaning) -> list[dict[str, Any]]:
    pairs = zip(rows, meaning.items, strict=True)
    return [{**row, "image": {"bytes": meaning.image(item), "path": f"{item.name}.png"}} for row, item in pairs]


def _mask_rows(meaning: Meaning) -> list[dict[str, Any]]:
    return [{"image": "", "mask": {"bytes": _mask(meaning, item)}} for item in meaning.items]


def _object_rows(meaning: Meaning) -> list[dict[str, Any]]:
    return [
        {
            "image": f"{item.name}.png",
            "split": item.split,
            "objects": {
                "bbox": [_sides(box) for _, box in item.objects],
                "categories": [label for label, _ in item.objects],
            },
        }
        for item in meaning.items
    ]


def _hold_pictures(
    end: str, rows: Callable[[Meaning], Rows], settings: Settings, *holds: str, source: str = ""
) -> None:
    def parquet(folder: Path, meaning: Meaning) -> Settings:
        content = parquet_of(_embedded(rows(meaning), meaning))
        return {**_file(folder / f"{end or 'images'}.parquet", content), **(settings or _columns(meaning))}

    def webdataset(folder: Path, meaning: Meaning) -> Settings:
        keyed = {}
        for item, row in zip(meaning.items, _embedded(rows(meaning), meaning), strict=True):
            names = {"image": "png", "mask": "mask.png"}
            keyed[item.name] = {names.get(name, name): value for name, value in row.items()}
        return {**_file(folder / f"{end or 'set'}.tar", webdataset_of(keyed)), **(settings or _columns(meaning))}

    WRITERS[f"parquet_{end or 'images'}"] = Writer(parquet, frozenset(holds), is_numbered=True)
    WRITERS["_".join(filter(None, ("webdataset", end)))] = Writer(webdataset, frozenset(holds), source=source)


_hold_pictures("", rows_of, {}, "label", "split", "columns", source="webdataset")
_hold_pictures("masks", _mask_rows, {"layout": "segmentation"}, "mask")
_hold_pictures("objects", _object_rows, {"box_format": "xywh"}, "objects", "split")


@_writes("label", "split", "columns", is_numbered=True)
def tfrecord(folder: Path, meaning: Meaning) -> Settings:
    content = tfrecord_of(_embedded(rows_of(meaning), meaning))
    return {**_file(folder / "set.tfrecord", content), "split_column": "split", **_columns(meaning)}


@_writes("mask", is_numbered=True)
def tfrecord_masks(folder: Path, meaning: Meaning) -> Settings:
    name = "image/segmentation/class/encoded"
    rows = [{"image/encoded": meaning.image(one), name: _mask(meaning, one)} for one in meaning.items]
    return {**_file(folder / "set.tfrecord", tfrecord_of(rows)), "layout": "segmentation"}


@_writes("label", "split", is_raw=True)
def own_dataset(folder: Path, meaning: Meaning) -> Settings:
    shutil.rmtree(folder / "built", ignore_errors=True)
    made = split_folders(folder / "made", meaning)
    build(output=f"{folder}/built", quiet=True, image_encoding="png", **made)
    return {"input": f"{folder}/built"}


# Objects.


def _sides(box: Box) -> list[int]:
    left, top, right, bottom = box
    return [left, top, right - left, bottom - top]


@_writes("objects", source="coco")
def coco(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "images", meaning)
    width, height = meaning.size
    names = sorted(item.name for item in meaning.items)
    numbered = [(names.index(item.name), item) for item in meaning.items]
    annotations = [
        {"image_id": number, "category_id": 1 + meaning.classes.index(label), "bbox": _sides(box)}
        for number, item in numbered
        for label, box in item.objects
    ]
    content = {
        "images": [{"id": n, "file_name": f"{one.name}.png", "width": width, "height": height} for n, one in numbered],
        "annotations": [{**one, "id": number} for number, one in enumerate(annotations)],
        "categories": [{"id": 1 + number, "name": name} for number, name in enumerate(meaning.classes)],
    }
    save(folder / "instances.json", json.dumps(content))
    return {"input": f"{folder}/instances.json", "image_root": f"{folder}/images"}


@_writes("objects", "split", source="yolo")
def yolo(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning, lambda item: f"{item.split}/images/{item.name}")
    width, height = meaning.size
    for item in meaning.items:
        rows = []
        for label, (left, top, right, bottom) in item.objects:
            middle = (left + right) / 2 / width, (top + bottom) / 2 / height
            size = (right - left) / width, (bottom - top) / height
            rows.append(f"{meaning.classes.index(label)} {' '.join(f'{one:.8f}' for one in (*middle, *size))}\n")
        save(folder / f"{item.split}/labels/{item.name}.txt", "".join(rows))
    splits = "train: train/images\nval: validation/images\ntest: test/images\n"
    save(folder / "data.yaml", f"{splits}names: {json.dumps(list(meaning.classes))}\n")
    return {"input": f"{folder}/data.yaml"}


def voc_xml(meaning: Meaning, item: Item, name: str) -> str:
    """Returns the annotation of an item: the first pixel is (1, 1), and a box includes its last one."""
    objects = "".join(
        f"<object><name>{label}</name><bndbox><xmin>{left + 1}</xmin><ymin>{top + 1}</ymin><xmax>{right}</xmax>"
        f"<ymax>{bottom}</ymax></bndbox></object>"
        for label, (left, top, right, bottom) in item.objects
    )
    size = f"<size><width>{meaning.size[0]}</width><height>{meaning.size[1]}</height><depth>3</depth></size>"
    return f"<annotation><filename>{name}</filename>{size}{objects}</annotation>"


@_writes("objects", "split", source="voc")
def voc(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "VOC/JPEGImages", meaning)
    for item in meaning.items:
        save(folder / f"VOC/Annotations/{item.name}.xml", voc_xml(meaning, item, f"{item.name}.png"))
    for split, name in (("train", "train"), ("validation", "val"), ("test", "test")):
        lines = (f"{item.name}\n" for item in meaning.items if item.split == split)
        save(folder / f"VOC/ImageSets/Main/{name}.txt", "".join(lines))
    return {"input": f"{folder}/VOC", "source": "voc"}


@_writes("objects")
def xml_beside_images(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "in", meaning)
    for item in meaning.items:
        save(folder / f"in/{item.name}.xml", voc_xml(meaning, item, f"{item.name}.png"))
    return {"input": f"{folder}/in", "source": "voc"}


@_writes("objects")
def labelme(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "in", meaning)
    for item in meaning.items:
        shapes = [
            {"label": label, "points": [box[:2], box[2:]], "shape_type": "rectangle"} for label, box in item.objects
        ]
        size = {"imageWidth": meaning.size[0], "imageHeight": meaning.size[1]}
        document = {"version": "5.4.1", "shapes": shapes, "imagePath": f"{item.name}.png", "imageData": None, **size}
        save(folder / f"in/{item.name}.json", json.dumps(document))
    return {"input": f"{folder}/in", "mapping": "labelme"}


@_writes("objects")
def createml(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    documents = []
    for item in meaning.items:
        found = []
        for label, (left, top, right, bottom) in item.objects:
            center = {"x": (left + right) / 2, "y": (top + bottom) / 2, "width": right - left, "height": bottom - top}
            found.append({"label": label, "coordinates": center})
        documents.append({"image": f"{item.name}.png", "annotations": found})
    save(folder / "annotations.json", json.dumps(documents))
    return {"input": f"{folder}/annotations.json", "mapping": "createml"}


@_writes("objects")
def odgt(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder / "images", meaning)
    lines = [
        {"ID": f"{item.name}.png", "gtboxes": [{"tag": label, "fbox": _sides(box)} for label, box in item.objects]}
        for item in meaning.items
    ]
    return {**_file(folder / "annotations.odgt", jsonl_of(lines)), "mapping": "crowdhuman"}


@_writes("objects")
def own_mapping(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    for item in meaning.items:
        marks = [{"kind": label, "at": _sides(box)} for label, box in item.objects]
        save(folder / f"notes/{item.name}.json", json.dumps({"photo": f"{item.name}.png", "marks": marks}))
    text = 'documents: "*.json"\nimage: photo\nobjects: marks\nclass: kind\nbox: at\nform: xywh\n'
    save(folder / "mine.yaml", text)
    return {"input": f"{folder}/notes", "mapping": f"{folder}/mine.yaml", "image_root": str(folder)}


@_writes("objects", "split")
def jsonl_objects(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    return {**_file(folder / "objects.jsonl", jsonl_of(_object_rows(meaning))), "box_format": "xywh"}


@_writes("objects", "split")
def metadata_objects(folder: Path, meaning: Meaning) -> Settings:
    return _metadata(folder / "in", meaning, "metadata.jsonl", jsonl_of, _object_rows(meaning))


@_writes("objects", "split")
def csv_boxes(folder: Path, meaning: Meaning) -> Settings:
    _save_images(folder, meaning)
    rows = [
        {"image": f"{item.name}.png", "split": item.split}
        | dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
        | {"class": label}
        for item in meaning.items
        for label, box in item.objects
    ]
    return _file(folder / "boxes.csv", csv_of(rows))


@_writes("objects", is_numbered=True)
def tfrecord_objects(folder: Path, meaning: Meaning) -> Settings:
    rows = []
    for item in meaning.items:
        sides = {
            f"image/object/bbox/{side}": [box[place] / meaning.size[place % 2] for _, box in item.objects]
            for place, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
        }
        classes = [label for label, _ in item.objects]
        rows.append({"image/encoded": meaning.image(item), **sides, "image/object/class/text": classes})
    return _file(folder / "objects.tfrecord", tfrecord_of(rows))


# Arrays of pixels.


def _numbers(meaning: Meaning) -> np.ndarray:
    return np.array([meaning.classes.index(item.label) for item in meaning.items])


def _names(meaning: Meaning) -> Settings:
    return {"class_names": list(meaning.classes)}


def _npz(name: str, write_arrays: Callable[..., None]) -> None:
    def write(folder: Path, meaning: Meaning) -> Settings:
        write_arrays(folder / "x.npz", images=np.stack([*map(meaning.pixels, meaning.items)]), labels=_numbers(meaning))
        return {"input": f"{folder}/x.npz", **_names(meaning)}

    WRITERS[name] = Writer(write, frozenset(["label"]), is_numbered=True, is_raw=True)


_npz("npz", np.savez)
_npz("deflated_npz", np.savez_compressed)


@_writes("label", is_numbered=True, is_raw=True, source="numpy")
def npy(folder: Path, meaning: Meaning) -> Settings:
    np.save(folder / "x.npy", np.stack([*map(meaning.pixels, meaning.items)]))
    np.save(folder / "y.npy", _numbers(meaning))
    return {"input": f"{folder}/x.npy", **_names(meaning)}


@_writes("label", is_numbered=True, is_raw=True, is_gray=True, source="idx")
def idx(folder: Path, meaning: Meaning) -> Settings:
    save_idx(folder / "in/train-images-idx3-ubyte", np.stack([*map(meaning.gray, meaning.items)]))
    save_idx(folder / "in/train-labels-idx1-ubyte", _numbers(meaning))
    return {"input": f"{folder}/in", "source": "idx", **_names(meaning)}


@_writes("label", is_numbered=True, is_raw=True, size=(32, 32), source="cifar")
def cifar(folder: Path, meaning: Meaning) -> Settings:
    images = np.stack([*map(meaning.pixels, meaning.items)])
    save_cifar(folder / "in/data_batch_1.bin", images, _numbers(meaning).tolist())
    save(folder / "in/batches.meta.txt", "".join(f"{name}\n" for name in meaning.classes))
    return {"input": f"{folder}/in", "source": "cifar"}


@_writes("label", is_numbered=True, is_raw=True, is_gray=True, size=(48, 48))
def pixel_table(folder: Path, meaning: Meaning) -> Settings:
    rows = [
        {"emotion": number, "pixels": " ".join(map(str, meaning.gray(item).ravel()))}
        for number, item in zip(_numbers(meaning), meaning.items, strict=True)
    ]
    return {**_file(folder / "fer.csv", csv_of(rows)), **_names(meaning)}


@_writes("label", is_numbered=True, is_raw=True)
def tfrecord_pixels(folder: Path, meaning: Meaning) -> Settings:
    shape = {"height": meaning.size[1], "width": meaning.size[0], "depth": 3}
    rows = [
        {"image_raw": meaning.pixels(item).tobytes(), **shape, "label": int(number)}
        for number, item in zip(_numbers(meaning), meaning.items, strict=True)
    ]
    return {**_file(folder / "pixels.tfrecord", tfrecord_of(rows)), **_names(meaning)}


# The user's own code.


@_writes("label", "split", source="python")
def function(folder: Path, meaning: Meaning) -> Settings:
    WRITERS["csv_table"].write(folder, meaning)
    return {"input": samples, "parts": [str(folder)]}


def samples(folder: Any) -> Iterator[Sample]:
    """The rows of the table of a folder; each second image as its bytes."""
    with Path(folder, "table.csv").open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            path = Path(folder, row["image"])
            image = path.read_bytes() if number % 2 else path
            yield Sample(row["image"], image=image, label=row["label"], split=row.get("split"))
