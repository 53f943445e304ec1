"""The digest of what is executed: it names work that may be resumed, so it changes with every field of a value."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping, Set
from typing import Any

import msgpack


def digest(*values: Any) -> str:
    """16 hex digits that change with any part of some values, and are the same in every process.

    Args:
      values: dataclasses, enumerations, collections and plain values, nested as they like; fields that are not compared
        do not count.

    Raises:
      TypeError: a part is of another type, so that nobody knows what it does.
    """
    return hashlib.blake2b(msgpack.packb(_plain(values)), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    """The value as lists of plain values; those of equal parts are equal, those of others differ."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            [field.name, _plain(getattr(value, field.name))] for field in dataclasses.fields(value) if field.compare
        ]
        return [type(value).__name__, fields]
    if isinstance(value, enum.Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, Mapping):
        # In the order of a listing, splits may come one way or the other.
        return ["Mapping", sorted([_plain(key), _plain(one)] for key, one in value.items())]
    if isinstance(value, Set):
        return ["Set", sorted(map(_plain, value))]
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"{value!r} has no digest; give its parts one")
