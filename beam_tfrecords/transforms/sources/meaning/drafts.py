"""Drafts a mapping for documents of an unknown format from what they hold. Pure.

A draft needs evidence for each key: a text that names an image, four numbers or a polygon in most elements of a list,
and a word that repeats. Nothing is drafted if one of them is missing, or if four numbers may be corners or a size.
"""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

# Names that lead to a value, without lists.
Path: TypeAlias = tuple[str, ...]

_DEEPEST = 3
_MOST_ELEMENTS = 500
# Share of the elements that need a field.
_MOST = 0.8
_NAMED = 0.5
# Without a name that says the form, this many different boxes show it.
_ENOUGH = 6
# Names of four numbers, without spaces, dashes and underscores -> what they are.
_QUADS: Mapping[tuple[str, ...], str] = {
    ("xmin", "ymin", "xmax", "ymax"): "xyxy",
    ("x1", "y1", "x2", "y2"): "xyxy",
    ("x0", "y0", "x1", "y1"): "xyxy",
    ("left", "top", "right", "bottom"): "xyxy",
    ("l", "t", "r", "b"): "xyxy",
    ("minx", "miny", "maxx", "maxy"): "xyxy",
    ("xtl", "ytl", "xbr", "ybr"): "xyxy",
    ("cx", "cy", "w", "h"): "cxcywh",
    ("cx", "cy", "width", "height"): "cxcywh",
    ("xcenter", "ycenter", "width", "height"): "cxcywh",
    ("centerx", "centery", "width", "height"): "cxcywh",
    ("x", "y", "w", "h"): "xywh",
    ("x", "y", "width", "height"): "xywh",
    ("left", "top", "width", "height"): "xywh",
    ("l", "t", "w", "h"): "xywh",
}
_SIZES = (("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight"), ("imgw", "imgh"), ("w", "h"))
_CLASS_WORDS = re.compile(r"^(?:class|label|category|name|kind|type|tag|species|object)", re.IGNORECASE)
# Words for the form of an object, which its class is not.
_FORMS = frozenset({"bbox", "box", "rect", "rectangle", "polygon", "polyline", "points", "mask", "ellipse", "circle"})
# Name of one of several objects: item1, item2.
_NUMBERED = re.compile(r"\d$")
_SPLIT_WORDS = frozenset({"split", "subset", "set", "phase", "usage", "partition"})
_LINES = frozenset({".jsonl", ".ndjson"})
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True)
class Document:
    """A parsed document.

    Attributes:
      stem: its file name without extension.
      tree: dictionaries, lists and texts.
    """

    stem: str
    tree: Any


@dataclasses.dataclass(frozen=True)
class _Samples:
    """A list of samples.

    Attributes:
      expression: expression that finds the list; "" for whole documents.
      image: expression of the image in a sample.
      elements: the samples.
      named: number of images that they name.
    """

    expression: str
    image: str
    elements: Sequence[Any]
    named: int


def draft_mapping(documents: Sequence[Document], images: Iterable[str], *, extension: str) -> dict[str, Any] | None:
    """Returns the keys and values of a mapping; None without enough evidence.

    Args:
      documents: some documents of one extension.
      images: paths of images.
      extension: extension of the documents, such as `.json`.
    """
    found = [*_find_samples(documents, _names_of(images), is_xml=extension == ".xml")]
    if not found:
        return None
    samples = max(found, key=lambda one: one.named)
    elements = samples.elements[:_MOST_ELEMENTS]
    inside = _find_objects(elements, is_xml=extension == ".xml")
    # Lines with a class are rows of a table.
    label = None if inside or extension in _LINES else _find_class(elements, without=samples.image)
    if inside is None and label is None:
        return None
    draft: dict[str, Any] = {"documents": f"*{extension}"}
    if samples.expression:
        draft["samples"] = samples.expression
    draft["image"] = samples.image
    leaves = _leaves_of(elements)
    sizes = _find_named(leaves, dict.fromkeys(_SIZES, ""), len(elements))
    if sizes is not None and inside is not None:
        draft["size"] = [*sizes[0]]
    split = next((path for path in leaves if _plain(path[-1]) in _SPLIT_WORDS), None)
    if split is not None:
        draft["split"] = _expression(split)
    return {**draft, **(inside or {"label": label})}


