"""Merges the masks of single classes to the mask of an image."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, read_mask
from beam_tfrecords.transforms.mapping.pixel_file import pixel_file
from beam_tfrecords.transforms.refs.sample_refs import MASK, is_mask


def merge_masks(images: Mapping[str, bytes], spec: ImageSpec) -> bytes | None:
    """Returns the file of a sample's mask; None if it has none.

    A sample with a mask for each class gets the number of the class where its mask is not 0, and 0 elsewhere.

    Args:
      images: image name, as in `SampleRef.images` -> bytes.
      spec: how masks are decoded.

    Raises:
      SampleError: masks of classes overlap, have different sizes or several numbers, or cannot be decoded.
    """
    parts = {name: data for name, data in images.items() if is_mask(name) and name != MASK}
    if not parts:
        return images.get(MASK)
    names = {int(number): name for _, number, name in (part.split("/", 2) for part in parts)}
    merged: np.ndarray | None = None
    for (number, name), data in zip(names.items(), parts.values(), strict=True):
        try:
            mask = read_mask(data, spec)
        except SampleError as error:
            raise error.about(name) from error
        merged = np.zeros(mask.shape, np.uint16) if merged is None else merged
        if mask.shape != merged.shape:
            raise invalid_mask(f"the mask of {name} has another size than that of {next(iter(names.values()))}")
        inside = mask > 0
        if inside.any() and mask[inside].min() < mask.max():
            raise invalid_mask(
                f"the mask of {name} has several numbers besides 0, up to {mask.max()}; expected one, for the class"
            )
        overlap = merged[inside]
        if overlap.any():
            other = names[int(overlap[overlap > 0][0])]
            raise invalid_mask(f"the masks of {other} and {name} overlap in {np.count_nonzero(overlap):,} pixels")
        merged[inside] = number
    assert merged is not None
    return pixel_file(merged if merged.max() > 255 else merged.astype(np.uint8))
