"""Drafts a mapping for documents of an unknown format from what they hold. Pure.

A draft needs evidence for each key: a text that names an image, four numbers or a polygon in most elements of a list,
and a word that repeats. Nothing is drafted if one of them is missing. There is a draft for each field that may be the
image or the class, and for each meaning of four numbers that fits the images.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import posixpath
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords.features.fields import CAPTIONS

# Names that lead to a value, without lists.
Path: TypeAlias = tuple[str, ...]

_DEEPEST = 3
_MOST_ELEMENTS = 500
# Share of the elements that need a field.
_MOST = 0.8
_NAMED = 0.5
# Share of the boxes that are in their image in the right form and unit, and by how much they may reach beyond it.
_FITTING, _BEYOND = 0.98, 0.01
_CORNERS, _SIZE, _CENTER, _TURNED = ("xyxy",), ("xywh",), ("cxcywh",), "yxyx"
# Names of four numbers, without spaces, dashes and underscores -> what they may be.
_QUADS: Mapping[tuple[str, ...], Sequence[str]] = {
    tuple(names.split()): forms
    for forms, several in (
        (_CORNERS, ("xmin ymin xmax ymax", "x1 y1 x2 y2", "x0 y0 x1 y1", "left top right bottom", "l t r b")),
        (_CORNERS, ("minx miny maxx maxy", "xtl ytl xbr ybr")),
        (_CENTER, ("cx cy w h", "cx cy width height", "xcenter ycenter width height", "centerx centery width height")),
        ((*_SIZE, *_CENTER), ("x y w h", "x y width height")),
        (_SIZE, ("left top width height", "l t w h")),
    )
    for names in several
}
# Names of a list of four numbers that say what they are.
_LISTS = {
    **dict.fromkeys(("xyxy", "corners", "points"), _CORNERS),
    "xywh": _SIZE,
    "cxcywh": _CENTER,
    _TURNED: (_TURNED,),
}
# Detectors write centers, and how sure they are.
_SURE = frozenset({"confidence", "score", "conf", "probability"})
_SIZES = (("width", "height"), ("imagewidth", "imageheight"), ("imgwidth", "imgheight"), ("imgw", "imgh"), ("w", "h"))
# Names of the sides of several points.
_SIDES = re.compile(r"(?:all)?(?:points)?[xy]s?")
_CLASS_WORDS = re.compile(r"^(?:class|label|category|name|kind|type|tag|species|object)", re.IGNORECASE)
# Words that no other fact about an object has.
_CERTAIN = re.compile(r"^(?:class|label|category|species)", re.IGNORECASE)
# The number of an image in its split or folder repeats in others.
_IMAGE_ID = re.compile(r"(?:image|img|file|frame|photo|picture|page|document|doc|sample)?id")
# Words for the form of an object, which its class is not.
_FORMS = frozenset({"bbox", "box", "rect", "rectangle", "polygon", "polyline", "points", "mask", "ellipse", "circle"})
# Name of one of several objects: item1, item2.
_NUMBERED = re.compile(r"\d$")
_SPLIT_WORDS = frozenset({"split", "subset", "set", "phase", "usage", "partition"})
# Names of a text about an image.
_TEXTS = frozenset({"caption", "text", "description", "prompt"})
_NO_CLASS = _SPLIT_WORDS.union(*_SIZES)
_STEM = "stem"
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
      leads_to: the image of each; "" for none.
      named: number of images that they name.
    """

    expression: str
    image: str
    elements: Sequence[Any]
    leads_to: Sequence[str]
    named: int


