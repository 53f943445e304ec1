"""The files with class names, in the formats of TensorFlow Datasets and the TF Object Detection API."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence

from beam_tfrecords.dataset.files import LABEL_MAP, label_file
from beam_tfrecords.features.fields import ClassValue
from beam_tfrecords.features.layouts import Layout

_ITEM = re.compile(r"item\s*\{((?:[^{}\"']|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')*)\}")
_MOST = 100_000
_VALUE = re.compile(r"(\w+)\s*:\s*(\d+|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')")


def label_files(layout: Layout, class_names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Returns file name -> class names, in index order, of the files with class names."""
    named = {
        feature.name: class_names
        for feature in layout.features
        if feature.class_value is ClassValue.INDEX and class_names
    }
    named |= {name: head.class_names for name, head in layout.heads.items()}
    return {label_file(name): names for name, names in sorted(named.items())}


def label_map(layout: Layout, class_names: Sequence[str]) -> dict[str, bytes]:
    """Returns the class names for the TF Object Detection API: file name -> a StringIntLabelMap as text.

    The file exists only if the layout has class numbers from 1, as the API requires.
    """
    if not class_names or all(one.class_value is not ClassValue.ID for one in layout.features):
        return {}
    items = (
        f"item {{\n  id: {number}\n  name: {json.dumps(name, ensure_ascii=False)}\n}}\n"
        for number, name in enumerate(class_names, 1)
    )
    return {LABEL_MAP: "".join(items).encode()}


def parse_label_map(text: str) -> dict[int, str]:
    """Returns number -> class name of a StringIntLabelMap."""
    found: dict[int, str] = {}
    for item in _ITEM.findall(text):
        values = dict(_VALUE.findall(item))
        name = values.get("display_name") or values.get("name")
        if name and values.get("id", "").isdecimal():
            # The escapes of the text format that matter in names are those of JSON.
            found[int(values["id"])] = json.loads(f'"{name[1:-1]}"') if name[0] == '"' else name[1:-1]
    return found


def read_label_map(data: bytes) -> list[str]:
    """Returns the class names of a StringIntLabelMap, from number 1; TensorFlow's rule names missing numbers.

    Returns no names if a number exceeds any model's number of classes.
    """
    found = parse_label_map(data.decode(errors="replace"))
    largest = max(found, default=0)
    return [found.get(number, f"category_{number}") for number in range(1, largest + 1)] if largest < _MOST else []


def fits_label_file(name: str) -> bool:
    """Whether TFDS reads a class name back unchanged: it strips every line of the file and skips empty ones."""
    return bool(name) and name == name.strip() and not {"\n", "\r"} & set(name)


def read_label_file(data: bytes) -> list[str]:
    """Returns the class names as TFDS reads them (`class_label_feature._load_names_from_file`)."""
    return [name.strip() for name in io.StringIO(data.decode(errors="replace"), newline=None) if name.strip()]
