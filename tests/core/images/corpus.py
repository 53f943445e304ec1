"""More than two hundred kinds of unusual and broken image files, each with its expected result."""

from __future__ import annotations

import dataclasses
import functools

from PIL import Image

from beam_tfrecords.errors import FailureReason
from tests.core.images.corpus_broken import broken_files
from tests.core.images.corpus_valid import valid_files


@dataclasses.dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
      data: its bytes.
      picture: what a viewer shows (mode L, RGB or RGBA); None if the file is to be rejected.
      reason: why it is to be rejected; None if it is not.
    """

    data: bytes
    picture: Image.Image | None = None
    reason: FailureReason | None = None


@functools.cache
def corpus() -> dict[str, Case]:
    """Every kind, by a file name with the right extension."""
    return {
        **{name: Case(data, picture=seen) for name, (data, seen) in valid_files().items()},
        **{name: Case(data, reason=reason) for name, (data, reason) in broken_files().items()},
    }
