"""Layouts: the features of an example, with the sample's field and the type of each."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.features import wire
from beam_tfrecords.features.column_ranges import range_ends
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import (
    ARRAY_FIELD,
    CAPTIONS,
    COLUMN,
    COLUMNS,
    DTYPE_FIELD,
    FIELDS,
    KEYPOINTS,
    MASK_FIELD,
    NAMED_IMAGE,
    OBJECT_MASKS,
    POLYGON,
    POLYGON_POINTS,
    SHAPE_FIELD,
    ClassValue,
    Field,
    Stored,
    find_field,
)
from beam_tfrecords.nearest import did_you_mean, find_near

TYPES = ("int64", "float", "bytes")
# Meaning of a vector that moves with the image: x and y of points in pixels, or as shares of the image's size.
MOVES = ("points", "shares")
# Ends of the names of encoded images.
_ENCODED = re.compile(r"[/_](encoded|raw)\Z")
# Type of a column that is stored as the index of its class.
CLASS = "class"
# Feature names of the TensorFlow Object Detection API (`TfExampleDecoder`).
_DETECTION = {
    "image/encoded": "image.encoded",
    "image/format": "image.format",
    "image/height": "image.height",
    "image/width": "image.width",
    "image/filename": "filename",
    "image/source_id": "source_id",
    **{f"image/object/bbox/{side}": f"objects.{side}" for side in ("xmin", "xmax", "ymin", "ymax")},
    "image/object/class/text": "objects.name",
    "image/object/class/label": "objects.id",
    "image/object/is_crowd": "objects.is_crowd",
    "image/object/area": "objects.area",
    "image/object/difficult": "objects.difficult",
}
NAMED: Mapping[str, Mapping[str, Any]] = {
    "tfds": {"image": "image.encoded", "label": "label.index", "filename": "filename"},
    "image": {"image": "image.encoded", "filename": "filename"},
    "array": {"image": ARRAY_FIELD, "shape": SHAPE_FIELD, "dtype": DTYPE_FIELD, "filename": "filename"},
    "segmentation": {"image": "image.encoded", "mask": MASK_FIELD, "filename": "filename"},
    "multilabel": {"image": "image.encoded", "labels": "labels.index", "filename": "filename"},
    CAPTIONS: {
        "image": "image.encoded",
        "captions": {"field": f"{COLUMN}{CAPTIONS}", "type": "bytes", "several": True},
        "filename": "filename",
    },
    "imagenet": {
        "image/encoded": "image.encoded",
        "image/format": "image.format",
        "image/height": "image.height",
        "image/width": "image.width",
        "image/channels": "image.channels",
        "image/colorspace": "image.colorspace",
        "image/class/label": "label.index",
        "image/class/text": "label.name",
        "image/filename": "filename",
    },
    "detection": _DETECTION,
    "detection_masks": {**_DETECTION, "image/object/mask": OBJECT_MASKS},
    "detection_polygons": {
        **_DETECTION,
        "image/object/polygon": POLYGON,
        "image/object/polygon_points": POLYGON_POINTS,
    },
    "detection_keypoints": {
        **_DETECTION,
        **{f"image/object/keypoint/{field.rpartition('_')[2]}": field for field in KEYPOINTS},
    },
    "tutorial": {
        "height": "image.height",
        "width": "image.width",
        "depth": "image.channels",
        "label": "label.index",
        "image_raw": "image.encoded",
    },
    "raw": {
        "image_raw": "image.pixels",
        "height": "image.height",
        "width": "image.width",
        "depth": "image.channels",
        "label": "label.index",
    },
}
# What may follow a named layout: `array,label`, `array,mask`.
_ADDITIONS: Mapping[str, Mapping[str, str]] = {"label": {"label": "label.index"}, "mask": {"mask": MASK_FIELD}}
# Meaning of `tfds` for images with annotated objects, as TFDS stores COCO and Pascal VOC.
TFDS_OBJECTS: Mapping[str, str] = {
    "image": "image.encoded",
    "filename": "filename",
    "objects/bbox": "objects.bbox",
    "objects/label": "objects.index",
}

# Layout of all columns of a table that declares their types.
ALL_COLUMNS = "columns"
# Layout of records that are stored as they are.
SAME = "same"
# Types of features with any number of values, as `tf.train.Feature` names them.
_LISTS: Mapping[str, str] = {f"{kind}_list": kind for kind in TYPES}


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature of the example.

    Attributes:
      name: the key in the example's feature map.
      field: the field of the sample that it contains.
      type: "int64", "float" or "bytes"; "" for a table's column whose type the table declares.
      several: whether it has any number of values instead of exactly one.
      length: its number of values, if that is fixed and not one; 0 for other features.
      columns: the table columns with these values, in order; empty if one column has them, or until they are known.
      is_class: whether it is the index of a class of its own column.
      class_names: these classes in index order; in a request the classes that it names, with or without numbers.
      moves: one of MOVES for a vector of points of the image, stored as shares of the stored image; "" for others.
      kind: the entry of its field in the table of fields.
    """

    name: str
    field: str
    type: str
    several: bool = False
    length: int = 0
    columns: tuple[str, ...] = ()
    is_class: bool = False
    class_names: tuple[str, ...] = ()
    moves: str = ""
    kind: Field = dataclasses.field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", find_field(self.field))

    def __repr__(self) -> str:
        given = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
        defaults = {f"{one.name}={one.default!r}" for one in dataclasses.fields(self)}
        return f"Feature({', '.join(one for one in given if one not in defaults)})"

    @property
    def column(self) -> str | None:
        """The table column that the feature contains, or None."""
        return self.field[len(COLUMN) :] if self.field.startswith(COLUMN) else None

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The table columns that the feature is made from; only the ends of each range that is not resolved."""
        if self.column is not None:
            return (self.column,)
        return self.columns or (range_ends(self.field) if self.field.startswith(COLUMNS) else ())

    @property
    def shown_type(self) -> str:
        """The type and the number of values, for people."""
        kind = f"{self.type}, class" if self.is_class else self.type
        return f"{kind}, {self.length} values" if self.length else f"{kind}, several" if self.several else kind

    @property
    def image(self) -> str | None:
        """The name of the image that the feature contains, if samples have several; otherwise None."""
        return self.field[len(NAMED_IMAGE) :] if self.field.startswith(NAMED_IMAGE) else None

    @property
    def class_value(self) -> ClassValue | None:
        """How the values identify classes of labels or objects; None if they do not."""
        return self.kind.class_value

    @property
    def is_of_objects(self) -> bool:
        """Whether the feature contains values of annotated objects."""
        return self.kind.is_of_objects

    @property
    def is_of_label(self) -> bool:
        """Whether the feature contains the classes of labels."""
        return Content.LABEL in self.kind.contents

    @property
    def holds_image(self) -> bool:
        """Whether the feature contains stored images."""
        return self.kind.stored is Stored.IMAGE

    @property
    def is_image(self) -> bool:
        """Whether the feature contains the image of a sample, which objects and masks belong to."""
        return self.holds_image and self.image is None


@dataclasses.dataclass(frozen=True)
class Layout:
    """All features of an example, sorted by name.

    Attributes:
      draws_mask: whether the mask of the image is drawn from its objects. It decides how a dataset is made; the dataset
        does not store it.
      keeps_records: whether the examples are those of the input, byte for byte. The dataset does not store it either.
    """

    features: tuple[Feature, ...]
    draws_mask: bool = False
    keeps_records: bool = False

    @functools.cached_property
    def stored_order(self) -> tuple[int, ...]:
        """The indices of the features, in the order in which an example stores them."""
        return tuple(sorted(range(len(self.features)), key=lambda place: wire.stored_order(self.features[place].name)))

    @functools.cached_property
    def fields(self) -> frozenset[str]:
        """The fields that the layout uses."""
        return frozenset(feature.field for feature in self.features)

    @functools.cached_property
    def stored(self) -> frozenset[Stored]:
        """What the features store."""
        return frozenset(feature.kind.stored for feature in self.features)

    @functools.cached_property
    def columns(self) -> frozenset[str]:
        """The table columns that the layout uses."""
        return frozenset(name for feature in self.features for name in feature.read_columns)

    @property
    def read_columns(self) -> Collection[str]:
        """The columns that samples need: records that are stored as they are need only those with classes."""
        return {one.column for one in self.heads.values() if one.column} if self.keeps_records else self.columns

    @functools.cached_property
    def heads(self) -> Mapping[str, Feature]:
        """Name -> feature, for the features that store the class index of a column."""
        return {feature.name: feature for feature in self.features if feature.is_class}

    @functools.cached_property
    def image_names(self) -> Sequence[str]:
        """The names of the images that the layout uses, sorted."""
        return sorted({feature.image for feature in self.features if feature.image is not None})

    @functools.cached_property
    def required(self) -> frozenset[Content]:
        """The contents that a sample must have."""
        if self.keeps_records:
            return frozenset({Content.RECORDS})
        found = {content for feature in self.features for content in feature.kind.contents}
        if self == EVERY_COLUMN:
            found.add(Content.COLUMNS)
        if len(self.image_names) > 1:
            found.add(Content.IMAGES)
        if self.draws_mask:
            found = (found - {Content.MASK}) | {Content.OBJECTS, Content.OBJECT_MASKS}
        return frozenset(found)

    @functools.cached_property
    def beside(self) -> Sequence[Field]:
        """The fields that are made of files beside the image, and move with it."""
        return [one.kind for one in self.features if one.kind.beside and one.kind.contents <= self.required]

    @property
    def reads_bytes(self) -> bool:
        """Whether bytes of the input are stored: images, or whole records."""
        return bool(self.required & {Content.IMAGE, Content.RECORDS})

    @functools.cached_property
    def moves_points(self) -> bool:
        """Whether a vector has points that move with the image."""
        return any(feature.moves for feature in self.features)

    @functools.cached_property
    def has_image(self) -> bool:
        """Whether a feature is the image of a sample, which objects and masks belong to."""
        return any(feature.is_image for feature in self.features)

    @functools.cached_property
    def has_single_label(self) -> bool:
        """Whether a feature has exactly one label of each sample."""
        return any(feature.is_of_label and not feature.kind.several for feature in self.features)

    @functools.cached_property
    def has_several_labels(self) -> bool:
        """Whether a feature has any number of labels of each sample."""
        return any(feature.is_of_label and feature.kind.several for feature in self.features)

    @functools.cached_property
    def nests(self) -> bool:
        """Whether TFDS can read a `/` in a name as a level: no name is also the first part of another."""
        names = {feature.name for feature in self.features}
        return not any(
            "/".join(name.split("/")[:depth]) in names for name in names for depth in range(1, name.count("/") + 1)
        )

    def supervised(self, *, decoded: bool = False) -> tuple[str, str] | None:
        """Returns the names of the image and of the mask or label in an example; None if one of them is missing."""
        new = decoded_names(self.features) if decoded else {}
        names = {feature.field: new.get(feature.name, feature.name) for feature in self.features}
        images = [names[one.name] for one in FIELDS.values() if one.stored is Stored.IMAGE and one.name in names]
        targets = [names[one.name] for one in FIELDS.values() if one.is_target and one.name in names]
        return (images[0], targets[0]) if images and targets else None

    def find_pair(self, *, decoded: bool) -> tuple[str, str]:
        """Returns `supervised`.

        Raises:
          ValueError: there is no such pair.
        """
        pair = self.supervised(decoded=decoded)
        if pair is None:
            has = ", ".join(feature.name for feature in self.features)
            raise ValueError(f"as_supervised=True: expected an image and a label among the features; found {has}")
        return pair

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Returns the layout as in a spec file."""
        return {
            feature.name: {"field": feature.field, "type": CLASS if feature.is_class else feature.type}
            | ({"several": True} if feature.several else {})
            | ({"length": feature.length} if feature.length and not feature.kind.length else {})
            | ({"columns": list(feature.columns)} if feature.columns else {})
            | ({"class_names": list(feature.class_names)} if feature.class_names else {})
            | ({"moves": feature.moves} if feature.moves else {})
            for feature in self.features
        }


