"""Values of a sample that are computed at the first access, such as images and masks that are given as files."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.fetching import read_image
from beam_tfrecords.transforms.images.convert_image import decode_pixels
from beam_tfrecords.transforms.images.convert_pixels import Upright
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import place_mask, read_mask
from beam_tfrecords.transforms.mapping.pixel_file import spec_for
from beam_tfrecords.transforms.refs.sample_refs import File

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
