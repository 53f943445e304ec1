"""Finds which values of a document a mapping reads: evaluates its expressions once more, and notes each name."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jmespath.exceptions import JMESPathError
from jmespath.visitor import Options, TreeInterpreter

from beam_tfrecords.transforms.class_list import list_classes
from beam_tfrecords.transforms.sources.annotated.mapped_objects import as_list
from beam_tfrecords.transforms.sources.annotated.mapping import (
    FOLDERS,
    FUNCTIONS,
    HEADING,
    RUNS,
    STEM,
    DocumentMapping,
    Expression,
    ObjectMapping,
    corners_of,
)
from beam_tfrecords.transforms.sources.description import BOX, CLASS, KEYPOINTS, OUTLINE, STRUCTURE

# Role of what decides whether an object is ignored: other expressions may store it.
CONDITION = ("condition",)
NESTED = (dict, list)  # A union of types would be made anew for each value.


class Taken(enum.Enum):
    """What a function takes of an object: its NAMES, which are data, with their values; or its VALUES."""

    NAMES = "names"
    VALUES = "values"


_TAKES = {
    "items": Taken.NAMES, "flags": Taken.NAMES, "keys": Taken.NAMES, "elements": Taken.VALUES, "values": Taken.VALUES,
}  # fmt: skip
# Name, or what is taken -> roles of the expressions that read it.
Reads: TypeAlias = dict[str | Taken, set[tuple[str, ...]]]


class DocumentReads:
    """What a mapping reads of a document, or of a part of one. Nothing is evaluated before somebody asks.

    Args:
      mapping: where things are.
      document: the document, as its expression for samples takes it.
      samples: the expression; None if the document is a sample.
    """

    def __init__(self, mapping: DocumentMapping, document: Any, samples: Expression | None) -> None:
        self._mapping, self._document, self._samples = mapping, document, samples
        self._noted: set[int] = set()

    def of(self, node: Mapping[str, Any]) -> Reads:
        """Returns what is read of an object in the document."""
        sample = self._sample_of.get(id(node))
        if sample is not None and id(sample) not in self._noted:
            self._noted.add(id(sample))
            self._note_all(sample)
        return self._notes.reads.get(id(node), {})

    @functools.cached_property
    def _notes(self) -> _Interpreter:
        return _Interpreter()

    @functools.cached_property
    def _sample_of(self) -> Mapping[int, Any]:
        """Id of each object -> its sample."""
        notes, names = self._notes, self._mapping.class_names
        samples = as_list(notes.find(self._samples, self._document)) if self._samples else [self._document]
        if isinstance(names, Expression):
            notes.find_names(names, self._document)
        return {id(one): sample for sample in samples for one in notes.sources(sample)}

    def reads_in(self, value: Any) -> bool:
        """Whether something is read in a list or object."""
        if isinstance(value, list):
            return any(self.reads_in(one) for one in value if isinstance(one, NESTED))
        return bool(self._notes.reads.get(id(value)))

    def is_json(self, value: Any) -> bool:
        """Whether a value is a text that an expression parses."""
        return isinstance(value, str) and value in self._notes.texts

    def _note_all(self, sample: Any) -> None:
        mapping, notes = self._mapping, self._notes
        if isinstance(mapping.class_names, Expression):
            notes.find_names(mapping.class_names, sample)
        if mapping.image.text == HEADING:
            notes.note(sample, HEADING)
        for one in (mapping.image, mapping.split, *mapping.size):
            if one is not None and one.text not in (STEM, HEADING, FOLDERS):
                notes.find(one, sample)
        if mapping.label is not None:
            notes.find(mapping.label, sample, ("label",))
        for name, one in mapping.values.items():
            notes.find(one, sample, (f"column.{name}",))
        for kind in mapping.objects:
            for element in as_list(notes.find(kind.objects, sample)):
                for one, role in _expressions(kind):
                    notes.find(one, element, role)


def _expressions(kind: ObjectMapping) -> Iterator[tuple[Expression, Sequence[str]]]:
    """Yields each expression of an object with the prefixes of the layout's fields that store its values."""
    angle = kind.angle.value if kind.angle else None
    yield from ((one, STRUCTURE) for one in (kind.group, angle) if one is not None)
    yield kind.label, CLASS
    yield from ((one, BOX) for one in kind.box)
    yield from ((one, OUTLINE) for one in (*kind.polygon, kind.holes) if one is not None)
    yield from ((one, KEYPOINTS) for one in kind.points)
    yield from ((one, (f"objects.{name}",)) for name, one in kind.attributes.items())
    if kind.ignore is not None:
        yield kind.ignore, CONDITION