def decoded_names(features: Sequence[Feature]) -> dict[str, str]:
    """Returns the features whose names change when they are decoded: `image/encoded` and `image_raw` become `image`."""
    names: dict[str, str] = {}
    for feature in features:
        short = _ENCODED.sub("", feature.name)
        taken = {*names.values(), *(one.name for one in features)}
        if feature.kind.stored in (Stored.IMAGE, Stored.MASK) and short not in taken:
            names[feature.name] = short
    return names


# Placeholder until the table is known and `table_layout` replaces it.
EVERY_COLUMN = Layout(())


def parse_layout(value: str | Mapping[str, Any]) -> Layout:
    """Parses a layout: a name, also with columns, or a mapping of feature to field or to `{field: …, type: …}`.

    Raises:
      RequestError: the name, a field or a type is unknown.
    """
    if isinstance(value, str):
        if value == ALL_COLUMNS:
            return EVERY_COLUMN
        if value.split(",")[0].strip() == SAME:
            return _parse_same(value)
        value = _parse_words(value)
    if not isinstance(value, Mapping) or not value:
        raise _invalid(f"expected a name or a mapping of feature to field, found {value!r}")
    features = [_parse_feature(str(name), field) for name, field in value.items()]
    layout = Layout(tuple(sorted(features, key=lambda feature: feature.name)))
    images = [feature.field for feature in layout.features if feature.holds_image]
    if Content.ARRAY in layout.required and images != [ARRAY_FIELD]:
        raise _invalid(
            f"{ARRAY_FIELD} holds all channels of a sample; expected it as the only image, found "
            f"{' and '.join(images) or 'none'}"
        )
    placed = ["boxes"] if Content.OBJECTS in layout.required else [f"{kind.beside}s" for kind in layout.beside]
    placed += ["points that move"] if layout.moves_points else []
    if placed and not layout.has_image:
        raise _invalid(
            f"{placed[0]} are positions in the stored image, which it does not hold; expected a feature with "
            "image.encoded"
        )
    missing = {POLYGON, POLYGON_POINTS} - layout.fields
    if len(missing) == 1:
        raise _invalid(
            f"{POLYGON} has the points of all objects in turn, and {POLYGON_POINTS} their number for each object; "
            f"expected both, such as polygon{'_points' if POLYGON_POINTS in missing else ''}: {missing.pop()}"
        )
    return layout


