"""Files of images that a user's function has made."""

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
from beam_tfrecords.transforms.images.raw_pixels import as_file


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
