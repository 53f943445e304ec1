"""Reads annotated objects from records of TensorFlow's Object Detection API and TFDS. Pure functions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.folder_metadata import CLASSES_OF_OBJECTS, Features
from beam_tfrecords.transforms.sources.tables.cells import decode_label, invalid_row
from beam_tfrecords.transforms.sources.tables.object_cells import MOST_SHARE, wants_objects
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_API = "image/object"
# Attribute -> feature names.
_ATTRIBUTES = {
    "area": ("area",),
    "is_crowd": ("is_crowd",),
    "difficult": ("difficult", "is_difficult"),
    "truncated": ("truncated", "is_truncated"),
}
_IMAGE_IDS = ("image/source_id", "image/id")
# Names of the class feature in order of preference; there may be other labels, such as KITTI's `occluded`.
_CLASSES = ("label", "labels", "category", "class", "type")


@dataclasses.dataclass(frozen=True)
class ObjectFeatures:
    """The object features of a record.

    Attributes:
      boxes: features xmin, ymin, xmax and ymax; or one feature with ymin, xmin, ymax and xmax of each object.
      label: feature with the class of each object, as name or number.
      first_class: number of the class with index 0; 0 if a label is 0.
      attributes: name of another attribute -> feature.
      image_id: feature with the dataset's id of the image, or "".
      is_normalized: whether boxes are shares of the image's size, rather than in pixels.
    """

    boxes: tuple[str, ...]
    label: str
    first_class: int = 0
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_id: str = ""
    is_normalized: bool = True

    @property
    def features(self) -> Sequence[str]:
        """All features that `read_objects` uses."""
        return (*self.boxes, self.label, *self.attributes.values(), self.image_id)


def find_object_features(
    columns: Collection[str],
    described: Features,
    *,
    image: str,
    shown: str,
    label: str | None = None,
) -> ObjectFeatures | None:
    """Finds the object features; returns None if there are none.

    Args:
      columns: features of the first records.
      described: features in the metadata files.
      image: feature with the image; with several images, boxes belong to the image in the same feature dictionary.
      shown: the input, as messages quote it.
      label: class feature that the request names, or None.

    Raises:
      RequestError: several features may be the classes.
    """
    text, number = CLASSES_OF_OBJECTS
    has_api = {f"{_API}/bbox/{side}" for side in _SIDES} <= {*columns} and {text, number} & {*columns}
    if has_api and label in (None, *CLASSES_OF_OBJECTS):
        return ObjectFeatures(
            tuple(f"{_API}/bbox/{side}" for side in _SIDES),
            label or (text if text in columns else number),
            1,
            _attributes(columns, _API),
            next((name for name in _IMAGE_IDS if name in columns), ""),
        )
    boxes = [box for box in described.boxes if len(described.images) < 2 or _owner(box, described) == _folder(image)]
    classes = {one: box for box in boxes for one in described.labels if _folder(one) == _folder(box)}
    if label is not None:
        classes = {one: box for one, box in classes.items() if one == label}
    for usual in _CLASSES if len(classes) > 1 else ():
        named = {one: box for one, box in classes.items() if one.rpartition("/")[2].lower() == usual}
        if named:
            classes = named
            break
    if len(classes) > 1:
        raise RequestError(
            f"{shown}: several features may be the classes of its boxes: {', '.join(classes)}",
            [Reading(f"the boxes with {one}", {"label_column": one, "layout": "detection"}) for one in classes],
            code="several_label_features",
        )
    for one, box in classes.items():
        image_id = next((name for name in _IMAGE_IDS if name in columns), "")
        return ObjectFeatures((box,), one, 0, _attributes(columns, _folder(box)), image_id)
    return None


def read_objects(
    record: Mapping[str, tuple[str, list[Any]]], features: ObjectFeatures, names: Sequence[str]
) -> Objects:
    """Reads the objects of a record.

    Args:
      record: feature -> kind and values.
      features: the object features.
      names: class names for labels that are numbers from `first_class` on; empty if unknown.

    Raises:
      SampleError: the features have different numbers of objects, or there are too many objects.
    """
    values = {name: record.get(name, ("", []))[1] for name in (*features.boxes, features.label)}
    if len(features.boxes) == 1:
        sides = values[features.boxes[0]]
        columns = [sides[place::4] for place in (1, 0, 3, 2)]
    else:
        columns = [values[name] for name in features.boxes]
    check_count(len(values[features.label]))
    labels = [_name(label, features, names) for label in values[features.label]]
    # A record may lack an attribute that none of its objects has.
    found = {name: record.get(feature, ("", []))[1] for name, feature in features.attributes.items()}
    found = {name: column for name, column in found.items() if column}
    lengths = {len(labels), *map(len, columns), *map(len, found.values())}
    if len(lengths) > 1:
        raise invalid_row(f"the features of its objects have {' and '.join(map(str, sorted(lengths)))} values")
    boxes = tuple(map(float, itertools.chain.from_iterable(zip(*columns, strict=True))))
    return Objects(
        boxes,
        tuple(labels),
        {name: tuple(column) for name, column in found.items()},
        image_id=_image_id(record.get(features.image_id, ("", []))[1]),
        is_normalized=features.is_normalized,
    )


def _owner(box: str, described: Features) -> str:
    """Returns the innermost feature dictionary that contains both a box and an image."""
    places = (_folder(image) for image in described.images)
    return max((place for place in places if not place or box.startswith(f"{place}/")), key=len, default="")


def _folder(feature: str) -> str:
    return feature.rpartition("/")[0]


def _attributes(columns: Collection[str], prefix: str) -> dict[str, str]:
    return {
        name: f"{prefix}/{one}" for name, names in _ATTRIBUTES.items() for one in names if f"{prefix}/{one}" in columns
    }


def _name(label: Any, features: ObjectFeatures, names: Sequence[str]) -> Any:
    if isinstance(label, bytes):
        return decode_label(label, features.label)
    first = features.first_class
    return names[label - first] if first <= label < first + len(names) else label


def _image_id(values: Sequence[Any]) -> str:
    value = values[0] if len(values) == 1 else ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def find_objects(
    start: FirstRows, features: Features, settings: TableSettings, needs: Needs, *, image: str, usual: Sequence[str]
) -> ObjectFeatures | None:
    """Finds the object features if the request needs objects; `label_column` may name their class feature.

    Args:
      start: the first records.
      features: features in the metadata files.
      settings: settings of the rows.
      needs: requested contents.
      image: feature with the image.
      usual: usual label names; if one exists, objects are read only if the layout needs them.
    """
    label = settings.label_column
    beside = next((name for name in usual if name in start.columns), None) if label is None else None
    if not wants_objects(dataclasses.replace(settings, label_column=None), needs, beside):
        return None
    found = find_object_features(start.columns, features, image=image, shown=quote_input(start.path), label=label)
    return found and dataclasses.replace(found, is_normalized=not _are_in_pixels(start, found.boxes))


def _are_in_pixels(start: FirstRows, boxes: Sequence[str]) -> bool:
    """Whether most boxes of the first records end in pixels, and not in shares of the image's size, as the API says."""
    cells = [row.get(name) for row in start.first_rows for name in boxes[2:]]
    ends = sorted(end for cell in cells for end in (cell if isinstance(cell, list) else [cell]) if end is not None)
    return bool(ends) and ends[len(ends) // 2] > MOST_SHARE