def draft_mappings(
    documents: Sequence[Document], sizes: Mapping[str, tuple[int, int] | None], *, extension: str
) -> list[dict[str, Any]]:
    """Returns the keys and values of mappings, the most certain first; none without enough evidence.

    Args:
      documents: some documents of one extension.
      sizes: path of each image -> its width and height, if they are known.
      extension: extension of the documents, such as `.json`.
    """
    names = _names_of(sizes)
    found = [*_find_samples(documents, names, is_xml=extension == ".xml")]
    if not found:
        return []
    best = max(found, key=lambda one: one.named)
    elements = best.elements[:_MOST_ELEMENTS]
    known = {posixpath.basename(path): size for path, size in sizes.items()}
    image_sizes = [known.get(name) for name in best.leads_to[:_MOST_ELEMENTS]]
    inside = _find_objects(elements, image_sizes, is_xml=extension == ".xml")
    # Lines with a class are rows of a table.
    if not inside and extension not in _LINES:
        classes = _find_classes(elements, without=best.image, names=names)
        places = _find_places(elements, image_sizes) if classes else []
        inside = [{"class": one, **place} for one in classes for place in places]
        # Several rows of an image become one sample only if they are objects.
        if not places or len(best.leads_to) == best.named:
            inside += [{"label": one} for one in classes]
    leaves = _leaves_of(elements)
    if not inside and extension not in _LINES:
        texts = [path for path, values in leaves.items() if _plain(path[-1]) in _TEXTS and not _are_numbers(values)]
        inside = [{"columns": {CAPTIONS: f"[{_expression(path)}]"}} for path in texts[:1]]
    shared: dict[str, Any] = {}
    # The width and height of a box are not the size of its image.
    sides = {side for keys in inside if isinstance(keys.get("box"), list) for side in keys["box"]}
    others = {path: values for path, values in leaves.items() if _expression(path) not in sides}
    named = _find_named(others, dict.fromkeys(_SIZES, ""), len(elements))
    if named is not None and "class" in (inside or [{}])[0]:
        shared["size"] = [_expression(path) for path in named[0]]
    split = next((path for path in leaves if _plain(path[-1]) in _SPLIT_WORDS), None)
    if split is not None:
        shared["split"] = _expression(split)
    return [
        {
            "documents": f"*{extension}",
            **({"samples": one.expression} if one.expression else {}),
            "image": one.image,
            **shared,
            **keys,
        }
        for one in found
        # The name of a document is weaker than a name in it.
        if (one.expression, one.image == _STEM) == (best.expression, best.image == _STEM)
        for keys in inside
    ]


def names_images(documents: Sequence[Document], images: Iterable[str], *, extension: str) -> bool:
    """Whether documents name images, so that they may annotate them; for the arguments, see `draft_mappings`."""
    return any(True for _ in _find_samples(documents, _names_of(images), is_xml=extension == ".xml"))


def _names_of(images: Iterable[str]) -> dict[str, str]:
    """Returns name of an image, with and without its extension -> its name."""
    names = sorted({posixpath.basename(path) for path in images})
    return {posixpath.splitext(name)[0]: name for name in names} | {name: name for name in names}


def _find_samples(documents: Sequence[Document], names: Mapping[str, str], *, is_xml: bool) -> Iterator[_Samples]:
    """Yields the parts of documents whose elements name images, the most certain names first."""
    trees = [one.tree for one in documents]
    lists: dict[str, list[Any]] = {"": trees}
    for tree in trees:
        for path, several in _lists(tree, is_xml=is_xml):
            lists.setdefault(f"{_expression(path)}[]", []).extend(several)
    for expression, elements in lists.items():
        yield from (_Samples(expression, *one) for one in _find_images(elements, names))
    stems = [names.get(one.stem, "") for one in documents]
    if 0 < _NAMED * len(documents) <= sum(map(bool, stems)):
        yield _Samples("", _STEM, trees, stems, sum(map(bool, stems)) - 1 or 1)
    for tree in trees:
        # A key may be the name of an image, or count entries that name theirs.
        are_entries = isinstance(tree, dict) and len(tree) > 1 and all(isinstance(one, dict) for one in tree.values())
        if are_entries or (isinstance(tree, dict) and sum(name in names for name in tree) > 1):
            items = [{"name": name, "value": value} for name, value in tree.items()]
            yield from (_Samples("items(@)", *one) for one in _find_images(items, names))


