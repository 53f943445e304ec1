"""Small files in a build's folder that hold one dataclass of plain values each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Iterator
from typing import Any, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.service_faults import describe_fault

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


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Ends the build if what the block reads of a temporary file is not what was written there."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise BuildError(describe_fault(path, error)) from error
        # Decoders say in several lines, or not at all, what is wrong.
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise BuildError(f"{path} is damaged ({detail}); delete it and run the same command again") from error
