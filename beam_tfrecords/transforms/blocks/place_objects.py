"""Maps objects and points from the pixels of the source to the pixels of the stored image. All functions are pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.column_ranges import axes_of
from beam_tfrecords.features.fields import ATTRIBUTES, FIELDS
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import read_vector
from beam_tfrecords.geometry.geometry import Geometry, map_points, move_boxes, see_points
from beam_tfrecords.transforms.images.masks import invalid_mask
from beam_tfrecords.transforms.images.object_masks import draw_polygons, encode_mask, find_drawn_on
from beam_tfrecords.transforms.objects.objects import InvalidBoxes, Objects
from beam_tfrecords.transforms.objects.polygons import RunLengths, join_parts, unpack_polygons
from beam_tfrecords.transforms.refs.sample_refs import SampleRef

# Attribute that a source may lack -> its default.
_ABSENT: dict[str, Any] = {name: "" if kind == "bytes" else 0 for name, kind in ATTRIBUTES.items() if name != "area"}


@dataclasses.dataclass(frozen=True)
class PlacedObjects:
    """The objects of a stored image.

    Attributes:
      boxes: [n, 4] float64 (xmin, ymin, xmax, ymax) as shares of the stored image's size, from 0 to 1.
      labels: class index and name of each object.
      values: attribute -> value for each object; areas are in stored pixels.
      clipped: number of boxes that reached beyond the source or the stored image.
      outside: number of objects left out because no part of them is in the stored image.
      invalid: number of objects left out because their boxes are invalid.
      keypoints: [n, points, 3] x and y as shares of the stored image's size, and visibility; zeros where a point is not
        labeled, or not in the stored image.
      masks: a PNG for each object, as large as the stored image; empty if the layout has no masks of objects.
      polygons: [points, 2] x and y of each object as shares of the stored image's size, also below 0 and above 1; empty
        if the layout has no polygons.
      numbers: [H, W] the class number of each pixel, drawn from the objects; 0 where there is no
        object. None if the layout has no drawn mask.
    """

    boxes: np.ndarray
    labels: Sequence[tuple[int, str]]
    values: dict[str, list[Any]]
    clipped: int
    outside: int
    invalid: int
    keypoints: np.ndarray
    masks: Sequence[bytes] = ()
    polygons: Sequence[np.ndarray] = ()
    numbers: np.ndarray | None = None

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class name of each object."""
        return tuple(name for _, name in self.labels)

    @property
    def index_columns(self) -> dict[str, int]:
        """Index column -> value."""
        return {
            "objects": len(self.labels),
            "objects_clipped": self.clipped,
            "objects_outside": self.outside,
            "objects_invalid": self.invalid,
        }

    @property
    def fields(self) -> dict[str, list[Any]]:
        """Field of a layout -> values."""
        return {name: field.of_objects(self) for name, field in FIELDS.items() if field.of_objects}


def place_objects(
    objects: Objects,
    labels: Sequence[tuple[int, str]],
    geometry: Geometry,
    *,
    invalid_boxes: InvalidBoxes,
    with_masks: bool = False,
    with_polygons: bool = False,
    first_number: int | None = None,
    are_ordered: bool = True,
) -> PlacedObjects:
    """Maps objects to the stored image, and clips their boxes to it.

    Args:
      objects: objects of the source.
      labels: class index and name of each object.
      with_masks: whether to draw masks; an object without polygons gets an empty mask.
      with_polygons: whether to map polygons, whole; an object without one gets the corners of its whole box.
      first_number: number of the class with index 0 in a mask of the image; None to draw no such mask.
      are_ordered: whether an object covers those before it; otherwise, classes that overlap are refused.

    Raises:
      SampleError: a box is invalid and may not be dropped, polygons are invalid, or the objects were drawn on an image
        of another size.
    """
    (width, height), to_stored = find_drawn_on(objects, geometry)
    scale = (width, height) * 2 if objects.is_normalized else 1
    with np.errstate(over="ignore"):
        boxes = np.array(objects.boxes, np.float64).reshape(-1, 4) * scale
    moved = move_boxes(boxes, (width, height), to_stored, geometry.final[::-1])
    if invalid_boxes is InvalidBoxes.REJECT and not moved.is_valid.all():
        first = int(np.argmin(moved.is_valid))
        raise _invalid(boxes[first], labels[first][1], width, height)
    kept = np.flatnonzero(moved.is_inside).tolist()
    areas = moved.areas[kept]
    known = np.array([np.nan if area is None else area for area in objects.values.get("area", ())], np.float64)
    if known.size:
        # Scales the known area of the whole object by the share of its box that is kept.
        parts = known[kept] * areas / moved.whole[kept]
        areas = np.where(np.isfinite(parts), parts, areas)
    values = {
        name: [objects.values[name][n] for n in kept] if name in objects.values else [absent] * len(kept)
        for name, absent in _ABSENT.items()
    }
    if first_number is not None and (without := [n for n in kept if not objects.polygons or not objects.polygons[n]]):
        name = labels[without[0]][1]
        raise invalid_mask(f"an object, {name!r}, has no outline from which the mask of the image is drawn")

    def draw(number: int) -> np.ndarray:
        return draw_polygons(_unpack(objects, labels, scale, number), to_stored, geometry)

    return PlacedObjects(
        boxes=moved.boxes[kept] / (geometry.final[::-1] * 2),
        labels=[labels[n] for n in kept],
        values={**values, "area": areas.tolist()},
        clipped=int(moved.is_clipped.sum()),
        outside=int((moved.is_valid & ~moved.is_inside).sum()),
        invalid=int((~moved.is_valid).sum()),
        keypoints=_place_keypoints(objects, kept, scale, to_stored, geometry),
        masks=[encode_mask(draw(n)) for n in kept] if with_masks else (),
        polygons=[
            map_points(_join(_unpack(objects, labels, scale, n), boxes[n]), to_stored) / geometry.final[::-1]
            for n in kept
        ]
        if with_polygons
        else (),
        numbers=_draw_numbers(
            [labels[n] for n in kept], map(draw, kept), geometry, first_number, are_ordered=are_ordered
        )
        if first_number is not None
        else None,
    )


