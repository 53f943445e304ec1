"""The annotated objects of a sample that users' functions receive, converted from objects of the source and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.geometry.geometry import Geometry, map_boxes, map_points, move_boxes, see_points
from beam_tfrecords.transforms.images.convert_pixels import Upright
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, place_mask
from beam_tfrecords.transforms.images.object_masks import find_drawn_on, find_outlines
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import RunLengths, pack_polygons, run_lengths, unpack_polygons
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


def from_source(objects: Objects, image: Upright, files: Mapping[str, bytes], spec: ImageSpec) -> SampleObjects:
    """Converts objects to pixels of their upright image.

    Args:
      objects: objects of the source.
      image: the image.
      files: image name, as in the reference -> bytes, of files with masks of the objects; may have others.
      spec: how masks are decoded.

    Raises:
      SampleError: a polygon is invalid, or the objects were drawn on an image of another size.
    """
    objects = find_outlines(objects, image.geometry, files, spec)
    (width, height), to_upright = find_drawn_on(objects, image.geometry)
    scale = np.array((width, height) if objects.is_normalized else (1, 1), np.float64)
    points = np.empty((len(objects.labels), 0, 3), np.float32)
    if objects.keypoints and objects.labels:
        found = np.frombuffer(b"".join(objects.keypoints), "<f4").reshape(len(objects.labels), -1, 3)
        places = map_points(found[..., :2] * scale, to_upright)
        points = np.concatenate([places, found[..., 2:]], axis=-1).astype(np.float32)
    with np.errstate(invalid="ignore"):
        boxes = map_boxes(np.array(objects.boxes, np.float64).reshape(-1, 4) * np.tile(scale, 2), to_upright)
    return SampleObjects(
        boxes,
        objects.labels,
        objects.values,
        [_open_polygons(packed, scale, to_upright, image) for packed in objects.polygons],
        points,
        objects.image_id,
    )


def to_source(objects: SampleObjects | None, before: Objects | None = None) -> Objects | None:
    """Converts objects back, if there are any; the reverse of `from_source`.

    Args:
      before: objects of the source, whose name of the image stays; None if there were none.
    """
    if objects is None:
        return None
    points = objects.keypoints if objects.keypoints.size else ()
    return Objects(
        tuple(np.asarray(objects.boxes, np.float64).ravel().tolist()),
        tuple(objects.labels),
        {name: tuple(values) for name, values in objects.values.items()},
        before.image_id if before else objects.image_id,
        polygons=tuple(map(_pack_polygons, objects.outlines)),
        keypoints=tuple(of_object.astype("<f4").tobytes() for of_object in points),
    )


def _open_polygons(
    packed: bytes, scale: np.ndarray, to_upright: np.ndarray, image: Upright
) -> Sequence[np.ndarray] | np.ndarray:
    try:
        polygons = unpack_polygons(packed)
        if isinstance(polygons, RunLengths):
            return place_mask(polygons.mask(), image.geometry)
    except ValueError as error:
        raise invalid_mask(f"the segmentation of an object cannot be read: {error}") from error
    return [map_points(corners * scale, to_upright).astype(np.float32) for corners in polygons]


def _pack_polygons(polygons: Any) -> bytes:
    if isinstance(polygons, np.ndarray):
        return run_lengths(polygons).pack()
    return pack_polygons([corners.ravel().tolist() for corners in polygons]) if len(polygons) else b""
