"""Resizes stored images for readers: pixels, masks and objects, in NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.features.column_ranges import axes_of
from beam_tfrecords.features.fields import BOX_SIDES, BOXES, KEYPOINTS, POLYGON, POLYGON_POINTS, Per
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.geometry.geometry import Geometry, map_points, move_boxes, plan, see_points
from beam_tfrecords.geometry.sizes import FIXED_MODES, ImageSize, ResizeMode, read_image_size

# In pixels; a smaller side of an object is a rounding error.
NOISE = 1e-3
# A JPEG is decoded at the smallest fraction of its size that is at least this many times the resized size.
_SPARE = 2


@dataclasses.dataclass(frozen=True)
class Resize:
    """The requested size of images, and the way to resize them.

    Attributes:
      size: (height, width) in pixels.
      mode: as `resize_mode` of a build.
    """

    size: tuple[int, int]
    mode: str

    @classmethod
    def of(cls, image_size: ImageSize, resize_mode: ResizeMode | None, stored: StoredImages) -> Resize | None:
        """Checks the arguments of a reader; returns None if images keep their stored size.

        The mode may be left out if the stored images have one size with the aspect ratio of the requested one, because
        all modes then do the same.

        Raises:
          ValueError: the size or the mode is invalid, or the mode is missing.
        """
        modes = ", ".join(map(repr, get_args(ResizeMode)))
        if resize_mode is not None and resize_mode not in get_args(ResizeMode):
            raise ValueError(f"resize_mode={resize_mode!r}: expected {modes}")
        if image_size is None:
            if resize_mode is not None:
                raise ValueError(f"resize_mode={resize_mode!r}: expected an image_size with it, such as image_size=224")
            return None
        try:
            height, width = read_image_size(image_size)
        except ValueError as error:
            raise ValueError(
                f"image_size={image_size!r}: expected (height, width) in pixels, or one number for both"
            ) from error
        if resize_mode is None and (stored.size is None or stored.size[0] * width != stored.size[1] * height):
            found = (
                "may have different sizes"
                if stored.size is None
                else f"have {stored.size[0]} x {stored.size[1]} pixels"
            )
            raise ValueError(
                f"image_size={image_size!r}: the stored images {found}, so say how they are resized with "
                "resize_mode=: 'crop' cuts off what reaches beyond the size, 'pad' adds black, 'exact' changes the "
                "aspect ratio, and 'shorter', the default of a build, and 'longer' keep it"
            )
        return cls((height, width), resize_mode or "crop")

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) of every image; None if they differ."""
        return self.size if self.mode in FIXED_MODES else None

    def place(self, height: int, width: int) -> Geometry:
        """Returns the geometry of an image of this size in pixels."""
        return plan(height, width, self.size, self.mode)


def decoded_size(geometry: Geometry) -> tuple[int, int]:
    """Returns the minimum (height, width) that a decoder of the stored image must return."""
    height, width = geometry.resized
    return min(_SPARE * height, geometry.height), min(_SPARE * width, geometry.width)


