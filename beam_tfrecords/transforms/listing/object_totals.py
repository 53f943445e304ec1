"""What a listing knows of the annotated objects of its samples, in totals."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Shares of an image's size, and pixels, by which boxes reach beyond it that are only rounded.
_SLACK, _SLACK_PIXELS = 0.01, 1
_SMALL = 1.5


@dataclasses.dataclass
class ObjectTotals:
    """Totals of the samples that are not rejected.

    Attributes:
      samples: those that can have objects.
      annotated: those that have some.
      in_pixels: boxes in pixels.
      small: of these, those that end within 1.5 pixels of the image's corner.
      placed: boxes of images whose size the source says, or in shares of it.
      beyond: of these, those that reach beyond the image.
      as_corners: of these, those that are boxes inside the image too if their width and height are taken for their
        right and lower sides.
    """

    samples: int = 0
    annotated: int = 0
    in_pixels: int = 0
    small: int = 0
    placed: int = 0
    beyond: int = 0
    as_corners: int = 0

    def add(self, packed: Iterable[Sequence[Any] | None]) -> None:
        """Counts the objects of samples, as `Objects.pack` has them; None for one that can have none."""
        found = [objects for objects in packed if objects is not None]
        self.samples += len(found)
        found = [objects for objects in found if objects[0]]
        self.annotated += len(found)
        if not found:
            return
        boxes = np.frombuffer(b"".join(objects[0] for objects in found), "<f8").reshape(-1, 4)
        counts = [len(objects[0]) // 32 for objects in found]
        sizes = [(1, 1) if objects[6] else objects[5] or (np.nan, np.nan) for objects in found]
        pixels = np.repeat([not objects[6] for objects in found], counts)
        size = np.repeat(np.array(sizes, float), counts, axis=0)
        is_box = np.isfinite(boxes).all(axis=1)
        boxes, size, pixels = boxes[is_box], size[is_box], pixels[is_box]
        slack = _SLACK * size + _SLACK_PIXELS * pixels[:, None]
        low, high = boxes[:, :2], boxes[:, 2:]
        sides = high - low
        self.in_pixels += int(pixels.sum())
        self.small += int((pixels & (np.abs(boxes) <= _SMALL).all(axis=1)).sum())
        self.placed += int(np.isfinite(size).all(axis=1).sum())
        self.beyond += int(((low < -slack) | (high > size + slack)).any(axis=1).sum())
        self.as_corners += int(((sides > low) & (sides <= size + slack)).all(axis=1).sum())

    def merge(self, other: ObjectTotals) -> None:
        """Adds the totals of another listing."""
        for name, value in dataclasses.asdict(other).items():
            setattr(self, name, getattr(self, name) + value)
