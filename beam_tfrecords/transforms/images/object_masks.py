"""Masks of annotated objects: finds outlines that depend on the image or other files, and draws them in the image."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.geometry.geometry import Geometry, map_points
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, place_mask, read_mask, read_numbers
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import RunLengths, run_lengths, unpack_later, unpack_runs

# Limit for the run lengths of all objects of an image, in bytes as they are packed.
_MOST_BYTES = 64 << 20
# Crossings of edges and rows that are computed at once.
_AT_ONCE = 1 << 20
# Encodes 640 x 480 pixels in 0.5 ms. Pillow's default takes three times as long, for a third fewer bytes.
_PNG_OPTIONS = [cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]


def find_outlines(objects: Objects, geometry: Geometry, images: Mapping[str, bytes], spec: ImageSpec) -> Objects:
    """Returns the objects with run lengths in place of outlines that only the image's size or other files complete.

    An object without a box gets the box around its pixels.

    Args:
      objects: objects of the source.
      geometry: geometry of the image.
      images: image name, as in the reference -> bytes.
      spec: how masks are decoded.

    Raises:
      SampleError: a mask cannot be decoded, or has another size than the image, or a run ends beyond the image.
    """
    later = {number: found for number, packed in enumerate(objects.polygons) if (found := unpack_later(packed))}
    if not later:
        return objects
    boxes, polygons = [*objects.boxes], [*objects.polygons]
    shared: dict[str, np.ndarray] = {}
    total = 0
    for number, found in later.items():
        runs = _find_outline(found, str(objects.labels[number]), geometry, images, spec, shared)
        polygons[number] = runs.pack()
        total += len(polygons[number])
        if total > _MOST_BYTES:
            raise invalid_mask(f"the masks of its objects take more than {_MOST_BYTES >> 20} MiB as run lengths")
        if np.isnan(boxes[4 * number]) and (bounds := runs.bounds()) is not None:
            x, y, width, height = bounds
            boxes[4 * number : 4 * number + 4] = x, y, x + width, y + height
    return dataclasses.replace(objects, boxes=tuple(boxes), polygons=tuple(polygons))


def _find_outline(
    found: Mapping[str, Any],
    label: str,
    geometry: Geometry,
    images: Mapping[str, bytes],
    spec: ImageSpec,
    shared: dict[str, np.ndarray],
) -> RunLengths:
    """Returns the run lengths of one object; `shared` keeps images that hold several objects."""
    if "runs" in found:
        try:
            return unpack_runs(found, geometry.upright_size)
        except ValueError as error:
            raise invalid_mask(f"the run lengths of {label!r}: {error}") from error
    name, value = found["image"], found["value"]
    if value is None:
        mask = _turn_upright(read_mask(images[name], spec), geometry)
        if (inside := mask[mask > 0]).size and inside.min() < inside.max():
            raise invalid_mask(
                f"the mask of {label!r} has several numbers besides 0, up to {inside.max()}; expected one object"
            )
        return run_lengths(mask)
    if name not in shared:
        shared[name] = _turn_upright(read_numbers(images[name], spec), geometry)
    if not (mask := shared[name] == value).any():
        raise invalid_mask(f"the panoptic image has no pixel with the id {value} of {label!r}")
    return run_lengths(mask)


def find_drawn_on(objects: Objects, geometry: Geometry) -> tuple[tuple[int, int], np.ndarray]:
    """Returns (width, height) of the image that the boxes were drawn on, and the map from it to the stored image."""
    height, width = geometry.upright_size
    if objects.size is None or objects.size == (width, height):
        return (width, height), geometry.upright_to_stored()
    in_file = geometry.width, geometry.height
    if objects.size == in_file:
        # The annotation program ignored the EXIF orientation.
        return in_file, geometry.to_stored()
    drawn_width, drawn_height = objects.size
    raise SampleError(
        Stage.LABEL,
        FailureReason.INVALID_BOX,
        f"the boxes belong to an image of {drawn_width} x {drawn_height} pixels (width x height), and this one has "
        f"{width} x {height}",
    )


def _turn_upright(mask: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Rotates a mask as its image is rotated; keeps its size."""
    size, orientation = geometry.upright_size, max(geometry.orientation, geometry.kept_orientation)
    return place_mask(mask, Geometry(geometry.height, geometry.width, orientation, size, size))


