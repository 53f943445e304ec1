"""Finds the records that an expression over splits names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import RequestError
from beam_tfrecords.nearest import list_known

ALL = "all"
_TERM = re.compile(r"\s*(?P<split>\w+)\s*(?:\[\s*(?P<begin>[^:\]]*?)\s*(?P<colon>:?)\s*(?P<end>[^:\]]*?)\s*\]\s*)?")
_BOUND = re.compile(r"(?P<number>-?[0-9][0-9_]*)|(?P<percent>-?[0-9]+(?:\.[0-9]+)?)\s*%")
_EXAMPLES = "such as 'train', 'train[:80%]', 'train[100:]', 'train+validation' or 'all'"


class SplitRange(NamedTuple):
    """A range of records of a split.

    Attributes:
      split: name of the split.
      begin: number of the first record in the split.
      end: number after the last record.
    """

    split: str
    begin: int
    end: int


def find_ranges(splits: Mapping[str, int], expression: str) -> list[SplitRange]:
    """Returns the ranges of records that an expression names, in its order.

    `train[:80%]` and `train[80%:]` do not overlap and omit no record. A percentage is rounded to the nearest record, as
    in TFDS; a negative bound counts from the end.

    Args:
      splits: name -> number of records.
      expression: split names, each with or without a range, joined by `+`.

    Raises:
      RequestError: the expression cannot be parsed, names an unknown split, or names no record.
      TypeError: it is not text.
    """
    if not isinstance(expression, str):
        raise TypeError(f"split {expression!r}: found {type(expression).__name__}; expected text, {_EXAMPLES}")
    if expression in splits:
        return [SplitRange(expression, 0, splits[expression])]
    ranges = [found for term in expression.split("+") for found in _find_term(splits, expression, term)]
    if not any(one.begin < one.end for one in ranges):
        sizes = ", ".join(f"{split} {records:,}" for split, records in splits.items())
        raise RequestError(f"split {expression!r} has no record; records of the splits: {sizes}", code="empty_split")
    return ranges


def cut(ranges: Iterable[SplitRange], begin: int, end: int) -> Iterator[SplitRange]:
    """Yields the records between two positions in the concatenation of ranges."""
    start = 0
    for one in ranges:
        first, last = max(begin - start, 0), min(end - start, one.end - one.begin)
        if first < last:
            yield SplitRange(one.split, one.begin + first, one.begin + last)
        start += one.end - one.begin


def _find_term(splits: Mapping[str, int], expression: str, term: str) -> list[SplitRange]:
    match = _TERM.fullmatch(term)
    if match is None or (match["colon"] is not None and not match["colon"]):
        raise RequestError(
            f"split {expression!r} cannot be read at {term.strip()!r}; expected {_EXAMPLES}", code="invalid_split"
        )
    name = match["split"]
    if name == ALL and ALL not in splits:
        total = sum(splits.values())
        begin, end = _bounds(match, total, expression)
        return list(cut([SplitRange(split, 0, records) for split, records in splits.items()], begin, end))
    split = _find_split(splits, expression, name)
    return [SplitRange(split, *_bounds(match, splits[split], expression))]


def _find_split(splits: Mapping[str, int], expression: str, name: str) -> str:
    if name in splits:
        return name
    meant = SPLIT_NAMES.get(name.lower(), name)
    synonyms = [split for split in splits if SPLIT_NAMES.get(split, split) == meant]
    if len(synonyms) == 1:
        return synonyms[0]
    where = "" if name == expression else f" in {expression!r}"
    raise RequestError(f"no split {name!r}{where}; {list_known(name, sorted(splits))}", code="unknown_split")


def _bounds(match: re.Match[str], records: int, expression: str) -> tuple[int, int]:
    begin, end = (_bound(match[side], records, expression) for side in ("begin", "end"))
    begin, end, _ = slice(begin, end).indices(records)
    return begin, max(begin, end)


def _bound(text: str | None, records: int, expression: str) -> int | None:
    if not text:
        return None
    match = _BOUND.fullmatch(text)
    if match is None or abs(float(match["percent"] or 0)) > 100:
        raise RequestError(
            f"split {expression!r} cannot be read at {text!r}; expected a number of records or a percentage up to "
            f"100%, {_EXAMPLES}",
            code="invalid_split",
        )
    # Rounds as TFDS does.
    return int(match["number"]) if match["number"] else round(float(match["percent"]) * records / 100)