def _find_images(
    elements: Sequence[Any], names: Mapping[str, str]
) -> list[tuple[str, Sequence[Any], Sequence[str], int]]:
    """Returns what `_Samples` has besides its expression, for each field that names images.

    Of fields that name the same images, only the most certain one counts. Stems count only without whole names. Numbers
    that count the elements come last.
    """
    found = []
    for path in _leaves_of(elements[:_MOST_ELEMENTS]):
        # A number as a key is one of many entries, not a field.
        if any(map(str.isdecimal, path)):
            continue
        values = [value if isinstance(value, str) else "" for value in (_follow(one, path) for one in elements)]
        leads_to = [names.get(value.rpartition("/")[2], "") for value in values]
        count = len({*leads_to} - {""})
        # An image with several objects is named in several rows.
        if count and sum(map(bool, leads_to)) >= _NAMED * len(elements):
            is_stem = not any(value.endswith(image) for value, image in zip(values, leads_to, strict=True) if image)
            counts = any(values == [str(number + start) for number in range(len(values))] for start in (0, 1))
            found.append((is_stem, counts, -count, len(path), path, leads_to))
    found.sort()
    different = {tuple(one[-1]): one for one in reversed(found) if one[0] == found[0][0]}
    return [(_expression(one[4]), elements, one[5], -one[2]) for one in sorted(different.values())]


def _find_objects(
    samples: Sequence[Any], sizes: Sequence[tuple[int, int] | None], *, is_xml: bool
) -> list[dict[str, Any]]:
    """Returns the keys of the objects in samples; none if no list has elements with a place and a class."""
    lists: dict[Path, list[Any]] = {}
    images: dict[Path, list[tuple[int, int] | None]] = {}
    for sample, size in zip(samples, sizes, strict=True):
        for path, several in _lists(sample, is_xml=is_xml):
            lists.setdefault(path, []).extend(several)
            images.setdefault(path, []).extend([size] * len(several))
    for path, elements in sorted(lists.items(), key=lambda item: (-len(item[1]), item[0])):
        some = elements[:_MOST_ELEMENTS]
        places = _find_places(some, images[path])
        found = [
            {"objects": f"{_expression(path)}[]", "class": label, **place}
            for label in (_find_classes(some) if places else ())
            for place in places
        ]
        if found:
            return found
    return []


def _find_places(elements: Sequence[Any], sizes: Sequence[tuple[int, int] | None]) -> list[dict[str, Any]]:
    """Returns the keys of boxes or polygons in objects, in each form and unit that fits; [] without them."""
    leaves = _leaves_of(elements)
    numbers = {path: values for path, values in leaves.items() if _are_numbers(values)}
    found = _find_named(numbers, _QUADS, len(elements))
    if found is not None:
        paths, forms = found
        are_sure = any(path[:-1] == paths[0][:-1] and _plain(path[-1]) in _SURE for path in leaves)
        rows = [[_follow(one, path) for path in paths] for one in elements]
        boxes = [[float(number) for number in row] if None not in row else [] for row in rows]
        return _measure(boxes, sizes, [_expression(path) for path in paths], forms[::-1] if are_sure else forms)
    for path, values in _vectors_of(elements).items():
        if len(values) < _MOST * len(elements) or _SIDES.fullmatch(_plain(path[-1])):
            continue
        vectors = [_flatten(_follow(one, path)) for one in elements]
        counts = {len(one) for one in vectors} - {0}
        if counts == {4}:
            forms = _CORNERS if isinstance(values[0][0], dict | list) else (*_CORNERS, *_SIZE, *_CENTER, _TURNED)
            return _measure(vectors, sizes, _expression(path), _LISTS.get(_plain(path[-1]), forms))
        if all(count >= 6 and count % 2 == 0 for count in counts):
            return [{"polygon": _expression(path), **unit} for unit in _units(vectors)]
    return []


