"""The forms in which fields store classes."""

from __future__ import annotations

import enum
from collections.abc import Sequence


class ClassValue(enum.Enum):
    """How a value identifies a class."""

    # Index in the class names.
    INDEX = enum.auto()
    # Index plus one: 0 is the background.
    ID = enum.auto()
    NAME = enum.auto()

    def find(self, value: float | bytes, class_names: Sequence[str]) -> str | None:
        """Returns the class of a stored value; None for a number without a class, which may be stored as a float."""
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        index = value - 1 if self is ClassValue.ID else value
        return class_names[int(index)] if 0 <= index < len(class_names) and index == int(index) else None
