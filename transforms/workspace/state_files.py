"""Small files in a build's folder that hold one dataclass of plain values each."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, TypeVar

from beam_tfrecords import storage

Value = TypeVar("Value")


def write_state(path: str, value: Any) -> None:
    """Writes a dataclass whose fields are plain values."""
    storage.write_bytes(path, json.dumps(dataclasses.asdict(value)).encode())


def read_state(kind: type[Value], path: str) -> Value | None:
    """The dataclass that `write_state` wrote; None if the file is missing, or was emptied by a power cut."""
    return parse_state(kind, storage.read_bytes(path)) if storage.exists(path) else None


def parse_state(kind: type[Value], content: bytes) -> Value | None:
    """The value that a file holds; None if a power cut emptied it."""
    try:
        return kind(**json.loads(content))
    except (ValueError, TypeError):
        return None
