"""Converts JPEGs into arrays that end at a page which nobody may write to.

    python -m tests.core.images.guarded_decoding FILE…

A decoder that writes behind the end of its array ends the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from pathlib import Path
from typing import Any

import simplejpeg

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec

_CHANNELS = {"GRAY": 1, "RGB": 3, "BGR": 3}
_SPECS = [
    ImageSpec(image_size=(8, 8)),
    ImageSpec(image_size=(8, 8), codec=Codec.EXACT),
    ImageSpec(image_encoding=ImageEncoding.RAW),
    ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None),
]
_decode_jpeg = simplejpeg.decode_jpeg


def guarded(size: int) -> memoryview:
    """Memory of `size` bytes, with a page behind it that belongs to nobody."""
    pages = -(-size // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    end = ctypes.c_void_p(start + pages * mmap.PAGESIZE)
    assert libc.mprotect(end, mmap.PAGESIZE, 0) == 0
    return memoryview(memory)[pages * mmap.PAGESIZE - size : pages * mmap.PAGESIZE]


def decode_guarded(data: bytes, colorspace: str = "RGB", **settings: Any) -> Any:
    """`simplejpeg.decode_jpeg` into guarded memory."""
    asked = {name: value for name, value in settings.items() if name.startswith("min_")}
    height, width, *_ = simplejpeg.decode_jpeg_header(data, **asked)
    memory = guarded(height * width * _CHANNELS[colorspace])
    return _decode_jpeg(data, colorspace, **{**settings, "buffer": memory})


def main(paths: list[str]) -> None:
    """Converts files; prints those that are rejected."""
    simplejpeg.decode_jpeg = decode_guarded
    for path in paths:
        data = Path(path).read_bytes()
        for spec in _SPECS:
            try:
                convert_image(data, spec)
            except SampleError as error:
                print(path, error, flush=True)
        for colorspace in ("GRAY", "RGB"):
            with contextlib.suppress(ValueError):
                decode_guarded(data, colorspace)  # as the readers of a dataset do


if __name__ == "__main__":
    main(sys.argv[1:])
