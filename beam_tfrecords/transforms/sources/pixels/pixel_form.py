"""The setting `pixels`: the size, the type and the range of images that are stored as numbers."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from beam_tfrecords.transforms.settings import as_number

TYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip
_FORM = re.compile(rf"(?:([1-9]\d{{0,8}}(?:x[1-9]\d{{0,8}}){{1,2}}):)?({'|'.join(TYPES)})(?::(.+)\.\.(.+))?")
_EXPECTED = "expected SIZE:TYPE:BLACK..WHITE, such as 28x28:uint8, 40x40x3:float32:0..1 or float32:0..1"


@dataclasses.dataclass(frozen=True)
class PixelForm:
    """How images are stored as numbers.

    Attributes:
      shape: lengths of the axes, [H, W], [H, W, C] or [C, H, W]; empty if the input says them.
      dtype: NumPy name of the type of the stored numbers; "" if nothing says it.
      limits: the numbers of black and white; None for 0 and the largest number of the type.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    limits: tuple[float, float] | None = None

    def __str__(self) -> str:
        limits = "..".join(f"{number:.15g}" for number in self.limits or ())
        return ":".join(filter(None, ("x".join(map(str, self.shape)), self.dtype, limits)))


def read_pixels(word: Any) -> PixelForm:
    """Reads the setting."""
    found = _FORM.fullmatch(str(word))
    ends = tuple(as_number(end) for end in found.groups()[2:] if end) if found else ()
    if found is None or None in ends or (ends and ends[0] == ends[1]):
        raise ValueError(f"{_EXPECTED}; types are {', '.join(TYPES)}")
    shape = tuple(map(int, found[1].split("x"))) if found[1] else ()
    return PixelForm(shape, found[2], (ends[0], ends[1]) if ends else None)  # type: ignore[arg-type]


def write_pixels(form: PixelForm | None) -> str | None:
    """Writes the setting."""
    return str(form) if form else None
