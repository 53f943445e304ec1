"""Packs the polygons, run lengths or keypoints of annotated objects to few bytes for a listing.

Formats: https://cocodataset.org/#format-data, and `maskApi.c` of https://github.com/cocodataset/cocoapi.
"""

from __future__ import annotations

import array
import dataclasses
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
import numpy as np

from beam_tfrecords.transforms.objects.objects import RunOrder

# A polygon with fewer corners has no area.
_LEAST_CORNERS = 3
# Maximum number of characters of a compressed run length, 5 bits each; more do not fit into 32 bits.
_MOST_CHARACTERS = 7
_RUNS = re.compile(r"\s*\d{1,12}(?:\s+\d{1,12})*\s*", re.ASCII)
_MOST_PIXELS = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class RunLengths:
    """A mask as lengths of alternating runs of zeros and ones, column by column, starting with zeros.

    Attributes:
      size: (height, width) in pixels.
      counts: [n] int64.
    """

    size: tuple[int, int]
    counts: np.ndarray

    def pack(self) -> bytes:
        """Packs the run lengths for `unpack_polygons`."""
        return msgpack.packb((*self.size, self.counts.tolist()))

    def mask(self) -> np.ndarray:
        """Returns the mask as [H, W] uint8 of zeros and ones."""
        runs = np.arange(len(self.counts), dtype=np.uint32) & 1
        return np.repeat(runs.astype(np.uint8), self.counts).reshape(self.size[::-1]).T

    def bounds(self) -> list[float] | None:
        """Returns x, y, width and height of the bounding box of the ones; None if there are none."""
        height = self.size[0]
        ends = np.cumsum(self.counts)[1::2]
        starts = ends - self.counts[1::2]
        starts, ends = starts[starts < ends], ends[starts < ends]
        if not len(starts) or height < 1:
            return None
        left, right = int(starts[0]) // height, (int(ends[-1]) - 1) // height
        # A run that continues in the next column contains the last row and the first.
        whole = bool((starts // height < (ends - 1) // height).any())
        top = 0 if whole else int((starts % height).min())
        bottom = height - 1 if whole else int(((ends - 1) % height).max())
        return [float(left), float(top), float(right - left + 1), float(bottom - top + 1)]


def pack_polygons(polygons: Sequence[Sequence[float]]) -> bytes:
    """Packs polygons, each given as alternating x and y of its corners.

    Raises:
      TypeError: a value is not a number.
      OverflowError: a value is too large.
    """
    return msgpack.packb([_to_bytes(array.array("f", corners)) for corners in polygons])


def pack_segmentation(value: Any) -> bytes:
    """Packs a `segmentation` of COCO; returns b"" for an empty one.

    Packs an error message for an invalid value, so that the conversion rejects only the sample of this value.
    """
    if value is None or value == []:
        return b""
    try:
        if isinstance(value, list):
            return pack_polygons(value)
        counts, (height, width) = value["counts"], value["size"]
        if not isinstance(counts, str):
            array.array("I", counts)  # checks that these are integers
        return msgpack.packb((int(height), int(width), counts))
    except (TypeError, ValueError, OverflowError, LookupError):
        return msgpack.packb(f"expected polygons, or `counts` and `size`, found {ascii(value)[:60]}")


def run_lengths(mask: np.ndarray) -> RunLengths:
    """Returns the run lengths of a mask, [H, W], in which zero is outside the object."""
    pixels = np.concatenate([[0], (np.asarray(mask).T != 0).ravel(), [2]])
    ends = np.flatnonzero(np.diff(pixels))
    height, width = map(int, mask.shape)
    return RunLengths((height, width), np.diff(ends, prepend=0))


def pack_runs(text: str, order: RunOrder = RunOrder.COLUMNS) -> bytes:
    """Packs the run lengths of a table: `start length` in turn, pixels counted from 1, column by column or row by row.

    The size of the image, which these lack, is known once the image is read: `unpack_runs`.

    Raises:
      ValueError: the text is something else, or the runs are not in order; the message says what.
    """
    if not _RUNS.fullmatch(text):
        raise ValueError(f"expected run lengths, `start length` in turn, found {ascii(text)[:60]}")
    numbers = np.fromstring(text, np.float64, sep=" ")
    if len(numbers) % 2:
        raise ValueError(f"expected pairs of a start and a length, found {len(numbers):,} numbers")
    starts, lengths = numbers[::2], numbers[1::2]
    ends = starts + lengths
    if starts.min() < 1 or lengths.min() < 1:
        raise ValueError("a run has the start 0 or the length 0; the first pixel is 1")
    if ends.max() > _MOST_PIXELS:
        raise ValueError(f"a run ends at pixel {ends.max():.0f}; expected at most {_MOST_PIXELS}")
    if (wrong := np.flatnonzero(starts[1:] < ends[:-1])).size:
        first = int(wrong[0]) + 1
        raise ValueError(
            f"run {first + 1:,} starts at {starts[first]:.0f}, before the end of the run before it, "
            f"{ends[first - 1] - 1:.0f}; expected runs in order, counted from the first pixel of the image"
        )
    # The default order is not written, so that listings equal those of earlier versions.
    by_rows = {"order": order.value} if order is RunOrder.ROWS else {}
    return msgpack.packb({"runs": numbers.astype("<u4").tobytes(), **by_rows})


def pack_pixels(image: str, value: int | None = None) -> bytes:
    """Packs a reference to the mask of an object, which is in another image of its sample.

    Args:
      image: name of the image in the sample's reference.
      value: value of the object's pixels, such as an id in a panoptic image of COCO; None for all values but 0.
    """
    return msgpack.packb({"image": image, "value": value})


def unpack_later(packed: bytes) -> Mapping[str, Any] | None:
    """Returns what `pack_runs` or `pack_pixels` packed, which needs the image or other files; None for other values."""
    # The first byte of a MessagePack map with fewer than 16 keys is 0x80 to 0x8f.
    return msgpack.unpackb(packed) if packed and packed[0] & 0xF0 == 0x80 else None


def find_steps(packed: bytes) -> np.ndarray:
    """Returns the distances in pixels between the starts of consecutive runs, [runs - 1]; empty for other outlines."""
    runs = (unpack_later(packed) or {}).get("runs", b"")
    return np.diff(np.frombuffer(runs, "<u4")[::2].astype(np.int64))


def unpack_runs(packed: Mapping[str, Any], size: tuple[int, int]) -> RunLengths:
    """Unpacks run lengths of `pack_runs` for an image of a size (height, width).

    Raises:
      ValueError: a run ends beyond the image.
    """
    numbers = np.frombuffer(packed["runs"], "<u4").astype(np.int64)
    starts, lengths = numbers[::2] - 1, numbers[1::2]
    ends, (height, width) = starts + lengths, size
    if ends[-1] > height * width:
        raise ValueError(
            f"a run ends at pixel {ends[-1]:,}, and the image of {width} x {height} pixels (width x height) has "
            f"{height * width:,}"
        )
    counts = np.zeros(len(numbers) + 1, np.int64)
    counts[:-1:2], counts[1::2] = starts - np.concatenate([[0], ends[:-1]]), lengths
    counts[-1] = height * width - ends[-1]
    if "order" in packed:
        return run_lengths(RunLengths((width, height), counts).mask().T)
    return RunLengths(size, counts)


def bounds_of(value: Any) -> list[float] | None:
    """Returns x, y, width and height of the bounding box of a COCO `segmentation`; None if it is empty or invalid."""
    try:
        polygons = unpack_polygons(pack_segmentation(value))
    except ValueError:
        return None
    if isinstance(polygons, RunLengths):
        return polygons.bounds()
    corners = np.concatenate(polygons).astype(float) if polygons else np.empty((0, 2))
    return [*corners.min(axis=0).tolist(), *np.ptp(corners, axis=0).tolist()] if len(corners) else None


def unpack_polygons(packed: bytes) -> list[np.ndarray] | RunLengths:
    """Unpacks polygons, each as [n, 2] float32 of x and y, or run lengths.

    Raises:
      ValueError: the value is invalid; the message says why.
    """
    value = msgpack.unpackb(packed) if packed else []
    if isinstance(value, str):
        raise ValueError(value)
    if value and not isinstance(value[0], bytes):
        height, width, counts = value
        lengths = _decode(counts) if isinstance(counts, str) else np.array(counts, np.int64)
        if (lengths < 0).any() or lengths.sum() != height * width:
            raise ValueError(f"its run lengths do not fit {width} x {height} pixels (width x height)")
        return RunLengths((height, width), lengths)
    polygons = [np.frombuffer(corners, "<f4") for corners in value]
    if any(len(corners) % 2 or not np.isfinite(corners).all() for corners in polygons):
        raise ValueError("a polygon has an odd number of coordinates, or one that is not finite")
    return [corners.reshape(-1, 2) for corners in polygons if len(corners) >= 2 * _LEAST_CORNERS]


def join_parts(polygons: Sequence[np.ndarray]) -> np.ndarray:
    """Joins the parts of an object to one polygon, [points, 2]: lines lead from the first point to each part and back.

    A point is inside if an odd number of edges is left of it, so that the lines change nothing.
    """
    first, *others = polygons
    parts = [first, *(part for other in others for part in (first[:1], other, other[:1]))]
    return np.concatenate([*parts, first[:1]] if others else parts)


def turn_box(
    box: Sequence[float], radians: float, *, around_corner: bool = False, size: tuple[int, int] = (1, 1)
) -> list[float]:
    """Returns x and y of the four corners of a box (xmin, ymin, xmax, ymax) after turning it clockwise.

    Args:
      box: the box before the turn.
      radians: the angle.
      around_corner: whether to turn around the corner (xmin, ymin); otherwise around the center.
      size: (width, height) of the image in units of the box: in pixels for a box as shares, because shares do not keep
        the right angles of a turned box.
    """
    left, top, right, bottom = (side * size[n % 2] for n, side in enumerate(box))
    middle = (left, top) if around_corner else ((left + right) / 2, (top + bottom) / 2)
    cos, sin = math.cos(radians), math.sin(radians)
    corners: list[float] = []
    for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)):
        x, y = x - middle[0], y - middle[1]
        corners += [(middle[0] + x * cos - y * sin) / size[0], (middle[1] + x * sin + y * cos) / size[1]]
    return corners


def _to_bytes(corners: array.array[float]) -> bytes:
    if sys.byteorder == "big":
        corners.byteswap()
    return corners.tobytes()


def _decode(text: str) -> np.ndarray:
    """Decodes COCO's compressed run lengths: 5 bits per character, lowest bits first.

    From the fourth on, each value is the difference from the run length two before it.
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


def as_number(value: Any) -> float:
    """Converts a value of an annotation to a number; NaN if it is not a number."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def pack_keypoints(value: Any, *, shift: float = 0.5) -> bytes:
    """Packs keypoints in the format of `Objects`; invalid numbers become NaN.

    Args:
      value: x, y and visibility of each point in turn, as COCO has them.
      shift: added to x and y. COCO gives pixel indices; the center of the first pixel is (0.5, 0.5).
    """
    if not isinstance(value, list) or not value:
        return b""
    numbers = [as_number(one) for one in value]
    points = np.array(numbers if len(numbers) % 3 == 0 else [np.nan] * 3, "<f4").reshape(-1, 3)
    points[:, :2] += shift
    return points.tobytes()
