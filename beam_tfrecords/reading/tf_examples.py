"""Converts serialized examples to the tensors that `load` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from beam_tfrecords.escaping import escape
from beam_tfrecords.examples.class_values import ClassValue
from beam_tfrecords.examples.layouts import BOXES, KEYPOINTS, MASK_FIELD, OBJECT_MASKS, Feature, no_pair
from beam_tfrecords.output.manifest import StoredImages
from beam_tfrecords.reading.dataset import Dataset
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.tf_resizing import TensorPlacement

_DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


@dataclasses.dataclass(frozen=True)
class ExampleReader:
    """Converts a serialized example to an element of `load`.

    Attributes:
      dataset: the dataset.
      class_names: class names that label indices refer to; include all of the dataset's.
      decodes: whether images are decoded.
      resize: size of decoded images; None for the stored size.
      channels: as in `load`.
      transform: as in `load`.
      pair: features of a supervised pair; None for a dict.
      hot: features that become zeros and ones.
      objects: features with a value or a row for each object.
      num_objects: as in `load`.

    Raises:
      ValueError: an argument of `load` does not fit the dataset.
    """

    dataset: Dataset
    class_names: tuple[str, ...]
    decodes: bool
    resize: Resize | None
    channels: int | None
    transform: Callable[[dict[str, Any]], Any] | None
    pair: tuple[str, str] | None
    hot: Sequence[str]
    objects: Sequence[Feature]
    num_objects: int | None

    @classmethod
    def of(cls, dataset: Dataset, *, as_supervised: bool, multi_hot: bool, **given: Any) -> ExampleReader:
        """Makes a reader; finds the features that the arguments of `load` refer to."""
        features = dataset.layout.features
        pair = dataset.layout.supervised if as_supervised else None
        if as_supervised and pair is None:
            raise ValueError(no_pair(dataset.layout))
        hot = [feature.name for feature in features if feature.field == "labels.index"] if multi_hot else []
        if multi_hot and not (hot and given["class_names"]):
            raise ValueError("multi_hot=True: expected a dataset with the field labels.index and with class names")
        objects = [
            feature for feature in features if feature.field.startswith("objects.") and feature.field not in KEYPOINTS
        ]
        return cls(dataset, pair=pair, hot=hot, objects=objects, **given)

    def __post_init__(self) -> None:
        number = self.num_objects
        if number is not None and (number < 1 or not self.objects):
            raise ValueError(f"num_objects={number}: expected 1 or more, and a dataset with annotated objects")
        lists = [feature.name for feature in self._images if feature.several]
        if self.decodes and lists and self.size is None:
            path, names = escape(self.dataset.path), escape(", ".join(lists))
            raise ValueError(
                f"{path}: the images of a list ({names}) have different sizes; pass image_size=, or decode=False"
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
                f"{escape(self.dataset.path)}: its images have different sizes and cannot be batched as they are; pass "
                "image_size= (resize_mode='crop', 'pad' or 'exact'), a transform= that makes them equal, or "
                "decode=False"
            )

    @property
    def is_ragged(self) -> bool:
        """Whether the number of values of a feature may differ between examples."""
        fixed = {*self.hot, *(feature.name for feature in self.objects if self.num_objects)}
        return any(feature.several and feature.name not in fixed for feature in self.dataset.layout.features)

    @property
    def _images(self) -> list[Feature]:
        return [feature for feature in self.dataset.layout.features if feature.holds_image]

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of every decoded image; None if they differ."""
        stored = self.dataset.images.size
        if self.resize is None:
            return stored
        return self.resize.place(*stored).final if stored else self.resize.fixed_size

    def __call__(self, record: tf.Tensor) -> Any:
        features = self.dataset.layout.features
        example = tf.io.parse_single_example(record, {feature.name: _parsing(feature) for feature in features})
        for feature in self.objects:
            if feature.field == BOXES:
                example[feature.name] = tf.reshape(example[feature.name], [-1, 4])
        if self.decodes:
            self._decode(example)
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
        own = self.dataset.class_names
        if kind is ClassValue.NAME or own == self.class_names[: len(own)]:
            return values
        first = 1 if kind is ClassValue.ID else 0
        numbers = tf.cast(values, tf.int64) - first
        is_class = (numbers >= 0) & (numbers < len(own))
        table = tf.constant([self.class_names.index(name) + first for name in own], values.dtype)
        return tf.where(is_class, tf.gather(table, tf.where(is_class, numbers, 0)), values)

    def _decode(self, example: dict[str, Any]) -> None:
        """Replaces the bytes of images and masks with pixels, and moves objects accordingly."""
        features, stored = self.dataset.layout.features, self.dataset.images
        for feature in features:
            if feature.holds_image and feature.several:
                example[feature.name] = self._decode_list(example[feature.name], example)
            elif feature.holds_image:
                example[feature.name], placed = self._decode_image(example[feature.name], example)
                if feature.image is None:
                    self._place_objects(example, placed)
            elif feature.field == MASK_FIELD:
                kind = tf.uint16 if stored.mask_bit_depth == 16 else tf.uint8
                mask = tf.io.decode_png(example[feature.name], channels=1, dtype=kind)
                mask = TensorPlacement.of(mask, self.resize).mask(mask)
                mask.set_shape([*(self.size or (None, None)), 1])
                example[feature.name] = mask

    def _place_objects(self, example: dict[str, Any], placed: TensorPlacement) -> None:
        for feature in self.objects:
            if feature.field == OBJECT_MASKS:
                masks = _decode_masks(example[feature.name], placed)
                example[feature.name] = tf.ensure_shape(masks, [None, *(self.size or (None, None))])
        if self.resize:
            placed.objects(example, self.dataset.layout.features)

    def _decode_list(self, encoded: tf.Tensor, example: dict[str, Any]) -> tf.Tensor:
        stored = self.dataset.images
        kind = tf.uint16 if stored.bit_depth == 16 else tf.uint8
        shape = tf.TensorSpec([*(self.size or (None, None)), _depth(stored, self.channels)], kind)
        return tf.map_fn(lambda one: self._decode_image(one, example)[0], encoded, fn_output_signature=shape)

    def _decode_image(self, encoded: tf.Tensor, example: dict[str, Any]) -> tuple[tf.Tensor, TensorPlacement]:
        shapes = {feature.field: feature.name for feature in self.dataset.layout.features}
        image = _decode(encoded, example, self.dataset.images, shapes, self.channels)
        placed = TensorPlacement.of(image, self.resize)
        if self.resize:
            image = placed.image(image)
            image.set_shape([*(self.size or (None, None)), None])
        return image, placed


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


