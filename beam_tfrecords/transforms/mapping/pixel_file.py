"""Files of images that a user's function has made, and masks that are merged from those of single classes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.convert_image import spec_of_changed
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, read_mask
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.sample_refs import MASK, is_mask


class PixelFile(bytes):
    """A lossless file of an image or a mask that a user's function has made.

    Attributes:
      format: lower-case name of the format of the file that it replaces.
    """

    format: str = "png"

    @functools.cached_property
    def content_hash(self) -> str:
        """Hash of the file, cached because several steps need it."""
        return content_hash(self)


def hash_file(data: bytes) -> str:
    """Returns the `content_hash` of a file."""
    return data.content_hash if isinstance(data, PixelFile) else content_hash(data)


def pixel_file(pixels: np.ndarray, before: bytes = b"") -> PixelFile:
    """Makes a file of [H, W] or [H, W, C] uint8 or uint16 pixels.

    Args:
      before: the file that the new one replaces.
    """
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    file = PixelFile(as_file(pixels.tobytes(), shape=pixels.shape, axes="HWC"[: pixels.ndim], dtype=pixels.dtype.str))
    with contextlib.suppress(SampleError):  # a file that cannot be decoded counts as PNG
        file.format = sniff(before)
    return file


def has_pixels(images: Mapping[str, bytes]) -> bool:
    """Whether a user's function has made one of the images, or the mask."""
    return any(isinstance(data, PixelFile) for data in images.values())


def spec_for(data: bytes, spec: ImageSpec) -> ImageSpec:
    """Returns the settings for a file. Replaced pixels cannot be kept, so they are encoded in the source's format.

    The numbers of a mask that a user's function has made are the numbers of the record.
    """
    if not isinstance(data, PixelFile):
        return spec
    spec = dataclasses.replace(spec, mask_colors=None, mask_values=()) if spec.mask_numbers else spec
    return spec_of_changed(spec, data.format) if spec.image_encoding is ImageEncoding.KEEP else spec


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
