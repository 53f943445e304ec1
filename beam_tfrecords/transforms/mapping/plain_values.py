"""Converts values that users' functions return to plain values of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def plain_value(value: Any) -> Any:
    """Converts a label or a column value to plain values: NumPy's numbers to Python's, arrays to lists.

    Raises:
      TypeError: the value is neither text, number nor bytes, nor a list of these.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_value(one) for one in value]
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"the function returned a value of type {type(value).__name__}; expected texts, numbers or bytes")
