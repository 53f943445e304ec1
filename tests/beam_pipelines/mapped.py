"""Functions for `map`, as users write them."""

from __future__ import annotations

from typing import Any


def upper_half(sample: Any) -> Any:
    """The upper half of its image."""
    height, width, _ = sample.image.shape
    return sample.crop((0, 0, width, height // 2))