def names_images(documents: Sequence[Document], images: Iterable[str], *, extension: str) -> bool:
    """Whether documents name images, so that they may annotate them; for the arguments, see `draft_mapping`."""
    return any(True for _ in _find_samples(documents, _names_of(images), is_xml=extension == ".xml"))


def _names_of(images: Iterable[str]) -> set[str]:
    """Returns the names of files, with and without their extensions."""
    names = {posixpath.basename(path) for path in images}
    return names | {posixpath.splitext(name)[0] for name in names}


def _find_samples(documents: Sequence[Document], names: set[str], *, is_xml: bool) -> Iterator[_Samples]:
    """Yields the parts of documents whose elements name images."""
    trees = [one.tree for one in documents]
    lists: dict[str, list[Any]] = {"": trees}
    for tree in trees:
        for path, several in _lists(tree, is_xml=is_xml):
            lists.setdefault(f"{_expression(path)}[]", []).extend(several)
    for expression, elements in lists.items():
        field = _find_image(elements, names)
        if field is not None:
            yield _Samples(expression, _expression(field), elements, _count_named(elements, field, names))
    stems = [one for one in documents if one.stem in names]
    if stems and len(stems) >= _NAMED * len(documents):
        # The name of a document is weaker than a name in it.
        yield _Samples("", "stem", trees, len(stems) - 1 or 1)
    for tree in trees:
        if isinstance(tree, dict) and sum(name in names for name in tree) > 1:
            items = [{"name": name, "value": value} for name, value in tree.items()]
            yield _Samples("items(@)", "name", items, sum(name in names for name in tree))


def _find_image(elements: Sequence[Any], names: set[str]) -> Path | None:
    """Returns where most elements name an image."""
    some = elements[:_MOST_ELEMENTS]
    counts = {path: _count_named(some, path, names) for path in _leaves_of(some)}
    best = max(counts, key=lambda path: (counts[path], -len(path)), default=None)
    return best if best is not None and counts[best] and counts[best] >= _NAMED * len(some) else None


def _count_named(elements: Sequence[Any], path: Path, names: set[str]) -> int:
    values = [_follow(one, path) for one in elements]
    return len({one for one in values if isinstance(one, str) and one.rpartition("/")[2] in names and one})


def _find_objects(samples: Sequence[Any], *, is_xml: bool) -> dict[str, Any] | None:
    """Returns the keys of the objects in samples; None if no list has elements with a place and a class."""
    lists: dict[Path, list[Any]] = {}
    for sample in samples:
        for path, several in _lists(sample, is_xml=is_xml):
            lists.setdefault(path, []).extend(several)
    for path, elements in sorted(lists.items(), key=lambda item: (-len(item[1]), item[0])):
        some = elements[:_MOST_ELEMENTS]
        place = _find_place(some)
        label = _find_class(some) if place else None
        if place and label:
            return {"objects": f"{_expression(path)}[]", "class": label, **place}
    return None


def _find_place(elements: Sequence[Any]) -> dict[str, Any] | None:
    """Returns the keys of a box or a polygon in objects; None if most have none, or its form is open."""
    leaves = _leaves_of(elements)
    found = _find_named(
        {path: values for path, values in leaves.items() if _are_numbers(values)}, _QUADS, len(elements)
    )
    if found is not None:
        fields, form, paths = found
        numbers = [float(one) for path in paths for one in leaves[path]]
        return {"box": [*fields], "form": form, **_unit(numbers)}
    for path, values in _vectors_of(elements).items():
        if len(values) < _MOST * len(elements):
            continue
        flat = [_flatten(one) for one in values]
        numbers = [number for one in flat for number in one]
        if all(len(one) == 4 for one in flat):
            numbers_are = _form_of(path, flat)
            return {"box": _expression(path), "form": numbers_are, **_unit(numbers)} if numbers_are else None
        if all(len(one) >= 6 and len(one) % 2 == 0 for one in flat):
            return {"polygon": _expression(path), **_unit(numbers)}
    return None


def _form_of(path: Path, boxes: Sequence[Sequence[float]]) -> str | None:
    """Returns what four numbers are; None if they may be corners or a corner and a size."""
    if any(box[2] <= box[0] or box[3] <= box[1] for box in boxes):
        return "xywh"
    name = _plain(path[-1])
    if name in ("xyxy", "corners", "points"):
        return "xyxy"
    if name == "xywh":
        return "xywh"
    return "xyxy" if len({*map(tuple, boxes)}) >= _ENOUGH else None


