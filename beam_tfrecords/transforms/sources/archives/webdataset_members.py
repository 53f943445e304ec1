"""Interprets the names and contents of WebDataset members. Pure functions.

Follows the rules of webdataset 1.0 (`base_plus_ext`, `tar_file_iterator` and `decoders`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS, skipped_kind
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row

_INTEGERS = frozenset({"cls", "cls2", "index", "inx", "id"})
_TEXTS = frozenset({"txt", "text", "transcript"})
_OBJECTS = frozenset({"json", "jsn"})
# Unpickling can run arbitrary code.
PICKLES = frozenset({"pyd", "pickle", "pkl", "pth"})
_META = re.compile(r"__[^/]*__($|/)")


def split_name(path: str) -> tuple[str, str] | None:
    """Splits a path at the first dot of its base name into key and suffix, in lower case; None without both."""
    folder, slash, name = path.rpartition("/")
    stem, _, suffix = name.partition(".")
    return (f"{folder}{slash}{stem}", suffix.lower()) if stem and suffix else None


def meta_kind(path: str) -> str | None:
    """Returns why a member does not belong to a sample, as `Skipped` counts it; None if it does."""
    if _META.match(path):
        return "metadata"
    kind = skipped_kind(path)
    if kind in ("hidden", "system folder", "folder marker"):
        return kind
    return "no suffix" if split_name(path) is None else None


def is_image(suffix: str) -> bool:
    """Whether members with this suffix are images."""
    return f".{_kind(suffix)}" in IMAGE_EXTENSIONS


def is_object(suffix: str) -> bool:
    """Whether members with this suffix are JSON objects, whose fields are columns."""
    return _kind(suffix) in _OBJECTS


def is_value(suffix: str) -> bool:
    """Whether members with this suffix are columns."""
    return _kind(suffix) in _INTEGERS or _kind(suffix) in _TEXTS


def is_index(suffix: str) -> bool:
    """Whether members with this suffix are whole numbers."""
    return _kind(suffix) in _INTEGERS


def is_pickle(suffix: str) -> bool:
    """Whether members with this suffix are pickles."""
    return _kind(suffix) in PICKLES


def decode(suffix: str, data: bytes) -> Mapping[str, Any]:
    """Decodes a member: returns column -> value.

    Raises:
      SampleError: the bytes do not have the format of the suffix.
    """
    if _kind(suffix) in _INTEGERS:
        try:
            return {suffix: int(data)}
        except ValueError:
            found = shorten(data[:100].decode(errors="replace"))
            raise invalid_row(f"the member .{suffix} has {found}; expected a whole number") from None
    if _kind(suffix) in _TEXTS:
        try:
            return {suffix: data.decode()}
        except UnicodeDecodeError as error:
            raise invalid_row(f"the member .{suffix} is not valid UTF-8") from error
    try:
        values = read_json(data)
    except RecursionError as error:
        raise invalid_row(f"the member .{suffix} is nested too deeply") from error
    except ValueError as error:
        raise invalid_row(f"the member .{suffix} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise invalid_row(f"the member .{suffix} is not a JSON object")
    return values


def _kind(suffix: str) -> str:
    return suffix.rpartition(".")[2]
