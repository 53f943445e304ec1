"""Mutations of JSON values: any other value in any place."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

VALUES = (
    None, True, -1, 0, 3, 1 << 61, 10**40, 1.5, "", "x", "1e999", "\ud800", "\x1b[2J", "../../etc/passwd", "a\0b", [],
    [1], {}, {"a": {"b": []}}, {"records": "x"},
)  # fmt: skip


def places(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """The way to each value in a JSON value."""
    yield above
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, *above, name)


def changed(value: Any, place: tuple[Any, ...], other: Any) -> Any:
    """The value with another one at a place; Ellipsis removes it."""
    if not place:
        return other
    value = copy.deepcopy(value)
    *above, last = place
    holder = value
    for name in above:
        holder = holder[name]
    if other is ...:
        del holder[last]
    else:
        holder[last] = other
    return value


def mutations(value: Any, *, seed: int, most: int | None) -> list[tuple[tuple[Any, ...], Any]]:
    """Places and values; at random, as many as asked for."""
    found = [(place, other) for place in places(value) for other in (*VALUES, ...) if place or other is not ...]
    return found if most is None else random.Random(seed).sample(found, min(most, len(found)))
