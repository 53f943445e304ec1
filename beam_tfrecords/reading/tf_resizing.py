"""The tensor version of `resizing`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from beam_tfrecords.features.column_ranges import axes_of
from beam_tfrecords.features.fields import BOXES, KEYPOINTS, POLYGON, POLYGON_POINTS, Per
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.geometry.sizes import resized_size
from beam_tfrecords.reading.resizing import NOISE, SIDES, Resize, box_sides


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

    def objects(self, example: dict[str, Any], features: Sequence[Feature]) -> None:
        """Moves objects like `resizing.move_objects`; boxes in one feature are [n, 4]."""
        for feature in features:
            if feature.moves:
                is_x = tf.constant(axes_of(feature.columns, feature.length)) == 0
                values = example[feature.name]
                example[feature.name] = tf.where(is_x, self._move(values, 1), self._move(values, 0))
        names = {feature.field: feature.name for feature in features if feature.is_of_objects}
        boxes = box_sides(example, names)
        moved = {
            side: tf.clip_by_value(self._move(boxes[side], axis), 0, 1) for side, axis in SIDES.items() if side in boxes
        }
        self._move_keypoints(example, names)
        if name := names.get(POLYGON):
            x, y = self._move(example[name][:, 0], 1), self._move(example[name][:, 1], 0)
            example[name] = tf.stack([x, y], axis=1)
            corners = example[names[POLYGON_POINTS]]
        if BOXES in names:
            example[names[BOXES]] = tf.stack([moved[side] for side in SIDES], axis=1)
        for side, values in moved.items():
            if name := names.get(f"objects.{side}"):
                example[name] = values
        if len(boxes) < len(SIDES):
            return
        new, old = _areas(moved, self.final), _areas(boxes, self.stored)
        if area := names.get("objects.area"):
            shrunk = tf.cast(example[area], tf.float32) * new / tf.maximum(old, NOISE)
            example[area] = tf.cast(shrunk, example[area].dtype)
        kept = new > 0
        for feature in features:
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
