"""Values that are computed at the first access."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class Later:
    """A value that is computed at the first access."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @functools.cached_property
    def value(self) -> Any:
        """The value; every access returns the same object."""
        return self._make()


def value_of(value: Any) -> Any:
    """Returns the value; computes it if it is a `Later`."""
    return value.value if isinstance(value, Later) else value


def is_same(before: Any, after: Any) -> bool:
    """Whether a value is unchanged: the same object, or the computed value of the same `Later`."""
    return before is after or (isinstance(before, Later) and "value" in vars(before) and before.value is after)


def read_only(pixels: np.ndarray) -> np.ndarray:
    """Returns the array if it is read-only, or a read-only view of it."""
    if not pixels.flags.writeable:
        return pixels
    found = pixels.view()
    found.flags.writeable = False
    return found
