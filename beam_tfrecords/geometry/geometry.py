"""Maps an image to the one that is stored or returned, for its pixels, masks and objects alike.

Moves boxes and points with their image: the one algorithm of builds, users' functions and readers of arrays.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from beam_tfrecords.geometry.sizes import resized_size

# EXIF orientation -> (x, y) in the upright image, each as factors of (x, y, width, height) in the file.
_UPRIGHT = {
    1: ((1, 0, 0, 0), (0, 1, 0, 0)),
    2: ((-1, 0, 1, 0), (0, 1, 0, 0)),
    3: ((-1, 0, 1, 0), (0, -1, 0, 1)),
    4: ((1, 0, 0, 0), (0, -1, 0, 1)),
    5: ((0, 1, 0, 0), (1, 0, 0, 0)),
    6: ((0, -1, 0, 1), (1, 0, 0, 0)),
    7: ((0, -1, 0, 1), (-1, 0, 1, 0)),
    8: ((0, 1, 0, 0), (-1, 0, 1, 0)),
}

# Pixels. A smaller side of a box comes from rounding.
NOISE = 1e-6


def swaps_sides(orientation: Any) -> Any:
    """Whether turning an image upright swaps height and width: by a quarter turn, or by a flip along a diagonal.

    Takes one orientation, or an array of them.
    """
    return orientation >= 5


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Maps the pixels of a file to the pixels of the stored image: turned, resized, then cropped or padded.

    Attributes:
      height: height of the image in the file in pixels, before turning.
      width: width of the image in the file in pixels, before turning.
      orientation: applied EXIF orientation, 1 to 8.
      resized: (height, width) of the whole upright image after the resize.
      final: (height, width) of the stored image, which is the middle of the resized image, or a black canvas with the
        resized image in its middle. An odd pixel goes to the bottom and the right.
      is_nearest: whether stored pixels are picked from the source by Pillow's filter NEAREST.
      kept_orientation: EXIF orientation of a kept file, 1 to 8, that readers must still apply.
      drawn_in_file: whether masks and objects belong to the image in the file, not to the upright image.
    """

    height: int
    width: int
    orientation: int
    resized: tuple[int, int]
    final: tuple[int, int]
    is_nearest: bool = False
    kept_orientation: int = 1
    drawn_in_file: bool = False

    @classmethod
    def unchanged(cls, height: int, width: int) -> Geometry:
        """Returns the geometry of a file whose bytes are stored."""
        return cls(height, width, 1, (height, width), (height, width))

    def keeping(self, orientation: int | None) -> Geometry:
        """Returns the geometry of a kept file with an EXIF orientation; None stands for no orientation."""
        return dataclasses.replace(self, kept_orientation=orientation or 1)

    @property
    def upright_size(self) -> tuple[int, int]:
        """(height, width) of the upright source, or of the image in the file if `drawn_in_file`."""
        is_turned = not self.drawn_in_file and swaps_sides(max(self.orientation, self.kept_orientation))
        return (self.width, self.height) if is_turned else (self.height, self.width)

    @property
    def resized_unturned(self) -> tuple[int, int]:
        """(height, width) of the resized image before turning."""
        height, width = self.resized
        return (width, height) if swaps_sides(self.orientation) else (height, width)

    @property
    def offset(self) -> tuple[int, int]:
        """(rows, columns) cropped at the top and left; negative if padding adds them."""
        # Rounded toward zero, so that the odd pixel goes to the bottom and the right in both cases.
        return int((self.resized[0] - self.final[0]) / 2), int((self.resized[1] - self.final[1]) / 2)

    def to_stored(self) -> np.ndarray:
        """Returns the affine map from pixel coordinates in the file to coordinates in the stored image.

        Coordinates are (x, y) from the top left corner of the image: the center of the first pixel is (0.5, 0.5).

        Returns:
          [2, 3] float64 M such that M @ (x, y, 1) is a point in the stored image.
        """
        down, across = self.resized_unturned
        if self.orientation == 1:
            # Readers map every record.
            top, left = self.offset
            return np.array([[across / self.width, 0, -left], [0, down / self.height, -top]])
        scaled = np.array([[across / self.width, 0, 0], [0, down / self.height, 0], [0, 0, across], [0, 0, down]])
        stored = np.array(_UPRIGHT[self.orientation]) @ scaled
        stored[:, 2] -= self.offset[::-1]
        return stored

    def upright_to_stored(self) -> np.ndarray:
        """Returns the map of `to_stored`, but from the pixel coordinates of the upright source, used by annotations."""
        if self.drawn_in_file:
            return self.to_stored()
        upright = np.array(_UPRIGHT[max(self.orientation, self.kept_orientation)])
        sizes = np.array([[1, 0, 0], [0, 1, 0], [0, 0, self.width], [0, 0, self.height]])
        turn = np.vstack([upright @ sizes, (0, 0, 1)])
        return self.to_stored() @ np.linalg.inv(turn)


