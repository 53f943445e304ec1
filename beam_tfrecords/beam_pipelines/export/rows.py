"""Turns records into rows of a table and files: images, masks and arrays. All functions are pure."""

from __future__ import annotations

import dataclasses
import functools
import io
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from PIL import Image

from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import ATTRIBUTES, COLUMN, COLUMNS, OBJECT_MASKS, POLYGON
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.reading.decoding import decode_mask
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.raw_pixels import npy_file
from beam_tfrecords.transforms.objects.polygons import run_lengths

KEY, SPLIT, LABEL, LABELS, OBJECTS, SOURCE_ID = "key", "split", "label", "labels", "objects", "source_id"
IMAGE, MASK = "image", "mask"
# Columns with a meaning of their own; a column of the layout with such a name is renamed.
_WORDS = frozenset({KEY, SPLIT, LABEL, LABELS, OBJECTS, SOURCE_ID, IMAGE, MASK})
_EXTENSIONS = {"jpeg": "jpg", "jpeg2000": "jp2"}
_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.string()}

Values = Mapping[str, Any]


class Cell(NamedTuple):
    """A column of the table.

    Attributes:
      name: its name.
      type: its type.
      read: returns the cell for the values of a record: feature -> value.
    """

    name: str
    type: pa.DataType
    read: Callable[[Values], Any]


