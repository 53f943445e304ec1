"""Parses JSON without turning large numbers into infinity. Pure functions."""

from __future__ import annotations

import json
import math
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Parses JSON; accepts `Infinity` and `NaN`.

    Raises:
      ValueError: the text is not JSON, or contains a number beyond the range of a 64-bit float.
      RecursionError: the JSON is nested too deeply.
    """
    return json.loads(text, parse_float=_read_float)


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is beyond the range of a 64-bit float")
    return number
