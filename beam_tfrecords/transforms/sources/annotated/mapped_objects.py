"""Reads the objects of a sample by a mapping."""

from __future__ import annotations

import array
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.transforms.labels import whole_number
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import bounds_of, pack_polygons, pack_segmentation, turn_box
from beam_tfrecords.transforms.sources.annotated.mapping import (
    POSE,
    RUNS,
    DocumentMapping,
    Expression,
    ObjectMapping,
    Unit,
    as_number,
)
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.box_cells import to_corners
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_label

# Unit -> factor that makes shares of the image.
_SCALES: Mapping[Unit, float] = {Unit.SHARE: 1.0, Unit.PERCENT: 0.01}
# Larger sides are damage.
_MOST_SIDE = 1 << 24
# Numbers of a point.
_POINT = 2
# Longer texts are no kind of an object, but its points or pixels.
_MOST_KIND = 24
# Types of most numbers, which need no look at each.
_PLAIN = {int, float}


class _Shape(NamedTuple):
    """An object: its class, corners of its box, polygons, x, y and visibility of its keypoints, and attributes.

    Instead of polygons, it may have a mask as packed run lengths of COCO.
    """

    label: Any
    box: Sequence[float]
    polygons: Sequence[Sequence[float]]
    points: Sequence[float]
    mask: bytes
    values: Mapping[str, int | str]


class ObjectReader:
    """Reads the objects of samples, and counts what is left out.

    Args:
      mapping: where things are.
      contents: contents that the samples get.

    Attributes:
      ignored: number of objects that the mapping ignores.
      other: number of elements of the lists of objects that are of no kind of the mapping.
      first_other: what says the kind of the first of these.
      total: number of all elements.
      several: number of objects of several classes: each class has an object.
      found_any: whether a sample has a list of objects, even an empty one.
    """

    def __init__(self, mapping: DocumentMapping, contents: frozenset[Content]) -> None:
        self._kinds = mapping.objects
        self._size, self._has_names = mapping.size, mapping.has_names
        self._has_outlines, self._has_keypoints = bool(OUTLINES & contents), Content.KEYPOINTS in contents
        lists = [(kind.objects, _without_conditions(kind.objects)) for kind in self._kinds]
        # Without a condition, all elements are read.
        has_others = any(every.tree != some.tree for some, every in lists)
        self._lists = {repr(every.tree): every for _, every in lists} if has_others else {}
        self._attributes = sorted({name for kind in self._kinds for name in kind.attributes})
        self._keypoints = 0
        self.ignored = self.other = self.total = self.several = 0
        self.first_other = ""
        self.found_any = False

    def read(self, node: Any, names: Mapping[str, str]) -> Objects:
        """Returns the objects of a sample.

        Args:
          node: the part of the document about the sample.
          names: number or id -> name of a class.

        Raises:
          SampleError: an object has no class, or an expression finds something else than what its key means.
        """
        lists = [(kind, kind.objects.find(node)) for kind in self._kinds]
        self.found_any |= any(several is not None for _, several in lists)
        found = [(kind, one) for kind, several in lists for one in as_list(several)]
        check_count(len(found))
        self._count_other(node, found)
        kept = [(kind, one) for kind, one in found if not (kind.ignore and kind.ignore.find(one))]
        self.ignored += len(found) - len(kept)
        size = _read_size(self._size, node)
        shapes: dict[Any, _Shape] = {}
        for number, (kind, one) in enumerate(kept):
            values = {name: _read_attribute(name, found.find(one)) for name, found in kind.attributes.items()}
            labels = self._read_classes(kind, one, names)
            self.several += len(labels) > 1
            group = kind.group.find(one) if kind.group else None
            for label in labels:
                shape = _Shape(label, *_read_shape(kind, one, size, needs_outline=self._has_outlines), values)
                place = (label, number) if group in (None, "") else (str(label), str(group))
                shapes[place] = _join(shapes[place], shape) if place in shapes else shape
        is_normalized = self._kinds[0].unit in _SCALES
        return Objects(
            tuple(side for shape in shapes.values() for side in shape.box),
            tuple(shape.label for shape in shapes.values()),
            {name: tuple(shape.values.get(name, 0) for shape in shapes.values()) for name in self._attributes},
            size=None if is_normalized else size,
            is_normalized=is_normalized,
            polygons=tuple(shape.mask or _pack(shape.polygons) for shape in shapes.values())
            if self._has_outlines
            else (),
            keypoints=self._pad([shape.points for shape in shapes.values()]) if self._has_keypoints else (),
        )

    def _read_classes(self, kind: ObjectMapping, one: Any, names: Mapping[str, str]) -> list[Any]:
        value = kind.label.find(one)
        labels = [value or None] if self._has_names and isinstance(value, str) else name_classes(value, names, "class")
        if not labels or None in labels:
            raise SampleError(Stage.LIST, FailureReason.LABEL_MISSING, f"`class` finds nothing in {shorten(str(one))}")
        return labels

    def _count_other(self, node: Any, found: Sequence[tuple[ObjectMapping, Any]]) -> None:
        if not self._lists:
            return
        elements = {id(one): one for every in self._lists.values() for one in as_list(every.find(node))}
        # Some expressions make their elements.
        read = {id(one) for _, one in found}
        if read <= elements.keys():
            others = [one for number, one in elements.items() if number not in read]
            self.total += len(elements)
            self.other += len(others)
            self.first_other = self.first_other or next(map(_describe_kind, others), "")

    def _pad(self, several: Sequence[Sequence[float]]) -> tuple[bytes, ...]:
        """Returns keypoints of equal number; those that objects lack are not labeled."""
        longest = max(map(len, several), default=0)
        self._keypoints = self._keypoints or longest
        if longest > self._keypoints:
            raise invalid_row(f"an object has {longest // 3} keypoints; those before it have {self._keypoints // 3}")
        return tuple(array.array("f", points).tobytes().ljust(4 * self._keypoints, b"\0") for points in several)


