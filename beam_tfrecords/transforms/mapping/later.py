"""Values that are made when they are first asked for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class Later:
    """A value that is made when it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @functools.cached_property
    def value(self) -> Any:
        """The value; the same object each time."""
        return self._make()


def value_of(value: Any) -> Any:
    """The value, which is made if that is still to be done."""
    return value.value if isinstance(value, Later) else value


def is_same(before: Any, after: Any) -> bool:
    """Whether a value is the one from before, which may have been made by now."""
    return before is after or (isinstance(before, Later) and "value" in vars(before) and before.value is after)


def read_only(pixels: np.ndarray) -> np.ndarray:
    """The array, or a view of it, that cannot be written to."""
    if not pixels.flags.writeable:
        return pixels
    found = pixels.view()
    found.flags.writeable = False
    return found