def _decode_masks(encoded: tf.Tensor, placed: TensorPlacement) -> tf.Tensor:
    """Decodes to [n, H, W] uint8 masks of the size of an image, which may have been resized."""

    def decode(data: tf.Tensor) -> tf.Tensor:
        return placed.mask(tf.io.decode_png(data, channels=1))[:, :, 0]

    return tf.cond(
        tf.size(encoded) > 0,
        lambda: tf.map_fn(decode, encoded, fn_output_signature=tf.TensorSpec([None, None], tf.uint8)),
        lambda: tf.zeros([0, *placed.final], tf.uint8),
    )


def _depth(stored: StoredImages, channels: int | None) -> int | None:
    """Returns the channels of decoded images; None for the channels of each file."""
    if stored.encoding == "raw":
        return stored.channels or None
    if channels is None:
        return stored.channels or 3
    return channels or None


def _decode(
    encoded: tf.Tensor, example: dict[str, Any], stored: StoredImages, shapes: dict[str, str], channels: int | None
) -> tf.Tensor:
    if stored.encoding != "raw":
        depth = _depth(stored, channels)
        kind = tf.uint16 if stored.bit_depth == 16 else tf.uint8
        image = tf.io.decode_image(encoded, channels=depth or 0, dtype=kind, expand_animations=False)
        image.set_shape([*(stored.size or (None, None)), depth])
        return image
    pixels = tf.io.decode_raw(encoded, tf.uint8)
    if stored.size and stored.channels:
        return tf.reshape(pixels, [*stored.size, stored.channels])
    missing = [field for field in ("image.height", "image.width") if field not in shapes]
    if missing:
        raise ValueError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
    height, width = example[shapes["image.height"]], example[shapes["image.width"]]
    return tf.reshape(pixels, tf.stack([height, width, tf.constant(stored.channels or -1, tf.int64)]))
