"""Resizes stored images for readers: pixels, masks and objects, in NumPy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.features.column_ranges import axes_of
from beam_tfrecords.features.layouts import BOXES, KEYPOINTS, POLYGON, POLYGON_POINTS, Feature
from beam_tfrecords.sizes import ImageSize, ResizeMode, read_image_size, resized_size

# Modes in which every image has the requested size.
FIXED_MODES = ("crop", "pad", "exact")
# Sides of a box, and the axis of each.
SIDES = {"ymin": 0, "xmin": 1, "ymax": 0, "xmax": 1}
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

    def place(self, height: int, width: int) -> Placement:
        """Returns the placement of an image of this size in pixels."""
        resized = resized_size(height, width, self.size, self.mode)
        return Placement((height, width), resized, self.fixed_size or resized)


@dataclasses.dataclass(frozen=True)
class Placement:
    """Placement of a stored image in the resized one; each size is (height, width) in pixels.

    Attributes:
      stored: size of the stored image.
      resized: size of the whole image after resizing.
      final: size of the returned image: the centre of the resized image, or a canvas of zeros around it.
    """

    stored: tuple[int, int]
    resized: tuple[int, int]
    final: tuple[int, int]

    @property
    def offset(self) -> tuple[int, int]:
        """(rows, columns) that are cropped at the top and left; negative where the canvas adds them."""
        # Rounded towards zero, as in a build.
        return int((self.resized[0] - self.final[0]) / 2), int((self.resized[1] - self.final[1]) / 2)

    @property
    def decoded_size(self) -> tuple[int, int]:
        """The minimum (height, width) that a decoder must return."""
        down, across = (min(_SPARE * new, old) for new, old in zip(self.resized, self.stored, strict=True))
        return down, across

    def image(self, pixels: np.ndarray) -> np.ndarray:
        """Resizes [H, W, C] uint8, uint16 or float32 of the stored size, or a fraction of it, to the final size."""
        if pixels.shape[:2] == self.resized:
            return self._on_canvas(pixels[self._seen])
        return self._on_canvas(_resize(pixels, self.resized, self._seen))

    def mask(self, pixels: np.ndarray) -> np.ndarray:
        """Resizes [H, W, 1] to [final height, final width, 1]; each pixel takes the value of the nearest one."""
        rows, columns = (
            ((np.arange(seen.start, seen.stop) + 0.5) * (old / new)).astype(int)
            for seen, old, new in zip(self._seen, self.stored, self.resized, strict=True)
        )
        return self._on_canvas(pixels[rows[:, np.newaxis], columns])

    @property
    def _seen(self) -> tuple[slice, slice]:
        """Visible rows and columns of the resized image."""
        down, across = (
            slice(max(0, begin), min(new, begin + final))
            for begin, new, final in zip(self.offset, self.resized, self.final, strict=True)
        )
        return down, across

    def _on_canvas(self, pixels: np.ndarray) -> np.ndarray:
        if pixels.shape[:2] == self.final:
            return np.ascontiguousarray(pixels)
        canvas = np.zeros((*self.final, *pixels.shape[2:]), pixels.dtype)
        top, left = (max(0, -begin) for begin in self.offset)
        canvas[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
        return canvas

    def objects(self, example: dict[str, Any], features: Sequence[Feature]) -> None:
        """Moves the objects of an example, and drops those that are no longer inside the image.

        As in a build, boxes are clipped to the image, areas shrink accordingly, a keypoint outside the image becomes 0,
        and polygons stay whole.
        """
        for feature in features:
            if feature.moves:
                axes, values = np.array(axes_of(feature.columns, feature.length)), example[feature.name]
                example[feature.name] = np.where(axes == 0, self._move(values, 1), self._move(values, 0))
        names = {feature.field: feature.name for feature in features if feature.is_of_objects}
        boxes = _boxes(example, names)
        count = len(next((values for values in boxes.values()), ()))
        moved = {side: np.clip(self._move(boxes[side], axis), 0, 1) for side, axis in SIDES.items() if side in boxes}
        kept = np.ones(count, bool)
        if len(boxes) == len(SIDES):
            new, old = _areas(moved, self.final), _areas(boxes, self.stored)
            kept = new > 0
            if area := names.get("objects.area"):
                example[area] = (example[area] * new / np.maximum(old, NOISE)).astype(example[area].dtype)
        self._move_keypoints(example, names)
        if name := names.get(POLYGON):
            example[name] = np.stack([self._move(example[name][:, 0], 1), self._move(example[name][:, 1], 0)], axis=1)
            points = example[names[POLYGON_POINTS]]
        for side, values in moved.items():
            if BOXES in names:
                example[names[BOXES]][:, [*SIDES].index(side)] = values
            if name := names.get(f"objects.{side}"):
                example[name] = values
        if kept.all():
            return
        for field, name in names.items():
            values = example[name]
            if field in KEYPOINTS:
                example[name] = values.reshape(len(kept), -1)[kept].ravel()
            elif field == POLYGON:
                example[name] = values[np.repeat(kept, points)]
            else:
                is_list = isinstance(values, list)
                example[name] = [values[place] for place in np.flatnonzero(kept)] if is_list else values[kept]

    def _move(self, shares: np.ndarray, axis: int) -> np.ndarray:
        moved = (shares * np.float32(self.resized[axis]) - np.float32(self.offset[axis])) / np.float32(self.final[axis])
        return moved.astype(np.float32)

    def _move_keypoints(self, example: dict[str, Any], names: Mapping[str, str]) -> None:
        across, down, seen = (names.get(field) for field in KEYPOINTS)
        if across is None or down is None:
            return
        places = self._move(example[down], 0), self._move(example[across], 1)
        is_there = np.ones(len(places[0]), bool) if seen is None else example[seen] > 0
        for shares in places:
            is_there &= (shares >= 0) & (shares <= 1)
        example[down], example[across] = (np.where(is_there, shares, np.float32(0)) for shares in places)
        if seen is not None:
            example[seen] = np.where(is_there, example[seen], 0)


def _boxes(example: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Returns the box sides that an example has: side -> [n] relative coordinates."""
    if BOXES in names:
        return {side: example[names[BOXES]][:, index] for index, side in enumerate(SIDES)}
    return {side: example[names[f"objects.{side}"]] for side in SIDES if f"objects.{side}" in names}


def _areas(boxes: Mapping[str, np.ndarray], size: tuple[int, int]) -> np.ndarray:
    """Returns [n] areas of boxes in square pixels; 0 for boxes without height or width."""
    down, across = (boxes["ymax"] - boxes["ymin"]) * size[0], (boxes["xmax"] - boxes["xmin"]) * size[1]
    return np.where((down > NOISE) & (across > NOISE), down * across, 0)


def _resize(pixels: np.ndarray, size: tuple[int, int], seen: tuple[slice, slice]) -> np.ndarray:
    """Returns the visible part of a resized image, with the same antialiased bilinear filter as TensorFlow."""
    if pixels.shape[2] not in (1, 3, 4) or (pixels.dtype == np.float32 and pixels.shape[2] > 1):
        # Pillow resizes floats as TensorFlow does.
        bands = (pixels[..., band : band + 1].astype(np.float32) for band in range(pixels.shape[2]))
        joined = np.concatenate([_resize(band, size, seen) for band in bands], axis=2)
        return joined if pixels.dtype == np.float32 else joined.round().astype(pixels.dtype)
    if pixels.dtype == np.uint16:
        import cv2

        # Pillow supports 16 bits only for grey images.
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
