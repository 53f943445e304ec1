"""Converts serialized examples to the tensors that `load` returns."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.decoding import PixelFeatures
from beam_tfrecords.features.fields import HEIGHT, SHAPE_FIELD, WIDTH, ClassValue, Per
from beam_tfrecords.features.layouts import Feature, Layout, no_pair
from beam_tfrecords.reading.resizing import Resize
from beam_tfrecords.reading.tf_resizing import TensorPlacement

_DTYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}


class StoredExamples(NamedTuple):
    """Describes the stored examples of a dataset.

    Attributes:
      path: folder of the dataset.
      layout: their features.
      images: how images are stored.
      class_names: class names that label indices refer to.
    """

    path: str
    layout: Layout
    images: StoredImages
    class_names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ExampleReader:
    """Converts a serialized example to an element of `load`.

    Attributes:
      stored: the examples as they are stored.
      class_names: class names that label indices refer to; include all of the dataset's.
      decodes: whether images are decoded.
      is_fast: whether JPEGs are decoded with less accuracy, as `fast_decode` of `load`.
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

    stored: StoredExamples
    class_names: tuple[str, ...]
    decodes: bool
    is_fast: bool
    resize: Resize | None
    channels: int | None
    transform: Callable[[dict[str, Any]], Any] | None
    pair: tuple[str, str] | None
    hot: Sequence[str]
    objects: Sequence[Feature]
    num_objects: int | None

    @classmethod
    def of(cls, stored: StoredExamples, *, as_supervised: bool, multi_hot: bool, **given: Any) -> ExampleReader:
        """Makes a reader; finds the features that the arguments of `load` refer to."""
        features = stored.layout.features
        pair = stored.layout.supervised(decoded=given["decodes"]) if as_supervised else None
        if as_supervised and pair is None:
            raise ValueError(no_pair(stored.layout))
        hot = [feature.name for feature in features if feature.field == "labels.index"] if multi_hot else []
        if multi_hot and not (hot and given["class_names"]):
            raise ValueError("multi_hot=True: expected a dataset with the field labels.index and with class names")
        # Polygons and keypoints stay as long as they are.
        objects = [one for one in features if one.kind.per is Per.OBJECT and Content.POLYGONS not in one.kind.contents]
        return cls(stored, pair=pair, hot=hot, objects=objects, **given)

    def __post_init__(self) -> None:
        number = self.num_objects
        if number is not None and (number < 1 or not self.objects):
            raise ValueError(f"num_objects={number}: expected 1 or more, and a dataset with annotated objects")
        lists = [feature.name for feature in self._images if feature.several]
        if self.decodes and lists and self.size is None:
            path, names = escape(self.stored.path), escape(", ".join(lists))
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
                f"{escape(self.stored.path)}: its images may have different sizes, which cannot be batched; pass "
                "image_size= (resize_mode='crop', 'pad' or 'exact'), a transform= that makes them equal, or "
                "decode=False"
            )

    @property
    def is_ragged(self) -> bool:
        """Whether the number of values of a feature may differ between examples."""
        fixed = {*self.hot, *(feature.name for feature in self.objects if self.num_objects)}
        return any(feature.several and feature.name not in fixed for feature in self.stored.layout.features)

    @property
    def _images(self) -> list[Feature]:
        return [feature for feature in self.stored.layout.features if feature.holds_image]

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of every decoded image; None if they differ."""
        return self._decoder.size

    @functools.cached_property
    def _decoder(self) -> TensorFlowDecoder:
        names = {feature.field: feature.name for feature in self.stored.layout.features}
        return TensorFlowDecoder(self.stored.images, self.resize, names, self.channels, self.is_fast)

    def __call__(self, record: tf.Tensor) -> Any:
        features = self.stored.layout.features
        example = tf.io.parse_single_example(record, {feature.name: _parsing(feature) for feature in features})
        for feature in features:
            if feature.kind.row > 1:
                example[feature.name] = tf.reshape(example[feature.name], [-1, feature.kind.row])
        if self.decodes:
            PixelFeatures(features, self._decoder).decode(example)
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
        own = self.stored.class_names
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
class TensorFlowDecoder:
    """Decodes stored images and masks in graph code; a `features.decoding.Decoder`.

    Attributes:
      stored: how images are stored.
      resize: size of decoded images; None for the stored size.
      names: field -> name of the feature that contains it.
      channels: as in `load`.
      is_fast: as in `ExampleReader`.
    """

    stored: StoredImages
    resize: Resize | None
    names: Mapping[str, str]
    channels: int | None
    is_fast: bool

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of every decoded image; None if they differ."""
        stored = self.stored.size
        if self.resize is None:
            return stored
        return self.resize.place(*stored).final if stored else self.resize.fixed_size

    def image(self, data: tf.Tensor, example: Mapping[str, Any], row: None = None) -> tuple[tf.Tensor, TensorPlacement]:
        """See `Decoder.image`."""
        image = self._decode_raw(data, example) if self.stored.encoding == "raw" else self._decode_file(data)
        placed = TensorPlacement.of(image, self.resize)
        if self.resize:
            image = placed.image(image)
            image.set_shape([*(self.size or (None, None)), image.shape[-1]])
        return image, placed

    def images(self, data: tf.Tensor, example: Mapping[str, Any]) -> tf.Tensor:
        """See `Decoder.images`."""
        shape = tf.TensorSpec([*(self.size or (None, None)), self._depth], self._kind)
        return tf.map_fn(lambda one: self.image(one, example)[0], data, fn_output_signature=shape)

    def mask(self, data: tf.Tensor) -> tf.Tensor:
        """See `Decoder.mask`."""
        kind = tf.uint16 if self.stored.mask_bit_depth == 16 else tf.uint8
        mask = tf.io.decode_png(data, channels=1, dtype=kind)
        mask = TensorPlacement.of(mask, self.resize).mask(mask)
        mask.set_shape([*(self.size or (None, None)), 1])
        return mask

    def object_masks(self, data: tf.Tensor, placed: TensorPlacement) -> tf.Tensor:
        """See `Decoder.object_masks`; the image may have been resized."""

        def decode(one: tf.Tensor) -> tf.Tensor:
            return placed.mask(tf.io.decode_png(one, channels=1))[:, :, 0]

        masks = tf.cond(
            tf.size(data) > 0,
            lambda: tf.map_fn(decode, data, fn_output_signature=tf.TensorSpec([None, None], tf.uint8)),
            lambda: tf.zeros([0, *placed.final], tf.uint8),
        )
        return tf.ensure_shape(masks, [None, *(self.size or (None, None))])

    def placed(self, example: dict[str, Any], features: Sequence[Feature], placed: TensorPlacement) -> None:
        """See `Decoder.placed`."""
        if self.resize:
            placed.objects(example, features)

    @property
    def _kind(self) -> tf.DType:
        return tf.uint16 if self.stored.bit_depth == 16 else tf.uint8

    @property
    def _depth(self) -> int | None:
        """Channels of decoded images; None for the channels of each file."""
        if self.stored.encoding == "raw":
            return self.stored.channels or None
        if self.channels is None:
            return self.stored.channels or 3
        return self.channels or None

    def _decode_file(self, data: tf.Tensor) -> tf.Tensor:
        depth, kind, encoding = self._depth, self._kind, self.stored.encoding

        def decode_any() -> tf.Tensor:
            return tf.io.decode_image(data, channels=depth or 0, dtype=kind, expand_animations=False)

        def decode_jpeg() -> tf.Tensor:
            # As libjpeg decodes by default. `decode_image` has no choice of the method.
            return tf.io.decode_jpeg(data, channels=depth or 0, dct_method="INTEGER_ACCURATE")

        if self.is_fast or kind == tf.uint16 or encoding not in ("jpeg", "keep"):
            image = decode_any()
        elif encoding == "jpeg":
            image = decode_jpeg()
        else:
            image = tf.cond(tf.io.is_jpeg(data), decode_jpeg, decode_any)
        image.set_shape([*(self.stored.size or (None, None)), depth])
        return image

    def _decode_raw(self, data: tf.Tensor, example: Mapping[str, Any]) -> tf.Tensor:
        stored, names = self.stored, self.names
        pixels = tf.io.decode_raw(data, tf.as_dtype(stored.array_type or "uint8"))
        if stored.size and stored.channels:
            return tf.reshape(pixels, [*stored.size, stored.channels])
        if SHAPE_FIELD in names:
            return tf.ensure_shape(tf.reshape(pixels, example[names[SHAPE_FIELD]]), [None, None, stored.channels])
        missing = [field for field in (HEIGHT, WIDTH) if field not in names]
        if missing:
            raise ValueError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
        height, width = example[names[HEIGHT]], example[names[WIDTH]]
        return tf.reshape(pixels, tf.stack([height, width, tf.constant(stored.channels or -1, tf.int64)]))