@dataclasses.dataclass(frozen=True)
class RowPlan:
    """Plans the columns and files that the features of a layout become.

    Attributes:
      layout: the layout.
      class_names: the classes of labels and objects.
      images: how images are stored.
      bytes_columns: columns whose values are not all text.
    """

    layout: Layout
    class_names: tuple[str, ...]
    images: StoredImages
    bytes_columns: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if Content.OBJECTS in self.layout.required and not self._of_objects.has_boxes:
            raise RequestError(
                "the layout has objects without their boxes; expected objects.bbox, or the four sides of a box",
                code="layout_not_exported",
            )

    @functools.cached_property
    def _of_objects(self) -> StoredObjects:
        return StoredObjects.of(self.layout.features)

    @functools.cached_property
    def files(self) -> Mapping[Feature, str]:
        """Feature that becomes files -> column with their paths; images first."""
        images = [one for one in self.layout.features if one.holds_image]
        masks = {one: one.kind.beside for one in self.layout.features if one.kind.beside}
        return {one: _free_name(one.image or IMAGE, _WORDS - {IMAGE}) for one in images} | masks

    @functools.cached_property
    def cells(self) -> Sequence[Cell]:
        """The columns after those of files, key and split."""
        label = next((one for one in self.layout.features if one.is_of_label), None)
        cells = [self._label(label)] if label is not None else []
        if Content.OBJECTS in self.layout.required:
            cells.append(self._objects())
        if image_id := next((one.name for one in self.layout.features if one.field == SOURCE_ID), None):
            cells.append(Cell(SOURCE_ID, pa.string(), lambda of: _plain_text(of[image_id])))
        return [*cells, *itertools.starmap(self._column, self.columns.items())]

    @functools.cached_property
    def columns(self) -> Mapping[Feature, str]:
        """Feature with the value of a column of the layout -> its column in the table."""
        found: dict[Feature, str] = {}
        taken = {*_WORDS, *self.files.values()}
        for feature in self.layout.features:
            if feature.field.startswith((COLUMN, COLUMNS)):
                found[feature] = _free_name(feature.column or feature.name, {*taken, *found.values()})
        return found

    @functools.cached_property
    def index_columns(self) -> Mapping[str, str]:
        """Column of the index -> its name in the table; key and label come from the records."""
        taken = {*self.files.values(), KEY, SPLIT, LABEL, *(cell.name for cell in self.cells)}
        names = (name for name in INDEX_SCHEMA.names if name not in (KEY, LABEL))
        return {name: f"index_{name}" if name in taken else name for name in names}

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table; paths come first."""
        text = pa.string()
        paths = {column: pa.list_(text) if one.several else text for one, column in self.files.items()}
        cells = [(cell.name, cell.type) for cell in self.cells]
        index = [INDEX_SCHEMA.field(name).with_name(column) for name, column in self.index_columns.items()]
        return pa.schema([*paths.items(), (KEY, text), (SPLIT, text), *cells, *index])

    def _label(self, feature: Feature) -> Cell:
        kind, name = feature.class_value, feature.name
        assert kind is not None
        find = functools.partial(kind.find, class_names=self.class_names)
        if feature.several:
            return Cell(LABELS, pa.list_(pa.string()), lambda of: list(map(find, of[name])))
        return Cell(LABEL, pa.string(), lambda of: find(of[name]))

    def _column(self, feature: Feature, column: str) -> Cell:
        kind, name = _TYPES[feature.type], feature.name
        if feature.is_class:
            names = feature.class_names
            return Cell(column, pa.string(), lambda of: names[of[name]] if 0 <= of[name] < len(names) else None)
        if feature.type == "bytes" and column in self.bytes_columns:
            kind = pa.binary()
        is_text = kind == pa.string()

        def read(of: Values) -> Any:
            value = of[name]
            if is_text:
                return [_text(one, column) for one in value] if feature.several else _text(value, column)
            return value

        return Cell(column, pa.list_(kind) if feature.several or feature.length else kind, read)

    def _objects(self) -> Cell:
        of_objects = self._of_objects
        types: dict[str, pa.DataType] = {"bbox": pa.list_(pa.float32()), "category": pa.string()}
        types |= {name: _TYPES[kind] for name, kind in ATTRIBUTES.items() if f"objects.{name}" in of_objects.features}
        if POLYGON in of_objects.features:
            types["segmentation"] = pa.list_(pa.list_(pa.float32()))
        elif OBJECT_MASKS in of_objects.features:
            types["segmentation"] = pa.struct({"size": pa.list_(pa.int32()), "counts": pa.list_(pa.int64())})
        if of_objects.has_keypoints:
            types["keypoints"] = pa.list_(pa.float32())

        def read(of: Values) -> list[dict[str, Any]]:
            boxes = of_objects.boxes(of)
            found: dict[str, Sequence[Any]] = {"bbox": boxes.tolist(), **of_objects.attributes(of)}
            if "pose" in found:
                found["pose"] = list(map(_plain_text, found["pose"]))
            if of_objects.class_feature:
                found["category"] = of_objects.classes(of, self.class_names)
            if POLYGON in of_objects.features:
                found["segmentation"] = [[corners.ravel().tolist()] for corners in of_objects.polygons(of)]
            elif OBJECT_MASKS in of_objects.features:
                runs = [run_lengths(decode_mask(data)[..., 0]) for data in of_objects.masks(of)]
                found["segmentation"] = [{"size": list(one.size), "counts": one.counts.tolist()} for one in runs]
            if of_objects.has_keypoints:
                found["keypoints"] = [points.ravel().tolist() for points in of_objects.keypoints(of, len(boxes))]
            return [{name: values[n] for name, values in found.items()} for n in range(len(boxes))]

        return Cell(OBJECTS, pa.list_(pa.struct(types)), read)

    def contents(self, feature: Feature, values: Values, size: tuple[int, int]) -> list[tuple[str, bytes]]:
        """Returns (extension, content) of each file of a record.

        Args:
          feature: one of `files`.
          values: the values of the record.
          size: (height, width) of its first image, by the index.
        """
        value = values[feature.name]
        stored = value if feature.several else [value]
        if self.images.encoding != "raw" or not feature.holds_image:
            return [(_extension(data), data) for data in stored]
        # Several images have one size.
        shape = (*(self.images.size or size), -1)
        pixels = [np.frombuffer(data, self.images.dtype).reshape(shape) for data in stored]
        return [("npy", npy_file(one)) if self.images.array_type else ("png", _png(one)) for one in pixels]


class NotTextError(Exception):
    """A string column has a value that is not text; the argument is the column."""


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_value"
    return name


def _text(value: bytes, column: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise NotTextError(column) from error


def _plain_text(value: bytes) -> str:
    return value.decode(errors="replace")


def _extension(data: bytes) -> str:
    kind = sniff(data)
    return _EXTENSIONS.get(kind, kind)


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()
