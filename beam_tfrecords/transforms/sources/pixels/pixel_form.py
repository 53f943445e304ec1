"""The setting `pixels`: the size, the type and the range of images that are stored as numbers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from beam_tfrecords.transforms.settings import as_number

TYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
)  # fmt: skip
# Numbers of channels that an image can have; an array can have any number.
CHANNELS = (1, 3, 4)
_EXPECTED = "expected HxWxC:TYPE:RANGE or a part of it, such as 28x28, 40x40x3:float32:0..1 or float32:0..1"


@dataclasses.dataclass(frozen=True)
class PixelForm:
    """How images are stored as numbers, as far as a request says it.

    Attributes:
      shape: lengths of the axes, [H, W], [H, W, C] or [C, H, W]; empty if the input says them.
      dtype: NumPy name of the type of the stored numbers; "" if the input says it.
      limits: the numbers of black and white; None if they are evident.
    """

    shape: tuple[int, ...] = ()
    dtype: str = ""
    limits: tuple[float, float] | None = None

    def __str__(self) -> str:
        limits = "..".join(f"{number:.15g}" for number in self.limits or ())
        return ":".join(filter(None, ("x".join(map(str, self.shape)), self.dtype, limits)))


def read_pixels(word: Any) -> PixelForm:
    """Reads the setting."""
    form = PixelForm()
    for part in str(word).split(":"):
        ends = [as_number(end) for end in part.split("..")]
        if re.fullmatch(r"[1-9]\d{0,8}(?:x[1-9]\d{0,8}){1,2}", part) and form == PixelForm():
            form = dataclasses.replace(form, shape=tuple(map(int, part.split("x"))))
        elif part in TYPES and not (form.dtype or form.limits):
            form = dataclasses.replace(form, dtype=part)
        elif len(ends) == 2 and ends[0] is not None and ends[1] is not None and ends[0] != ends[1] and not form.limits:
            form = dataclasses.replace(form, limits=(ends[0], ends[1]))
        else:
            raise ValueError(f"{_EXPECTED}; types are {', '.join(TYPES)}")
    return form


def write_pixels(form: PixelForm | None) -> str | None:
    """Writes the setting."""
    return str(form) if form else None


def find_axes(shapes: Sequence[Sequence[int]], *, any_channels: bool) -> str | None:
    """Returns the axes of images with these shapes, as in `PixelRange`; None if they are not those of images.

    Args:
      shapes: shapes of some images, not empty.
      any_channels: whether images may have other channels than 1, 3 or 4; "" then are three axes in an unknown order.
    """
    lengths = {len(shape) for shape in shapes}
    if lengths == {2}:
        return "HW"
    if lengths != {3}:
        return None
    for axes, channel in (("HWC", 2), ("CHW", 0)):
        if {shape[channel] for shape in shapes} <= {*CHANNELS}:
            return axes
    if not any_channels:
        return None
    return "HWC" if all(shape[2] < min(shape[:2]) for shape in shapes) else ""
