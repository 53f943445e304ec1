"""Masks: numbers of classes or objects for the pixels of an image, never averaged, and no colors."""

from __future__ import annotations

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from transforms.images.arrays import fit, turn
from transforms.images.geometry import Geometry

# EXIF orientation -> the one that turns back.
_BACK = {6: 8, 8: 6}


def place_mask(mask: np.ndarray, geometry: Geometry, *, padding: int = 0) -> np.ndarray:
    """Turns, resizes, crops and pads a mask as its image: every stored pixel has the number of the nearest one.

    Args:
      mask: [H, W] uint8 or uint16, of the size of the image as it is shown or as it is in its file. Where both have
        this size, it belongs to the image as it is shown.
      geometry: of the image.
      padding: the number where the image is padded.

    Returns:
      [final_height, final_width] of the same type.

    Raises:
      SampleError: the mask has another size than its image.
    """
    if mask.shape == geometry.upright_size:
        # A kept file stays as it is.
        mask = turn(mask, _BACK.get(geometry.kept_orientation, geometry.kept_orientation))
    elif mask.shape == (geometry.height, geometry.width):
        # Drawn by a program that does not turn images.
        mask = turn(mask, geometry.orientation)
    else:
        height, width = geometry.upright_size
        raise SampleError(
            Stage.LABEL,
            FailureReason.INVALID_MASK,
            f"the mask has {mask.shape[1]} x {mask.shape[0]} pixels (width x height), and its image {width} x {height}",
        )
    rows, columns = (
        # Where the middle of a resized pixel is in the source; in whole numbers, so that no rounding moves it.
        (2 * np.arange(resized) + 1) * size // (2 * resized)
        for size, resized in zip(mask.shape, (geometry.resized_height, geometry.resized_width), strict=True)
    )
    return fit(mask[rows][:, columns], geometry, padding=padding)
