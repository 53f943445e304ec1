"""Counts the fields of documents, and finds which of them a mapping uses."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.annotated.mapping import RUNS, DocumentMapping, Expression
from beam_tfrecords.transforms.sources.description import BOX, CLASS, KEYPOINTS, OUTLINE, STRUCTURE

# Functions that take all values of an object, whose names are data.
_TAKE_ALL = frozenset({"elements", "items", "flags", "values", "keys"})
# Names of the numbers in a point, and in the shapes that the function `corners` takes.
_POINT = frozenset({"x", "y", "X", "Y"})
_SHAPE = re.compile(r"[xy]\w*|c[xy]|[wh]|angle|pt\w*|point\w*")
_ROOT = "@"
_NESTED = (dict, list)  # A union of types would be made anew for each value.


@dataclasses.dataclass(slots=True)
class _Field:
    """A field of documents; not frozen, because it counts.

    Attributes:
      path: where it is, such as `shapes[].label`.
      role: prefixes of the layout's fields that store it; None for a field that the mapping does not use.
      is_whole: whether the mapping takes all of its values, whatever their names are.
      is_shape: whether the mapping takes the corners in it.
      count: number of its values.
      below: name -> field in it.
      elements: what is in its lists.
      others: values in it whose names are data.
    """

    path: str
    role: Sequence[str] | None = STRUCTURE
    is_whole: bool = False
    is_shape: bool = False
    count: int = 0
    below: dict[str, _Field] = dataclasses.field(default_factory=dict)
    elements: _Field | None = None
    others: _Field | None = None


class DocumentFields:
    """Counts the fields of documents.

    A field is used if its name is in an expression of the mapping. The fields of a part of a document that no
    expression names are not counted: the part is.

    Args:
      mapping: where things are in a document.
    """

    def __init__(self, mapping: DocumentMapping) -> None:
        self._others: Counter[str] = Counter()
        self._roles: dict[str, Sequence[str]] = {}
        self._whole: set[str] = set()
        self._shapes: set[str] = set()
        self._parts: dict[str, _Field] = {}
        self._lock = threading.Lock()
        for expression, role in _expressions(mapping):
            for name in _names(expression.tree):
                known = self._roles.get(name, role)
                self._roles[name] = (*dict.fromkeys((*known, *role)),) if known and role else STRUCTURE
            self._whole.update(_wholes(expression.tree, _TAKE_ALL))
            self._shapes.update(_wholes(expression.tree, {"corners"}))
        # What decides whether an object is ignored may be stored too.
        for expression in (kind.ignore for kind in mapping.objects if kind.ignore):
            self._whole.update(_wholes(expression.tree, _TAKE_ALL))
            for name in _names(expression.tree):
                self._roles.setdefault(name, STRUCTURE)

    def add(self, node: Any, path: str = "") -> None:
        """Counts the fields of a part of a document; threads may call it at the same time."""
        with self._lock:
            if path not in self._parts:
                self._parts[path] = _Field(path, is_whole=not path and _ROOT in self._whole)
            self._see(node, self._parts[path])

    def add_others(self, others: Mapping[str, int]) -> None:
        """Counts fields, name -> number, beside the parts of a document that are read."""
        with self._lock:
            self._others.update(others)

    def counted(self) -> Iterator[tuple[str, int, Sequence[str] | None]]:
        """Yields each field, such as `shapes[].label`, the number of its values, and its role; None if unused."""
        for path, count in self._others.items():
            yield path, count, self._roles.get(path.rpartition(".")[2])
        found, alone = [*self._parts.values()], set[str]()
        for field in found:
            found += [*field.below.values(), *filter(None, (field.elements, field.others))]
            if field.is_shape:
                names = field.below.keys() - self._roles.keys()
                alone |= {field.below[name].path for name in names if not _has_partner(name, field.below)}
            if field.count:
                yield field.path, field.count, None if field.path in alone else field.role

    def _see(self, node: Any, field: _Field) -> None:
        """Counts the fields in a field."""
        if isinstance(node, list):
            for one in node:
                if isinstance(one, _NESTED):
                    if field.elements is None:
                        is_whole = field.is_whole and bool(field.path)
                        field.elements = _Field(f"{field.path}[]", field.role, is_whole, field.is_shape)
                    self._see(one, field.elements)
        elif isinstance(node, dict):
            for name, value in node.items():
                below = field.below.get(name) or self._find(name, field)
                if below is field.others:
                    self._see(value, below)
                # Many programs write fields without a value.
                elif value or value == 0:
                    below.count += 1
                    if isinstance(value, _NESTED) and below.role is not None and not _are_runs(value, below):
                        self._see(value, below)

    def _find(self, name: str, field: _Field) -> _Field:
        """Returns the field of a name in another."""
        is_known = name in _POINT or (field.is_shape and _SHAPE.fullmatch(str(name)))
        role = self._roles.get(name, STRUCTURE if is_known else None)
        if field.is_whole and role is None:
            field.others = field.others or _Field(f"{field.path}.*" if field.path else "*")
            return field.others
        path = f"{field.path}.{name}" if field.path else str(name)
        is_shape = field.is_shape or name in self._shapes
        field.below[name] = _Field(path, role, is_whole=name in self._whole, is_shape=is_shape)
        return field.below[name]


def _has_partner(name: str, names: Collection[str]) -> bool:
    """Whether a name is not that of one coordinate, or the other coordinate is there too, as `yA` is for `xA`."""
    other = {"x": "y", "y": "x"}.get(str(name)[:1])
    return other is None or f"{other}{str(name)[1:]}" in names


def _are_runs(value: Any, field: _Field) -> bool:
    return field.role == OUTLINE and isinstance(value, dict) and value.keys() >= RUNS


def _expressions(mapping: DocumentMapping) -> Iterator[tuple[Expression, Sequence[str]]]:
    """Yields each expression with the prefixes of the layout's fields that store its values."""
    structure = [mapping.samples, mapping.alternatives, mapping.image, mapping.split, *mapping.size]
    if isinstance(mapping.class_names, Expression):
        structure.append(mapping.class_names)
    yield from ((one, STRUCTURE) for one in structure if one is not None)
    if mapping.label is not None:
        yield mapping.label, ("label",)
    yield from ((one, (f"column.{name}",)) for name, one in mapping.values.items())
    for kind in mapping.objects:
        angle = kind.angle.value if kind.angle else None
        yield from ((one, STRUCTURE) for one in (kind.objects, kind.group, angle) if one is not None)
        yield kind.label, CLASS
        yield from ((one, BOX) for one in kind.box)
        outlines = [*kind.polygon, *([kind.holes] if kind.holes else [])]
        yield from ((one, OUTLINE) for one in outlines)
        yield from ((one, KEYPOINTS) for one in kind.points)
        yield from ((one, (f"objects.{name}",)) for name, one in kind.attributes.items())


def _names(tree: Any) -> Iterator[str]:
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "field":
        yield tree["value"]
    for child in tree.get("children", ()):
        yield from _names(child)


def _wholes(tree: Any, functions: Collection[str]) -> Iterator[str]:
    """Yields the names of the objects that functions in an expression take whole; `@` for the document."""
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "function_expression" and tree["value"] in functions:
        yield from _names(tree)
        if any(one.get("type") in ("current", "identity") for one in _parts(tree)):
            yield _ROOT
    if tree.get("type") == "value_projection" and functions is _TAKE_ALL:
        yield from _names(tree["children"][0])
    for child in tree.get("children", ()):
        yield from _wholes(child, functions)


def _parts(tree: Any) -> Iterator[Any]:
    for child in tree.get("children", ()):
        if isinstance(child, dict):
            yield child
            yield from _parts(child)
