"""Reads the objects of a sample by a mapping."""

from __future__ import annotations

import array
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.labels import whole_number
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_polygons
from beam_tfrecords.transforms.sources.documents.mapping import Expression, Form, ObjectMapping, Unit
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import read_label

# Two points of a polygon are the corners of a rectangle.
_CORNERS = 2
# Unit -> factor that makes shares of the image.
_SCALES: Mapping[Unit, float] = {Unit.SHARE: 1.0, Unit.PERCENT: 0.01}


class ObjectReader:
    """Reads the objects of samples, and counts what is left out.

    Args:
      kinds: kinds of objects.
      needs: requested contents.

    Attributes:
      unread: content -> number of objects that have it, of contents that are not needed.
      ignored: number of objects that the mapping ignores.
      other: number of elements of the lists of objects that are of no kind of the mapping.
      total: number of all elements.
    """

    def __init__(self, kinds: Sequence[ObjectMapping], needs: Needs) -> None:
        self._kinds = kinds
        self._needs = needs
        lists = (_without_conditions(kind.objects) for kind in kinds if not kind.objects.makes_texts)
        self._lists = {one.text: one for one in lists}
        self._keypoints = 0
        self.unread: Counter[Content] = Counter()
        self.ignored = self.other = self.total = 0

    def read(self, node: Any, names: Mapping[str, str]) -> Objects:
        """Returns the objects of a sample.

        Args:
          node: the part of the document about the sample.
          names: number or id -> name of a class.

        Raises:
          SampleError: an object has no class, or an expression finds something else than what its key means.
        """
        found = [(kind, one) for kind in self._kinds for one in _as_list(kind.objects.find(node))]
        elements = {id(one) for every in self._lists.values() for one in _as_list(every.find(node))}
        check_count(len(found))
        self.total += len(elements)
        self.other += len(elements - {id(one) for _, one in found})
        kept = [(kind, one) for kind, one in found if not (kind.ignore and kind.ignore.find(one))]
        self.ignored += len(found) - len(kept)
        boxes: list[float] = []
        labels: list[Any] = []
        polygons: list[bytes] = []
        keypoints: list[bytes] = []
        for kind, one in kept:
            box, corners, points = _read_shape(kind, one)
            boxes += box
            labels.append(_read_class(kind, one, names))
            self._count(corners, points)
            polygons.append(_pack(corners) if self._needs.polygons else b"")
            keypoints.append(array.array("f", points).tobytes() if self._needs.keypoints else b"")
        return Objects(
            tuple(boxes),
            tuple(labels),
            is_normalized=self._kinds[0].unit in _SCALES,
            polygons=tuple(polygons) if self._needs.polygons else (),
            keypoints=self._pad(keypoints) if self._needs.keypoints else (),
        )

    def _count(self, polygons: Sequence[Sequence[float]], points: Sequence[float]) -> None:
        if polygons and not self._needs.polygons:
            self.unread[Content.POLYGONS] += 1
        if points and not self._needs.keypoints:
            self.unread[Content.KEYPOINTS] += 1

    def _pad(self, keypoints: Sequence[bytes]) -> tuple[bytes, ...]:
        """Returns keypoints of equal number; those that objects lack are not labelled."""
        longest = max(map(len, keypoints), default=0)
        self._keypoints = self._keypoints or longest
        if longest > self._keypoints:
            raise _error(f"an object has {longest // 12} keypoints; those before it have {self._keypoints // 12}")
        return tuple(one.ljust(self._keypoints, b"\0") for one in keypoints)


def _read_shape(kind: ObjectMapping, one: Any) -> tuple[Sequence[float], list[list[float]], list[float]]:
    """Returns the corners of a box, the polygons as x and y in turn, and x, y and visibility of the keypoints."""
    scale = _SCALES.get(kind.unit, 1.0)
    polygons = [_scale(corners, scale) for corners in _read_polygons(kind.polygon, one)]
    points = [number * (1.0 if n % 3 == 2 else scale) for n, number in enumerate(_read_points(kind.points, one))]
    if kind.box:
        sides = _scale(_read_box(kind.box, one), scale)
        turn = _number(kind.angle.find(one)) if kind.angle else 0.0
        if turn and not math.isnan(turn):
            polygons = [_turn(sides, kind.form, turn)]
            return _bounds(polygons[0]), polygons, points
        return _to_corners(sides, kind.form), polygons, points
    around = [number for corners in polygons for number in corners]
    if not polygons:
        around = [number for n in range(0, len(points), 3) if points[n + 2] for number in points[n : n + 2]]
    return _bounds(around), polygons, points


def _scale(numbers: Sequence[float], scale: float) -> list[float]:
    return [*numbers] if scale == 1.0 else [number * scale for number in numbers]


def _read_box(expressions: Sequence[Expression], one: Any) -> list[float]:
    values = [expression.find(one) for expression in expressions]
    value = values[0] if len(values) == 1 else values
    numbers = _flatten(value) if isinstance(value, list | str) else []
    if len(numbers) != 4:
        raise _error(f"`box` finds {shorten(str(value))} in {shorten(str(one))}; expected four numbers")
    return numbers


