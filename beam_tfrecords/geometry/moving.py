"""Moves boxes and points with their image: the one algorithm of builds, users' functions and readers of arrays."""

from __future__ import annotations

import dataclasses

import numpy as np

# Pixels. A smaller side of a box comes from rounding.
NOISE = 1e-6


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
