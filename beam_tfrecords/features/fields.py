"""Fields: what the features of an example may contain. One table says everything about each field."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any

from beam_tfrecords.features.contents import Content

COLUMN = "column."
# One of several named images of a sample.
NAMED_IMAGE = "images."
# Several columns as one feature.
COLUMNS = "columns."
CAPTIONS = "captions"
PIXELS, ARRAY_FIELD, SHAPE_FIELD, DTYPE_FIELD = "image.pixels", "image.array", "image.shape", "image.dtype"
SOURCE_ID = "source_id"
HEIGHT, WIDTH, CHANNELS = "image.height", "image.width", "image.channels"
MASK_FIELD = "mask.encoded"
# ymin, xmin, ymax and xmax of the first object, then of the second, and so on; and a field for each side.
BOXES = "objects.bbox"
BOX_SIDES = ("objects.xmin", "objects.ymin", "objects.xmax", "objects.ymax")
OBJECT_MASKS = "objects.mask"
# Several values per object, and how many points each object has.
POLYGON, POLYGON_POINTS = "objects.polygon", "objects.polygon_points"
# Attribute of an object -> its type.
ATTRIBUTES: Mapping[str, str] = {
    "area": "float",
    "is_crowd": "int64",
    "difficult": "int64",
    "truncated": "int64",
    "pose": "bytes",
}
KEYPOINTS = ("objects.keypoint_x", "objects.keypoint_y", "objects.keypoint_visibility")


class ClassValue(enum.Enum):
    """How a value identifies a class."""

    # Index in the class names.
    INDEX = enum.auto()
    # Index plus one: 0 is the background.
    ID = enum.auto()
    NAME = enum.auto()

    def find(self, value: float | bytes, class_names: Sequence[str]) -> str | None:
        """Returns the class of a stored value; None for a number without a class, which may be stored as a float."""
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        index = value - 1 if self is ClassValue.ID else value
        return class_names[int(index)] if 0 <= index < len(class_names) and index == int(index) else None


class Stored(enum.Enum):
    """What a feature stores."""

    VALUES = enum.auto()
    # An image in the encoding of the dataset, or its pixels.
    IMAGE = enum.auto()
    # A PNG of one channel, of the size of the stored image: the index of a class or an object for each pixel.
    MASK = enum.auto()
    # A PNG per object, as large as the stored image: 1 inside the object, else 0.
    OBJECT_MASKS = enum.auto()


class Per(enum.Enum):
    """What has a value of the field, or a row of values."""

    SAMPLE = enum.auto()
    OBJECT = enum.auto()
    KEYPOINT = enum.auto()
    # A corner of a polygon.
    CORNER = enum.auto()


@dataclasses.dataclass(frozen=True)
class Field:
    """What a feature of an example may contain.

    Attributes:
      name: its name in a layout; of a family of fields, such as the columns, what their names begin with.
      type: "int64", "float" or "bytes"; "" for columns, whose types differ.
      contents: contents that a sample needs for it; positions of masks and objects depend on the image's size.
      stored: what it stores.
      beside: name of the file beside the image that it is made of, such as "mask"; "" for others.
      per: what has one value, or one row of values.
      row: length of a row.
      several: whether it has any number of values, unless the layout says otherwise.
      length: its number of values, if that is fixed and not one; 0 for others.
      class_value: how the values identify classes of labels or objects; None if they do not.
      of_image: returns its value for a converted image; None for a field that comes from somewhere else.
      of_objects: returns its values for the objects in a stored image; None as in `of_image`.
      of_batch: returns its value for each sample of a batch; None for a field that comes from images or objects.
      is_target: whether it can be the label of supervised learning; of several, the first in the table is.
      is_shown: whether the report shows it as text.
    """

    name: str
    type: str
    contents: frozenset[Content] = frozenset()
    stored: Stored = Stored.VALUES
    beside: str = ""
    per: Per = Per.SAMPLE
    row: int = 1
    several: bool = False
    length: int = 0
    class_value: ClassValue | None = None
    of_image: Callable[[Any], Any] | None = None
    of_objects: Callable[[Any], Any] | None = None
    of_batch: Callable[[Any], Sequence[Any]] | None = None
    is_target: bool = False
    is_shown: bool = False

    @functools.cached_property
    def is_of_objects(self) -> bool:
        """Whether it has values of annotated objects."""
        return Content.OBJECTS in self.contents

    def __reduce__(self) -> Any:
        # Functions of the table cannot be pickled.
        return find_field, (self.name,)


_IMAGE = frozenset({Content.IMAGE})
_ARRAY = frozenset({Content.IMAGE, Content.ARRAY})
_LABEL = frozenset({Content.LABEL})
_OBJECTS = frozenset({Content.IMAGE, Content.OBJECTS})
_INDEX, _ID, _NAME = ClassValue.INDEX, ClassValue.ID, ClassValue.NAME


def _of_image(name: str, kind: str, value: Callable[[Any], Any], contents: frozenset[Content] = _IMAGE) -> Field:
    return Field(name, kind, contents, of_image=value)


def _stored_image(name: str, contents: frozenset[Content] = _IMAGE) -> Field:
    return Field(name, "bytes", contents, Stored.IMAGE, of_image=lambda image: image.data)


def _label(name: str, value: ClassValue) -> Field:
    place, kind = (0, "int64") if value is _INDEX else (1, "bytes")
    return Field(
        name,
        kind,
        _LABEL,
        several=name.startswith("labels."),
        class_value=value,
        of_batch=lambda batch: [[pair[place] for pair in found] for found in batch.labels],
        is_target=True,
        is_shown=name == "labels.index",
    )


def _of_objects(name: str, kind: str, values: Callable[[Any], Any], **others: Any) -> Field:
    return Field(name, kind, several=True, of_objects=values, **{"contents": _OBJECTS, "per": Per.OBJECT, **others})


def _side(name: str, place: int) -> Field:
    return _of_objects(name, "float", lambda placed: placed.boxes[:, place].tolist())


def _attribute(name: str, kind: str) -> Field:
    return _of_objects(f"objects.{name}", kind, lambda placed: placed.values[name])


def _keypoints(place: int, kind: str, number: type) -> Field:
    return _of_objects(
        KEYPOINTS[place],
        kind,
        lambda placed: placed.keypoints[..., place].astype(number).ravel().tolist(),
        contents=_OBJECTS | {Content.KEYPOINTS},
        per=Per.KEYPOINT,
    )


# What features may contain. Of several fields that can be the image, or the label, of supervised learning, the first
# is taken.
FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        # The stored image in any encoding; `image.pixels` requires raw encoding. `image.array` is raw, too, with any
        # number of channels of any of the array types.
        _stored_image("image.encoded"),
        _stored_image(PIXELS),
        _stored_image(ARRAY_FIELD, _ARRAY),
        # Height, width and channels of the array, and the type of its numbers.
        dataclasses.replace(
            _of_image(SHAPE_FIELD, "int64", lambda image: [image.height, image.width, image.channels], _ARRAY), length=3
        ),
        _of_image(DTYPE_FIELD, "bytes", lambda image: image.dtype, _ARRAY),
        _of_image("image.format", "bytes", lambda image: image.format),
        _of_image(HEIGHT, "int64", lambda image: image.height),
        _of_image(WIDTH, "int64", lambda image: image.width),
        _of_image(CHANNELS, "int64", lambda image: image.channels),
        _of_image("image.colorspace", "bytes", lambda image: image.colorspace),
        Field(MASK_FIELD, "bytes", frozenset({Content.IMAGE, Content.MASK}), Stored.MASK, "mask", is_target=True),
        _label("label.index", _INDEX),
        _label("labels.index", _INDEX),
        _label("label.name", _NAME),
        _label("labels.name", _NAME),
        # One value per annotated object; boxes are relative to the stored image, from 0 to 1.
        _side("objects.xmin", 0),
        _side("objects.xmax", 2),
        _side("objects.ymin", 1),
        _side("objects.ymax", 3),
        _of_objects(BOXES, "float", lambda placed: placed.boxes[:, [1, 0, 3, 2]].ravel().tolist(), row=4),
        _of_objects(
            "objects.index",
            "int64",
            lambda placed: [index for index, _ in placed.labels],
            class_value=_INDEX,
            is_shown=True,
        ),
        _of_objects("objects.id", "int64", lambda placed: [index + 1 for index, _ in placed.labels], class_value=_ID),
        _of_objects(
            "objects.name",
            "bytes",
            lambda placed: [name for _, name in placed.labels],
            class_value=_NAME,
            is_shown=True,
        ),
        *starmap(_attribute, ATTRIBUTES.items()),
        _of_objects(
            OBJECT_MASKS,
            "bytes",
            lambda placed: list(placed.masks),
            contents=_OBJECTS | {Content.OBJECT_MASKS},
            stored=Stored.OBJECT_MASKS,
        ),
        # x and y of each corner of the first object's polygon, then of the second, and so on; relative to the stored
        # image.
        _of_objects(
            POLYGON,
            "float",
            lambda placed: [side for corners in placed.polygons for side in corners.ravel().tolist()],
            contents=_OBJECTS | {Content.POLYGONS},
            per=Per.CORNER,
            row=2,
        ),
        # Number of corners of each object's polygon.
        _of_objects(
            POLYGON_POINTS,
            "int64",
            lambda placed: list(map(len, placed.polygons)),
            contents=_OBJECTS | {Content.POLYGONS},
        ),
        # All keypoints of the first object, then of the second, and so on; relative to the stored image, and 0 to 2.
        _keypoints(0, "float", float),
        _keypoints(1, "float", float),
        _keypoints(2, "int64", int),
        Field("key", "bytes", of_batch=lambda batch: batch.keys),
        Field("filename", "bytes", of_batch=lambda batch: [key.rsplit("/", 1)[-1] for key in batch.keys]),
        Field(SOURCE_ID, "bytes", of_batch=lambda batch: batch.image_ids),
    )
}
# Fields that contain the image itself.
IMAGE_FIELDS = tuple(name for name, field in FIELDS.items() if field.stored is Stored.IMAGE)
# Field -> its value for a converted image. They are in a mapping of their own because each image asks for them.
OF_IMAGE = {name: field.of_image for name, field in FIELDS.items() if field.of_image}
# Names of the files beside the image of a sample.
BESIDE = frozenset(field.beside for field in FIELDS.values() if field.beside)
# Fields that users name: an image, several columns as one feature, and a column.
_FAMILIES = (
    Field(NAMED_IMAGE, "bytes", _IMAGE, Stored.IMAGE),
    Field(COLUMN + CAPTIONS, "", frozenset({Content.CAPTIONS}), is_shown=True),
    Field(COLUMN, "", frozenset({Content.COLUMNS}), is_shown=True),
    Field(COLUMNS, "", frozenset({Content.COLUMNS}), is_shown=True),
)


def find_field(name: str) -> Field:
    """Returns a field by its name in a layout.

    Raises:
      KeyError: there is no such field.
    """
    if field := FIELDS.get(name):
        return field
    for family in _FAMILIES:
        if name == family.name or (family.name.endswith(".") and name.startswith(family.name)):
            return family
    raise KeyError(name)