def resize_pixels(pixels: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Resizes [H, W, C] uint8, uint16 or float32 of the stored size, or a fraction of it, to the final size."""
    if pixels.shape[:2] == geometry.resized:
        return _on_canvas(pixels[_seen(geometry)], geometry)
    return _on_canvas(_resize(pixels, geometry.resized, _seen(geometry)), geometry)


def resize_mask(pixels: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Resizes [H, W, 1] to [final height, final width, 1]; each pixel takes the value of the nearest one."""
    rows, columns = (
        ((np.arange(seen.start, seen.stop) + 0.5) * (old / new)).astype(int)
        for seen, old, new in zip(_seen(geometry), pixels.shape, geometry.resized, strict=False)
    )
    return _on_canvas(pixels[rows[:, np.newaxis], columns], geometry)


def _seen(geometry: Geometry) -> tuple[slice, slice]:
    """Returns the visible rows and columns of the resized image."""
    down, across = (
        slice(max(0, begin), min(new, begin + final))
        for begin, new, final in zip(geometry.offset, geometry.resized, geometry.final, strict=True)
    )
    return down, across


def _on_canvas(pixels: np.ndarray, geometry: Geometry) -> np.ndarray:
    if pixels.shape[:2] == geometry.final:
        return np.ascontiguousarray(pixels)
    canvas = np.zeros((*geometry.final, *pixels.shape[2:]), pixels.dtype)
    top, left = (max(0, -begin) for begin in geometry.offset)
    canvas[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return canvas


def move_objects(
    example: dict[str, Any], vectors: Sequence[Feature], objects: StoredObjects, geometry: Geometry
) -> None:
    """Moves the objects and points of an example, and drops objects that are no longer inside the image.

    As in a build, boxes are clipped to the image, areas shrink accordingly, a keypoint outside the image becomes 0,
    and polygons stay whole.

    Args:
      vectors: vectors of points that move with the image.
      objects: the features of objects.
      geometry: geometry of the stored image.
    """
    names = objects.names
    if not (names or vectors):
        return
    size, final, to_new = (geometry.width, geometry.height), geometry.final[::-1], geometry.to_stored()

    # From shares of the stored image to shares of the resized one.
    to_shares = to_new * (*size, 1) / np.array(final)[:, np.newaxis]

    def move(shares: np.ndarray) -> np.ndarray:
        return map_points(shares, to_shares).astype(np.float32)

    for feature in vectors:
        axes, values = np.array(axes_of(feature.columns, feature.length)), example[feature.name].copy()
        moved = move(np.stack([values[axes == 0], values[axes == 1]], axis=1))
        values[axes == 0], values[axes == 1] = moved.T
        example[feature.name] = values
    across, down, seen = map(names.get, KEYPOINTS)
    if across and down:
        points = move(np.stack([example[across], example[down]], axis=1))
        is_there = see_points(points, example[seen] if seen else np.ones(len(points)))
        example[across], example[down] = np.where(is_there[:, np.newaxis], points, np.float32(0)).T
        if seen:
            example[seen] = np.where(is_there, example[seen], 0)
    if name := names.get(POLYGON):
        example[name] = move(example[name])
        points_of_each = example[names[POLYGON_POINTS]]
    if names.keys().isdisjoint((BOXES, *BOX_SIDES)):
        return
    moved_boxes = move_boxes(objects.boxes(example) * np.array(size * 2, float), size, to_new, final, noise=NOISE)
    objects.set_boxes(example, (moved_boxes.boxes / np.array(final * 2)).astype(np.float32))
    if not objects.has_boxes:
        return
    kept = moved_boxes.is_inside
    if area := names.get("objects.area"):
        scale = np.where(kept, moved_boxes.areas, 0) / np.maximum(moved_boxes.whole, NOISE)
        example[area] = (example[area] * scale).astype(example[area].dtype)
    for feature in objects.features.values() if not kept.all() else ():
        name = feature.name
        match feature.kind.per:
            case Per.KEYPOINT:
                example[name] = example[name].reshape(len(kept), -1)[kept].ravel()
            case Per.CORNER:
                example[name] = example[name][np.repeat(kept, points_of_each)]
            case Per.OBJECT:
                values, is_list = example[name], isinstance(example[name], list)
                example[name] = [values[place] for place in np.flatnonzero(kept)] if is_list else values[kept]


def _resize(pixels: np.ndarray, size: tuple[int, int], seen: tuple[slice, slice]) -> np.ndarray:
    """Returns the visible part of a resized image, with the same antialiased bilinear filter as TensorFlow."""
    if pixels.shape[2] not in (1, 3, 4) or (pixels.dtype == np.float32 and pixels.shape[2] > 1):
        # Pillow resizes floats as TensorFlow does.
        bands = (pixels[..., band : band + 1].astype(np.float32) for band in range(pixels.shape[2]))
        joined = np.concatenate([_resize(band, size, seen) for band in bands], axis=2)
        return joined if pixels.dtype == np.float32 else joined.round().astype(pixels.dtype)
    if pixels.dtype == np.uint16:
        import cv2

        # Pillow supports 16 bits only for gray images.
        shrinks = size[0] * size[1] < pixels.shape[0] * pixels.shape[1]
        kind = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
        resized: np.ndarray = cv2.resize(pixels, size[::-1], interpolation=kind)
        return resized.reshape(*size, pixels.shape[2])[seen]
    from PIL import Image

    down, across = pixels.shape[0] / size[0], pixels.shape[1] / size[1]
    rows, columns = seen
    right, bottom = min(columns.stop * across, pixels.shape[1]), min(rows.stop * down, pixels.shape[0])
    box = columns.start * across, rows.start * down, right, bottom
    target = columns.stop - columns.start, rows.stop - rows.start
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    return np.array(image.resize(target, Image.Resampling.BILINEAR, box=box)).reshape(*target[::-1], -1)
