"""Values of a function of the user as a table has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def plain_value(value: Any) -> Any:
    """A label or a value of a column as a table has it: NumPy's numbers become Python's, arrays lists.

    Raises:
      TypeError: it is neither text, number nor bytes, nor a list of them.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_value(one) for one in value]
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"the function returned a value of type {type(value).__name__}; expected texts, numbers or bytes")
