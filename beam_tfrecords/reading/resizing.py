"""Images of another size than the stored one, as readers give them: pixels, masks and objects, in NumPy."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from beam_tfrecords.examples.layouts import BOXES, KEYPOINTS, Feature
from beam_tfrecords.output.manifest import StoredImages
from beam_tfrecords.sizes import resized_size

ImageSize: TypeAlias = "int | tuple[int, int] | None"
ResizeMode: TypeAlias = Literal["crop", "pad", "shorter", "longer", "exact"]
# They give every image the size that was asked for.
FIXED_MODES = ("crop", "pad", "exact")
# Sides of a box, and whether each is one of the height.
SIDES = {"ymin": 0, "xmin": 1, "ymax": 0, "xmax": 1}
# Pixels; a side of an object that is smaller comes from rounding.
NOISE = 1e-3
# A JPEG is decoded at a fraction of its size that has this many times the resized one.
_SPARE = 2

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Resize:
    """The size of images, and how they reach it.

    Attributes:
      size: (height, width) in pixels.
      mode: as `resize_mode` of a build.
    """

    size: tuple[int, int]
    mode: str

    @classmethod
    def of(cls, image_size: ImageSize, resize_mode: ResizeMode | None, stored: StoredImages) -> Resize | None:
        """What a reader is asked for; None if images stay as they are stored.

        Without a mode, the centre of the size is cropped; a note says so where that may leave something out.

        Raises:
          ValueError: a size or a mode that there is not.
        """
        modes = ", ".join(map(repr, get_args(ResizeMode)))
        if resize_mode is not None and resize_mode not in get_args(ResizeMode):
            raise ValueError(f"resize_mode={resize_mode!r}: expected {modes}")
        if image_size is None:
            if resize_mode is not None:
                raise ValueError(f"resize_mode={resize_mode!r}: expected an image_size with it, such as image_size=224")
            return None
        size = tuple(image_size) if isinstance(image_size, tuple | list) else (image_size, image_size)
        if (
            len(size) != 2
            or not all(isinstance(side, int | np.integer) and side >= 1 for side in size)
            or size[0] is True
        ):
            raise ValueError(
                f"image_size={image_size!r}: expected (height, width) of 1 pixel or more, or one number for both"
            )
        size = int(size[0]), int(size[1])
        if resize_mode is None and (stored.size is None or stored.size[0] * size[1] != stored.size[1] * size[0]):
            _say_crop(*size)
        return cls(size, resize_mode or "crop")

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) of every image; None if they differ."""
        return self.size if self.mode in FIXED_MODES else None

    def place(self, height: int, width: int) -> Placement:
        """Where an image of some pixels comes to lie."""
        resized = resized_size(height, width, self.size, self.mode)
        return Placement((height, width), resized, self.fixed_size or resized)


@functools.cache
def _say_crop(height: int, width: int) -> None:
    _LOG.warning(
        "image_size=%s crops the centre of each image; resize_mode='pad' keeps all of it, and 'crop' says that this is "
        "meant (or 'shorter', 'longer', 'exact')",
        height if height == width else (height, width),
    )


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where one image comes to lie; each size is (height, width) in pixels.

    Attributes:
      stored: of the stored image.
      resized: of all of it after the resize.
      final: of what a reader gives: the middle of the resized image, or a canvas of zeros around it.
    """

    stored: tuple[int, int]
    resized: tuple[int, int]
    final: tuple[int, int]

    @property
    def offset(self) -> tuple[int, int]:
        """(rows, columns) that are cropped above and left; negative where the canvas adds them."""
        # Rounded towards zero, as a build does.
        return int((self.resized[0] - self.final[0]) / 2), int((self.resized[1] - self.final[1]) / 2)

    @property
    def decoded_size(self) -> tuple[int, int]:
        """The least (height, width) that a decoder has to give."""
        down, across = (min(_SPARE * new, old) for new, old in zip(self.resized, self.stored, strict=True))
        return down, across

    def image(self, pixels: np.ndarray) -> np.ndarray:
        """[H, W, C] uint8 or uint16 of the stored size, or of a fraction of it -> that of the final one."""
        if pixels.shape[:2] == self.resized:
            return self._on_canvas(pixels[self._seen])
        return self._on_canvas(_resize(pixels, self.resized, self._seen))

    def mask(self, pixels: np.ndarray) -> np.ndarray:
        """[H, W, 1] -> [final height, final width, 1]; each pixel has the number of the nearest one."""
        rows, columns = (
            ((np.arange(seen.start, seen.stop) + 0.5) * (old / new)).astype(int)
            for seen, old, new in zip(self._seen, self.stored, self.resized, strict=True)
        )
        return self._on_canvas(pixels[rows[:, np.newaxis], columns])

    @property
    def _seen(self) -> tuple[slice, slice]:
        """Rows and columns of the resized image that are given."""
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
        """Moves the objects of an example, and leaves out those that are not in the image any more.

        Boxes are clipped to the image, areas shrink with them, and a keypoint outside of it is 0, as in a build.
        """
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
    """The sides of the boxes that an example has: side -> [n] shares."""
    if BOXES in names:
        return {side: example[names[BOXES]][:, index] for index, side in enumerate(SIDES)}
    return {side: example[names[f"objects.{side}"]] for side in SIDES if f"objects.{side}" in names}


def _areas(boxes: Mapping[str, np.ndarray], size: tuple[int, int]) -> np.ndarray:
    """[n] square pixels of boxes; 0 for those without a side."""
    down, across = (boxes["ymax"] - boxes["ymin"]) * size[0], (boxes["xmax"] - boxes["xmin"]) * size[1]
    return np.where((down > NOISE) & (across > NOISE), down * across, 0)


def _resize(pixels: np.ndarray, size: tuple[int, int], seen: tuple[slice, slice]) -> np.ndarray:
    """A part of a resized image, with the antialiased bilinear filter that TensorFlow has too."""
    if pixels.dtype == np.uint16:
        import cv2

        # Pillow has 16 bits of grey only.
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