def table_layout(column_types: Mapping[str, str], lists: Collection[str] = ()) -> Layout:
    """Returns the layout for a table without images that declares its column types: every column.

    Args:
      column_types: column -> type of its values.
      lists: columns with any number of values in a row.
    """
    return Layout(
        tuple(Feature(name, COLUMN + name, column_types[name], name in lists) for name in sorted(column_types)),
    )


def with_values(layout: Layout, column: str, kind: str, *, several: bool) -> Layout:
    """Returns the layout with the values of a column in place of classes.

    Args:
      layout: the layout; features with names of classes are dropped.
      column: the column with the labels.
      kind: type of the values.
      several: whether a sample has any number of values.
    """
    values = [
        Feature(feature.name, COLUMN + column, kind, feature.several or several) if feature.is_of_label else feature
        for feature in layout.features
        if not (feature.is_of_label and feature.class_value is ClassValue.NAME)
    ]
    return Layout(tuple(values))


def with_images(layout: Layout, images: Mapping[str, bool]) -> Layout:
    """Returns the layout for samples with several images: adds one feature per image unless the layout names images.

    Args:
      layout: the layout.
      images: name of an image -> whether it is a list of images.

    Raises:
      RequestError: the layout names a missing image, or does not say which feature contains which image.
    """
    missing = [name for name in layout.image_names if name not in images]
    if missing:
        found = ", ".join(images) or "one image, without a name"
        raise RequestError(
            f"`layout`: {NAMED_IMAGE}{missing[0]}: samples have no image of this name; a table has several images in "
            f"the columns that `image_column=left,right` names; found: {found}",
            code="unknown_image",
        )
    features: list[Feature] = []
    for feature in layout.features:
        if feature.image is not None:
            features.append(dataclasses.replace(feature, several=feature.several or images[feature.image]))
        elif (
            layout.image_names
            or images == {"image": False}
            or not images
            or not feature.is_image
            or feature.field == ARRAY_FIELD
        ):
            features.append(feature)
        else:
            features += [Feature(name, NAMED_IMAGE + name, "bytes", several) for name, several in images.items()]
    names = sorted(feature.name for feature in features)
    twice = next((one for one, other in itertools.pairwise(names) if one == other), None)
    result = dataclasses.replace(layout, features=tuple(sorted(features, key=lambda feature: feature.name)))
    of_one = layout != result and ({Content.OBJECTS, Content.MASK} & layout.required or layout.moves_points)
    if twice or (of_one and not layout.image_names):
        why = f"two of its features have the name {twice!r}" if twice else "boxes and masks belong to one image"
        raise RequestError(
            f"the samples have the images {', '.join(images)}, and the layout cannot hold them as it is: {why}; a spec "
            f"file can list features, such as layout: {{image: image.encoded, other: {NAMED_IMAGE}{[*images][-1]}}}",
            code="several_images",
        )
    return result


