"""Catches the error messages of libtiff, which otherwise prints them to standard error without the name of the file."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

from PIL import Image

_LONGEST = 200
# Finds libtiff among the libraries that Pillow is linked with. A libtiff inside Pillow is not found, and still prints.
_linked = ctypes.CDLL(Image.core.__file__)
_set_handler = getattr(_linked, "TIFFSetErrorHandler", None)
_vsnprintf = ctypes.CDLL(None).vsnprintf
_vsnprintf.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p]
_heard = threading.local()


@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)
def _hear(_: bytes, template: bytes, values: int) -> None:
    """Handles an error as a TIFFErrorHandler: takes a printf template, and a va_list passed as an address."""
    text = ctypes.create_string_buffer(_LONGEST)
    _vsnprintf(text, _LONGEST, template, values)
    if hasattr(_heard, "errors"):
        _heard.errors.append(" ".join(text.value.decode(errors="replace").split()))


if _set_handler is not None:
    _set_handler(_hear)


@contextlib.contextmanager
def libtiff_errors() -> Iterator[list[str]]:
    """Yields a list that receives the errors of libtiff in the block, in order."""
    _heard.errors = []
    try:
        yield _heard.errors
    finally:
        del _heard.errors
