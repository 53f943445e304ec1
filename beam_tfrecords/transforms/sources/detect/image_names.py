"""Which of several fields names the images. Pure: for columns, parts of lists and fields of documents alike."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.names import is_image_name

# The row numbers that pandas writes.
_ROW_NUMBERS = re.compile(r"(?:unnamed: ?\d+)?", re.IGNORECASE)


def choose_names(fields: Mapping[str, Sequence[Any]]) -> list[str]:
    """Returns the fields that may name the images; several if these lead to different images.

    Whole names beat stems. Weaker are numbers that count the rows, above all in a column that pandas adds, and values
    that recur, which may be classes.

    Args:
      fields: field -> first values, in the order of the rows; each value leads to an image.
    """
    words = {name: tuple(map(str, values)) for name, values in fields.items()}

    def rank(name: str) -> int:
        cells = words[name]
        if all(map(is_image_name, cells)):
            return 0
        if len({*cells}) * 2 <= len(cells):
            return 4
        if cells not in [tuple(map(str, range(first, first + len(cells)))) for first in (0, 1)]:
            return 1
        return 3 if _ROW_NUMBERS.fullmatch(name) else 2

    best = min(map(rank, words), default=0)
    # Of fields with the same values, the first.
    return [*{words[name]: name for name in reversed(words) if rank(name) == best}.values()][::-1]