def _unit(numbers: Sequence[float]) -> dict[str, str]:
    are_shares = max(map(abs, numbers), default=0) <= 1 and any(number % 1 for number in numbers)
    return {"unit": "share"} if are_shares else {}


def _find_class(elements: Sequence[Any], *, without: str = "") -> str | None:
    """Returns where elements have a word that repeats; usual names come first."""
    candidates = []
    for path, values in _leaves_of(elements).items():
        words = [one for one in values if isinstance(one, str | int) and not isinstance(one, bool)]
        distinct = Counter(map(str, words))
        are_texts = not all(word.lstrip("-").isdigit() for word in distinct)
        if _expression(path) == without or len(words) < _MOST * len(elements) or not distinct:
            continue
        if _plain(path[-1]) in _SPLIT_WORDS or any(map(_NUMBERED.search, path[:-1])):
            continue
        if _FORMS.issuperset(map(_plain, distinct)):
            continue
        is_usual = bool(_CLASS_WORDS.search(path[-1]))
        # One class may be the only one; another word that never varies is a fact about the file.
        if len(distinct) < len(words) and (is_usual or (are_texts and len(distinct) > 1)):
            candidates.append((not is_usual, len(distinct) == 1, not are_texts, len(distinct), path))
    return _expression(min(candidates)[-1]) if candidates else None


def _find_named(
    leaves: Mapping[Path, Sequence[Any]], names: Mapping[tuple[str, ...], str], count: int
) -> tuple[Sequence[str], str, Sequence[Path]] | None:
    """Returns the fields beside each other with the names of a group, their meaning, and their paths."""
    by_parent: dict[Path, dict[str, Path]] = {}
    for path, values in leaves.items():
        if len(values) >= _MOST * count:
            by_parent.setdefault(path[:-1], {})[_plain(path[-1])] = path
    for group, meaning in names.items():
        for fields in by_parent.values():
            if all(name in fields for name in group):
                paths = [fields[name] for name in group]
                return [_expression(path) for path in paths], meaning, paths
    return None


def _leaves_of(elements: Iterable[Any]) -> dict[Path, list[Any]]:
    """Returns path -> plain values of the elements."""
    found: dict[Path, list[Any]] = {}
    for element in elements:
        for path, value in _walk(element, ()):
            if not isinstance(value, dict | list) and value not in (None, ""):
                found.setdefault(path, []).append(value)
    return found


def _vectors_of(elements: Iterable[Any]) -> dict[Path, list[Any]]:
    """Returns path -> lists of numbers or of points."""
    found: dict[Path, list[Any]] = {}
    for element in elements:
        for path, value in _walk(element, ()):
            if isinstance(value, list) and value and _flatten(value):
                found.setdefault(path, []).append(value)
    return found


def _lists(tree: Any, *, is_xml: bool) -> Iterator[tuple[Path, Sequence[Any]]]:
    """Yields the lists of dictionaries in a tree; an XML element that occurs once is a list of one."""
    if isinstance(tree, list):
        yield (), [one for one in tree if isinstance(one, dict)]
    for path, value in _walk(tree, ()):
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            yield path, value
        elif is_xml and isinstance(value, dict):
            yield path, [value]


def _walk(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if not isinstance(tree, dict) or len(path) >= _DEEPEST:
        return
    for name, value in tree.items():
        if isinstance(name, str):
            yield (*path, name), value
            yield from _walk(value, (*path, name))


def _follow(tree: Any, path: Path) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def _flatten(value: Any) -> list[float]:
    """Returns the numbers in nested lists and points; none if another value is among them."""
    if isinstance(value, dict):
        value = [value[name] for name in ("x", "y") if name in value] if len(value) == 2 else [None]
    if isinstance(value, list):
        parts = [_flatten(one) for one in value]
        return [number for part in parts for number in part] if all(parts) else []
    return [float(value)] if _are_numbers([value]) else []


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(_is_number(one) for one in values)


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"-?\d+(?:\.\d*)?(?:e-?\d+)?", value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _expression(path: Path) -> str:
    return ".".join(name if _PLAIN.fullmatch(name) else f'"{name}"' for name in path)
