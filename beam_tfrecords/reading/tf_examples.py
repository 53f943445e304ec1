"""Converts serialized examples to the tensors that `load` returns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.column_ranges import axes_of
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import BOXES, KEYPOINTS, POLYGON, POLYGON_POINTS, ClassValue, Per
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.geometry.sizes import resized_size
from beam_tfrecords.reading.decoding import PixelDecoder
from beam_tfrecords.reading.records import Records
from beam_tfrecords.reading.resizing import NOISE, Resize

# Sides of a stored box in their order, and the axis of each.
_SIDES = {"ymin": 0, "xmin": 1, "ymax": 0, "xmax": 1}
_DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


@dataclasses.dataclass(frozen=True)
class ExampleReader:
    """Converts a serialized example to an element of `load`.

    Attributes:
      path: folder of the dataset.
      layout: features of the stored examples.
      images: how images are stored.
      own_classes: class names that stored label indices refer to.
      class_names: class names that label indices refer to; include all of the dataset's.
      decodes: whether images are decoded.
      resize: size of decoded images; None for the stored size.
      transform: as in `load`.
      pair: features of a supervised pair; None for a dict.
      hot: features that become zeros and ones.
      objects: features with a value or a row for each object.
      num_objects: as in `load`.

    Raises:
      ValueError: an argument of `load` does not fit the dataset.
    """

    path: str
    layout: Layout
    images: StoredImages
    own_classes: tuple[str, ...]
    class_names: tuple[str, ...]
    decodes: bool
    resize: Resize | None
    transform: Callable[[dict[str, Any]], Any] | None
    pair: tuple[str, str] | None
    hot: Sequence[str]
    objects: Sequence[Feature]
    num_objects: int | None

    @classmethod
    def of(
        cls, stored: Records | StoredDataset, *, as_supervised: bool, multi_hot: bool, **given: Any
    ) -> ExampleReader:
        """Makes a reader; finds the features that the arguments of `load` refer to."""
        layout, features = stored.layout, stored.layout.features
        pair = layout.find_pair(decoded=given["decodes"]) if as_supervised else None
        hot = [feature.name for feature in features if feature.field == "labels.index"] if multi_hot else []
        if multi_hot and not (hot and given["class_names"]):
            raise ValueError("multi_hot=True: expected a dataset with the field labels.index and with class names")
        # Polygons and keypoints stay as long as they are.
        objects = [one for one in features if one.kind.per is Per.OBJECT and Content.POLYGONS not in one.kind.contents]
        own = stored.path, layout, stored.images, stored.class_names
        return cls(*own, pair=pair, hot=hot, objects=objects, **given)

    def __post_init__(self) -> None:
        number = self.num_objects
        if number is not None and (number < 1 or not self.objects):
            raise ValueError(f"num_objects={number}: expected 1 or more, and a dataset with annotated objects")
        lists = [feature.name for feature in self.layout.features if feature.holds_image and feature.several]
        if self.decodes and lists and self.size is None:
            path, names = escape(self.path), escape(", ".join(lists))
            raise ValueError(
                f"{path}: the images of a list ({names}) have different sizes; pass image_size= with "
                "resize_mode='crop', 'pad' or 'exact', or decode=False"
            )

    def check_batches(self, batch_size: int) -> None:
        """Checks that examples can be batched.

        Raises:
          ValueError: they cannot.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: expected 1 or more, or None for single examples")
        if self.decodes and self.size is None and not self.transform:
            raise ValueError(
                f"{escape(self.path)}: its images may have different sizes, which cannot be batched; pass "
                "image_size= (resize_mode='crop', 'pad' or 'exact'), a transform= that makes them equal, or "
                "decode=False"
            )

    @property
    def is_ragged(self) -> bool:
        """Whether the number of values of a feature may differ between examples."""
        fixed = {*self.hot, *(feature.name for feature in self.objects if self.num_objects)}
        return any(feature.several and feature.name not in fixed for feature in self.layout.features)

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of every decoded image; None if they differ."""
        return self._decoder.size

    @functools.cached_property
    def _decoder(self) -> TensorFlowDecoder:
        return TensorFlowDecoder(self.layout.features, self.images, self.resize)

    def __call__(self, record: tf.Tensor) -> Any:
        features = self.layout.features
        example = tf.io.parse_single_example(record, {feature.name: _parsing(feature) for feature in features})
        for feature in features:
            if feature.kind.row > 1:
                example[feature.name] = tf.reshape(example[feature.name], [-1, feature.kind.row])
        if self.decodes:
            self._decoder.decode(example)
        for feature in features:
            if feature.class_value is not None:
                example[feature.name] = self._renumber(example[feature.name], feature.class_value)
        for feature in self.objects:
            example[feature.name] = _pad(example[feature.name], self.num_objects)
        for name in self.hot:
            indices = tf.cast(example[name], tf.int64)
            is_label = tf.one_hot(indices, len(self.class_names), on_value=True, off_value=False)
            example[name] = tf.cast(tf.reduce_any(is_label, axis=0), tf.float32)
        example = tf.function(self._transform)(example) if self.transform else example
        return (example[self.pair[0]], example[self.pair[1]]) if self.pair else example

    def _transform(self, example: dict[str, Any]) -> Any:
        """Calls the user's function with a copy, which it may change; its conditions may depend on tensors."""
        assert self.transform is not None
        return self.transform(dict(example))

    def _renumber(self, values: tf.Tensor, kind: ClassValue) -> tf.Tensor:
        """Replaces class indices with those of `class_names`; names, and values that are not classes, stay."""
        own = self.own_classes
        if kind is ClassValue.NAME or own == self.class_names[: len(own)]:
            return values
        first = 1 if kind is ClassValue.ID else 0
        numbers = tf.cast(values, tf.int64) - first
        is_class = (numbers >= 0) & (numbers < len(own))
        table = tf.constant([self.class_names.index(name) + first for name in own], values.dtype)
        return tf.where(is_class, tf.gather(table, tf.where(is_class, numbers, 0)), values)


