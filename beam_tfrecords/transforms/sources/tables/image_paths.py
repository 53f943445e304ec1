"""Patterns that make the paths of images from the cells of a row."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def pattern_columns(pattern: str) -> list[str]:
    """The columns that a pattern such as `train/{id}.jpg` names."""
    return _PLACEHOLDER.findall(pattern)


def fill_pattern(pattern: str, cells: Mapping[str, str]) -> str:
    """The path that a pattern gives for the cells of a row."""
    return _PLACEHOLDER.sub(lambda match: cells[match[1]], pattern)