class _Interpreter(TreeInterpreter):
    """Evaluates expressions, and notes what they read.

    Attributes:
      reads: id of an object -> what is read of it.
      texts: texts that are parsed as JSON.
    """

    def __init__(self) -> None:
        super().__init__(Options(custom_functions=FUNCTIONS))
        self.reads: dict[int, Reads] = {}
        self.texts: set[str] = set()
        self._role = STRUCTURE
        # Objects whose values the current expression takes.
        self._taken: list[dict[str, Any]] = []
        # Objects that functions make of others, which they keep alive: id -> the object, and the others.
        self._made: dict[int, tuple[Any, Sequence[Any]]] = {}

    def find(self, expression: Expression, node: Any, role: Sequence[str] = STRUCTURE) -> Any:
        """Returns what an expression finds; None if it does not fit."""
        self._role, self._taken = role, []
        try:
            found = self.visit(expression.tree, node)
        except (JMESPathError, ValueError, TypeError, RecursionError):
            return None
        if self._taken:
            ids = {*map(id, self._leaves(found)), *map(id, self.texts)}
            for one in self._taken:
                self.note(one, *[name for name, value in one.items() if id(value) in ids])
        if role in (BOX, OUTLINE, KEYPOINTS):
            for one in _objects(found):
                names = RUNS if one.keys() >= RUNS else [name if name in one else name.upper() for name in ("x", "y")]
                self.note(one, *names)
        return found

    def find_names(self, expression: Expression, node: Any) -> None:
        """Notes what the class names read: all of number and name, and nothing else of the objects in a list."""
        found = self.find(expression, node)
        try:
            classes = list_classes(found)
        except ValueError:
            return
        known = {*map(str, (*classes.names, *classes.numbers, *classes.ids))}
        for one in _objects(found):
            read = [name for name, value in one.items() if str(value) in known]
            self.note(one, *([Taken.NAMES] if one is found else read))

    def note(self, node: Any, *names: str | Taken) -> None:
        """Notes that some values of an object are read."""
        if not isinstance(node, dict):
            return
        _, origins = self._made.get(id(node), (None, ()))
        for name in names:
            if name in node or isinstance(name, Taken):
                self.reads.setdefault(id(node), {}).setdefault(name, set()).add((*self._role,))
                if name is Taken.VALUES:
                    self._taken.append(node)
                for one in [one for one in origins if name in one][:1]:
                    self.note(one, name)

    def sources(self, node: Any) -> Iterator[Any]:
        """Yields the objects in a value, and the objects that functions made these from."""
        for one in _objects(node):
            yield from (one, *self._made.get(id(one), (None, ()))[1])

    def visit_field(self, node: Any, value: Any) -> Any:
        self.note(value, node["value"])
        return super().visit_field(node, value)

    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        return self._make(super().visit_multi_select_dict(node, value), ())

    def visit_value_projection(self, node: Any, value: Any) -> Any:
        self.note(self.visit(node["children"][0], value), Taken.VALUES)
        return super().visit_value_projection(node, value)

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        name = node["value"]
        if name == "not_null":  # What follows the first value is not used.
            found = (self.visit(one, value) for one in node["children"])
            return next((one for one in found if one is not None), None)
        arguments = [self.visit(one, value) for one in node["children"]]
        if name == "unnest":
            parents, children = arguments
            pairs = [(one, two) for one in parents or () for two in children.visit(children.expression, one) or ()]
            return [self._make({**one, **two}, (two, one)) for one, two in pairs]
        found = FUNCTIONS.call_function(name, arguments)
        if name == "merge":
            return self._make(found, arguments[::-1])
        if name == "corners" and found is not None:
            shape = next(one for one in arguments if corners_of(one) is not None)
            for one in _objects(shape):
                self.note(one, *[word for word in one if _is_corner(word, shape) or isinstance(one[word], NESTED)])
        elif name in _TAKES:
            self.note(arguments[0], _TAKES[name])
        elif name == "json":
            self.texts.add(arguments[0])
        return found

    def _leaves(self, value: Any) -> Iterator[Any]:
        """Yields the texts and numbers in lists, and in objects that an expression makes."""
        if isinstance(value, dict):
            value = [*value.values()] if id(value) in self._made else []
        for one in value if isinstance(value, list) else [value]:
            yield from self._leaves(one) if isinstance(one, NESTED) else (one,)

    def _make(self, made: Any, origins: Sequence[Any]) -> Any:
        self._made[id(made)] = made, origins
        return made


def _is_corner(name: str, shape: Any) -> bool:
    return name in ("cx", "cy", "w", "h", "angle") if "angle" in shape else name[:1] in ("x", "y")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yields the objects in a value."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(one, NESTED):
            yield from _objects(one)