def _parsing(feature: Feature) -> Any:
    if feature.several:
        return tf.io.RaggedFeature(_DTYPES[feature.type])
    return tf.io.FixedLenFeature([feature.length] if feature.length else [], _DTYPES[feature.type])


def _pad(values: tf.Tensor, number: int | None) -> tf.Tensor:
    """Pads or cuts an attribute of objects, [n] or [n, ...], to a number, if one is given."""
    if number is None:
        return values
    padding = [[0, tf.maximum(0, number - tf.shape(values)[0])], *[[0, 0]] * (values.shape.rank - 1)]
    # Masks are stored bytes, or pixels.
    filler = {tf.string: "", tf.uint8: tf.constant(0, tf.uint8)}.get(values.dtype, tf.cast(-1, values.dtype))
    padded = tf.pad(values, padding, constant_values=filler)[:number]
    return tf.ensure_shape(padded, [number, *values.shape[1:]])


@dataclasses.dataclass(frozen=True)
class TensorPlacement:
    """Placement of a stored image in the resized one; each size is (height, width) in pixels.

    Attributes:
      stored: size of the stored image.
      resized: size of the whole image after resizing.
      final: size of the image that `load` returns.
    """

    stored: tuple[tf.Tensor, tf.Tensor]
    resized: tuple[tf.Tensor, tf.Tensor]
    final: tuple[tf.Tensor, tf.Tensor]

    @classmethod
    def of(cls, image: tf.Tensor, resize: Resize | None) -> TensorPlacement:
        """Returns the placement of a stored image, or of a mask of its size."""
        sides = tf.shape(image, tf.int64)
        stored = sides[0], sides[1]
        if resize is None:
            return cls(stored, stored, stored)
        resized = resized_size(*stored, resize.size, resize.mode, greater=tf.maximum, smaller=tf.minimum)
        return cls(stored, resized, resize.fixed_size or resized)

    def image(self, pixels: tf.Tensor) -> tf.Tensor:
        """Resizes [H, W, C] to [final height, final width, C] of the same type."""
        resized = tf.image.resize(pixels, tf.cast(self.resized, tf.int32), antialias=True)
        placed = self._on_canvas(resized)
        if pixels.dtype.is_floating:
            return placed
        return tf.cast(tf.clip_by_value(tf.round(placed), 0, pixels.dtype.max), pixels.dtype)

    def mask(self, pixels: tf.Tensor) -> tf.Tensor:
        """Resizes [H, W, 1] to [final height, final width, 1]; each pixel takes the value of the nearest one."""
        return self._on_canvas(tf.image.resize(pixels, tf.cast(self.resized, tf.int32), method="nearest"))

    def _on_canvas(self, pixels: tf.Tensor) -> tf.Tensor:
        return tf.image.resize_with_crop_or_pad(pixels, *(tf.cast(side, tf.int32) for side in self.final))

    def move(self, example: dict[str, Any], features: Sequence[Feature], objects: StoredObjects) -> None:
        """Moves objects and points like `resizing.move_objects`; boxes in one feature are [n, 4]."""
        for feature in features:
            if feature.moves:
                is_x = tf.constant(axes_of(feature.columns, feature.length)) == 0
                values = example[feature.name]
                example[feature.name] = tf.where(is_x, self._move(values, 1), self._move(values, 0))
        names = objects.names
        if BOXES in names:
            boxes = dict(zip(_SIDES, tf.unstack(example[names[BOXES]], axis=1), strict=True))
        else:
            boxes = {side: example[names[f"objects.{side}"]] for side in _SIDES if f"objects.{side}" in names}
        moved = {side: tf.clip_by_value(self._move(values, _SIDES[side]), 0, 1) for side, values in boxes.items()}
        self._move_keypoints(example, names)
        if name := names.get(POLYGON):
            x, y = self._move(example[name][:, 0], 1), self._move(example[name][:, 1], 0)
            example[name] = tf.stack([x, y], axis=1)
            corners = example[names[POLYGON_POINTS]]
        if BOXES in names:
            example[names[BOXES]] = tf.stack([moved[side] for side in _SIDES], axis=1)
        for side, values in moved.items():
            if name := names.get(f"objects.{side}"):
                example[name] = values
        if not objects.has_boxes:
            return
        new, old = _areas(moved, self.final), _areas(boxes, self.stored)
        if area := names.get("objects.area"):
            shrunk = tf.cast(example[area], tf.float32) * new / tf.maximum(old, NOISE)
            example[area] = tf.cast(shrunk, example[area].dtype)
        kept = new > 0
        for feature in objects.features.values():
            values = example[feature.name]
            match feature.kind.per:
                case Per.KEYPOINT:
                    points = tf.size(values) // tf.maximum(tf.size(kept), 1)
                    example[feature.name] = tf.boolean_mask(values, tf.repeat(kept, points))
                case Per.CORNER:
                    example[feature.name] = tf.boolean_mask(values, tf.repeat(kept, corners))
                case Per.OBJECT:
                    example[feature.name] = tf.boolean_mask(values, kept)

    def _move(self, shares: tf.Tensor, axis: int) -> tf.Tensor:
        resized, final = (tf.cast(size[axis], tf.float32) for size in (self.resized, self.final))
        offset = tf.cast((tf.cast(self.resized[axis], tf.int64) - tf.cast(self.final[axis], tf.int64)) / 2, tf.int64)
        return (shares * resized - tf.cast(offset, tf.float32)) / final

    def _move_keypoints(self, example: dict[str, Any], names: Mapping[str, str]) -> None:
        across, down, seen = (names.get(field) for field in KEYPOINTS)
        if across is None or down is None:
            return
        places = self._move(example[down], 0), self._move(example[across], 1)
        is_there = tf.ones_like(places[0], tf.bool) if seen is None else example[seen] > 0
        for shares in places:
            is_there &= (shares >= 0) & (shares <= 1)
        example[down], example[across] = (tf.where(is_there, shares, 0.0) for shares in places)
        if seen is not None:
            example[seen] = tf.where(is_there, example[seen], tf.zeros_like(example[seen]))


