"""Totals of the annotated objects in a listing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

# Tolerance for rounded boxes that reach beyond an image: share of its size, and pixels.
_SLACK, _SLACK_PIXELS = 0.01, 1
_SMALL = 1.5


@dataclasses.dataclass
class ObjectTotals:
    """Totals of the objects of samples that are not rejected.

    Attributes:
      samples: samples that can have objects.
      annotated: samples with at least one object.
      in_pixels: boxes in pixels.
      small: boxes in pixels whose coordinates are all within 1.5, so that they may be shares instead.
      placed: boxes in shares of the image's size, or in pixels of an image whose size the source gives.
      beyond: placed boxes that reach beyond the image.
      as_corners: placed boxes that stay valid and inside the image if their width and height are read as xmax and ymax.
      left_out: objects of classes that the request does not want; not counted above.
    """

    samples: int = 0
    annotated: int = 0
    in_pixels: int = 0
    small: int = 0
    placed: int = 0
    beyond: int = 0
    as_corners: int = 0
    left_out: int = 0

    def add(self, packed: Iterable[Sequence[Any] | None]) -> None:
        """Counts the packed objects (`Objects.pack`) of samples; None stands for a sample that cannot have objects."""
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
