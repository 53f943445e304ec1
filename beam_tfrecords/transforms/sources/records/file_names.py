"""The file name that a record has for its image; the dataset stores it as the last part of the sample's key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_tfrecords.transforms.sources.names import is_utf8

# Features with the name of the image's file, as TensorFlow's models and datasets name them.
FILE_NAMES = ("image/filename", "filename", "file_name")


def file_name(row: Mapping[str, Any]) -> str:
    """Returns the file name without its folders; "" if the record has none."""
    for feature in FILE_NAMES:
        value = row.get(feature)
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if isinstance(text, str) and is_utf8(text) and (name := text.rpartition("/")[2].strip()):
            return name
    return ""