def _place_keypoints(
    objects: Objects, kept: Sequence[int], scale: Any, to_stored: np.ndarray, geometry: Geometry
) -> np.ndarray:
    """Returns [n, points, 3] the keypoints of the kept objects."""
    if not objects.keypoints or not kept:
        return np.empty((len(kept), 0, 3))
    data = b"".join(objects.keypoints[n] for n in kept)
    points = np.frombuffer(data, "<f4").astype(float).reshape(len(kept), -1, 3)
    if not np.isfinite(points).all():
        raise SampleError(Stage.LABEL, FailureReason.INVALID_ROW, "the keypoints of an object are not numbers")
    upright = points[..., :2] * (scale[:2] if objects.is_normalized else 1)
    shares = map_points(upright, to_stored) / geometry.final[::-1]
    is_there = see_points(shares, points[..., 2])
    return np.where(is_there[..., np.newaxis], np.concatenate([shares, points[..., 2:]], axis=-1), 0)


def _unpack(
    objects: Objects, labels: Sequence[tuple[int, str]], scale: Any, number: int
) -> Sequence[np.ndarray] | RunLengths:
    """Returns the polygons of one object in source pixels, or its run lengths."""
    try:
        polygons = unpack_polygons(objects.polygons[number] if objects.polygons else b"")
    except ValueError as error:
        raise invalid_mask(f"the segmentation of {labels[number][1]!r} cannot be read: {error}") from error
    if not isinstance(polygons, RunLengths) and objects.is_normalized:
        polygons = [corners * scale[:2] for corners in polygons]
    return polygons


def _join(polygons: Sequence[np.ndarray] | RunLengths, box: np.ndarray) -> np.ndarray:
    """Returns [points, 2] the polygon of an object: its parts as one, or else the corners of its box, clockwise."""
    if isinstance(polygons, RunLengths) or not polygons:
        return box[[0, 1, 2, 1, 2, 3, 0, 3]].reshape(4, 2)
    return join_parts(polygons)


def _draw_numbers(
    labels: Sequence[tuple[int, str]],
    masks: Iterable[np.ndarray],
    geometry: Geometry,
    first: int,
    *,
    are_ordered: bool,
) -> np.ndarray:
    """Draws the mask of an image from the masks of its objects; class indices are stored plus `first`.

    Raises:
      SampleError: objects without an order overlap, and have different classes.
    """
    numbers = np.zeros(geometry.final, np.uint16)
    for (index, name), mask in zip(labels, masks, strict=True):
        inside = mask > 0
        covered = numbers[inside]
        others = covered[(covered > 0) & (covered != index + first)]
        if others.size and not are_ordered:
            other = next(one for place, one in labels if place + first == others[0])
            raise invalid_mask(
                f"the masks of {other} and {name} overlap in {others.size:,} pixels, and a pixel of a mask has one "
                "class; `layout=detection_masks` stores a mask for each object",
            )
        numbers[inside] = index + first
    return numbers


def _invalid(box: np.ndarray, name: str, width: int, height: int) -> SampleError:
    shown = ", ".join(f"{side:g}" for side in box)
    return SampleError(
        Stage.LABEL,
        FailureReason.INVALID_BOX,
        f"the box of {name!r} (xmin, ymin, xmax, ymax: {shown}) has no size, or lies outside the image of {width} x "
        f"{height} pixels (width x height); `invalid_boxes=drop` leaves such boxes out",
    )


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
        feature.name: _move_vector(feature, ref, geometry, is_normalized=_is_normalized(feature, stored))
        for feature in layout.features
        if feature.moves
    }


def _is_normalized(feature: Feature, stored: Layout | None) -> bool:
    if stored is None:
        return feature.moves == "shares"
    if any(one.moves and {*one.read_columns} >= {*feature.read_columns} for one in stored.features):
        return True
    raise _invalid_points(
        feature, "its columns did not move with the image of the dataset, and belong to another image"
    )


def _move_vector(feature: Feature, ref: SampleRef, geometry: Geometry, *, is_normalized: bool) -> list[float]:
    cells: list[Any] = [ref.columns.get(name) for name in feature.read_columns]
    items = cells[0] if not feature.columns and isinstance(cells[0], list) else cells
    numbers = np.array(read_vector(feature, items), np.float64)
    if not is_normalized and np.abs(numbers).max() <= 1:
        raise _invalid_points(
            feature, "all points are within 1 pixel of the corner, as shares are; write 'moves: shares'"
        )
    height, width = geometry.upright_size
    axes = np.array(axes_of(feature.columns, len(numbers)))
    points = np.stack([numbers[axes == 0], numbers[axes == 1]], axis=1) * ((width, height) if is_normalized else 1)
    moved = map_points(points, geometry.upright_to_stored()) / geometry.final[::-1]
    numbers[axes == 0], numbers[axes == 1] = moved.T
    return [float(number) for number in numbers]


def _invalid_points(feature: Feature, why: str) -> SampleError:
    return SampleError(Stage.LABEL, FailureReason.INVALID_ROW, f"feature {feature.name!r}: {feature.field}: {why}")