def with_class_names(layout: Layout, names: Mapping[str, Sequence[str]]) -> Layout:
    """Returns the layout with the classes of its heads: feature -> class names in index order."""
    features = [
        dataclasses.replace(feature, class_names=tuple(names[feature.name])) if feature.name in names else feature
        for feature in layout.features
    ]
    return dataclasses.replace(layout, features=tuple(features)) if names else layout


def resolve_types(layout: Layout, column_types: Mapping[str, str] | None) -> Layout:
    """Fills in the types that the table declares and the layout does not.

    Raises:
      RequestError: neither declares the type of a column.
    """
    resolved = []
    for feature in layout.features:
        if not feature.type:
            declared = (column_types or {}).get(feature.column or "")
            if not declared:
                raise RequestError(
                    f"`layout`: feature {feature.name!r} needs a type (one of {', '.join(TYPES)}), because the "
                    f"source declares none for its column: {feature.name}: {{field: {feature.field}, type: …}}",
                    code="missing_column_type",
                )
            feature = dataclasses.replace(feature, type=declared)
        resolved.append(feature)
    return dataclasses.replace(layout, features=tuple(resolved))


def _parse_feature(name: str, value: Any) -> Feature:
    if not isinstance(value, str | Mapping):
        raise _invalid(f"feature {name!r}: expected a field or {{field: …, type: …}}, found {value!r}")
    words = {"field": value} if isinstance(value, str) else dict(value)
    field, declared = str(words.pop("field", "")), str(words.pop("type", ""))
    several = words.pop("several", field in FIELDS and FIELDS[field].several)
    length, columns, names = words.pop("length", 0), words.pop("columns", ()), words.pop("class_names", ())
    moves = words.pop("moves", "")
    is_plain = not (length or columns or names or moves)
    are_texts = all(isinstance(one, list | tuple) and {*map(type, one)} <= {str} for one in (columns, names))
    if words or not field or not isinstance(several, bool) or type(length) is not int or length < 0 or not are_texts:
        raise _invalid(
            f"feature {name!r}: expected 'field', 'type' and 'several: true' or false, 'length: 2' for a column of "
            f"lists, 'moves: points' for points, or 'class_names: [a, b]' for classes; found {value!r}"
        )
    if not is_plain or declared == CLASS or field.startswith(COLUMNS):
        if field == COLUMN or not field.startswith((COLUMN, COLUMNS)):
            raise _invalid(f"feature {name!r}: {field}: expected a column, such as {COLUMN}age")
        feature = Feature(name, field, declared, several, length, tuple(columns), moves=str(moves))
        return _parse_column(feature, tuple(names))
    if declared and declared not in TYPES:
        raise RequestError(
            f"`layout`: feature {name!r}: unknown type {declared!r}; expected one of {', '.join((*TYPES, CLASS))}",
            code="unknown_type",
        )
    if field.startswith(COLUMN) and field != COLUMN:
        return Feature(name, field, declared, several)
    if field.startswith(NAMED_IMAGE) and field != NAMED_IMAGE and declared in ("", "bytes"):
        return Feature(name, field, "bytes", several)
    if field not in FIELDS:
        raise RequestError(
            f"`layout`: feature {name!r}: unknown field {field!r}; {_known_fields(field)}", code="unknown_field"
        )
    known = FIELDS[field]
    natural = known.type
    if declared not in ("", natural) and (natural, declared) != ("int64", "float"):
        raise RequestError(
            f"`layout`: feature {name!r}: {field} is {natural} and cannot be stored as {declared}",
            code="type_does_not_fit",
        )
    return Feature(name, field, declared or natural, several, known.length)


