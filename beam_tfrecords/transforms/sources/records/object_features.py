"""Annotated objects in records, as TensorFlow's Object Detection API and TFDS store them. Pure functions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.tfds_features import Features
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.object_cells import wants_objects
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

_SIDES = ("xmin", "ymin", "xmax", "ymax")
_API = "image/object"
# Their names and their numbers, which begin with 1.
CLASSES_OF_OBJECTS = (f"{_API}/class/text", f"{_API}/class/label")
# Attribute -> the names that it has.
_ATTRIBUTES = {
    "area": ("area",),
    "is_crowd": ("is_crowd",),
    "difficult": ("difficult", "is_difficult"),
    "truncated": ("truncated", "is_truncated"),
}
_IMAGE_IDS = ("image/source_id", "image/id")
# Names of the feature with the class, the first that is there, beside others such as KITTI's `occluded`.
_CLASSES = ("label", "labels", "category", "class", "type")


@dataclasses.dataclass(frozen=True)
class ObjectFeatures:
    """The features of a record that say its objects; boxes are shares of the image's size.

    Attributes:
      boxes: xmin, ymin, xmax and ymax; or one with ymin, xmin, ymax and xmax of each object.
      label: class of each, as a name or as a number.
      first_class: number of the first class, which has the index 0.
      attributes: name of another attribute -> feature.
      image_id: the dataset's name of the image; "" for none.
    """

    boxes: tuple[str, ...]
    label: str
    first_class: int = 0
    attributes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_id: str = ""

    @property
    def features(self) -> Sequence[str]:
        """All features that are read."""
        return (*self.boxes, self.label, *self.attributes.values(), self.image_id)


def find_object_features(
    columns: Collection[str],
    described: Features,
    rows: Sequence[Mapping[str, Any]],
    *,
    image: str,
    shown: str,
    label: str | None = None,
) -> ObjectFeatures | None:
    """The features with objects; None if there are none.

    Args:
      columns: features of the first records.
      described: what stands beside the files.
      rows: the first records.
      image: feature with the image; of several, each has the boxes in its own dictionary of features.
      shown: the input, as messages quote it.
      label: feature with the classes, if the request says it.

    Raises:
      RequestError: several features may be the classes.
    """
    text, number = CLASSES_OF_OBJECTS
    has_api = {f"{_API}/bbox/{side}" for side in _SIDES} <= {*columns} and {text, number} & {*columns}
    if has_api and label in (None, *CLASSES_OF_OBJECTS):
        return ObjectFeatures(
            tuple(f"{_API}/bbox/{side}" for side in _SIDES),
            label or (text if text in columns else number),
            0 if any(0 in _as_list(row.get(number)) for row in rows) else 1,
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
            [Suggestion(f"the boxes with {one}", {"label_column": one, "layout": "detection"}) for one in classes],
        )
    for one, box in classes.items():
        image_id = next((name for name in _IMAGE_IDS if name in columns), "")
        return ObjectFeatures((box,), one, 0, _attributes(columns, _folder(box)), image_id)
    return None


def read_objects(
    record: Mapping[str, tuple[str, list[Any]]], features: ObjectFeatures, names: Sequence[str]
) -> Objects:
    """The objects of a record.

    Args:
      record: feature -> kind and values.
      names: of the classes whose numbers are the labels; empty if they are not known.

    Raises:
      SampleError: the features have different numbers of objects, or too many.
    """
    values = {name: record.get(name, ("", []))[1] for name in (*features.boxes, features.label)}
    if len(features.boxes) == 1:
        sides = values[features.boxes[0]]
        columns = [sides[place::4] for place in (1, 0, 3, 2)]
    else:
        columns = [values[name] for name in features.boxes]
    check_count(len(values[features.label]))
    labels = [_name(label, names, features.first_class) for label in values[features.label]]
    # Where no object has it, a record may lack it.
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
        is_normalized=True,
    )


def _owner(box: str, described: Features) -> str:
    """The innermost dictionary of features around a box that has an image."""
    places = (_folder(image) for image in described.images)
    return max((place for place in places if not place or box.startswith(f"{place}/")), key=len, default="")


def _folder(feature: str) -> str:
    return feature.rpartition("/")[0]


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _attributes(columns: Collection[str], prefix: str) -> dict[str, str]:
    return {
        name: f"{prefix}/{one}" for name, names in _ATTRIBUTES.items() for one in names if f"{prefix}/{one}" in columns
    }


def _name(label: Any, names: Sequence[str], first: int) -> Any:
    if isinstance(label, bytes):
        return label.decode(errors="replace")
    return names[label - first] if first <= label < first + len(names) else label if names else label - first


def _image_id(values: Sequence[Any]) -> str:
    value = values[0] if len(values) == 1 else ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def find_objects(
    start: FirstRows, features: Features, settings: TableSettings, needs: Needs, *, image: str, usual: Sequence[str]
) -> ObjectFeatures | None:
    """The features with objects, if they are asked for: their classes may be the label that the request names.

    Args:
      image: feature with the image.
      usual: usual names of labels, beside which objects are not read unless they are asked for.
    """
    label = settings.label_column
    beside = next((name for name in usual if name in start.columns), None) if label is None else None
    if not wants_objects(dataclasses.replace(settings, label_column=None), needs, beside):
        return None
    return find_object_features(
        start.columns, features, start.first_rows, image=image, shown=quote_input(start.path), label=label
    )
