"""The annotated objects of a sample that users' functions receive."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.geometry.moving import map_points, move_boxes, see_points
from beam_tfrecords.transforms.images.masks import place_mask
from beam_tfrecords.transforms.refs.sample_refs import Scalar


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
        to_new, size = geometry.to_stored(), (geometry.width, geometry.height)
        with np.errstate(invalid="ignore", divide="ignore"):
            boxes = np.asarray(self.boxes, np.float64).reshape(-1, 4) - ((left, top) * 2)
            moved = move_boxes(boxes, size, to_new, geometry.final[::-1])
            places = np.flatnonzero(~moved.is_box | moved.is_inside).tolist()
            scaled = boxes * np.tile(np.diag(to_new), 2)
            new = np.where(moved.is_box[:, np.newaxis], moved.boxes, scaled)
            scales = np.where(moved.is_box, moved.areas / moved.whole, np.prod(np.diag(to_new)))
        kept = self.take(places)
        values = dict(kept.values)
        if "area" in values:
            areas = zip(values["area"], scales[places], strict=True)
            values["area"] = [area if area is None else float(area * scale) for area, scale in areas]
        return dataclasses.replace(
            kept,
            boxes=new[places],
            values=values,
            outlines=[_move_outline(outline, geometry, left, top) for outline in kept.outlines],
            keypoints=_move_points(kept.keypoints, geometry, left, top),
        )


def _move_outline(
    outline: Sequence[np.ndarray] | np.ndarray, geometry: Geometry, left: int, top: int
) -> Sequence[np.ndarray] | np.ndarray:
    if isinstance(outline, np.ndarray):
        return place_mask(outline[top : top + geometry.height, left : left + geometry.width], geometry)
    return [map_points(corners - (left, top), geometry.to_stored()).astype(np.float32) for corners in outline]


def _move_points(points: np.ndarray, geometry: Geometry, left: int, top: int) -> np.ndarray:
    if not points.size:
        return points
    moved = map_points(points[..., :2] - (left, top), geometry.to_stored())
    is_there = see_points(moved / geometry.final[::-1], points[..., 2])
    joined = np.concatenate([moved, points[..., 2:]], axis=-1)
    return np.where(is_there[..., np.newaxis], joined, 0).astype(np.float32)
