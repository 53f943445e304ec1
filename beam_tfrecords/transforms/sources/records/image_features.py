"""Finds the features of records with the image, its mask, and the size of a pixel image."""

from __future__ import annotations

import math
from typing import Any

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.records.record_rows import is_length
from beam_tfrecords.transforms.sources.records.tfds_features import Features
from beam_tfrecords.transforms.sources.tables.table import FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings


def choose_features(
    start: FirstRows, features: Features, settings: TableSettings, needs: Needs
) -> tuple[str, str | None, tuple[str, ...]]:
    """Returns the features of the image, its mask or None, and the size of an image stored as pixels or ().

    Raises:
      RequestError: there is no image or mask, or there are several images.
    """
    mask = choose_mask(start.columns, start, settings.mask_column) if needs.mask else None
    image = _choose_image(start, features, settings.image_column, mask)
    return image, mask, _find_sides(image, start)


def _choose_image(start: FirstRows, features: Features, named: str | None, mask: str | None) -> str:
    """Chooses the image feature: a described image, else a feature with encoded images, else a feature with pixels.

    Args:
      start: the first records.
      features: described features.
      named: feature that the request names, or None.
      mask: feature with the mask, which is excluded.
    """
    row = start.first_rows[0]
    encoded = [name for name in start.columns if _is_image(row.get(name))]
    pixels = [name for name in start.columns if _find_sides(name, start)]
    kinds = [[name for name in kind if name != mask] for kind in (features.images, encoded, pixels)]
    lacks = "no feature with an image in its first record, nor with pixels whose height, width and depth are in others"
    return choose_image(kinds, start, named, lacks=lacks)


def _find_sides(image: str, start: FirstRows) -> tuple[str, ...]:
    """Returns the features with height, width, and (unless grayscale) channels of an image stored as pixels; else ().

    Looks for features next to the image, as `image/height` is next to `image/raw`.
    """
    row = start.first_rows[0]
    data = row.get(image)
    if not isinstance(data, bytes) or _is_image(data):
        return ()
    for head in dict.fromkeys((f"{image}/", f"{image.rpartition('/')[0]}/", "")):
        for sides in (("height", "width", "depth"), ("height", "width", "channels"), ("height", "width")):
            names = tuple(f"{head}{side}" for side in sides)
            lengths: list[Any] = [row.get(name) for name in names]
            if all(map(is_length, lengths)) and math.prod(lengths) == len(data):
                return names
    return ()


def _is_image(value: Any) -> bool:
    if not isinstance(value, bytes) or not value:
        return False
    try:
        sniff(value)
    except SampleError:
        return False
    return True
