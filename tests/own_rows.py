"""Samples from a function, as users write them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from PIL import Image

from beam_tfrecords import Sample


def shades(part: Any) -> Iterator[Sample]:
    """Images of one number each."""
    for number in range(8):
        image = io.BytesIO()
        Image.new("RGB", (8, 8), (20 * int(part) + number,) * 3).save(image, "PNG")
        yield Sample(f"{part}/{number}", image=image.getvalue(), label=number % 2)
