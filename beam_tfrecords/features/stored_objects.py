"""Puts stored objects together from the features of a layout."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.features.fields import (
    ATTRIBUTES,
    BOX_SIDES,
    BOXES,
    KEYPOINTS,
    OBJECT_MASKS,
    POLYGON,
    POLYGON_POINTS,
    ClassValue,
    Per,
)
from beam_tfrecords.features.layouts import Feature

_OBJECTS = "objects."
# From the order of a stored box to that of its sides, and back.
_REVERSED = [1, 0, 3, 2]


@dataclasses.dataclass(frozen=True)
class StoredObjects:
    """The features of annotated objects.

    `values` of the methods are those of an example: name of a feature -> an array or a list.

    Attributes:
      features: field -> feature.
    """

    features: Mapping[str, Feature]

    @classmethod
    def of(cls, features: Sequence[Feature]) -> StoredObjects:
        """Takes the features of objects from those of a layout."""
        return cls({feature.field: feature for feature in features if feature.is_of_objects})

    @functools.cached_property
    def names(self) -> Mapping[str, str]:
        """Field -> name of the feature."""
        return {field: feature.name for field, feature in self.features.items()}

    @functools.cached_property
    def has_boxes(self) -> bool:
        """Whether the features have all sides of a box."""
        return BOXES in self.features or self.features.keys() >= {*BOX_SIDES}

    @functools.cached_property
    def has_keypoints(self) -> bool:
        """Whether the features have the places and the visibility of keypoints."""
        return self.features.keys() >= {*KEYPOINTS}

    @functools.cached_property
    def class_feature(self) -> Feature | None:
        """A feature with the classes; names first, because they identify a class across datasets."""
        of = {one.class_value: one for one in self.features.values()}
        return of.get(ClassValue.NAME) or of.get(ClassValue.INDEX) or of.get(ClassValue.ID)

    def boxes(self, values: Mapping[str, Any]) -> np.ndarray:
        """Returns [n, 4] xmin, ymin, xmax and ymax as shares of the image's size; a missing side is that of the image.

        The features have a side.
        """
        if BOXES in self.names:
            return np.reshape(values[self.names[BOXES]], (-1, 4))[:, _REVERSED]
        sides = [values[self.names[side]] if side in self.names else None for side in BOX_SIDES]
        count = max(len(side) for side in sides if side is not None)
        edges = zip(sides, (0, 0, 1, 1), strict=True)
        return np.stack([np.full(count, edge) if side is None else side for side, edge in edges], axis=1)

    def set_boxes(self, values: dict[str, Any], boxes: np.ndarray) -> None:
        """Replaces the sides of boxes in the values of an example by those of `boxes`."""
        if BOXES in self.names:
            values[self.names[BOXES]] = boxes[:, _REVERSED]
        for number, side in enumerate(BOX_SIDES):
            if side in self.names:
                values[self.names[side]] = np.ascontiguousarray(boxes[:, number])

    def classes(self, values: Mapping[str, Any], class_names: Sequence[str]) -> list[str | None]:
        """Returns the class of each object; None for a number without a class. Empty if no feature has classes."""
        feature = self.class_feature
        if feature is None or feature.class_value is None:
            return []
        return [feature.class_value.find(one, class_names) for one in values[feature.name]]

    def lengths(self, values: Mapping[str, Any], per: Per) -> dict[str, float]:
        """Returns the number of values, or rows of values, of the features with some for each object or keypoint."""
        found = [one for one in self.features.values() if one.kind.per is per]
        return {one.name: len(values[one.name]) / one.kind.row for one in found}

    def attributes(self, values: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
        """Returns the attributes that the features have: name -> value of each object."""
        names = {one: self.features[_OBJECTS + one].name for one in ATTRIBUTES if _OBJECTS + one in self.features}
        return {one: values[name] for one, name in names.items()}

    def masks(self, values: Mapping[str, Any]) -> Sequence[bytes]:
        """Returns the mask of each object, as stored; empty if no feature has masks."""
        return values[self.features[OBJECT_MASKS].name] if OBJECT_MASKS in self.features else ()

    def polygons(self, values: Mapping[str, Any]) -> list[np.ndarray]:
        """Returns [corners, 2] x and y of the polygon of each object; empty if no feature has polygons.

        Raises:
          ValueError: the polygons have more or fewer corners than the example says.
        """
        if POLYGON not in self.names:
            return []
        sides, counts = np.ravel(values[self.names[POLYGON]]), np.array(values[self.names[POLYGON_POINTS]], np.int64)
        if len(sides) != 2 * counts.sum() or counts.min(initial=0) < 0:
            said = f"feature {self.names[POLYGON]!r} has {len(sides)} coordinates"
            raise ValueError(f"{said}; its polygons have {2 * counts.sum()}")
        return np.split(sides.reshape(-1, 2), np.cumsum(counts))[: len(counts)]

    def keypoints(self, values: Mapping[str, Any], count: int) -> np.ndarray:
        """Returns [n, points, 3] x, y and visibility; no points if no feature has keypoints.

        Args:
          count: number of objects.
        """
        columns = [np.array(values[self.features[one].name], np.float32) for one in KEYPOINTS if self.has_keypoints]
        return np.stack(columns, -1).reshape(count, -1, 3) if columns and count else np.zeros((count, 0, 3), np.float32)
