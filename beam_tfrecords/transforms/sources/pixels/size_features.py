"""Finds the features of a record with the size and the type of its image. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.pixels.pixel_form import TYPES
from beam_tfrecords.transforms.sources.pixels.stored_numbers import read_lengths

# Words that end the names of such features: height, width and channels; a shape; a type.
_SIDES = (
    ("height", "rows", "h"),
    ("width", "cols", "columns", "w"),
    ("depth", "channels", "channel", "bands", "c"),
)
_SHAPES = ("shape", "dims", "dimensions")
_TYPES = ("dtype", "type")
_NAME = re.compile(r"(.*?)[/_.-]?([a-z]+)")
# Boundary between the words of a name such as imageHeight.
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")


def find_sizes(image: str, row: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields features that may have the size of an image, the most certain first: one, two or three for each size.

    Args:
      image: feature with the image. Features whose names begin as its name does come first, as `image/height` does for
        `image/raw`.
      row: features of the records.
    """
    by_head: dict[str, dict[str, str]] = {}
    for name in row:
        head, word = _split(name)
        if name != image and read_lengths(row[name]):
            by_head.setdefault(head, {})[word] = name
    for head in sorted(by_head, key=lambda one: (not image.lower().startswith(one), -len(one), one)):
        named = by_head[head]
        yield from ((named[word],) for word in _SHAPES if word in named)
        sides = [next((named[word] for word in words if word in named), "") for words in _SIDES]
        if all(sides):
            yield tuple(sides)
        if all(sides[:2]):
            yield tuple(sides[:2])


def find_type(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Returns a feature such as `dtype`, and the type that it names in all records; empty if there is none."""
    for name in rows[0]:
        if _split(name)[1] in _TYPES:
            words = {value.decode(errors="replace") for row in rows if isinstance(value := row.get(name), bytes)}
            if len(words) == 1 and words <= {*TYPES}:
                return name, words.pop()
    return "", ""


def _split(name: str) -> tuple[str, str]:
    """Splits a feature's name before its last word; the word is "" if the name does not end with letters."""
    match = _NAME.fullmatch(_HUMP.sub("_", name).lower())
    return (match[1], match[2]) if match else (name, "")