def plan(
    height: int,
    width: int,
    size: tuple[int, int] | None,
    mode: str,
    *,
    orientation: int = 1,
    upscale: bool = True,
    is_nearest: bool = False,
) -> Geometry:
    """Plans the sizes of one image.

    The deciding side fits exactly; the other is rounded to the nearest pixel (halves up), at least 1. Without
    `upscale` no side grows: "shorter", "longer", "pad" and "crop" leave a smaller image at scale 1, "exact" limits each
    side separately, "crop" keeps a side that is already shorter, and the canvas of "pad" keeps its size.

    Args:
      height: height of the image in the file in pixels.
      width: width of the image in the file in pixels.
      size: the requested (height, width) in pixels; None keeps the size of the image.
      mode: as in `resized_size`.
      orientation: as in `Geometry`.
      upscale: whether sides may grow.
      is_nearest: as in `Geometry`.
    """
    upright = (width, height) if swaps_sides(orientation) else (height, width)
    resized = final = upright
    if size is not None:
        resized = resized_size(*upright, size, mode)
        if not upscale and mode == "exact":
            resized = min(resized[0], upright[0]), min(resized[1], upright[1])
        elif not upscale and (resized[0] > upright[0] or resized[1] > upright[1]):
            resized = upright
        cut = min(size[0], resized[0]), min(size[1], resized[1])
        final = {"crop": cut, "pad": size}.get(mode, resized)
    return Geometry(height, width, orientation, resized, final, is_nearest=is_nearest)


@dataclasses.dataclass(frozen=True)
class MovedBoxes:
    """Boxes in the pixels of a new image; the n-th row is of the n-th box.

    Attributes:
      old: [n, 4] float64 (xmin, ymin, xmax, ymax) of the boxes in the old image.
      inside: [n, 4] these, clipped to the old image.
      moved: [n, 4] the clipped boxes in the new image.
      boxes: [n, 4] these, clipped to the new image.
      is_box: [n] whether the box has finite numbers and a size.
      is_valid: [n] whether it is a box with a part in the old image.
      is_inside: [n] whether a part of the box is in the new image.
    """

    old: np.ndarray
    inside: np.ndarray
    moved: np.ndarray
    boxes: np.ndarray
    is_box: np.ndarray
    is_valid: np.ndarray
    is_inside: np.ndarray

    @property
    def is_clipped(self) -> np.ndarray:
        """[n] whether the box is inside, and reached beyond the old image or the new one."""
        with np.errstate(invalid="ignore", over="ignore"):
            is_cut = (np.abs(self.inside - self.old) > NOISE) | (np.abs(self.boxes - self.moved) > NOISE)
        clipped: np.ndarray = self.is_inside & is_cut.any(axis=1)
        return clipped

    @property
    def whole(self) -> np.ndarray:
        """[n] areas of the whole boxes in square pixels of the old image."""
        return _areas(self.old)

    @property
    def areas(self) -> np.ndarray:
        """[n] areas of the clipped boxes in square pixels of the new image."""
        return _areas(self.boxes)


def move_boxes(
    boxes: np.ndarray, size: tuple[int, int], to_new: np.ndarray, new_size: tuple[int, int], *, noise: float = NOISE
) -> MovedBoxes:
    """Maps boxes to a new image, and clips them to it.

    Args:
      boxes: [n, 4] float64 (xmin, ymin, xmax, ymax) in pixels of the old image.
      size: (width, height) of the old image.
      to_new: [2, 3] map from the pixels of the old image to the pixels of the new image.
      new_size: (width, height) of the new image.
      noise: size in pixels of a side that comes from rounding.
    """
    # Boxes with values that are not finite are no boxes.
    with np.errstate(invalid="ignore", over="ignore"):
        # Boxes are clipped to the old image first, even if padding leaves room beyond it.
        inside = clip_boxes(boxes, size)
        moved = map_boxes(inside, to_new)
        clipped = clip_boxes(moved, new_size)
        is_box = np.isfinite(boxes).all(axis=1) & _have_sides(boxes, 0)
        is_valid = is_box & _have_sides(inside, 0)
        return MovedBoxes(boxes, inside, moved, clipped, is_box, is_valid, is_valid & _have_sides(clipped, noise))


def map_points(points: np.ndarray, to_new: np.ndarray) -> np.ndarray:
    """Maps [..., 2] x and y by an affine map, [2, 3]."""
    mapped: np.ndarray = points @ to_new[:, :2].T + to_new[:, 2]
    return mapped


def map_boxes(boxes: np.ndarray, to_new: np.ndarray) -> np.ndarray:
    """Maps boxes by an affine map; returns [n, 4] their bounding boxes."""
    corners = map_points(boxes.reshape(-1, 2, 2), to_new)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def clip_boxes(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Clips boxes to an image of (width, height)."""
    return np.clip(boxes, 0, np.array(size * 2))


def _areas(boxes: np.ndarray) -> np.ndarray:
    """Returns [n] areas of boxes."""
    with np.errstate(invalid="ignore", over="ignore"):
        found: np.ndarray = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return found


def _have_sides(boxes: np.ndarray, least: float) -> np.ndarray:
    """Returns [n] whether both sides of a box are greater than a number."""
    found: np.ndarray = (boxes[:, 2] - boxes[:, 0] > least) & (boxes[:, 3] - boxes[:, 1] > least)
    return found


def see_points(shares: np.ndarray, visibility: np.ndarray) -> np.ndarray:
    """Returns whether keypoints are labeled and in their image.

    Args:
      shares: [..., 2] x and y as shares of the image's size.
      visibility: [...] 0 for a point that is not labeled.
    """
    seen: np.ndarray = (visibility > 0) & (shares >= 0).all(axis=-1) & (shares <= 1).all(axis=-1)
    return seen