def _parse_column(feature: Feature, class_names: tuple[str, ...]) -> Feature:
    """Checks a feature of classes or of several columns, which only columns can be."""
    is_class, is_range = feature.type == CLASS, feature.field.startswith(COLUMNS)
    has_length = bool(feature.length or feature.columns or is_range)
    problem = ""
    if is_class and (has_length or feature.several):
        problem = "a class is one column with one value; expected a feature for each"
    elif class_names and not is_class:
        problem = "class_names needs classes; expected 'type: class'"
    elif len({*class_names}) < len(class_names):
        problem = "class_names has a name twice"
    elif has_length and (feature.type not in ("int64", "float") or feature.several):
        problem = "has a fixed number of values; expected 'type: int64' or 'type: float', without 'several'"
    elif is_range and not all(range_ends(feature.field)):
        problem = f"expected the first and the last column, such as {COLUMNS}x0..x135, or several with commas"
    elif feature.columns and not (is_range and feature.length == len(feature.columns)):
        problem = "only a manifest has columns; expected a field such as columns.x0..x135"
    elif feature.moves and not (feature.moves in MOVES and has_length and feature.type == "float"):
        problem = f"moves is 'points' (in pixels) or 'shares', of a vector of 'type: float'; found {feature.moves!r}"
    elif feature.moves and feature.length % 2:
        problem = f"points have x and y, and it has {feature.length} values"
    if problem:
        raise _invalid(f"feature {feature.name!r}: {feature.field}: {problem}")
    return dataclasses.replace(feature, type="int64", is_class=True, class_names=class_names) if is_class else feature


