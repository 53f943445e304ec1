"""Small files in a build's folder that hold one dataclass of plain values each."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError
from beam_tfrecords.output.schema import Check, fields, mapped, moment, read_json, text, whole
from beam_tfrecords.transforms.service_faults import describe_fault

Value = TypeVar("Value")
_MOST_BYTES = 16 << 20
# Type of a field -> what a file may say of it. All fractions are times.
_CHECKS: Mapping[Any, Check] = {str: text, int: whole, float: moment, Mapping[str, int]: mapped(whole)}


def write_state(path: str, value: Any) -> None:
    """Writes a dataclass whose fields are plain values."""
    storage.write_bytes(path, json.dumps(dataclasses.asdict(value)).encode())


def read_state(kind: type[Value], path: str) -> Value | None:
    """The dataclass that `write_state` wrote; None if the file is missing, or is not what was written."""
    content = read_if_there(path)
    return None if content is None else parse_state(kind, content)


def read_small(path: str) -> bytes:
    """A file of a build's folder, which may be a stranger's: of a large one the beginning."""
    return storage.read_range(path, 0, _MOST_BYTES)


def read_if_there(path: str, *, read: Callable[[str], bytes] = read_small) -> bytes | None:
    """What a function reads of a file, or None if there is no such file. A store is asked once.

    Raises:
      OSError: nobody knows.
    """
    if not storage.has_scheme(path):
        return read(path) if storage.exists(path) else None
    try:
        return read(path)
    except OSError as error:
        if storage.is_unanswered(error):
            raise
        return None


def parse_state(kind: type[Value], content: bytes) -> Value | None:
    """The value that a file holds; None if a power cut emptied it, or a stranger has made another of it."""
    hints = get_type_hints(kind)
    try:
        return kind(**read_json(content, fields({}, {name: _CHECKS[hint] for name, hint in hints.items()})))
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