def draw_polygons(polygons: Sequence[np.ndarray] | RunLengths, to_stored: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Draws the mask of an object in the stored image; run lengths are placed like the mask of an image.

    Args:
      polygons: polygons as [n, 2] x and y in pixels, or run lengths.
      to_stored: [2, 3] map from the pixels of the polygons to the pixels of the stored image.
      geometry: geometry of the image.

    Returns:
      [H, W] uint8 of zeros and ones.

    Raises:
      SampleError: the run lengths belong to an image of another size.
    """
    if isinstance(polygons, RunLengths):
        if polygons.size not in (geometry.upright_size, (geometry.height, geometry.width)):
            # Checked before the mask is allocated, because run lengths may claim any size.
            height, width = polygons.size
            detail = f"the run lengths of an object fit {width} x {height} pixels (width x height)"
            raise invalid_mask(f"{detail}, which is not the size of its image")
        return place_mask(polygons.mask(), geometry)
    mask = np.zeros(geometry.final, np.uint8)
    # A polygon may reach beyond its image, but is not drawn on the padding.
    top, left = (max(0, -added) for added in geometry.offset)
    height, width = geometry.resized
    image = mask[top : top + height, left : left + width]
    for corners in polygons:
        _fill(image, map_points(corners, to_stored) - (left, top))
    return mask


def encode_mask(mask: np.ndarray) -> bytes:
    """Encodes a mask as a PNG of one channel with 8 bits."""
    _, file = cv2.imencode(".png", mask, _PNG_OPTIONS)
    return file.tobytes()


def _fill(mask: np.ndarray, corners: np.ndarray) -> None:
    """Sets the pixels whose center is inside a polygon: an odd number of the polygon's edges lies left of it.

    OpenCV would also set the pixels that an edge touches, so that masks would grow by half a pixel.
    """
    # For each side, the first column or row whose center is not before it.
    (left, top), (right, bottom) = (
        np.clip(np.ceil(side - 0.5), 0, mask.shape[::-1]).astype(int)
        for side in (corners.min(axis=0), corners.max(axis=0))
    )
    if left >= right or top >= bottom:
        return
    ends = np.roll(corners, -1, axis=0)
    rows = np.clip(np.ceil(np.stack([corners[:, 1], ends[:, 1]]) - 0.5), top, bottom).astype(int)
    first, crossed = rows.min(axis=0), np.ptp(rows, axis=0)
    # The extra column counts edges right of all pixels. Only the parity of a count matters, so counts may overflow.
    edges = np.zeros((bottom - top, right - left + 1), np.uint8)
    totals = np.cumsum(crossed)
    for part in np.split(np.arange(len(corners)), np.searchsorted(totals, np.arange(_AT_ONCE, totals[-1], _AT_ONCE))):
        edge = np.repeat(part, crossed[part])
        begins = np.cumsum(crossed[part]) - crossed[part]
        row = first[edge] + np.arange(len(edge)) - np.repeat(begins, crossed[part])
        (x, y), (end_x, end_y) = corners[edge].T, ends[edge].T
        crossing = x + (row + 0.5 - y) * ((end_x - x) / (end_y - y))
        column = np.clip(np.ceil(crossing - 0.5), left, right).astype(int)
        np.add.at(edges.ravel(), (row - top) * edges.shape[1] + column - left, np.uint8(1))
    mask[top:bottom, left:right] |= np.add.accumulate(edges[:, :-1], axis=1, dtype=np.uint8) & 1
