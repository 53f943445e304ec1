"""JSON whose numbers are what they say. Pure functions."""

from __future__ import annotations

import json
import math
from typing import Any


def read_json(text: str | bytes) -> Any:
    """The value of a JSON text; `Infinity` and `NaN` are what they say.

    Raises:
      ValueError: it is not JSON, or a number in it is larger than a float can be.
      RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_float=_read_float)


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:20]} is beyond the range of a 64-bit float")
    return number