def _parse_same(text: str) -> Layout:
    """Reads `same`, also with features whose type the first records do not say: `same,text:bytes_list`.

    Raises:
      RequestError: a word is not a feature with its type.
    """
    features = []
    for word in text.split(",")[1:]:
        name, _, kind = word.strip().rpartition(":")
        if not name or kind not in (*TYPES, *_LISTS):
            raise RequestError(
                f"`layout={text}`: expected features with their types ({', '.join((*TYPES, *_LISTS))}) after {SAME}, "
                f"such as {SAME},text:bytes_list; found {word!r}",
                code="invalid_layout",
            )
        features.append(Feature(name, COLUMN + name, _LISTS.get(kind, kind), kind in _LISTS))
    return Layout(tuple(sorted(features, key=lambda one: one.name)), keeps_records=True)


def _parse_words(text: str) -> Mapping[str, Any]:
    """Reads a layout such as `image,age:class`: names of layouts, and columns with their types.

    Raises:
      RequestError: a layout is unknown, or two of the features have one name.
    """
    found: dict[str, Any] = {}
    for word in text.split(","):
        column, colon, kind = word.strip().rpartition(":")
        known = {**NAMED, **(_ADDITIONS if found else {})}
        if not colon and kind not in known:
            every = (
                f"expected one of {', '.join([*NAMED, ALL_COLUMNS, SAME])}, also with more, such as array,label, "
                "array,mask or image,age:class, or in a spec file a mapping of feature to field"
            )
            raise RequestError(
                f"`layout={text}`: unknown layout{f' {kind!r}' if kind != text else ''}; "
                f"{did_you_mean(kind, known, otherwise=every)}",
                code="unknown_layout",
            )
        added: Mapping[str, Any] = {column: {"field": COLUMN + column, "type": kind}} if colon else known[kind]
        if twice := next((name for name in added if name in found), None):
            raise RequestError(f"`layout={text}`: two features have the name {twice!r}", code="invalid_layout")
        found |= added
    return found


def _invalid(problem: str) -> RequestError:
    return RequestError(f"`layout`: {problem}", code="invalid_layout")


def _known_fields(field: str) -> str:
    near = find_near(field, FIELDS)
    known = ", ".join([*FIELDS, NAMED_IMAGE + "<name>", COLUMN + "<name>", COLUMNS + "<first>..<last>"])
    return f"did you mean {near}? (known are {known})" if near else f"known are {known}"