def _describe_kind(one: Any) -> str:
    """Returns the short texts of an element, one of which is its kind, as in `'geometryType: bitmap'`."""
    words = one.items() if isinstance(one, dict) else ()
    short = (f"{name}: {word}" for name, word in words if isinstance(word, str) and 0 < len(word) <= _MOST_KIND)
    return shorten(", ".join(short) or str(one))


def _read_size(expressions: Sequence[Expression], node: Any) -> tuple[int, int] | None:
    """Returns width and height; None if the document does not say them, or some other value such as 0."""
    numbers = _flatten(_find(expressions, node)) if expressions else []
    if len(numbers) != 2 or not all(1 <= number <= _MOST_SIDE for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def _read_shape(
    kind: ObjectMapping, one: Any, size: tuple[int, int] | None, *, needs_outline: bool
) -> tuple[Sequence[float], Sequence[Sequence[float]], Sequence[float], bytes]:
    """Returns box, polygons, keypoints and mask of an object, as `_Shape` has them."""
    scale, sides = _SCALES.get(kind.unit, 1.0), _find(kind.box, one) if kind.box else None
    numbers = _flatten(sides) if kind.box else []
    has_box = bool(kind.box) and not any(map(math.isnan, numbers))
    outline = _find(kind.polygon, one) if kind.polygon and (needs_outline or not has_box) else None
    if isinstance(outline, dict) and outline.keys() >= RUNS:
        return _read_mask(kind, sides, one, outline)
    found = [] if outline is None else _read_polygons(kind, outline, one)
    polygons = [_move(_scale(corners, scale), kind.origin) for corners in found]
    points = [
        number if n % 3 == 2 else number * scale - kind.origin
        for n, number in enumerate(_read_points(kind.points, one))
    ]
    if has_box or (kind.box and not kind.polygon):
        box = _move(_to_corners(kind, _scale(_check_box(numbers, sides, one), scale)), kind.origin)
        turn = as_number(kind.angle.value.find(one)) * kind.angle.factor if kind.angle else 0.0
        if kind.angle and turn and not math.isnan(turn):
            # A turn keeps the shape of a box in pixels, not in shares.
            if kind.unit in _SCALES and size is None:
                raise invalid_row("a box is turned, and `size` finds no width and height of the image")
            whole = size if kind.unit in _SCALES and size else (1, 1)
            polygons = [turn_box(box, turn, around_corner=kind.angle.around_corner, size=whole)]
            return _bounds(polygons[0]), polygons, points, b""
        return box, polygons, points, b""
    around = [number for corners in polygons for number in corners]
    if not polygons:
        around = [number for n in range(0, len(points), 3) if points[n + 2] for number in points[n : n + 2]]
    return _bounds(around), polygons, points, b""


def _to_corners(kind: ObjectMapping, sides: Sequence[float]) -> Sequence[float]:
    left, top, right, bottom = to_corners(sides, kind.form)
    return left - kind.from_one, top - kind.from_one, right, bottom


def _read_mask(
    kind: ObjectMapping, sides: Any, one: Any, runs: Any
) -> tuple[Sequence[float], tuple[()], tuple[()], bytes]:
    """Reads an object whose outline is run lengths of COCO."""
    bounds = bounds_of(runs)
    if bounds is None or kind.unit is not Unit.PIXELS:
        raise invalid_row(f"`polygon` finds {shorten(str(runs))}; expected pixels of an object in run lengths of COCO")
    left, top, width, height = bounds
    box: Sequence[float] = (left, top, left + width, top + height)
    if kind.box:
        box = _to_corners(kind, _check_box(_flatten(sides), sides, one))
    return box, (), (), pack_segmentation(runs)


def _join(one: _Shape, other: _Shape) -> _Shape:
    """Returns two parts as one object."""
    if one.mask or other.mask:
        raise invalid_row("an object of several parts has a mask; expected polygons, or no `group`")
    return other._replace(
        box=_bounds([*one.box, *other.box]),
        polygons=[*one.polygons, *other.polygons],
        points=[*one.points, *other.points],
    )


def _read_attribute(name: str, value: Any) -> int | str:
    if name == POSE:
        return value if isinstance(value, str) else ""
    return int(str(value).lower() == "true" or as_number(value) >= 1)


def _find(expressions: Sequence[Expression], one: Any) -> Any:
    values = [expression.find(one) for expression in expressions]
    return values[0] if len(values) == 1 else values


def _scale(numbers: Sequence[float], scale: float) -> list[float]:
    return [*numbers] if scale == 1.0 else [number * scale for number in numbers]


def _move(numbers: Sequence[float], origin: float) -> Sequence[float]:
    return [number - origin for number in numbers] if origin else numbers


def _check_box(numbers: Sequence[float], value: Any, one: Any) -> Sequence[float]:
    if len(numbers) != 4 or any(map(math.isnan, numbers)):
        raise invalid_row(f"`box` finds {shorten(str(value))} in {shorten(str(one))}; expected four numbers")
    return numbers


def _read_polygons(kind: ObjectMapping, value: Any, one: Any) -> list[list[float]]:
    if len(kind.polygon) == 2 and all(isinstance(side, list) for side in value):  # All x, and all y.
        if len(value[0]) != len(value[1]):
            raise invalid_row(f"`polygon` finds {len(value[0])} x and {len(value[1])} y")
        value = [[*zip(*value, strict=True)]]
    polygons = _as_polygons(value, "polygon") if kind.polygon else []
    holes = _as_polygons(kind.holes.find(one), "holes") if kind.holes and polygons else []
    # A line leads to each hole and back; what is inside of an even number of lines is outside.
    for hole in holes:
        polygons[0] += [*polygons[0][:2], *hole, *hole[:2]]
    return polygons


def _as_polygons(value: Any, key: str) -> list[list[float]]:
    polygons = _parse_polygons(value)
    for corners in polygons:
        if len(corners) % 2 or len(corners) < 6 or any(map(math.isnan, corners)):
            raise invalid_row(f"`{key}` finds {shorten(str(value))}; expected three or more points of two numbers")
    return polygons


def _read_points(expressions: Sequence[Expression], one: Any) -> list[float]:
    """Returns x, y and visibility of keypoints; points without a visibility are visible."""
    value = _find(expressions, one) if expressions else None
    if value in (None, []):
        return []
    numbers = _flatten(value)
    if _depth(value) > 1:
        size = len(_flatten(value[0]))
    else:
        size = 3 if len(numbers) % 3 == 0 and all(number in (0, 1, 2) for number in numbers[2::3]) else 2
    if size not in (2, 3) or len(numbers) % size or any(map(math.isnan, numbers)):
        raise invalid_row(
            f"`points` finds {shorten(str(value))}; expected points of x and y, or of x, y and visibility"
        )
    found: list[float] = []
    for n in range(0, len(numbers), size):
        found += [*numbers[n : n + 2], numbers[n + 2] if size == 3 else 2.0]
    return found


def _bounds(numbers: Sequence[float]) -> Sequence[float]:
    if not numbers:
        return [math.nan] * 4
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def name_classes(value: Any, names: Mapping[str, str], key: str) -> list[Any]:
    """Returns the classes of a value, each once: their names if the values are numbers or ids with names.

    Args:
      value: a class, or a list of classes; an empty one is None.
      names: number or id -> name.
      key: key of the mapping, for messages.

    Raises:
      SampleError: a value is not a class, or has no name.
    """
    if isinstance(value, str) and not names:
        return [_read_text(value)]
    return list(dict.fromkeys(_name_class(one, names, key) for one in as_list(value)))


@functools.lru_cache(1024)
def _read_text(label: str) -> Any:
    return _name_class(label, {}, "class")


def _name_class(value: Any, names: Mapping[str, str], key: str) -> Any:
    if isinstance(value, list):
        raise invalid_row(f"`{key}` finds {shorten(str(value))} in a list; expected a class")
    label = read_label({key: value}, key)
    if names and label is not None:
        if str(label) not in names and label not in names.values():
            raise SampleError(Stage.LIST, FailureReason.UNKNOWN_CLASS, f"`class_names` has no {shorten(str(label))}")
        return names.get(str(label), label)
    number = whole_number(label) if isinstance(label, str) else None
    return label if number is None else number


def _pack(polygons: Sequence[Sequence[float]]) -> bytes:
    return pack_polygons(polygons) if polygons else b""


def as_list(value: Any) -> list[Any]:
    """Returns a value as a list: of itself, or of nothing."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _without_conditions(objects: Expression) -> Expression:
    """Returns the expression that finds objects of all kinds: without the conditions after its last pipe."""

    def change(tree: Any) -> Any:
        if not isinstance(tree, dict) or "type" not in tree:
            return tree
        first, *others = [*tree["children"]] or [None]
        if tree["type"] == "pipe":
            return {**tree, "children": [first, *map(change, others)]}
        if tree["type"] == "filter_projection":
            return {"type": "projection", "children": [change(first), others[0]]}
        return {**tree, "children": [change(one) for one in tree["children"]]}

    return Expression(objects.key, objects.text, change(objects.tree))


def _flatten(value: Any) -> list[float]:
    """Returns all numbers of nested lists, points with x and y, and texts such as `1,2;3,4`; NaN for other values."""
    if isinstance(value, str):
        return [as_number(word) for word in value.replace(";", " ").replace(",", " ").split()]
    if isinstance(value, dict):
        return [as_number(value.get(name, value.get(name.upper()))) for name in ("x", "y")]
    if isinstance(value, list | tuple):
        if (types := {*map(type, value)}) <= _PLAIN or types == {str}:
            try:
                return [*map(float, value)]
            except (OverflowError, ValueError):  # A text may have several numbers.
                pass
        return [number for one in value for number in _flatten(one)]
    return [as_number(value)]


def _depth(value: Any) -> int:
    """Returns how deep lists are nested: 1 for numbers, 2 for points, 3 for polygons."""
    found = 0
    while isinstance(value, list | tuple) and value:
        value, found = value[0], found + 1
    return found + (1 if isinstance(value, dict) and found else 0)


def _parse_polygons(value: Any) -> list[list[float]]:
    """Returns polygons as x and y in turn, of a list of polygons, or of one: numbers, points, or a text."""
    if isinstance(value, list | tuple):
        value = [one for one in value if one not in (None, [], "")]
    if value is None or value == []:
        return []
    levels = _depth(value)
    if levels == 1:
        # A text is a polygon if it has more numbers than a point.
        is_one = not isinstance(value[0], str) or len(_flatten(value[0])) <= _POINT
    else:
        is_one = levels == 0 or (levels == 2 and all(isinstance(one, dict) or len(one) == _POINT for one in value))
    return [_flatten(value)] if is_one else [_flatten(one) for one in value]
