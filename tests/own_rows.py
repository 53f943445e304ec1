"""Samples from a function, as users write them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from beam_tfrecords import Sample


def shades(part: Any) -> Iterator[Sample]:
    """Images of one number each."""
    for number in range(8):
        image = io.BytesIO()
        Image.new("RGB", (8, 8), (20 * int(part) + number,) * 3).save(image, "PNG")
        yield Sample(f"{part}/{number}", image=image.getvalue(), label=number % 2)


def rows(folder: Any) -> Iterator[Sample]:
    """The rows of the table of a folder; each second image as its bytes."""
    with Path(folder, "table.csv").open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            path = Path(folder, row["image"])
            yield Sample(row["image"], image=path.read_bytes() if number % 2 else path, label=row["label"])
