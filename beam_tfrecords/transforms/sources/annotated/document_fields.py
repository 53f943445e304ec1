"""Counts the fields of documents, and notes which of them a mapping reads."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
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
    parse_cell,
)
from beam_tfrecords.transforms.sources.description import BOX, CLASS, KEYPOINTS, OUTLINE, STRUCTURE

# Role of what decides whether an object is ignored: other expressions may store it.
_CONDITION = ("condition",)
# `isinstance` takes the tuple, because Python would build a union for each value; the set tests whole lists at once.
_CONTAINERS = (dict, list)
_NESTED = frozenset(_CONTAINERS)
# What is read of so many objects of a form, and of each for which their number has doubled, is noted.
_MOST_NOTED = 16
# Names that are data are shown if they are words, and not numbers or ids.
_WORD = re.compile(r"[A-Za-z_ -]+")
# An object with more names that are not in an expression has names that are data.
_MOST_NAMES = 100


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
            return any(self.reads_in(one) for one in value if isinstance(one, _CONTAINERS))
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
        yield kind.ignore, _CONDITION


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
                self.note(one, *[word for word in one if _is_corner(word, shape) or isinstance(one[word], _CONTAINERS)])
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
            yield from self._leaves(one) if isinstance(one, _CONTAINERS) else (one,)

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
        if isinstance(one, _CONTAINERS):
            yield from _objects(one)


@dataclasses.dataclass(slots=True)
class _Form:
    """Objects at a place with values of the same names; not frozen, because it counts.

    Attributes:
      count: number of these objects.
      reads: what is read of them.
      below: name that is read -> place of its values.
    """

    count: int = 0
    reads: Reads = dataclasses.field(default_factory=dict)
    below: dict[str, _Place] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class _Place:
    """A place of objects in documents; not frozen, because it counts.

    Attributes:
      path: where it is, such as `shapes[]`.
      forms: the names of the values in an object -> the objects that have these.
      below: name -> place of its values.
      elements: what is in its lists.
      others: values in it whose names are data.
      data: these names.
      cells: names of texts that are JSON.
      is_data: whether all names are data.
    """

    path: str
    forms: dict[tuple[str, ...], _Form] = dataclasses.field(default_factory=dict)
    below: dict[str, _Place] = dataclasses.field(default_factory=dict)
    elements: _Place | None = None
    others: _Place | None = None
    data: set[str] = dataclasses.field(default_factory=set)
    cells: set[str] = dataclasses.field(default_factory=set)
    is_data: bool = False

    def at(self, name: str) -> _Place:
        """Returns the place of the values of a name."""
        if self.is_data or (name in self.data and not _WORD.fullmatch(name)):
            self.others = self.others or _Place(self.path_of("*"))
            return self.others
        if name not in self.below:
            self.below[name] = _Place(self.path_of(name))
        return self.below[name]

    def note(self, node: Mapping[str, Any], key: Sequence[str], form: _Form, all_reads: DocumentReads) -> bool:
        """Notes what is read of an object; returns whether some of its names turn out to be data."""
        reads = all_reads.of(node)
        self.is_data |= Taken.NAMES in reads or len(self.data) > _MOST_NAMES
        for name, roles in reads.items():
            form.reads.setdefault(name, set()).update(roles)
        self.cells |= {name for name in key if all_reads.is_json(node[name])}
        left = [name for name in key if name not in reads] if Taken.VALUES in reads else []
        data = {name for name in left if isinstance(node[name], _CONTAINERS) and all_reads.reads_in(node[name])}
        self.data |= data
        form.below.update({name: self.at(name) for name in key if name in form.reads})
        return self.is_data or bool(data)

    def path_of(self, name: str) -> str:
        """Returns the path of a name in it."""
        return f"{self.path}.{name}" if self.path else str(name)


class DocumentFields:
    """Counts the fields of documents.

    A field is used if an expression of the mapping reads it in some of the objects that have values of the same names.
    The fields of a part of a document that no expression reads are not counted: the part is.

    Args:
      mapping: where things are in a document.
    """

    def __init__(self, mapping: DocumentMapping) -> None:
        self._mapping = mapping
        self._others: Counter[str] = Counter()
        self._parts: dict[str, _Place] = {}
        self._lock = threading.Lock()

    def add(self, part: Any, path: str = "", *, document: Any = None, samples: Expression | None = None) -> None:
        """Counts the fields of a part of a document; threads may call it at the same time.

        Args:
          part: the part.
          path: where it is.
          document: what the expression for samples takes; the part by default.
          samples: the expression; that of the mapping by default.
        """
        reads = DocumentReads(self._mapping, part if document is None else document, samples or self._mapping.samples)
        with self._lock:
            if path not in self._parts:
                self._parts[path] = _Place(path)
            self._see(part, self._parts[path], reads)

    def add_others(self, others: Mapping[str, int]) -> None:
        """Counts fields, name -> number, beside the parts of a document that are read."""
        with self._lock:
            self._others.update(others)

    def counted(self) -> Iterator[tuple[str, int, Sequence[str] | None]]:
        """Yields each field, such as `shapes[].label`, the number of its values, and its role.

        The role has the prefixes of the layout's fields that store it. It is None for a field that is not used; if only
        some objects have it so, the number is of these.
        """
        names = self._mapping.class_names
        of_names = {*_names(names.tree)} if isinstance(names, Expression) else set()
        for path, count in self._others.items():
            yield path, count, STRUCTURE if path.rpartition(".")[2] in of_names else None
        found = [*self._parts.values()]
        for place in found:
            found += [*place.below.values(), *filter(None, (place.elements, place.others))]
            used, unused = Counter[str](), Counter[str]()
            roles: dict[str, set[tuple[str, ...]]] = {}
            for key, form in place.forms.items():
                for name in key if form.count else ():
                    (used if name in form.reads else unused)[name] += form.count
                    roles.setdefault(name, set()).update(form.reads.get(name, ()))
            for name, several in roles.items():
                path = place.path_of(name)
                yield (path, unused[name], None) if unused[name] else (path, used[name], _join(several))

    def _see(self, node: Any, place: _Place, reads: DocumentReads) -> None:
        """Counts the fields in a list or object."""
        if isinstance(node, list):
            if not _NESTED.isdisjoint(map(type, node)):
                place.elements = place.elements or _Place(f"{place.path}[]")
                for one in node:
                    self._see(one, place.elements, reads)
            return
        if not isinstance(node, dict):
            return
        data: Collection[str] = node.keys()
        if not place.is_data:
            # Many programs write fields without a value.
            key = tuple([name for name, value in node.items() if value or value == 0])
            data = ()
            if place.data:
                data = [name for name in key if name in place.data]
                key = tuple([name for name in key if name not in place.data])
            form = place.forms.get(key)
            if form is None:
                form = place.forms[key] = _Form()
            form.count += 1
            # A power of two has a single bit.
            is_noted = form.count <= _MOST_NOTED or not form.count & (form.count - 1)
            if is_noted and place.note(node, key, form, reads):
                form.count -= 1
                self._see(node, place, reads)
                return
            for name, below in form.below.items():
                value = node[name]
                if isinstance(value, _CONTAINERS):
                    self._see(value, below, reads)
                elif name in place.cells:
                    with contextlib.suppress(ValueError):
                        self._see(parse_cell(value), below, reads)
        for name in data:
            if isinstance(node[name], _CONTAINERS):
                self._see(node[name], place.at(name), reads)


def _join(roles: set[tuple[str, ...]]) -> Sequence[str]:
    """Returns the role of a field that several expressions read."""
    found = sorted(roles - {_CONDITION})
    return (*dict.fromkeys(one for role in found for one in role),) if all(found) else STRUCTURE


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == "field":
            yield tree["value"]
        for child in tree.get("children", ()):
            yield from _names(child)
