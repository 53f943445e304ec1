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
      boxes: [n, 4] float64 (xmin, ymin, xmax, ymax), clipped to the new image.
      is_box: [n] whether the box has finite numbers and a size.
      is_valid: [n] whether it is a box with a part in the old image.
      is_inside: [n] whether a part of the box is in the new image.
      is_clipped: [n] whether the box is inside, and reached beyond the old image or the new one.
      whole: [n] areas of the whole boxes in square pixels of the old image.
      areas: [n] areas of the clipped boxes in square pixels of the new image.
    """

    boxes: np.ndarray
    is_box: np.ndarray
    is_valid: np.ndarray
    is_inside: np.ndarray
    is_clipped: np.ndarray
    whole: np.ndarray
    areas: np.ndarray


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
        is_box = np.isfinite(boxes).all(axis=1) & (sides(boxes) > 0).all(axis=1)
        is_valid = is_box & (sides(inside) > 0).all(axis=1)
        is_inside = is_valid & (sides(clipped) > noise).all(axis=1)
        is_cut = (np.abs(inside - boxes) > NOISE) | (np.abs(clipped - moved) > NOISE)
        return MovedBoxes(
            clipped,
            is_box,
            is_valid,
            is_inside,
            is_inside & is_cut.any(axis=1),
            sides(boxes).prod(axis=1),
            sides(clipped).prod(axis=1),
        )


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
    return np.clip(boxes, 0, size * 2)


def sides(boxes: np.ndarray) -> np.ndarray:
    """Returns [n, 2] widths and heights."""
    return boxes[:, 2:] - boxes[:, :2]


def see_points(shares: np.ndarray, visibility: np.ndarray) -> np.ndarray:
    """Returns whether keypoints are labeled and in their image.

    Args:
      shares: [..., 2] x and y as shares of the image's size.
      visibility: [...] 0 for a point that is not labeled.
    """
    seen: np.ndarray = (visibility > 0) & (shares >= 0).all(axis=-1) & (shares <= 1).all(axis=-1)
    return seen
