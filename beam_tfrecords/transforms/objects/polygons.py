"""Polygons and run lengths of annotated objects, packed into few bytes for the listing.

Formats: https://cocodataset.org/#format-data, and `maskApi.c` of https://github.com/cocodataset/cocoapi.
"""

from __future__ import annotations

import array
import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np

# Corners of a polygon; with fewer it has no area.
_LEAST_CORNERS = 3
# Characters of a run length with 5 bits each: more do not fit into 32 bits.
_MOST_CHARACTERS = 7


@dataclasses.dataclass(frozen=True)
class RunLengths:
    """A mask as lengths of runs of zeros and ones in turn, column by column, beginning with zeros.

    Attributes:
      size: (height, width) in pixels.
      counts: [n] int64.
    """

    size: tuple[int, int]
    counts: np.ndarray

    def mask(self) -> np.ndarray:
        """[H, W] uint8 of zeros and ones."""
        runs = np.arange(len(self.counts), dtype=np.uint32) & 1
        return np.repeat(runs.astype(np.uint8), self.counts).reshape(self.size[::-1]).T

    def bounds(self) -> list[float] | None:
        """x, y, width and height of the pixels that are ones; None if there is none."""
        height = self.size[0]
        ends = np.cumsum(self.counts)[1::2]
        starts = ends - self.counts[1::2]
        starts, ends = starts[starts < ends], ends[starts < ends]
        if not len(starts) or height < 1:
            return None
        left, right = int(starts[0]) // height, (int(ends[-1]) - 1) // height
        # A run that goes on in the next column has the last row and the first.
        whole = bool((starts // height < (ends - 1) // height).any())
        top = 0 if whole else int((starts % height).min())
        bottom = height - 1 if whole else int(((ends - 1) % height).max())
        return [float(left), float(top), float(right - left + 1), float(bottom - top + 1)]


def pack_polygons(polygons: Sequence[Sequence[float]]) -> bytes:
    """Packs polygons, each as x and y of its corners in turn.

    Raises:
      TypeError: a value is not a number.
      OverflowError: a value is too large.
    """
    return msgpack.packb([_to_bytes(array.array("f", corners)) for corners in polygons])


def pack_segmentation(value: Any) -> bytes:
    """Packs what COCO has as `segmentation`; b"" if there is none.

    What cannot be read is packed as well, so that only its own sample is rejected, when it is converted.
    """
    if value is None or value == []:
        return b""
    try:
        if isinstance(value, list):
            return pack_polygons(value)
        counts, (height, width) = value["counts"], value["size"]
        if not isinstance(counts, str):
            array.array("I", counts)  # checks that these are whole numbers
        return msgpack.packb((int(height), int(width), counts))
    except (TypeError, ValueError, OverflowError, LookupError):
        return msgpack.packb(f"expected polygons, or `counts` and `size`, found {ascii(value)[:60]}")


def pack_mask(mask: np.ndarray) -> bytes:
    """Packs a mask: [H, W], zeros and others."""
    pixels = np.concatenate([[0], (np.asarray(mask).T != 0).ravel(), [2]])
    ends = np.flatnonzero(np.diff(pixels))
    return msgpack.packb((*map(int, mask.shape), np.diff(ends, prepend=0).tolist()))


def bounds_of(value: Any) -> list[float] | None:
    """x, y, width and height of what COCO has as `segmentation`; None if there is none, or it cannot be read."""
    try:
        polygons = unpack_polygons(pack_segmentation(value))
    except ValueError:
        return None
    if isinstance(polygons, RunLengths):
        return polygons.bounds()
    corners = np.concatenate(polygons).astype(float) if polygons else np.empty((0, 2))
    return [*corners.min(axis=0).tolist(), *np.ptp(corners, axis=0).tolist()] if len(corners) else None


def unpack_polygons(packed: bytes) -> list[np.ndarray] | RunLengths:
    """Polygons as [n, 2] float32 of x and y, or run lengths.

    Raises:
      ValueError: the bytes are not valid; the message says why.
    """
    value = msgpack.unpackb(packed) if packed else []
    if isinstance(value, str):
        raise ValueError(value)
    if value and not isinstance(value[0], bytes):
        height, width, counts = value
        lengths = _decode(counts) if isinstance(counts, str) else np.array(counts, np.int64)
        if (lengths < 0).any() or lengths.sum() != height * width:
            raise ValueError(f"its run lengths are not those of {width} x {height} pixels (width x height)")
        return RunLengths((height, width), lengths)
    polygons = [np.frombuffer(corners, "<f4") for corners in value]
    if any(len(corners) % 2 or not np.isfinite(corners).all() for corners in polygons):
        raise ValueError("a polygon has an odd number of coordinates, or one that is not finite")
    return [corners.reshape(-1, 2) for corners in polygons if len(corners) >= 2 * _LEAST_CORNERS]


def _to_bytes(corners: array.array[float]) -> bytes:
    if sys.byteorder == "big":
        corners.byteswap()
    return corners.tobytes()


def _decode(text: str) -> np.ndarray:
    """The run lengths in COCO's compressed form: each 5 bits a character, the lowest first.

    From the fourth on, they are differences from the last but one.
    """
    characters = np.frombuffer(text.encode(errors="replace"), np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(characters & 32 == 0)
    if not len(characters) or (characters < 0).any() or (characters > 63).any() or ends[-1:] != len(characters) - 1:
        raise ValueError(f"its `counts` are not compressed run lengths: {text[:60]!a}")
    starts = np.concatenate([[0], ends[:-1] + 1])
    sizes = ends - starts + 1
    if sizes.max() > _MOST_CHARACTERS:
        raise ValueError("its `counts` have a run that is too long")
    shifts = 5 * (np.arange(len(characters)) - np.repeat(starts, sizes))
    lengths = np.add.reduceat((characters & 31) << shifts, starts)
    lengths -= np.where(characters[ends] & 16, 1 << (5 * sizes), 0)
    lengths[1::2], lengths[2::2] = np.cumsum(lengths[1::2]), np.cumsum(lengths[2::2])
    return lengths