def _read_polygons(expressions: Sequence[Expression], one: Any) -> list[list[float]]:
    """Returns polygons as x and y in turn; a rectangle for two points."""
    if not expressions:
        return []
    values = [expression.find(one) for expression in expressions]
    if len(values) == 2 and all(isinstance(value, list) for value in values):  # The list of x, and that of y.
        if len(values[0]) != len(values[1]):
            raise _error(f"`polygon` finds {len(values[0])} x and {len(values[1])} y")
        values = [[*zip(*values, strict=True)]]
    value = values[0] if len(values) == 1 else values
    if value is None:
        return []
    several = value if _depth(value) > 2 else [value]
    return [_as_polygon(_flatten(corners), corners) for corners in several]


def _as_polygon(numbers: list[float], value: Any) -> list[float]:
    if len(numbers) % 2 or not numbers or any(map(math.isnan, numbers)):
        raise _error(f"`polygon` finds {shorten(str(value))}; expected points of two numbers")
    if len(numbers) == 2 * _CORNERS:
        left, top, right, bottom = numbers
        return [left, top, right, top, right, bottom, left, bottom]
    return numbers


def _read_points(expressions: Sequence[Expression], one: Any) -> list[float]:
    """Returns x, y and visibility of keypoints; points without a visibility are visible."""
    if not expressions:
        return []
    values = [expression.find(one) for expression in expressions]
    value = values[0] if len(values) == 1 else values
    if value is None:
        return []
    each = value if _depth(value) > 1 or any(isinstance(point, dict) for point in _as_list(value)) else None
    numbers = _flatten(value)
    size = len(_flatten(each[0])) if each else 3 if len(numbers) % 3 == 0 and _are_visibilities(numbers[2::3]) else 2
    if size not in (2, 3) or len(numbers) % size or any(map(math.isnan, numbers)):
        raise _error(f"`points` finds {shorten(str(value))}; expected points of x and y, or of x, y and visibility")
    found: list[float] = []
    for n in range(0, len(numbers), size):
        found += [*numbers[n : n + 2], numbers[n + 2] if size == 3 else 2.0]
    return found


def _are_visibilities(numbers: Sequence[float]) -> bool:
    return all(number in (0, 1, 2) for number in numbers)


def _depth(value: Any) -> int:
    """Returns how deep lists are nested: 1 for numbers, 2 for points, 3 for polygons."""
    depth = 0
    while isinstance(value, list | tuple) and value:
        value, depth = value[0], depth + 1
    return depth + (1 if isinstance(value, dict) and depth else 0)


def _flatten(value: Any) -> list[float]:
    """Returns all numbers of nested lists, points with x and y, and texts such as `1,2;3,4`."""
    if isinstance(value, str) and not _is_number(value):
        return [_number(word) for word in value.replace(";", ",").replace(" ", ",").split(",") if word]
    if isinstance(value, dict):
        return [_number(value.get(name, value.get(name.upper()))) for name in ("x", "y")]
    if isinstance(value, list | tuple):
        return [number for one in value for number in _flatten(one)]
    return [_number(value)]


def _is_number(text: str) -> bool:
    return not math.isnan(_number(text))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


def _to_corners(numbers: Sequence[float], form: Form) -> Sequence[float]:
    first, second, third, fourth = numbers
    if form is Form.CORNERS:
        return numbers
    if form is Form.CENTER:
        first, second = first - third / 2, second - fourth / 2
    return first, second, first + third, second + fourth


def _turn(numbers: Sequence[float], form: Form, degrees: float) -> list[float]:
    """Returns the corners of a box after turning it clockwise."""
    left, top, right, bottom = _to_corners(numbers, form)
    around = (left, top) if form is Form.SIZE else ((left + right) / 2, (top + bottom) / 2)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    corners: list[float] = []
    for x, y in ((left, top), (right, top), (right, bottom), (left, bottom)):
        x, y = x - around[0], y - around[1]
        corners += [around[0] + x * cos - y * sin, around[1] + x * sin + y * cos]
    return corners


def _bounds(numbers: Sequence[float]) -> Sequence[float]:
    if not numbers:
        return [math.nan] * 4
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def _read_class(kind: ObjectMapping, one: Any, names: Mapping[str, str]) -> Any:
    value = kind.label.find(one)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, list):
        raise _error(f"`class` finds {shorten(str(value))}; expected one class")
    label = name_class(value, names, "class")
    if label is None:
        raise SampleError(Stage.LIST, FailureReason.LABEL_MISSING, f"`class` finds nothing in {shorten(str(one))}")
    return label


def name_class(value: Any, names: Mapping[str, str], key: str) -> Any:
    """Returns the class of a value: its name if the values are numbers or ids with names; None if it is empty.

    Raises:
      SampleError: the value is not a class, or has no name.
    """
    label = read_label({key: value}, key)
    if names and label is not None:
        if str(label) not in names and label not in names.values():
            raise SampleError(Stage.LIST, FailureReason.UNKNOWN_CLASS, f"`class_names` has no {shorten(str(label))}")
        return names.get(str(label), label)
    number = whole_number(label) if isinstance(label, str) else None
    return label if number is None else number


def _pack(polygons: Sequence[Sequence[float]]) -> bytes:
    return pack_polygons(polygons) if polygons else b""


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _without_conditions(objects: Expression) -> Expression:
    """Returns the expression that finds the objects of all kinds in a list."""

    def change(tree: Any) -> Any:
        if not isinstance(tree, dict) or "type" not in tree:
            return tree
        children = [change(one) for one in tree["children"]]
        if tree["type"] == "filter_projection":
            return {"type": "projection", "children": children[:2]}
        return {**tree, "children": children}

    changed = change(objects.compiled.parsed)
    return Expression(objects.key, str(changed), type(objects.compiled)(objects.text, changed))


def _error(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
