"""Fills path patterns such as `train/{id}.jpg` with the cells of a row."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.sources.tables.cells import invalid_row

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# A column, then an index or a slice of its text, and a format of Python such as `04d` or `0>4`.
_PARTS = re.compile(r"(.+?)(?:\[(-?[0-9]*(?::-?[0-9]*)?)\])?(?::((?:.?[<>^])?[0-9]*d?))?")
_NAMED = re.compile(r"\s*([a-z][a-z0-9_]*)=(.*)")


def split_patterns(word: str) -> dict[str, str]:
    """Returns name of an image -> pattern, from one pattern or from several such as `left={a}.jpg,right={b}.jpg`."""
    parts = [_NAMED.fullmatch(part) for part in word.split(",")]
    named = [(part[1], part[2].strip()) for part in parts if part]
    return dict(named) if len(parts) == len(named) > 1 else {IMAGE: word}


def pattern_columns(pattern: str) -> list[str]:
    """Returns the columns that a pattern such as `train/{id[0]}/{id}.jpg` names."""
    return list(dict.fromkeys(_parts(word)[0] for word in _PLACEHOLDER.findall(pattern)))


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """Returns the path that a pattern gives for the cells of a row.

    Raises:
      SampleError: a cell is too short for an index, or not a whole number for a format such as `04d`.
    """
    return _PLACEHOLDER.sub(lambda match: _fill(match[1], cells), pattern)


def is_pattern(pattern: str) -> bool:
    """Whether a text is a path with columns in braces."""
    rest = _PLACEHOLDER.sub("", pattern)
    return rest != pattern and not {*"{}"} & {*rest}


def _parts(word: str) -> tuple[str, str | None, str]:
    """Splits the text between braces into column, index or slice, and format."""
    found = _PARTS.fullmatch(word)
    return (found[1], found[2], found[3] or "") if found else (word, None, "")


def _fill(word: str, cells: Mapping[str, str]) -> str:
    column, index, form = _parts(word)
    text = cells[column]
    if index is not None:
        start, colon, stop = index.partition(":")
        with contextlib.suppress(ValueError, IndexError):
            text = text[slice(*(int(end) if end else None for end in (start, stop)))] if colon else text[int(start)]
            index = None
    if index is None:
        with contextlib.suppress(ValueError):
            return format(int(text), form) if form.endswith("d") else format(text, form)
    raise invalid_row(f"column {column!r} has {cells[column]!r}, which does not fit {{{word}}}")
