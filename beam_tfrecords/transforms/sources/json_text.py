"""Parses JSON without turning large numbers into infinity. Pure functions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any


def read_json(text: str | bytes, *, are_names_data: bool = False) -> Any:
    """Parses JSON; accepts `Infinity` and `NaN`.

    Args:
      text: the JSON.
      are_names_data: whether a name that an object has twice is an error; otherwise its last value counts.

    Raises:
      ValueError: the text is not JSON, or contains a number beyond the range of a 64-bit float.
      RecursionError: the JSON is nested too deeply.
    """
    return json.loads(text, parse_float=_read_float, object_pairs_hook=_read_object if are_names_data else None)


def _read_object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return found


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is beyond the range of a 64-bit float")
    return number
