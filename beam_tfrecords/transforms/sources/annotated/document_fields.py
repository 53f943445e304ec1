"""Counts the fields of documents, and says which of them a mapping uses."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.annotated.document_reads import CONDITION, NESTED, DocumentReads, Reads, Taken
from beam_tfrecords.transforms.sources.annotated.mapping import DocumentMapping, Expression, parse_cell
from beam_tfrecords.transforms.sources.description import STRUCTURE

# What is read of so many objects of a form, and of each for which their number has doubled, is noted.
_MOST_NOTED = 16
_NESTED = frozenset(NESTED)
# Names that are data are shown if they are words, and not numbers or ids.
_WORD = re.compile(r"[A-Za-z_ -]+")
# An object with more names that are not in an expression has names that are data.
_MOST_NAMES = 100


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
        data = {name for name in left if isinstance(node[name], NESTED) and all_reads.reads_in(node[name])}
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
                if isinstance(value, NESTED):
                    self._see(value, below, reads)
                elif name in place.cells:
                    with contextlib.suppress(ValueError):
                        self._see(parse_cell(value), below, reads)
        for name in data:
            if isinstance(node[name], NESTED):
                self._see(node[name], place.at(name), reads)


def _join(roles: set[tuple[str, ...]]) -> Sequence[str]:
    """Returns the role of a field that several expressions read."""
    found = sorted(roles - {CONDITION})
    return (*dict.fromkeys(one for role in found for one in role),) if all(found) else STRUCTURE


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == "field":
            yield tree["value"]
        for child in tree.get("children", ()):
            yield from _names(child)
