"""Fills path patterns such as `train/{id}.jpg` with the cells of a row."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def pattern_columns(pattern: str) -> list[str]:
    """Returns the columns that a pattern such as `train/{id}.jpg` names."""
    return _PLACEHOLDER.findall(pattern)


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """Returns the path that a pattern gives for the cells of a row."""
    return _PLACEHOLDER.sub(lambda match: cells[match[1]], pattern)
