"""The roles of an input's fields: what columns, features and members hold, by their cells and names. Pure functions.

A column of a table, a feature of a record, a field of a JSON document and a member of a WebDataset sample are all
fields. Cells decide before names: a cell that names an image is never a class, whatever its column is called.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import json
import math
import operator
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.column_names import (
    BOX_NAMES,
    TEXT_NAMES,
    is_label_name,
    is_mask_name,
    is_split_name,
    plain_name,
)
from beam_tfrecords.transforms.sources.detect.names import is_mask_folder
from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.tables.flags import find_list_flags

# Larger numbers in a list are measurements or counts rather than classes.
_MOST_CLASSES = 10_000
_SIDES = 4
# A polygon has three corners.
_LEAST_NUMBERS = 6
_MOST_DIGITS = 12
# Words of a cell that are looked at.
_MOST_WORDS = 64
# Columns of run lengths.
_RUNS = re.compile(r"rle|encod|mask|segment|annot|runlength")
# Polygons of well-known text, their rings, and where a ring is a hole.
_WKT, _RING = re.compile(r"\s*(?:MULTI)?POLYGON\b", re.IGNORECASE), re.compile(r"\(([^()]+)\)")
_HOLE = re.compile(r"\)\s*,\s*\((?!\()")
# Python's parser may take much memory for a long text.
_MOST_PARSED = 10_000


class Role(enum.Enum):
    """What the cells of a field are; the value is how messages name them."""

    NOTHING = "nothing"
    IMAGE = "names of images"
    MASK = "names of masks"
    OBJECTS = "objects with boxes"
    ANNOTATION = "annotations (JSON)"
    BOX = "a box"
    BOXES = "lists of boxes"
    RUNS = "run lengths of masks"
    VECTOR = "lists of numbers"
    CLASSES = "lists of classes"
    SPLIT = "splits"
    TEXT = "texts"
    LABEL = "classes"
    OTHER = ""


# Cells of these roles are never classes.
NO_LABELS = frozenset(
    {Role.IMAGE, Role.MASK, Role.OBJECTS, Role.ANNOTATION, Role.BOX, Role.BOXES, Role.RUNS, Role.VECTOR}
)


def roles_of(cells: Mapping[str, Sequence[Any]]) -> dict[str, Role]:
    """Returns the role of each field by the cells of the first samples."""
    return {name: role_of(name, values) for name, values in cells.items()}


def role_of(name: str, cells: Iterable[Any]) -> Role:
    """Returns the role of a field by its first cells; its name decides what cells leave open.

    Args:
      name: name of the field.
      cells: cells of the first samples; empty ones do not count.
    """
    values = [value for value in cells if not (value is None or value != value or value == "")]
    if not values:
        return Role.NOTHING
    if _most(names_image(value) for value in values):
        in_mask_folders = _most(is_mask_folder(posixpath.dirname(value).rpartition("/")[2]) for value in values)
        return Role.MASK if is_mask_name(name) or in_mask_folders else Role.IMAGE
    if _are_runs(name, values):
        return Role.RUNS
    opened = [parse_cell(value) for value in values]
    if _most(isinstance(value, dict) for value in opened):
        return Role.OBJECTS if any(map(has_boxes, opened)) else Role.ANNOTATION
    lists = [value for value in opened if isinstance(value, list)]
    if len(lists) * 2 > len(opened):
        return _role_of_lists(name, lists)
    if is_split_name(name):
        return Role.SPLIT
    if TEXT_NAMES.search(plain_name(name)):
        return Role.TEXT
    return Role.LABEL if is_label_name(name) else Role.OTHER


def names_image(value: Any) -> bool:
    """Whether a cell is the name, path or URL of an image."""
    return isinstance(value, str) and (
        is_image_name(value)
        or is_image_name(value.partition("?")[0])
        or (storage.is_web(value) and is_image_name(urlsplit(value).path))
    )


def parse_cell(value: Any) -> Any:
    """Returns the object or list whose text, as JSON, as Python or as well-known text, a cell holds; else the cell."""
    if isinstance(value, str) and _WKT.match(value) and not _HOLE.search(value):
        with contextlib.suppress(ValueError):
            # The last point of a ring repeats the first.
            points = [[point.split()[:2] for point in ring.split(",")[:-1]] for ring in _RING.findall(value)]
            return [[float(side) for point in ring for side in point] for ring in points]
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(value)
    if len(value) <= _MOST_PARSED:
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(value.strip())
    return value


def is_segmentation(value: Any) -> bool:
    """Whether a value is the mask of one object as COCO has it: polygons, or run lengths with the size of the image."""
    if isinstance(value, dict):
        return value.keys() >= {"counts", "size"}
    return isinstance(value, list) and bool(value) and all(map(_is_polygon, value))


def _is_polygon(value: Any) -> bool:
    is_list = isinstance(value, list) and len(value) >= _LEAST_NUMBERS and len(value) % 2 == 0
    return is_list and all(map(_is_number, value))


def _are_runs(name: str, values: Sequence[Any]) -> bool:
    """Whether cells are `start length` in turn; a name, or their order and several lengths, tell them from vectors."""
    texts = [value for value in values if not isinstance(value, str) or value.strip() != "-1"]
    words = [text.split(maxsplit=_MOST_WORDS)[:_MOST_WORDS] for text in texts if isinstance(text, str)]
    several = [one for one in words if len(one) % 2 == 0 and all(map(_is_count, one))]
    if len(several) * 2 <= len(texts):
        return False
    if _RUNS.search(plain_name(name)):
        return True
    lengths = {len(one) for one in several}
    return len(lengths) > 1 and max(lengths) >= _LEAST_NUMBERS and all(map(are_sorted, several))


def are_sorted(words: Sequence[str]) -> bool:
    """Whether run lengths are in order, and do not overlap."""
    numbers = [*map(int, words[: len(words) // 2 * 2])]
    ends = map(operator.add, numbers[::2], numbers[1::2])
    return all(end <= start for end, start in zip(ends, numbers[2::2], strict=False))


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) <= _MOST_DIGITS


def has_boxes(value: Any) -> bool:
    """Whether a value is an object with a box."""
    return isinstance(value, dict) and not BOX_NAMES.isdisjoint(map(plain_name, value))


def are_vectors(lists: Sequence[Sequence[Any]]) -> bool:
    """Whether lists of numbers are vectors, such as votes or probabilities, and not sets of classes.

    A set of classes has each number once, and no fraction or negative number. Vectors have one length, and are not all
    in ascending order. Zeros and ones, one for each class, are classes.
    """
    numbers = [number for numbers in lists for number in numbers]
    if not numbers or not all(map(_is_number, numbers)) or find_list_flags(lists, None) is not None:
        return False
    # math.isfinite fails for integers beyond the range of floats.
    finite = (number for number in numbers if abs(number) < math.inf)
    if any(number < 0 or number != int(number) or number > _MOST_CLASSES for number in finite):
        return True
    if any(len(set(numbers)) < len(numbers) for numbers in lists):
        return True
    lengths = {len(numbers) for numbers in lists}
    is_sorted = all(list(numbers) == sorted(numbers) for numbers in lists)
    return len(lengths) == 1 and lengths != {1} and not is_sorted


def _role_of_lists(name: str, lists: Sequence[list[Any]]) -> Role:
    parts = [part for one in lists for part in one]
    if parts and all(isinstance(part, dict) for part in parts):
        return Role.OBJECTS if any(map(has_boxes, parts)) else Role.ANNOTATION
    if parts and all(isinstance(part, dict | list) for part in parts):
        are_boxes = all(len(part) == _SIDES and all(map(_is_number, part)) for part in parts)
        return Role.BOXES if are_boxes else Role.ANNOTATION
    if parts and all(map(_is_number, parts)):
        if plain_name(name) in BOX_NAMES and all(len(one) in (0, _SIDES) for one in lists):
            return Role.BOX
        return Role.VECTOR if are_vectors(lists) else Role.CLASSES
    if parts and all(isinstance(part, str) for part in parts):
        if _are_runs(name, parts):
            return Role.RUNS
        return Role.IMAGE if _most(map(names_image, parts)) else Role.CLASSES
    return Role.OTHER


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _most(found: Iterable[bool]) -> bool:
    found = list(found)
    return sum(found) * 2 > len(found)