def _measure(
    boxes: Sequence[Sequence[float]],
    sizes: Sequence[tuple[int, int] | None],
    fields: str | list[str],
    forms: Sequence[str],
) -> list[dict[str, Any]]:
    """Returns the keys of boxes for each form and unit in which nearly all are in their images."""
    known = [(box, size) for box, size in zip(boxes, sizes, strict=False) if box]
    found = []
    for form, unit in itertools.product(forms, _units(boxes)):
        whole = {"share": (1, 1), "percent": (100, 100)}.get(unit.get("unit", ""))
        if sum(_is_inside(box, form, whole or size) for box, size in known) >= _FITTING * len(known):
            turned = [f"{fields}[{number}]" for number in (1, 0, 3, 2)]
            keys = {"box": turned, "form": "xyxy"} if form == _TURNED else {"box": fields, "form": form}
            found.append({**keys, **unit})
    return found


def _is_inside(box: Sequence[float], form: str, size: tuple[int, int] | None) -> bool:
    """Whether a box in a form has an area and is in an image; of an unknown size, right of and below its origin."""
    left, top, right, bottom = box
    if form in (*_SIZE, *_CENTER):
        left, top = (left - right / 2, top - bottom / 2) if form in _CENTER else (left, top)
        right, bottom = left + right, top + bottom
    if form == _TURNED:
        left, top, right, bottom = top, left, bottom, right
    width, height = size or (math.inf, math.inf)
    beyond = _BEYOND * max(size) if size else 1
    return -beyond <= left < right <= width + beyond and -beyond <= top < bottom <= height + beyond


def _units(vectors: Sequence[Sequence[float]]) -> Sequence[dict[str, str]]:
    """Returns the key of each unit that numbers may have, the likeliest first."""
    numbers = [abs(number) for one in vectors for number in one]
    if not any(number % 1 for number in numbers) or max(numbers) > 100:
        return ({},)
    return ({"unit": "share"},) if max(numbers) <= 1 else ({"unit": "percent"}, {"unit": "pixels"})


def _find_classes(elements: Sequence[Any], *, without: str = "", names: Container[str] = ()) -> list[str]:
    """Returns where elements have a word that repeats, the likeliest first; a certain name leaves out the others.

    Args:
      elements: objects; or samples, of which a number may be the class, too.
      without: the image of the samples.
      names: names of images; a field that only has these holds no classes.
    """
    candidates = []
    for path, values in _leaves_of(elements).items():
        words = [one for one in values if isinstance(one, str | int) and not isinstance(one, bool)]
        distinct = Counter(map(str, words))
        are_texts, varies = not all(map(_is_number, distinct)), len(distinct) > 1
        if _expression(path) == without or len(words) < _MOST * len(elements) or len(distinct) == len(words):
            continue
        name = _plain(path[-1])
        if name in _NO_CLASS or _IMAGE_ID.fullmatch(name) or any(map(_NUMBERED.search, path[:-1])):
            continue
        if _FORMS.issuperset(map(_plain, distinct)) or all(word in names for word in distinct):
            continue
        is_certain, is_usual = bool(_CERTAIN.search(path[-1])), bool(_CLASS_WORDS.search(path[-1]))
        may_be_number = without and 2 * len(distinct) <= len(words) and all(map(str.isdigit, distinct))
        # Objects may be of one class; another word that never varies is a fact about the file.
        if (is_usual and (varies or not without)) or (varies and (are_texts or may_be_number)):
            order = (not is_certain, not is_usual, not varies, not are_texts, len(distinct), path)
            candidates.append((order, is_certain and are_texts, is_certain or varies))
    candidates.sort()
    likely = [one for one in candidates if one[-1]] or candidates[:1]
    if likely and likely[0][1] and not likely[0][0][2]:
        likely = [one for one in likely if one[1]]
    return [_expression(order[-1]) for order, *_ in likely]


def _find_named(
    leaves: Mapping[Path, Sequence[Any]], names: Mapping[tuple[str, ...], Sequence[str]], count: int
) -> tuple[Sequence[Path], Sequence[str]] | None:
    """Returns the fields beside each other with the names of a group, and their meaning."""
    by_parent: dict[Path, dict[str, Path]] = {}
    for path, values in leaves.items():
        if len(values) >= _MOST * count:
            by_parent.setdefault(path[:-1], {})[_plain(path[-1])] = path
    for group, meaning in names.items():
        for fields in by_parent.values():
            if all(name in fields for name in group):
                return [fields[name] for name in group], meaning
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