def _areas(boxes: Mapping[str, tf.Tensor], size: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """Returns [n] areas of boxes in square pixels; 0 for boxes without height or width."""
    down = (boxes["ymax"] - boxes["ymin"]) * tf.cast(size[0], tf.float32)
    across = (boxes["xmax"] - boxes["xmin"]) * tf.cast(size[1], tf.float32)
    return tf.where((down > NOISE) & (across > NOISE), down * across, 0.0)


class TensorFlowDecoder(PixelDecoder[TensorPlacement]):
    """Decodes stored images and masks in graph code."""

    def image(self, data: tf.Tensor, example: Mapping[str, Any], row: None = None) -> tuple[tf.Tensor, TensorPlacement]:
        image = self._decode_raw(data, example) if self.stored.encoding == "raw" else self._decode_file(data)
        placed = TensorPlacement.of(image, self.resize)
        if self.resize:
            image = placed.image(image)
            image.set_shape([*(self.size or (None, None)), image.shape[-1]])
        return image, placed

    def images(self, data: tf.Tensor, example: Mapping[str, Any]) -> tf.Tensor:
        shape = tf.TensorSpec([*(self.size or (None, None)), self._depth], self._kind)
        return tf.map_fn(lambda one: self.image(one, example)[0], data, fn_output_signature=shape)

    def mask(self, data: tf.Tensor) -> tf.Tensor:
        kind = tf.uint16 if self.stored.mask_bit_depth == 16 else tf.uint8
        mask = tf.io.decode_png(data, channels=1, dtype=kind)
        mask = TensorPlacement.of(mask, self.resize).mask(mask)
        mask.set_shape([*(self.size or (None, None)), 1])
        return mask

    def object_masks(self, data: tf.Tensor, placed: TensorPlacement) -> tf.Tensor:
        def decode(one: tf.Tensor) -> tf.Tensor:
            return placed.mask(tf.io.decode_png(one, channels=1))[:, :, 0]

        masks = tf.cond(
            tf.size(data) > 0,
            lambda: tf.map_fn(decode, data, fn_output_signature=tf.TensorSpec([None, None], tf.uint8)),
            lambda: tf.zeros([0, *placed.final], tf.uint8),
        )
        return tf.ensure_shape(masks, [None, *(self.size or (None, None))])

    def move(self, example: dict[str, Any], placed: TensorPlacement) -> None:
        placed.move(example, self.features, self.objects)

    @property
    def _kind(self) -> tf.DType:
        return tf.uint16 if self.stored.bit_depth == 16 else tf.uint8

    @property
    def _depth(self) -> int | None:
        """Channels of decoded images; None if they differ, as of arrays."""
        return self.stored.channels or (None if self.stored.encoding == "raw" else 3)

    def _decode_file(self, data: tf.Tensor) -> tf.Tensor:
        depth, kind, encoding = self._depth, self._kind, self.stored.encoding

        def decode_any() -> tf.Tensor:
            return tf.io.decode_image(data, channels=depth, dtype=kind, expand_animations=False)

        def decode_jpeg() -> tf.Tensor:
            # As libjpeg decodes by default. `decode_image` has no choice of the method.
            return tf.io.decode_jpeg(data, channels=depth, dct_method="INTEGER_ACCURATE")

        if kind == tf.uint16 or encoding not in ("jpeg", "keep"):
            image = decode_any()
        elif encoding == "jpeg":
            image = decode_jpeg()
        else:
            image = tf.cond(tf.io.is_jpeg(data), decode_jpeg, decode_any)
        image.set_shape([*(self.stored.size or (None, None)), depth])
        return image

    def _decode_raw(self, data: tf.Tensor, example: Mapping[str, Any]) -> tf.Tensor:
        pixels = tf.io.decode_raw(data, tf.as_dtype(self.stored.array_type or "uint8"))
        shape = [*(self.stored.size or (None, None)), self.stored.channels]
        return tf.ensure_shape(tf.reshape(pixels, self.raw_shape(example)), shape)
