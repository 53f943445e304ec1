"""Converts objects of a source to objects for users' functions, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.geometry.moving import map_boxes, map_points
from beam_tfrecords.transforms.blocks.place_objects import find_drawn_on
from beam_tfrecords.transforms.images.convert_pixels import Upright
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, place_mask
from beam_tfrecords.transforms.images.object_masks import find_outlines
from beam_tfrecords.transforms.mapping.sample_objects import SampleObjects
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import RunLengths, pack_mask, pack_polygons, unpack_polygons


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
        return pack_mask(polygons)
    return pack_polygons([corners.ravel().tolist() for corners in polygons]) if len(polygons) else b""
