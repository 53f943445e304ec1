"""Finds how the first records store an image as numbers, or which parts of this the request must state."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.sources.pixels.pixel_form import CHANNELS, PixelForm, find_axes
from beam_tfrecords.transforms.sources.pixels.pixel_reader import PixelReader, describe_cell
from beam_tfrecords.transforms.sources.pixels.ranges import (
    evident_limits,
    is_dark,
    may_be_pixels,
    may_be_planes,
    possible_limits,
    type_of_numbers,
)
from beam_tfrecords.transforms.sources.pixels.size_features import find_sizes, find_type
from beam_tfrecords.transforms.sources.pixels.stored_numbers import described_numbers, listed_numbers, read_lengths
from beam_tfrecords.transforms.sources.tables.table import FirstRows, available

# Fewer numbers are a vector or a text rather than an image.
_LEAST_NUMBERS = 16
# Few bytes look like pixels when they are read as one of the first four types; most do as one of the others.
_BYTE_TYPES = ("<f8", "<i8", "<f4", "<i4", "|u1", "<u2", "<f2", "<i2")
# Types whose largest number is white.
_WHITE = {"|u1": 255, "<u2": 65535}
_MOST_SUGGESTIONS = 4
# Bytes or numbers to look at.
_MOST_NUMBERS = 1 << 22

Rows = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Reading:
    """One way to read the first records.

    Attributes:
      reader: reads them.
      form: value of `pixels` that asks for it.
      numbers: the numbers of all of them.
      shape: shape of the first image.
      is_one_size: whether all of them have this shape.
    """

    reader: PixelReader
    form: PixelForm
    numbers: np.ndarray
    shape: tuple[int, ...]
    is_one_size: bool

    @property
    def meaning(self) -> str:
        """Describes the images."""
        kind = self.numbers.dtype.name
        if not self.reader.axes:
            return f"arrays of {' x '.join(map(str, self.shape))} of {kind}"
        sides = dict(zip(self.reader.axes, self.shape, strict=True))
        channels = sides.get("C", 1)
        order = ", one channel after the other" if self.reader.axes == "CHW" and channels > 1 else ""
        return f"images of {sides['H']} x {sides['W']} with {channels} channel{'s'[: channels != 1]} of {kind}{order}"


def may_hold_pixels(value: Any) -> bool:
    """Whether a cell may hold the numbers of an image: bytes other than text, or a list of numbers."""
    if not isinstance(value, bytes):
        return listed_numbers(value) is not None and len(value) >= _LEAST_NUMBERS
    try:
        return len(value) >= _LEAST_NUMBERS and not value.decode().isprintable()
    except UnicodeDecodeError:
        return True


def has_size(image: str, start: FirstRows, said: PixelForm, *, any_channels: bool) -> bool:
    """Whether the records or the request give a size that fits the numbers in a feature."""
    return bool(_read_all(image, _first(image, start), said, any_channels=any_channels))


def find_pixels(
    image: str, start: FirstRows, said: PixelForm, where: str, *, is_array: bool, is_mask: bool = False
) -> PixelReader:
    """Returns the reader of images that are stored as numbers.

    Args:
      image: feature with the numbers.
      start: the first records.
      said: what is known about the numbers.
      where: start of messages.
      is_array: whether the numbers are stored as they are.
      is_mask: whether images of one channel are more likely.

    Raises:
      RequestError: the size, the type or the range is unknown; suggests those that the first records fit.
    """
    rows = _first(image, start)
    where = f"{where}: the feature {image!r} has {_describe(image, rows)}"
    if is_array and said.limits:
        plain = dataclasses.replace(said, limits=None)
        raise RequestError(
            f"`pixels={said}`: arrays have the numbers of the records; leave the range out",
            [Suggestion("arrays", {"pixels": str(plain) or None})],
            code="setting_not_applicable",
        )
    found = _read_all(image, rows, said, any_channels=is_array)
    found = [one for one in found if is_mask and one.reader.axes == "HW"] or found
    if len(found) > 1:
        raise RequestError(
            f"{where}, which may be of several types; name one with `pixels`",
            [Suggestion(one.meaning, {"pixels": str(one.form)}) for one in found[:_MOST_SUGGESTIONS]],
            code="unclear_pixels",
        )
    if found and (orders := _orders(found[0])):
        raise RequestError(
            f"{where}, which have several channels, and are smoother if these are one after the other; name the order "
            "with `pixels`",
            orders,
            code="unclear_pixels",
        )
    if found:
        return _with_range(found[0], where, is_array=is_array)
    if arrays := [] if is_array else _read_all(image, rows, said, any_channels=True):
        raise RequestError(
            f"{where}: {arrays[0].meaning}; expected 1, 3 or 4 channels, or arrays, which have any number",
            _as_arrays(said),
            code="arrays_as_images",
        )
    features = _merge(rows)
    names = dict.fromkeys(name for one in find_sizes(image, features) for name in one)
    beside = [f"{name} {'x'.join(map(str, read_lengths(features[name])))}" for name in names]
    where += f" beside {', '.join(beside)}" if beside else " and no features beside it have its size"
    raise RequestError(
        f"{where}; expected the height, the width and the channels of these numbers, in features or in "
        f"`pixels=HxWxC:TYPE:RANGE`; {available(start)}",
        [Suggestion(one.meaning, {"pixels": str(one.form)}) for one in _square(image, rows, any_channels=is_array)],
        code="missing_pixel_size",
    )


def _first(image: str, start: FirstRows) -> Rows:
    """Returns the first records with a feature, or fewer of them if these are many numbers."""
    rows = [row for row in start.first_rows if row.get(image) is not None]
    sizes = [len(row[image]) if isinstance(row[image], bytes | list) else 1 for row in rows]
    return [
        row for row, total in zip(rows, itertools.accumulate(sizes), strict=True) if total <= _MOST_NUMBERS
    ] or rows[:1]


def _merge(rows: Rows) -> Mapping[str, Any]:
    """Returns all features of some records, each as the first of these has it."""
    return {name: value for row in reversed(rows) for name, value in row.items()}


def _with_range(found: _Reading, where: str, *, is_array: bool) -> PixelReader:
    """Returns the reader with the type of the pixels and, for images, the numbers of black and white.

    Raises:
      RequestError: black and white are not evident.
    """
    numbers, form = found.numbers, found.form
    dtype = type_of_numbers(numbers, () if is_array else form.limits or ())
    reader = dataclasses.replace(found.reader, dtype=dtype, limits=form.limits)
    if is_array or form.limits:
        return reader
    if numbers.dtype.kind == "f":
        if limits := evident_limits(numbers):
            return dataclasses.replace(reader, limits=limits)
    elif (numbers.dtype.str in _WHITE or dtype == "|u1") and not is_dark(numbers, _WHITE[dtype]):
        return reader
    finite = numbers[np.isfinite(numbers)]
    seen = f"from {finite.min():.6g} to {finite.max():.6g}" if finite.size else "that are not finite"
    forms = [dataclasses.replace(form, limits=limits) for limits in possible_limits(numbers)]
    example = forms[0] if forms else dataclasses.replace(form, limits=(0, 1))
    raise RequestError(
        f"{where}: {found.meaning}, and numbers {seen}; expected the numbers of black and white too, as in "
        f"`pixels={example}`",
        [
            *(
                Suggestion(
                    "images whose black is {:.6g} and white {:.6g}".format(*one.limits or ()), {"pixels": str(one)}
                )
                for one in forms
            ),
            *_as_arrays(form),
        ],
        code="unclear_pixel_range",
    )


def _orders(found: _Reading) -> list[Suggestion]:
    """Suggests both orders of channels, if features with the sides of images say none and another is more likely."""
    height, width, channels = (*found.shape, 1)[:3]
    is_open = len(found.reader.sides) > 1 and found.is_one_size and min(height - 1, channels - 1) > 0
    if not (is_open and may_be_planes(found.numbers, found.shape)):
        return []
    shapes = {
        "the channels of each pixel together": found.shape,
        "one channel after the other": (channels, height, width),
    }
    forms = {order: dataclasses.replace(found.form, shape=shape) for order, shape in shapes.items()}
    return [Suggestion(order, {"pixels": str(form)}) for order, form in forms.items()]


def _as_arrays(form: PixelForm) -> list[Suggestion]:
    pixels = {"pixels": str(dataclasses.replace(form, limits=None)) or None}
    return [
        Suggestion("arrays of these numbers with labels", {"layout": "array,label", **pixels}),
        Suggestion("arrays of these numbers without labels", {"layout": "array", **pixels}),
    ]


def _read_all(image: str, rows: Rows, form: PixelForm, *, any_channels: bool) -> list[_Reading]:
    """Returns the ways to read the records, all with the same, most certain features of the size."""
    types, type_feature = _stored_types(image, rows, form)
    shapes: list[tuple[tuple[str, ...], tuple[int, ...]]] = [((), form.shape)]
    if not form.shape:
        # The numbers may have a shape of their own.
        shapes += [(sides, ()) for sides in find_sizes(image, _merge(rows))]
    for sides, shape in shapes:
        found: list[_Reading] = []
        for stored in types:
            cast = "" if stored else form.dtype
            reader = PixelReader(image, sides, shape, stored=stored, cast=cast, any_channels=any_channels)
            found += _fit(dataclasses.replace(reader, type_feature=type_feature), rows, form)
        if found:
            return found
    return []


def _stored_types(image: str, rows: Rows, form: PixelForm) -> tuple[Sequence[str], str]:
    """Returns the NumPy types that plain bytes may have, and the feature that names the only one, or "".

    The type is "" for numbers with a type of their own.
    """
    values = [row[image] for row in rows]
    plain = [value for value in values if isinstance(value, bytes) and described_numbers(value) is None]
    if len(plain) * 2 < len(values):
        return ("",), ""
    feature, named = ("", form.dtype) if form.dtype else find_type(rows)
    return ((np.dtype(named).str,) if named else _BYTE_TYPES), feature


def _fit(reader: PixelReader, rows: Rows, form: PixelForm) -> Iterator[_Reading]:
    """Yields the readings with a type: for sizes without channels, with the number of channels that fits."""
    read = [(row, numbers) for row in rows if (numbers := reader.numbers(row[reader.image])) is not None]
    channels = [(), *((one,) for one in CHANNELS[1:])] if len(reader.sides) == 2 else [()]
    for one in channels:
        sized = dataclasses.replace(reader, shape=(*reader.shape, *one))
        fitting = [(shape, numbers) for row, numbers in read if (shape := sized.lengths(row, numbers))]
        if not fitting or len(fitting) * 2 < len(rows):
            continue
        axes = find_axes([shape for shape, _ in fitting], any_channels=reader.any_channels)
        numbers = np.concatenate([numbers.ravel() for _, numbers in fitting])
        if axes is None or not (form.dtype or may_be_pixels(numbers)):
            continue
        said = dataclasses.replace(form, dtype=form.dtype or (numbers.dtype.name if reader.stored else ""))
        first, sizes = fitting[0][0], {shape for shape, _ in fitting}
        named = "HWC" if len(reader.sides) > 1 and len(first) == 3 else axes
        yield _Reading(dataclasses.replace(sized, axes=named), said, numbers, first, len(sizes) == 1)


def _square(image: str, rows: Rows, *, any_channels: bool) -> list[_Reading]:
    """Returns the square images that the numbers of all first records may be."""
    found: list[_Reading] = []
    value = rows[0][image]
    for stored in _stored_types(image, rows, PixelForm())[0]:
        numbers = PixelReader(image, stored=stored).numbers(value)
        for channels in CHANNELS:
            side = math.isqrt((0 if numbers is None else numbers.size) // channels)
            shapes = [(side, side)] if channels == 1 else [(side, side, channels), (channels, side, side)]
            for shape in shapes if side > 1 else ():
                found += _fit(
                    PixelReader(image, (), shape, stored=stored, any_channels=any_channels), rows, PixelForm(shape)
                )
    return found[:_MOST_SUGGESTIONS]


def _describe(image: str, rows: Rows) -> str:
    """Describes the numbers of the first record."""
    value = rows[0][image]
    array = described_numbers(value) if isinstance(value, bytes) else None
    if array is not None:
        return f"an array of shape {list(array.shape)} and type {array.dtype.name}"
    return describe_cell(value)
