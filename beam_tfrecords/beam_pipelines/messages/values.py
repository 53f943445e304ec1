"""Formats values of features for people."""

from __future__ import annotations

import io
from typing import Any

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
