"""Reads and writes small files in a build's folder, each with one dataclass of plain values."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, get_type_hints

from beam_tfrecords import storage
from beam_tfrecords.dataset.schema import Check, fields, mapped, moment, read_json, text, whole
from beam_tfrecords.errors import BuildError, describe_exception
from beam_tfrecords.transforms.service_faults import describe_fault

Value = TypeVar("Value")
_MOST_BYTES = 16 << 20
# Type of a field -> check of its value in a file. All floats are times.
_CHECKS: Mapping[Any, Check] = {str: text, int: whole, float: moment, Mapping[str, int]: mapped(whole)}


def write_state(path: str, value: Any) -> None:
    """Writes a dataclass with fields of plain values."""
    storage.write_bytes(path, json.dumps(dataclasses.asdict(value)).encode())


def read_state(kind: type[Value], path: str) -> Value | None:
    """Reads a dataclass written by `write_state`; returns None if the file is missing, or damaged by a power loss."""
    hints = get_type_hints(kind)
    content = read_if_there(path) or b""
    try:
        return kind(**read_json(content, fields({}, {name: _CHECKS[hint] for name, hint in hints.items()})))
    except (ValueError, TypeError):
        return None


def read_small(path: str) -> bytes:
    """Reads the first 16 MiB of a file in a build's folder, because the file may be foreign and large."""
    return storage.read_range(path, 0, _MOST_BYTES)


def read_if_there(path: str, *, read: Callable[[str], bytes] = read_small) -> bytes | None:
    """Reads a file with `read`; returns None if it does not exist. Sends a store one request.

    Raises:
      OSError: the store did not answer, so the file may exist; or a local file cannot be read.
    """
    if not storage.has_scheme(path):
        return read(path) if storage.exists(path) else None
    try:
        return read(path)
    except OSError as error:
        if storage.is_unanswered(error):
            raise
        return None


@contextlib.contextmanager
def naming_damage(path: str) -> Iterator[None]:
    """Raises `BuildError` if the block finds the content of a temporary file damaged or cannot read the file."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise BuildError(describe_fault(path, error)) from error
        detail = describe_exception(error)[:200]
        raise BuildError(f"{path} is damaged ({detail}); delete it and run the same command again") from error
