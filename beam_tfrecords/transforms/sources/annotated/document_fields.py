"""Counts the fields of documents, and finds which of them a mapping uses."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.annotated.mapping import RUNS, DocumentMapping, Expression
from beam_tfrecords.transforms.sources.meaning.ledger import BOX, CLASS, KEYPOINTS, OUTLINE, STRUCTURE

# Functions that take all values of an object, whose names are data.
_TAKE_ALL = frozenset({"elements", "items", "flags", "values", "keys"})
# Names of the numbers in a point, and in the shapes that the function `corners` takes.
_POINT = frozenset({"x", "y", "X", "Y"})
_SHAPE = re.compile(r"[xy]\w*|c[xy]|[wh]|angle|pt\w*|point\w*")
_ROOT = "@"


class DocumentFields:
    """Counts the fields of documents.

    A field is used if its name is in an expression of the mapping. The fields of a part of a document that no
    expression names are not counted: the part is.

    Args:
      mapping: where things are in a document.

    Attributes:
      counts: field, such as `shapes[].label` -> number of its values.
      uses: field -> prefixes of the layout's fields that store it, of the fields in use.
    """

    def __init__(self, mapping: DocumentMapping) -> None:
        self.counts: Counter[str] = Counter()
        self.uses: dict[str, Sequence[str]] = {}
        self._roles: dict[str, Sequence[str]] = {}
        self._whole: set[str] = set()
        self._shapes: set[str] = set()
        self._lock = threading.Lock()
        for expression, role in _expressions(mapping):
            for name in _names(expression.tree):
                known = self._roles.get(name, role)
                self._roles[name] = (*dict.fromkeys((*known, *role)),) if known and role else STRUCTURE
            self._whole.update(_wholes(expression.tree, _TAKE_ALL))
            self._shapes.update(_wholes(expression.tree, {"corners"}))
        for name in mapping.columns:
            self._roles.setdefault(name, STRUCTURE)

    def add(self, node: Any, path: str = "") -> None:
        """Counts the fields of a part of a document; threads may call it at the same time."""
        with self._lock:
            self._see(node, path)

    def add_others(self, others: Mapping[str, int]) -> None:
        """Counts fields, name -> number, beside the parts of a document that are read."""
        with self._lock:
            self.counts.update(others)
            roles = {field: self._roles.get(field.rpartition(".")[2]) for field in others}
            self.uses.update({field: role for field, role in roles.items() if role is not None})

    def _see(self, node: Any, path: str = "", *, is_whole: bool = False, is_shape: bool = False) -> None:
        """Counts the fields of a document or of a part of one.

        Args:
          node: the part.
          path: where it is in the document.
          is_whole: whether the mapping takes all of its values, whatever their names are.
          is_shape: whether the mapping takes the corners in it.
        """
        if isinstance(node, list):
            for one in node:
                if isinstance(one, dict | list):
                    self._see(one, f"{path}[]", is_whole=is_whole, is_shape=is_shape)
            return
        if not isinstance(node, dict):
            return
        is_whole = is_whole or (not path and _ROOT in self._whole)
        for name, value in node.items():
            is_known = name in _POINT or (is_shape and _SHAPE.fullmatch(str(name)))
            role = self._roles.get(name, STRUCTURE if is_known else None)
            if is_whole and role is None:
                self._see(value, f"{path}.*" if path else "*")
                continue
            field = f"{path}.{name}" if path else str(name)
            # Many programs write fields without a value.
            if value in (None, "", [], {}):
                continue
            self.counts[field] += 1
            if role is not None:
                self.uses[field] = role
                if not (role == OUTLINE and isinstance(value, dict) and value.keys() >= RUNS):
                    self._see(value, field, is_whole=name in self._whole, is_shape=is_shape or name in self._shapes)


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
        yield from ((one, STRUCTURE) for one in (kind.objects, kind.group, kind.ignore, angle) if one is not None)
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
