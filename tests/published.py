"""What a published dataset holds, read without the product: its own files, TFRecord framing and protobuf."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.framing import Example, records_of
from tests.pictures import describe_mask, describe_picture, describe_pixels

Values = Mapping[str, list[Any]]
# Of a PNG and a JPEG.
_STARTS = (b"\x89PNG", b"\xff\xd8")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_BOX = {f"image/object/bbox/{side}" for side in _SIDES}
# Features that the key, the picture or the name of a class tells.
_TOLD = _BOX | {
    *("filename", "image/filename", "image/source_id", "image/format", "image/height", "image/width"),
    *("image/channels", "image/colorspace", "image/object/class/label", "image/object/area", "objects/bbox"),
}


@dataclasses.dataclass(frozen=True)
class Record:
    """A record.

    Attributes:
      split: of the record.
      key: of the sample, as the index has it.
      values: feature -> its values.
    """

    split: str
    key: str
    values: Values


@dataclasses.dataclass(frozen=True)
class Published:
    """A published dataset.

    Attributes:
      path: its folder.
      records: in the order of the shards.
      failures: key -> reason and detail of a rejected sample.
      manifest: `manifest.json`.
      shards: name of a file of records -> its bytes.
    """

    path: str
    records: list[Record]
    failures: dict[str, str]
    manifest: Mapping[str, Any]
    shards: Mapping[str, bytes]

    def describe(self, record: Record) -> str:
        """Returns what a record means in one line: pictures, labels, objects, then its other features."""
        return "; ".join(filter(None, _parts_of(record.values, self.manifest)))


def read_published(path: str | os.PathLike[str]) -> Published:
    """Reads a dataset, and checks that nothing is lost.

    The numbers of its manifest are those of its files; what is listed is written, failed, filtered, dropped, merged or
    replaced.
    """
    folder = Path(path)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (folder / "_SUCCESS").exists()
    records, shards = [], {}
    for shard in manifest["shards"]:
        shards[shard["file"]] = (folder / shard["file"]).read_bytes()
        keys = pq.read_table(folder / shard["index"], columns=["key"])["key"].to_pylist()
        for key, data in zip(keys, records_of(folder / shard["file"]), strict=True):
            features = Example.FromString(data).features.feature
            values = {
                name: list(getattr(feature, feature.WhichOneof("kind") or "bytes_list").value)
                for name, feature in sorted(features.items())
            }
            records.append(Record(shard["split"], key, values))
        assert shard["records"] == len(keys)
    failures = read_failures(folder)
    names = ("records", "failures", "filtered", "dropped_duplicates", "merged_rows", "replaced_members")
    ends = [manifest[name] for name in names]
    assert manifest["listed"] == sum(ends)
    assert ends[:2] == [len(records), len(failures)]
    return Published(str(path), records, failures, manifest, shards)


def read_failures(folder: Path) -> dict[str, str]:
    """Returns key -> reason and detail of each rejected sample, also of a build that published nothing.

    Of several with one key, all but the first have their number behind the key.
    """
    failures: dict[str, str] = {}
    count: Counter[str] = Counter()
    for line in map(json.loads, (folder / "failures.jsonl").read_text().splitlines()):
        key = line["key"]
        count[key] += 1
        failures[f"{key} ({count[key]})" if count[key] > 1 else key] = f"{line['reason']}: {line['detail']}"
    return failures


def _parts_of(values: Values, manifest: Mapping[str, Any]) -> list[str]:
    names = manifest["class_names"]
    parts, told = [], {*_TOLD}
    for name, found in values.items():
        is_only = name in ("image", "image/encoded", "image_raw") or name.startswith("images/")
        if is_only or (name != "mask" and "/mask" not in name and _are_pictures(found)):
            shown = [_show_picture(data, values) for data in found]
            parts += shown if is_only else [f"{name}: {' + '.join(shown)}"]
            told.add(name)
    if "height" in values and "image_raw" in values:
        told |= {"height", "width", "depth"}
    for name in ("label", "labels", "image/class/label"):
        if name in values:
            parts.append(" + ".join(str(_class_of(names, value, name)) for value in values[name]) or "no label")
            told |= {name, "image/class/text"}
    if "mask" in values:
        parts.append(f"mask {' + '.join(map(describe_mask, values['mask']))}")
        told.add("mask")
    height, width = _size_of(values)
    objects = _objects_of(values, names, height, width)
    if objects is not None:
        parts.append(" | ".join(objects) or "no object")
        told |= {name for name in values if name.startswith(("image/object/", "objects/"))}
    for name, found in values.items():
        if name not in told:
            parts.append(f"{name}={_show(found)}")
    return parts


def _show_picture(data: bytes, values: Values) -> str:
    if "height" not in values or data.startswith(_STARTS):
        return describe_picture(data)
    sides = [values[side][0] for side in ("height", "width", "depth")]
    return describe_pixels(np.frombuffer(data, np.uint8).reshape(sides))


def _are_pictures(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(one, bytes) and one.startswith(_STARTS) for one in values)


def _class_of(names: list[str], value: Any, feature: str) -> Any:
    if not isinstance(value, int) or not names:
        return _show([value])
    return names[value] if 0 <= value < len(names) else f"class {value}"


def _size_of(values: Values) -> tuple[int, int]:
    if "image/height" in values:
        return values["image/height"][0], values["image/width"][0]
    data = next((values[name][0] for name in ("image", "image/encoded") if name in values), b"")
    if not data:
        return 1, 1
    width, _, height = describe_picture(data).rpartition(" ")[2].partition("x")
    return int(height), int(width)


def _objects_of(values: Values, names: list[str], height: int, width: int) -> list[str] | None:
    """Returns each object as its class, its box in pixels of the stored image, and its other values."""
    if "objects/bbox" in values:
        flat = values["objects/bbox"]
        boxes = [(flat[n + 1], flat[n], flat[n + 3], flat[n + 2]) for n in range(0, len(flat), 4)]
        labels = [names[index] for index in values.get("objects/label", [])] or ["object"] * len(boxes)
        return [f"{label} {_box(box, width, height)}" for label, box in zip(labels, boxes, strict=True)]
    if "image/object/bbox/xmin" not in values:
        return None
    boxes = list(zip(*(values[f"image/object/bbox/{side}"] for side in _SIDES), strict=True))
    labels = [text.decode() for text in values["image/object/class/text"]]
    assert not names or [names[number - 1] for number in values["image/object/class/label"]] == labels
    shown = [f"{label} {_box(box, width, height)}" for label, box in zip(labels, boxes, strict=True)]
    for name in ("is_crowd", "difficult", "truncated"):
        for number, value in enumerate(values.get(f"image/object/{name}", [])):
            shown[number] += f" {name}" if value else ""
    for number, area in enumerate(values.get("image/object/area", [])):
        left, top, right, bottom = boxes[number]
        if abs(area - (right - left) * (bottom - top) * width * height) > 0.01:
            shown[number] += f" area {area:.5g}"
    for number, mask in enumerate(values.get("image/object/mask", [])):
        shown[number] += f" mask {describe_mask(mask).removeprefix('1=')}"
    _add_polygons(shown, values, width, height)
    _add_keypoints(shown, values, width, height)
    return shown


def _add_polygons(shown: list[str], values: Values, width: int, height: int) -> None:
    points, begin = values.get("image/object/polygon", []), 0
    for number, count in enumerate(values.get("image/object/polygon_points", [])):
        pixels = np.reshape(points[2 * begin : 2 * (begin + count)], (-1, 2)) * (width, height)
        shown[number] += f" polygon {' '.join(f'{x:.4g},{y:.4g}' for x, y in pixels) or 'none'}"
        begin += count


def _add_keypoints(shown: list[str], values: Values, width: int, height: int) -> None:
    found = [values.get(f"image/object/keypoint/{name}", []) for name in ("x", "y", "visibility")]
    count = len(found[0]) // max(len(shown), 1)
    points = list(zip(*found, strict=True))
    for number in range(len(shown) if count else 0):
        some = points[number * count : (number + 1) * count]
        shown[number] += f" keypoints {' '.join(f'{x * width:.4g},{y * height:.4g},{seen}' for x, y, seen in some)}"


def _box(box: tuple[float, ...], width: int, height: int) -> str:
    sizes = (width, height) * 2
    return ",".join(f"{round(side * size, 3):g}" for side, size in zip(box, sizes, strict=True))


def _show(values: list[Any]) -> str:
    words = [one.decode(errors="replace") if isinstance(one, bytes) else f"{one:.6g}" for one in values]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"
