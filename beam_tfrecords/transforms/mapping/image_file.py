"""Images and masks of a sample that are still files."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.blocks.fetching import read_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import place_mask, read_mask
from beam_tfrecords.transforms.images.upright import Upright, decode_upright
from beam_tfrecords.transforms.mapping.later import Later, read_only
from beam_tfrecords.transforms.refs.sample_refs import File

_MOST_BYTES = 1 << 30
# Its path or URL, its bytes, or what reads them.
FileSource = str | bytes | Callable[[], bytes]


def is_file(value: Any) -> bool:
    """Whether a user gives an image as its file."""
    return isinstance(value, str | bytes | os.PathLike)


class ImageFile(Later):
    """An image as its file, which is decoded when it is first asked for.

    Args:
      file: see `FileSource`.
      spec: how it is decoded.
    """

    def __init__(self, file: FileSource | os.PathLike[str], spec: ImageSpec | None = None) -> None:
        super().__init__(lambda: self.upright.pixels)
        self.file: FileSource = os.fspath(file) if isinstance(file, os.PathLike) else file
        self.spec = spec or ImageSpec()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.spec)

    def read(self) -> bytes:
        """The bytes of the file.

        Raises:
          SampleError: they cannot be read.
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
          SampleError: it cannot be read, or decoded.
        """
        return decode_upright(self.read(), self.spec)


class MaskFile(ImageFile):
    """A mask as its file.

    Args:
      file: see `FileSource`.
      spec: how it is decoded.
      image: the image that it belongs to, if that is a file too.
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
        mask = read_mask(self.read(), self.spec)
        return read_only(mask if self._image is None else place_mask(mask, self._image.upright.geometry))
