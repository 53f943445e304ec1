"""Annotated objects of an image, as a source lists them."""

from __future__ import annotations

import array
import dataclasses
import enum
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage

# More in one image are damage, or an attack: the most that people have drawn in one are some 10,000.
MOST_OBJECTS = 100_000


def check_count(count: int) -> None:
    """Rejects an image with more objects than one can have.

    Raises:
      SampleError: it has.
    """
    if count > MOST_OBJECTS:
        detail = f"more than {MOST_OBJECTS:,} objects in one image"
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)


class InvalidBoxes(str, enum.Enum):
    """What a box without a size, or wholly outside its image, does: REJECT its sample, or DROP the box alone."""

    REJECT = "reject"
    DROP = "drop"


class BoxFormat(str, enum.Enum):
    """What four numbers are: two CORNERS, a corner and a SIZE, or the CENTER and a size; AUTO finds it."""

    AUTO = "auto"
    CORNERS = "xyxy"
    SIZE = "xywh"
    CENTER = "cxcywh"


class BoxUnit(str, enum.Enum):
    """What sides count: PIXELS of the image as it is shown, or SHARES of its size; AUTO finds it."""

    AUTO = "auto"
    PIXELS = "pixels"
    SHARES = "shares"


@dataclasses.dataclass(frozen=True)
class Objects:
    """The annotated objects of an image, in the source's order: the n-th value of each attribute is of the n-th object.

    Attributes:
      boxes: (xmin, ymin, xmax, ymax) of each, one after the other; in pixels of the upright image from its top left
        corner, (0, 0), or as shares of its size. NaN where the source has none.
      labels: class name or number of each.
      values: name of another attribute, such as `is_crowd` -> its value for each; empty where the source has none.
      image_id: the source's own name of the image; "" if it has none.
      size: (width, height) of the image that the boxes were drawn on, in pixels; None if the source does not say.
      is_normalized: whether boxes and polygons are shares of the image's size.
      polygons: packed polygons or run lengths of each object, b"" if the source has none; empty if not requested.
      keypoints: of each, x, y and visibility (0 to 2) of every point as little-endian float32, as many for all;
        empty unless they are asked for.
    """

    boxes: Sequence[float] = ()
    labels: Sequence[str | int | None] = ()
    values: Mapping[str, Sequence[Any]] = dataclasses.field(default_factory=dict)
    image_id: str = ""
    size: tuple[int, int] | None = None
    is_normalized: bool = False
    polygons: Sequence[bytes] = ()
    keypoints: Sequence[bytes] = ()

    def pack(self) -> tuple[Any, ...]:
        """As values for msgpack; a box takes 32 bytes."""
        boxes = array.array("d", self.boxes)
        if sys.byteorder == "big":
            boxes.byteswap()
        # Each name once: most images have few classes.
        numbers = {label: number for number, label in enumerate(dict.fromkeys(self.labels))}
        labels = [numbers[label] for label in self.labels]
        values = {name: list(column) for name, column in sorted(self.values.items())}
        packed = boxes.tobytes(), list(numbers), labels, values, self.image_id, self.size, self.is_normalized
        if self.keypoints:
            return (*packed, list(self.polygons), list(self.keypoints))
        return (*packed, list(self.polygons)) if self.polygons else packed

    @classmethod
    def merge(cls, several: Sequence[Objects]) -> Objects:
        """The objects of several annotations of one image, one behind the other.

        Raises:
          ValueError: they are not in the same terms; the message says in which not.
        """
        several = [one for one in several if one != cls()] or [cls()]
        points = [one.keypoints or [b""] * len(one.labels) for one in several]
        terms: dict[str, set[Any]] = {
            "names of the image": {one.image_id for one in several},
            "sizes of the image": {one.size for one in several},
            "units of boxes": {one.is_normalized for one in several},
            "numbers of keypoints": {len(of_object) for found in points for of_object in found},
            "attributes of objects": {tuple(sorted(one.values)) for one in several if one.labels},
        }
        for what, found in terms.items():
            if len(found) > 1:
                raise ValueError(f"different {what}")

        def join(name: str) -> tuple[Any, ...]:
            return tuple(itertools.chain.from_iterable(getattr(one, name) for one in several))

        polygons = [one.polygons or [b""] * len(one.labels) for one in several]
        has_polygons = any(one.polygons for one in several)
        names = next((one.values for one in several if one.labels), several[0].values)
        return dataclasses.replace(
            several[0],
            boxes=join("boxes"),
            labels=join("labels"),
            values={name: tuple(v for one in several if one.labels for v in one.values[name]) for name in names},
            polygons=tuple(itertools.chain.from_iterable(polygons)) if has_polygons else (),
            keypoints=join("keypoints"),
        )

    @staticmethod
    def unpack_labels(packed: Sequence[Any]) -> tuple[str | int | None, ...]:
        """`labels` of what `pack` returned."""
        _, names, labels, *_ = packed
        return tuple(names[number] for number in labels)

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Objects:
        """The reverse of `pack`."""
        data, _, _, values, image_id, size, is_normalized, *rest = packed
        boxes = array.array("d", data)
        if sys.byteorder == "big":
            boxes.byteswap()
        values = {name: tuple(column) for name, column in values.items()}
        size = tuple(size) if size else None
        labels = Objects.unpack_labels(packed)
        return cls(tuple(boxes), labels, values, image_id, size, is_normalized, *map(tuple, rest))
