"""Finds the features of records with the image and its mask, and how they are stored."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.pixels.find_pixels import find_pixels, has_size, may_hold_pixels
from beam_tfrecords.transforms.sources.pixels.pixel_form import TYPES, PixelForm
from beam_tfrecords.transforms.sources.pixels.pixel_reader import PixelReader
from beam_tfrecords.transforms.sources.pixels.stored_numbers import is_base64_image, is_encoded_image
from beam_tfrecords.transforms.sources.records.tfds_features import Features
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

# Names of features whose numbers are an image, even if nothing says its size.
_IMAGE_NAME = re.compile(r"image|img|picture|photo|pixel|frame|raw|(?:^|/)(?:x|data)$")


class StoredImage(NamedTuple):
    """A feature with an image, and how it is stored.

    Attributes:
      name: the feature.
      pixels: reads its numbers; None for an encoded image.
      is_base64: whether it holds the base64 text of an encoded image.
    """

    name: str
    pixels: PixelReader | None = None
    is_base64: bool = False

    @property
    def features(self) -> frozenset[str]:
        """The features with the image, its size and its type."""
        return self.pixels.features if self.pixels else frozenset({self.name})


def choose_features(
    start: FirstRows, features: Features, settings: TableSettings, needs: Needs
) -> tuple[StoredImage, StoredImage | None]:
    """Returns the features of the image and of its mask, which is None if it is not needed.

    Raises:
      RequestError: there is no image or mask, there are several images, or it is unclear how they are stored.
    """
    form = settings.pixels
    mask = choose_mask(start.columns, start, settings.mask_column) if needs.mask else None
    image = _choose_image(start, features, settings, mask, needs)
    stored = _find_form(image, start, form, features, is_array=needs.array)
    if form is not None and stored.pixels is None:
        raise RequestError(
            f"`pixels={form}`: the feature {image!r} has encoded images, which say their sizes; leave `pixels` out, or "
            "name the feature with the pixels with `image_column`",
            code="setting_not_applicable",
        )
    if mask is None:
        return stored, None
    # A mask has one channel, and numbers in place of black and white.
    size = PixelForm(form.shape[:2]) if form else None
    return stored, _find_form(mask, start, size, features, is_array=True, is_mask=True)


def _choose_image(start: FirstRows, features: Features, settings: TableSettings, mask: str | None, needs: Needs) -> str:
    """Chooses the image feature: a described image, else one with encoded images, else one with pixels.

    Args:
      start: the first records.
      features: described features.
      settings: settings of the rows.
      mask: feature with the mask, which is excluded.
      needs: requested contents.
    """
    form = settings.pixels
    names = [name for name in start.columns if name != mask]
    encoded = [name for name in names if _most(name, start, is_encoded_image)]
    texts = [name for name in names if _most(name, start, is_base64_image)]
    numbers = [name for name in names if _most(name, start, may_hold_pixels)]
    unsized = [name for name in numbers if _IMAGE_NAME.search(name.lower()) and not is_mask_name(name)]
    # An array that is described may be anything, unless its name says that it is an image.
    sized = [
        name
        for name in numbers
        if has_size(name, start, _said(name, form, features if name in unsized else None), any_channels=needs.array)
    ]
    kinds = [[name for name in features.images if name != mask], encoded, texts, sized, unsized]
    if form is not None:
        kinds = [*kinds[3:], *kinds[:3]]
    lacks = "no feature with an image, nor with pixels whose height, width and depth are in others"
    return choose_image(kinds, start, settings.image_column, lacks=lacks)


def _said(name: str, form: PixelForm | None, features: Features | None) -> PixelForm:
    """Returns what the request says about the numbers of a feature, completed by its description."""
    said = form or PixelForm()
    shape, dtype = features.tensors.get(name, ((), "")) if features else ((), "")
    known = dtype if dtype in TYPES and (not shape or len(shape) in (2, 3)) else ""
    return dataclasses.replace(said, shape=said.shape or (shape if known else ()), dtype=said.dtype or known)


def _find_form(
    image: str,
    start: FirstRows,
    form: PixelForm | None,
    features: Features,
    *,
    is_array: bool,
    is_mask: bool = False,
) -> StoredImage:
    """Finds out how a feature stores images; those that cannot be read are rejected one by one."""
    if _most(image, start, is_base64_image):
        return StoredImage(image, is_base64=True)
    if _most(image, start, is_encoded_image) or not (form or _most(image, start, may_hold_pixels)):
        return StoredImage(image)
    where = f"`pixels={form}`" if form else quote_input(start.path)
    said = _said(image, form, features)
    return StoredImage(image, find_pixels(image, start, said, where, is_array=is_array, is_mask=is_mask))


def _most(name: str, start: FirstRows, holds: Callable[[Any], bool]) -> bool:
    """Whether `holds` accepts at least half of the values of a feature in the first records."""
    found = [holds(row[name]) for row in start.first_rows if row.get(name) is not None]
    return bool(found) and sum(found) * 2 >= len(found)
