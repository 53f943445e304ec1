"""Finds the features of records with the image and its mask, and how they are stored."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.folder_metadata import Features
from beam_tfrecords.transforms.sources.records.pixel_reader import (
    PixelReader,
    PixelUse,
    describe_cell,
    described_numbers,
    find_axes,
    listed_numbers,
    read_lengths,
)
from beam_tfrecords.transforms.sources.tables.table import FirstRows, available
from beam_tfrecords.transforms.sources.tables.table_settings import TYPES, PixelForm, TableSettings

# Names of features whose numbers are an image, even if nothing says its size.
_IMAGE_NAME = re.compile(r"image|img|picture|photo|pixel|frame|raw|(?:^|/)(?:x|data)$")
# Starts of the base64 text of a JPEG in both alphabets, of a PNG, and of a `data:` URL (RFC 2397).
_BASE64 = (b"/9j/", b"_9j_", b"iVBORw0KGgo", b"data:image/")
# Fewer numbers are a vector or a text rather than an image.
_LEAST_NUMBERS = 16
# Bytes or numbers to look at.
_MOST_NUMBERS = 1 << 22
# Images whose brightest pixel is below this share of white are nearly black: 4 of 8 bits, or 12 of 16.
_DARK = 1 / 15
# Words that end the names of features with a size: height, width and channels; and the word for all of them.
_SIDES = (
    ("height", "rows", "h"),
    ("width", "cols", "columns", "w"),
    ("depth", "channels", "channel", "bands", "c"),
)
_SHAPE = "shape"
_NAME = re.compile(r"(.*?)[/_.-]?([a-z]+)")
# Boundary between the words of a name such as imageHeight.
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")

_Rows = Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class ImagePlan:
    """The features of a record that hold its images, or name the files of its images. Picklable.

    Attributes:
      features: name of an image -> its feature; empty if files have the images, and for records without images.
      lists: names in `features` whose feature has any number of images.
      mask: feature with the mask, or None.
      pixels: feature -> reader of its images that are stored as numbers; encoded ones have none.
      files: settings of the features that name image files; None if records hold their images.
    """

    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    mask: str | None = None
    pixels: Mapping[str, PixelReader] = dataclasses.field(default_factory=dict)
    files: TableSettings | None = None

    @property
    def held(self) -> set[str]:
        """The features that hold images and masks."""
        return {*self.features.values(), *filter(None, [self.mask])}

    @property
    def used(self) -> set[str]:
        """The features that hold images and masks, or say their sizes."""
        return self.held.union(*(reader.sides for reader in self.pixels.values()))


def choose_features(start: FirstRows, features: Features, settings: TableSettings, needs: Needs) -> ImagePlan:
    """Returns the features of the image and of its mask.

    Raises:
      RequestError: there is no image or mask, there are several images, or it is unclear how they are stored.
    """
    form = settings.pixels
    use = PixelUse.ARRAY if Content.ARRAY in needs.contents else PixelUse.IMAGE
    mask = choose_mask(start.columns, start, settings.mask_column) if Content.MASK in needs.contents else None
    image = _choose_image(start, features, settings, mask, use)
    found = {image: _find_reader(image, start, form, features, use)}
    if form is not None and not found[image]:
        raise RequestError(
            f"`pixels={form}`: the feature {image!r} has encoded images, which say their sizes; leave `pixels` out, or "
            "name the feature with the pixels with `image_column`",
            code="setting_not_applicable",
        )
    if mask is not None:
        # A mask has the size of its image, one channel, and numbers in place of black and white.
        size = PixelForm(form.shape[:2]) if form else None
        found[mask] = _find_reader(mask, start, size, features, PixelUse.MASK)
    pixels = {name: reader for name, reader in found.items() if reader}
    return ImagePlan({IMAGE: image}, mask=mask, pixels=pixels)


def is_encoded_image(value: Any) -> bool:
    """Whether a cell holds an encoded image, such as a JPEG."""
    if not isinstance(value, bytes) or not value:
        return False
    try:
        sniff(value)
    except SampleError:
        return False
    return True


def is_base64_image(value: Any) -> bool:
    """Whether a cell holds the base64 text of an image."""
    return isinstance(value, bytes) and value.startswith(_BASE64)


def _choose_image(
    start: FirstRows, features: Features, settings: TableSettings, mask: str | None, use: PixelUse
) -> str:
    """Chooses the image feature: a described image, else one with encoded images, else one with pixels.

    Args:
      start: the first records.
      features: described features.
      settings: settings of the rows.
      mask: feature with the mask, which is excluded.
      use: what pixels become.
    """
    form = settings.pixels
    names = [name for name in start.columns if name != mask]
    encoded = [name for name in names if _most(name, start, is_encoded_image)]
    texts = [name for name in names if _most(name, start, is_base64_image)]
    numbers = [name for name in names if _most(name, start, _may_hold_pixels)]
    unsized = [name for name in numbers if _IMAGE_NAME.search(name.lower()) and not is_mask_name(name)]
    # An array that is described may be anything, unless its name says that it is an image.
    sized = [
        name
        for name in numbers
        if _fit(name, _first(name, start), _said(name, form, features if name in unsized else None), use)
    ]
    kinds = [[name for name in features.images if name != mask], encoded, texts, sized, unsized]
    if form is not None:
        kinds = [*kinds[3:], *kinds[:3]]
    lacks = "no feature with an image, nor with pixels whose height, width and depth are in others"
    return choose_image(kinds, start, settings.image_column, lacks=lacks)


def _most(name: str, start: FirstRows, holds: Callable[[Any], bool]) -> bool:
    """Whether `holds` accepts at least half of the values of a feature in the first records."""
    found = [holds(row[name]) for row in start.first_rows if row.get(name) is not None]
    return bool(found) and sum(found) * 2 >= len(found)


def _may_hold_pixels(value: Any) -> bool:
    """Whether a cell may hold the numbers of an image: bytes other than text, or a list of numbers."""
    if not isinstance(value, bytes):
        return listed_numbers(value) is not None and len(value) >= _LEAST_NUMBERS
    try:
        return len(value) >= _LEAST_NUMBERS and not value.decode().isprintable()
    except UnicodeDecodeError:
        return True


def _said(name: str, form: PixelForm | None, features: Features | None) -> PixelForm:
    """Returns what the request says about the numbers of a feature, completed by its description."""
    said = form or PixelForm()
    shape, dtype = features.tensors.get(name, ((), "")) if features else ((), "")
    known = dtype if dtype in TYPES and (not shape or len(shape) in (2, 3)) else ""
    return dataclasses.replace(said, shape=said.shape or (shape if known else ()), dtype=said.dtype or known)


def _find_reader(
    image: str, start: FirstRows, form: PixelForm | None, features: Features, use: PixelUse
) -> PixelReader | None:
    """Returns the reader of images that are stored as numbers; None for encoded images.

    Those that cannot be read are rejected one by one.

    Raises:
      RequestError: the images are texts; or the size, the type or the range of their numbers is unknown.
    """
    if _most(image, start, is_base64_image):
        raise RequestError(
            f"{quote_input(start.path)}: the feature {image!r} has images as base64 texts; expected their bytes; "
            "decode them when the records are written",
            code="images_as_texts",
        )
    if _most(image, start, is_encoded_image) or not (form or _most(image, start, _may_hold_pixels)):
        return None
    where = f"`pixels={form}`" if form else quote_input(start.path)
    said = _said(image, form, features)
    rows = _first(image, start)
    where = f"{where}: the feature {image!r} has {_describe(rows[0][image] if rows else None)}"
    if use is PixelUse.ARRAY and said.limits:
        raise RequestError(
            f"`pixels={said}`: arrays have the numbers of the records; leave the range out",
            code="setting_not_applicable",
        )
    reader = _fit(image, rows, said, use)
    if reader is not None:
        _check_type(reader, rows, said, where)
        return reader
    if use is PixelUse.IMAGE and (array := _fit(image, rows, said, PixelUse.ARRAY)):
        lengths = " x ".join(map(str, _shapes(array, rows)[0]))
        raise RequestError(
            f"{where}: arrays of {lengths}; expected 1, 3 or 4 channels, or `layout=array`, which takes any number",
            code="arrays_as_images",
        )
    features_of = _merge(rows)
    names = dict.fromkeys(name for one in _find_sizes(image, features_of) for name in one)
    beside = [f"{name} {'x'.join(map(str, read_lengths(features_of[name])))}" for name in names]
    where += f" beside {', '.join(beside)}" if beside else " and no features beside it have its size"
    raise RequestError(
        f"{where}; expected features with the height, width and channels of {said.dtype or 'uint8'} pixels, "
        f"or a size and a type such as `pixels=28x28:uint8` or `pixels=40x40x3:float32:0..1`; {available(start)}",
        code="missing_pixel_size",
    )


def _first(image: str, start: FirstRows) -> _Rows:
    """Returns the first records with a feature, or fewer of them if these are many numbers."""
    rows = [row for row in start.first_rows if row.get(image) is not None]
    sizes = [len(row[image]) if isinstance(row[image], bytes | list) else 1 for row in rows]
    return [
        row for row, total in zip(rows, itertools.accumulate(sizes), strict=True) if total <= _MOST_NUMBERS
    ] or rows[:1]


def _merge(rows: _Rows) -> Mapping[str, Any]:
    """Returns all features of some records, each as the first of these has it."""
    return {name: value for row in reversed(rows) for name, value in row.items()}


def _fit(image: str, rows: _Rows, said: PixelForm, use: PixelUse) -> PixelReader | None:
    """Returns the reader with the most certain size that at least half of the records have; None if there is none."""
    sizes = [()] if said.shape else [(), *_find_sizes(image, _merge(rows))]
    for sides in sizes:
        reader = PixelReader(image, use, said.shape, sides, dtype=said.dtype, limits=said.limits)
        shapes = _shapes(reader, rows)
        if shapes and len(shapes) * 2 >= len(rows) and (axes := find_axes(shapes, use)) is not None:
            return dataclasses.replace(reader, axes="HWC" if len(sides) > 1 and len(shapes[0]) == 3 else axes)
    return None


def _shapes(reader: PixelReader, rows: _Rows) -> list[tuple[int, ...]]:
    read = [(row, reader.numbers(row[reader.image])) for row in rows]
    return [shape for row, numbers in read if numbers is not None and (shape := reader.shape_of(row, numbers))]


def _check_type(reader: PixelReader, rows: _Rows, said: PixelForm, where: str) -> None:
    """Checks that the numbers of the first records are pixels.

    Raises:
      RequestError: the request must say their type, or which numbers are black and white.
    """
    read = [numbers.ravel() for row in rows if (numbers := reader.numbers(row[reader.image])) is not None]
    numbers = np.concatenate(read)
    typed = reader.convert(numbers)
    has_range = reader.use is not PixelUse.IMAGE or reader.limits is not None
    if typed is not None and (has_range or not 0 < typed.max() < np.iinfo(typed.dtype).max * _DARK):
        return
    found = said.dtype or numbers.dtype.name
    seen = f"numbers of {found} from {numbers.min():.6g} to {numbers.max():.6g}"
    if reader.use is PixelUse.IMAGE:
        white = 1 if numbers.dtype.kind == "f" else (1 << int(numbers.max()).bit_length()) - 1
        form = dataclasses.replace(said, dtype=found, limits=(0, white))
        expected = f"pixels of uint8 or uint16, or the numbers of black and white, as in `pixels={form}`"
    else:
        expected = "values of uint8, or their type, as in `pixels=uint16`"
    raise RequestError(f"{where}: {seen}; expected {expected}", code="unclear_pixels")


def _find_sizes(image: str, row: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields features that may have the size of an image, the most certain first: one, two or three for each size.

    Args:
      image: feature with the image. Features whose names begin as its name does come first, as `image/height` does for
        `image/raw`.
      row: features of the records.
    """
    by_head: dict[str, dict[str, str]] = {}
    for name in row:
        head, word = _split(name)
        if name != image and read_lengths(row[name]):
            by_head.setdefault(head, {})[word] = name
    for head in sorted(by_head, key=lambda one: (not image.lower().startswith(one), -len(one), one)):
        named = by_head[head]
        if _SHAPE in named:
            yield (named[_SHAPE],)
        sides = [next((named[word] for word in words if word in named), "") for words in _SIDES]
        if all(sides):
            yield tuple(sides)
        if all(sides[:2]):
            yield tuple(sides[:2])


def _split(name: str) -> tuple[str, str]:
    """Splits a feature's name before its last word; the word is "" if the name does not end with letters."""
    match = _NAME.fullmatch(_HUMP.sub("_", name).lower())
    return (match[1], match[2]) if match else (name, "")


def _describe(value: Any) -> str:
    array = described_numbers(value) if isinstance(value, bytes) else None
    if array is not None:
        return f"an array of shape {list(array.shape)} and type {array.dtype.name}"
    return describe_cell(value)
