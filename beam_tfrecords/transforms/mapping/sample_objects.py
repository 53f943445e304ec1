"""The annotated objects of a sample that users' functions receive."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.masks import place_mask
from beam_tfrecords.transforms.refs.sample_refs import Scalar

# Pixels; smaller differences come from rounding.
_NOISE = 1e-6


@dataclasses.dataclass(frozen=True, eq=False)
class SampleObjects:
    """The annotated objects of an image. The n-th value of each attribute is of the n-th object.

    Attributes:
      boxes: [n, 4] float64 (xmin, ymin, xmax, ymax) in pixels from the top left corner of the image, (0, 0).
      labels: class name or number of each object, as in the source.
      values: name of another attribute, such as `is_crowd` or `area` -> value of each object.
      outlines: polygons of each object as [corners, 2] float32 x and y in pixels, or a mask [H, W] uint8 of zeros and
        ones, as large as the image; empty unless the layout needs masks or polygons.
      keypoints: [n, points, 3] float32 x and y in pixels, and visibility (0 to 2); no points unless the layout needs
        keypoints.
      image_id: name of the image in the annotations; "" if they have none.
    """

    boxes: np.ndarray
    labels: Sequence[str | int | None]
    values: Mapping[str, Sequence[Scalar]] = dataclasses.field(default_factory=dict)
    outlines: Sequence[Sequence[np.ndarray] | np.ndarray] = ()
    keypoints: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0, 3), np.float32))
    image_id: str = ""

    def __post_init__(self) -> None:
        count = len(self.labels)
        lengths = {"boxes": len(self.boxes), **{name: len(values) for name, values in self.values.items()}}
        lengths |= {name: len(found) for name in ("outlines", "keypoints") if len(found := getattr(self, name))}
        wrong = next((name for name, length in lengths.items() if length != count), None)
        if wrong is not None:
            raise ValueError(f"objects: {lengths[wrong]} {wrong} for {count} labels; expected a value for each object")

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: Sequence[int]) -> SampleObjects:
        """Returns the objects at these positions, such as `[0, 2]`."""
        return SampleObjects(
            self.boxes[np.asarray(places, int)],
            [self.labels[place] for place in places],
            {name: [values[place] for place in places] for name, values in self.values.items()},
            [self.outlines[place] for place in places] if len(self.outlines) else (),
            self.keypoints[np.asarray(places, int)] if len(self.keypoints) else self.keypoints,
            self.image_id,
        )

    def move(self, geometry: Geometry, *, left: int = 0, top: int = 0) -> SampleObjects:
        """Returns the objects moved to a crop of their image, or to a resized image.

        Objects outside the new image are left out, boxes that reach beyond it are cut, and keypoints outside become
        invisible. Invalid boxes stay invalid.

        Args:
          geometry: maps the image, or its crop, to the new image.
          left, top: top left corner of the crop in pixels.
        """
        size = geometry.width, geometry.height
        scale = np.array([geometry.final_width / geometry.width, geometry.final_height / geometry.height])
        boxes = np.asarray(self.boxes, np.float64).reshape(-1, 4)
        with np.errstate(invalid="ignore"):
            moved = boxes - ((left, top) * 2)
            inside = np.clip(moved, 0, size * 2)
            sides, kept_sides = moved[:, 2:] - moved[:, :2], inside[:, 2:] - inside[:, :2]
            is_invalid = np.logical_not((sides > 0).all(axis=1) & np.isfinite(boxes).all(axis=1))
            places = np.flatnonzero(is_invalid | (kept_sides > _NOISE).all(axis=1)).tolist()
            parts = np.where(is_invalid, 1, kept_sides.prod(axis=1) / np.where(is_invalid, 1, sides.prod(axis=1)))
            new = np.where(is_invalid[:, np.newaxis], moved, inside) * np.tile(scale, 2)
        kept = self.take(places)
        values = dict(kept.values)
        if "area" in values:
            areas = zip(values["area"], parts[places], strict=True)
            values["area"] = [area if area is None else float(area * part * scale.prod()) for area, part in areas]
        return dataclasses.replace(
            kept,
            boxes=new[places],
            values=values,
            outlines=[_move_outline(outline, geometry, left, top, scale) for outline in kept.outlines],
            keypoints=_move_points(kept.keypoints, geometry, left, top, scale),
        )


def _move_outline(
    outline: Sequence[np.ndarray] | np.ndarray, geometry: Geometry, left: int, top: int, scale: np.ndarray
) -> Sequence[np.ndarray] | np.ndarray:
    if isinstance(outline, np.ndarray):
        return place_mask(outline[top : top + geometry.height, left : left + geometry.width], geometry)
    return [((corners - (left, top)) * scale).astype(np.float32) for corners in outline]


def _move_points(points: np.ndarray, geometry: Geometry, left: int, top: int, scale: np.ndarray) -> np.ndarray:
    if not points.size:
        return points
    places = points[..., :2] - (left, top)
    is_there = (points[..., 2] > 0) & (places >= 0).all(axis=-1) & (places <= (geometry.width, geometry.height)).all(-1)
    moved = np.concatenate([places * scale, points[..., 2:]], axis=-1)
    return np.where(is_there[..., np.newaxis], moved, 0).astype(np.float32)
