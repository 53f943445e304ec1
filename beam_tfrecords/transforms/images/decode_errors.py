"""From what a decoder raises to the reason of a failure."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage import is_service_fault

# Pillow documents OSError, SyntaxError and ValueError; its header parsers let the others through.
DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    RuntimeError,  # the AVIF plugin
    struct.error,
    zlib.error,
)
# Words of their messages that mean a file that ends too early, and pixels of a kind they cannot read.
_TRUNCATED_WORDS = (
    "truncated",
    "unexpected end",
    "not enough",
    "reached eof",
    "but only got",
    "requires a buffer of",
)
# Words about how pixels are stored, where the file may be damaged as well as of a kind they cannot read.
_KIND_WORDS = (
    "not configured",
    "not implemented",
    "bad configuration",
    "no codec available",
    "image grid",
    "image mode",
    "raw mode",
    "data organization",
    "samples per pixel",
    "bits/sample",
    "photometric interpretation",
    "missing jpeg tables",
    "can not handle",
)
_UNSUPPORTED_WORDS = ("unsupported", "not supported", "unknown pixel mode", "cannot handle")


def decode_error(reason: FailureReason, detail: str) -> SampleError:
    """The error of a sample that is rejected while its image is decoded."""
    return SampleError(Stage.DECODE, reason, detail)


def is_about_kind(error: SampleError) -> bool:
    """Whether a decoder's message is about the configuration or the mode of a file that may be whole."""
    return error.reason is FailureReason.CORRUPT and any(word in error.detail.lower() for word in _KIND_WORDS)


def check_pixels(height: int, width: int, max_pixels: int) -> None:
    """Checks a size against the limit.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    if height * width > max_pixels:
        detail = f"{width} x {height} is {height * width} pixels; the limit is `max_pixels={max_pixels}`"
        raise decode_error(FailureReason.TOO_MANY_PIXELS, detail)


def raise_pillow_limit(max_pixels: int) -> None:
    """Lets Pillow read what the request allows.

    Pillow checks the tiles of a TIFF, the frames of a GIF and what is cropped by a limit of the process, and refuses
    what has more than twice as many pixels.
    """
    if Image.MAX_IMAGE_PIXELS is not None:
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, -(-max_pixels // 2))


@contextlib.contextmanager
def decoder_errors() -> Iterator[None]:
    """Turns what a decoder raises in the block into a `SampleError`.

    Raises:
      SampleError: reason `truncated`, `corrupt`, `unsupported_mode` or `too_many_pixels`.
      OSError: a service fault.
      MemoryError: the decoder ran out of memory.
    """
    try:
        yield
    except DECODER_ERRORS as error:
        if isinstance(error, OSError) and is_service_fault(error):
            raise
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise decode_error(_reason(detail.lower()), detail) from error
    except Image.DecompressionBombError as error:
        raise decode_error(FailureReason.TOO_MANY_PIXELS, str(error)) from error


def _reason(message: str) -> FailureReason:
    if any(word in message for word in _TRUNCATED_WORDS):
        return FailureReason.TRUNCATED
    if any(word in message for word in _UNSUPPORTED_WORDS):
        return FailureReason.UNSUPPORTED_MODE
    return FailureReason.CORRUPT
