"""Formats values of features, and times, for people."""

from __future__ import annotations

import datetime
import io
import math
from collections.abc import Iterable
from typing import Any

from beam_tfrecords.dataset.schema import LAST_MOMENT

_MOST_TEXT = 80


def describe_value(value: Any) -> str:
    """Formats a value on one line: short text as it is, other bytes as their number and the image they contain."""
    if not isinstance(value, bytes):
        return str(value)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"{len(value):,} bytes{_describe_image(value)}"
    if text.isprintable() and len(text) <= _MOST_TEXT:
        return repr(text)
    return f"{len(value):,} bytes"


def format_time(seconds: float) -> str:
    """Formats seconds since the epoch as UTC in ISO 8601. A file may contain any year; the last one is 9999."""
    time = datetime.datetime.fromtimestamp(min(max(seconds, 0), LAST_MOMENT), datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def plain_values(values: Iterable[Any]) -> list[Any]:
    """Returns values for JSON: text as it is, other bytes as their number, and None for what is not finite."""
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value if not isinstance(value, float) or math.isfinite(value) else None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"bytes": len(value)}


def _describe_image(data: bytes) -> str:
    from PIL import Image, UnidentifiedImageError

    from beam_tfrecords.transforms.images.formats import png_depth

    try:
        with Image.open(io.BytesIO(data)) as image:
            is_16_bit = image.format == "PNG" and png_depth(data) == 16
            mode = f"{image.mode}, 16 bits per channel" if is_16_bit else image.mode
            return f", a {image.format} of {image.height} x {image.width} pixels (height x width), {mode}"
    except UnidentifiedImageError:
        return ""
