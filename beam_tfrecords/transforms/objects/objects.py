"""Annotated objects of an image in a listing."""

from __future__ import annotations

import array
import dataclasses
import enum
import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage

# Maximum number of objects in an image. More mean damage or an attack: people annotate at most about 10,000 per image.
MOST_OBJECTS = 100_000


def check_count(count: int) -> None:
    """Rejects an image with more than `MOST_OBJECTS` objects.

    Raises:
      SampleError: the image has more.
    """
    if count > MOST_OBJECTS:
        detail = f"more than {MOST_OBJECTS:,} objects in one image"
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)


class InvalidBoxes(str, enum.Enum):
    """What to do with a box without a size, or wholly outside its image: REJECT its sample, or DROP only the box."""

    REJECT = "reject"
    DROP = "drop"


class BoxFormat(str, enum.Enum):
    """Meaning of a box's four numbers: two CORNERS, a corner and a SIZE, or the CENTER and a size; AUTO detects it."""

    AUTO = "auto"
    CORNERS = "xyxy"
    SIZE = "xywh"
    CENTER = "cxcywh"


class BoxUnit(str, enum.Enum):
    """Unit of a box: PIXELS of the upright image, or SHARES of its size; AUTO detects it."""

    AUTO = "auto"
    PIXELS = "pixels"
    SHARES = "shares"


class RunOrder(str, enum.Enum):
    """Direction in which run lengths count the pixels of the upright image: down its COLUMNS, or along its ROWS."""

    COLUMNS = "columns"
    ROWS = "rows"

    @property
    def other(self) -> RunOrder:
        """The other direction."""
        return RunOrder.ROWS if self is RunOrder.COLUMNS else RunOrder.COLUMNS

    @property
    def words(self) -> str:
        """The direction in words."""
        return "down the columns" if self is RunOrder.COLUMNS else "along the rows"


@dataclasses.dataclass(frozen=True)
class Objects:
    """The annotated objects of an image, in the source's order. The n-th value of each attribute is of the n-th object.

    Attributes:
      boxes: (xmin, ymin, xmax, ymax) of all objects, concatenated; in pixels of the upright image from its top left
        corner, (0, 0), or as shares of its size. NaN for an object without a box.
      labels: class name or number of each object.
      values: name of another attribute, such as `is_crowd` -> value of each object; without attributes that the source
        lacks.
      image_id: the source's own name of the image; "" if it has none.
      size: (width, height) in pixels of the image that the boxes were drawn on; None if the source does not give it.
      is_normalized: whether boxes and polygons are shares of the image's size.
      polygons: packed polygons or run lengths of each object (`polygons`), b"" for an object without any; empty unless
        the layout needs them.
      keypoints: x, y and visibility (0 to 2) of every point of each object as little-endian float32, the same number of
        points for all objects; empty unless the layout needs them.
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
        """Returns plain values for msgpack; a box takes 32 bytes."""
        boxes = array.array("d", self.boxes)
        if sys.byteorder == "big":
            boxes.byteswap()
        # Stores each class name once, because most images have few classes.
        numbers = {label: number for number, label in enumerate(dict.fromkeys(self.labels))}
        labels = [numbers[label] for label in self.labels]
        values = {name: list(column) for name, column in sorted(self.values.items())}
        packed = boxes.tobytes(), list(numbers), labels, values, self.image_id, self.size, self.is_normalized
        if self.keypoints:
            return (*packed, list(self.polygons), list(self.keypoints))
        return (*packed, list(self.polygons)) if self.polygons else packed

    @classmethod
    def merge(cls, several: Sequence[Objects]) -> Objects:
        """Concatenates the objects of several annotations of one image.

        Raises:
          ValueError: the annotations are incompatible, such as in their units; the message says what differs.
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

    def select(self, numbers: Sequence[int]) -> Objects:
        """Returns the objects with these numbers, in their order."""
        return dataclasses.replace(
            self,
            boxes=tuple(side for number in numbers for side in self.boxes[4 * number : 4 * number + 4]),
            labels=tuple(self.labels[number] for number in numbers),
            values={name: tuple(column[number] for number in numbers) for name, column in self.values.items()},
            polygons=tuple(self.polygons[number] for number in numbers) if self.polygons else (),
            keypoints=tuple(self.keypoints[number] for number in numbers) if self.keypoints else (),
        )

    @staticmethod
    def unpack_labels(packed: Sequence[Any]) -> tuple[str | int | None, ...]:
        """Returns `labels` from the output of `pack`."""
        _, names, labels, *_ = packed
        return tuple(names[number] for number in labels)

    @classmethod
    def unpack(cls, packed: Sequence[Any]) -> Objects:
        """Makes objects from the output of `pack`."""
        data, _, _, values, image_id, size, is_normalized, *rest = packed
        boxes = array.array("d", data)
        if sys.byteorder == "big":
            boxes.byteswap()
        values = {name: tuple(column) for name, column in values.items()}
        size = tuple(size) if size else None
        labels = Objects.unpack_labels(packed)
        return cls(tuple(boxes), labels, values, image_id, size, is_normalized, *map(tuple, rest))
