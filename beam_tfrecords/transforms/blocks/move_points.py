"""Moves vectors of points from the pixels of the source to shares of the stored image. All functions are pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.column_ranges import axes_of
from beam_tfrecords.examples.layouts import Feature, Layout
from beam_tfrecords.examples.serialize import read_vector
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.refs.sample_refs import SampleRef


def move_vectors(layout: Layout, ref: SampleRef, geometry: Geometry, stored: Layout | None) -> dict[str, Any]:
    """Returns the name of each vector that moves with the image -> its values as shares of the stored image's size.

    Points that leave the image stay: below 0, or above 1.

    Args:
      layout: the layout.
      ref: the sample, whose columns have x and y of each point in the upright source.
      geometry: geometry of the image.
      stored: layout of the input's examples if the sample is a record of a dataset, or None.

    Raises:
      SampleError: a value is not a number, or the points are not in the unit that the layout names.
    """
    return {
        feature.name: _move(feature, ref, geometry, is_normalized=_is_normalized(feature, stored))
        for feature in layout.features
        if feature.moves
    }


def _is_normalized(feature: Feature, stored: Layout | None) -> bool:
    if stored is None:
        return feature.moves == "shares"
    if any(one.moves and {*one.read_columns} >= {*feature.read_columns} for one in stored.features):
        return True
    raise _error(feature, "its columns did not move with the image of the dataset, and belong to another image")


def _move(feature: Feature, ref: SampleRef, geometry: Geometry, *, is_normalized: bool) -> list[float]:
    cells: list[Any] = [ref.columns.get(name) for name in feature.read_columns]
    items = cells[0] if not feature.columns and isinstance(cells[0], list) else cells
    numbers = np.array(read_vector(feature, items), np.float64)
    if not is_normalized and np.abs(numbers).max() <= 1:
        raise _error(feature, "all points are within 1 pixel of the corner, as shares are; write 'moves: shares'")
    height, width = geometry.upright_size
    axes = np.array(axes_of(feature.columns, len(numbers)))
    points = np.stack([numbers[axes == 0], numbers[axes == 1]], axis=1) * ((width, height) if is_normalized else 1)
    to_stored = geometry.upright_to_stored()
    moved = (points @ to_stored[:, :2].T + to_stored[:, 2]) / (geometry.final_width, geometry.final_height)
    numbers[axes == 0], numbers[axes == 1] = moved.T
    return [float(number) for number in numbers]


def _error(feature: Feature, why: str) -> SampleError:
    return SampleError(Stage.LABEL, FailureReason.INVALID_ROW, f"feature {feature.name!r}: {feature.field}: {why}")
