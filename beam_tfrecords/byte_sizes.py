"""Parses sizes in bytes as people write them."""

from __future__ import annotations

import re
from typing import Any

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
# Smaller sizes need a unit: nobody means shards of 150 bytes.
_PLAIN_BYTES = 10_000


def number_of_bytes(word: Any) -> int:
    """Parses a size in bytes: `150MB` (10**6), `16MiB` (2**20) or a plain number.

    Raises:
      ValueError: the text is not a size, or a small plain number looks like a size without its unit.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(word))
    if match and match[2].upper() in _UNITS:
        size = int(float(match[1]) * _UNITS[match[2].upper()])
        if 0 < size < _PLAIN_BYTES and not match[2]:
            raise ValueError(f"{match[1]} bytes? say {match[1]}MB, or {match[1]}B if bytes are meant")
        if size > 0:
            return size
    raise ValueError("not a size; expected something like 150MB, 16MiB or a number of bytes")
