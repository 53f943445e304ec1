"""Images and masks of users: given as files, which are decoded at the first access, or made by a function.

Masks of single classes are merged to one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.convert_image import decode_pixels, spec_of_changed
from beam_tfrecords.transforms.images.convert_pixels import Upright
from beam_tfrecords.transforms.images.formats import sniff
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.masks import invalid_mask, place_mask, read_mask
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.fetching import read_image
from beam_tfrecords.transforms.refs.sample_refs import MASK, File

_MOST_BYTES = 1 << 30
# Path or URL of a file, its bytes, or a function that reads the bytes.
FileSource = str | bytes | Callable[[], bytes]


class Later:
    """A value that is computed at the first access."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @functools.cached_property
    def value(self) -> Any:
        """The value; every access returns the same object."""
        return self._make()


def value_of(value: Any) -> Any:
    """Returns the value; computes it if it is a `Later`."""
    return value.value if isinstance(value, Later) else value


def is_same(before: Any, after: Any) -> bool:
    """Whether a value is unchanged: the same object, or the computed value of the same `Later`."""
    return before is after or (isinstance(before, Later) and "value" in vars(before) and before.value is after)


def read_only(pixels: np.ndarray) -> np.ndarray:
    """Returns the array if it is read-only, or a read-only view of it."""
    if not pixels.flags.writeable:
        return pixels
    found = pixels.view()
    found.flags.writeable = False
    return found


def is_file(value: object) -> TypeGuard[str | bytes | os.PathLike[str]]:
    """Whether a user gives an image as a file: a path, a URL or bytes."""
    return isinstance(value, str | bytes | os.PathLike)


class ImageFile(Later):
    """An image given as a file, which is decoded at the first access.

    Args:
      file: see `FileSource`.
      spec: how the image is decoded.
      name: name of the image in errors; "" for the only image of a sample.
    """

    def __init__(self, file: FileSource | os.PathLike[str], spec: ImageSpec | None = None, name: str = "") -> None:
        super().__init__(lambda: self.upright.pixels)
        self.file: FileSource = os.fspath(file) if isinstance(file, os.PathLike) else file
        self.spec = spec or ImageSpec()
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.spec, self.name)

    def read(self) -> bytes:
        """Reads the bytes of the file.

        Raises:
          SampleError: the file cannot be read.
          BuildError: a service fault.
        """
        if isinstance(self.file, bytes):
            return self.file
        if not isinstance(self.file, str):
            return self.file()
        data = read_image(File(self.file), size=0, max_file_size=_MOST_BYTES)
        if isinstance(data, SampleError):
            raise data
        return data

    @functools.cached_property
    def upright(self) -> Upright:
        """The decoded image.

        Raises:
          SampleError: the file cannot be read or decoded.
        """
        data = self.read()
        try:
            return decode_pixels(data, self.spec)
        except SampleError as error:
            raise (error.about(self.name) if self.name else error) from error


class MaskFile(ImageFile):
    """A mask given as a file.

    Args:
      file: see `FileSource`.
      spec: how the mask is decoded.
      image: image of the mask, if that is a file too; the mask is turned like it.
    """

    def __init__(
        self, file: FileSource | os.PathLike[str], spec: ImageSpec | None = None, image: ImageFile | None = None
    ) -> None:
        super().__init__(file, spec)
        self._make = self._place
        self._image = image

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.spec, self._image)

    def _place(self) -> np.ndarray:
        data = self.read()
        mask = read_mask(data, spec_for(data, self.spec))
        return read_only(mask if self._image is None else place_mask(mask, self._image.upright.geometry))


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


def merge_masks(images: Mapping[str, bytes], spec: ImageSpec, name: str = MASK) -> bytes | None:
    """Returns the file of a sample's mask, or of another file beside its image; None if it has none.

    A sample with a mask for each class gets the number of the class where its mask is not 0, and 0 elsewhere.

    Args:
      images: image name, as in `SampleRef.images` -> bytes.
      spec: how masks are decoded.
      name: name of the file.

    Raises:
      SampleError: masks of classes overlap, have different sizes or several numbers, or cannot be decoded.
    """
    parts = {part: data for part, data in images.items() if part.startswith(f"{name}/")}
    if not parts:
        return images.get(name)
    names = {int(number): of for _, number, of in (part.split("/", 2) for part in parts)}
    merged: np.ndarray | None = None
    for (number, of), data in zip(names.items(), parts.values(), strict=True):
        try:
            mask = read_mask(data, spec)
        except SampleError as error:
            raise error.about(of) from error
        merged = np.zeros(mask.shape, np.uint16) if merged is None else merged
        if mask.shape != merged.shape:
            raise invalid_mask(f"the mask of {of} has another size than the mask of {next(iter(names.values()))}")
        inside = mask > 0
        if inside.any() and mask[inside].min() < mask.max():
            raise invalid_mask(
                f"the mask of {of} has several numbers besides 0, up to {mask.max()}; expected one, for the class"
            )
        overlap = merged[inside]
        if overlap.any():
            other = names[int(overlap[overlap > 0][0])]
            raise invalid_mask(f"the masks of {other} and {of} overlap in {np.count_nonzero(overlap):,} pixels")
        merged[inside] = number
    assert merged is not None
    return pixel_file(merged if merged.max() > 255 else merged.astype(np.uint8))
