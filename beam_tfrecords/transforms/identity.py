"""Digests of the objects that do work. They name resumable work, so they change with every compared field."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping, Set
from typing import Any

import msgpack


def digest(*values: Any) -> str:
    """Returns 16 hex digits that change with any part of the values, and are the same in every process.

    Args:
      values: dataclasses, enumerations, collections and plain values, nested in any way; fields with `compare=False`
        are ignored.

    Raises:
      TypeError: a part has another type, whose behavior the digest cannot capture.
    """
    return hashlib.blake2b(msgpack.packb(_plain(values)), digest_size=8).hexdigest()


def _plain(value: Any) -> Any:
    """Returns nested lists of plain values, which are equal exactly for equal values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [
            [field.name, _plain(getattr(value, field.name))] for field in dataclasses.fields(value) if field.compare
        ]
        return [type(value).__name__, fields]
    if isinstance(value, enum.Enum):
        return [type(value).__name__, value.name]
    if isinstance(value, Mapping):
        # Sorted, because the order of splits depends on the listing.
        return ["Mapping", sorted([_plain(key), _plain(one)] for key, one in value.items())]
    if isinstance(value, Set):
        return ["Set", sorted(map(_plain, value))]
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"{value!r} has no digest; give its parts one")
