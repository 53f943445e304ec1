"""Maps the exceptions of decoders to reasons of failures."""

from __future__ import annotations

import contextlib
import struct
import tokenize
import zlib
from collections.abc import Iterator

from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError, Stage, describe_exception
from beam_tfrecords.storage import is_service_fault

# Pillow documents OSError, SyntaxError and ValueError; its header parsers also raise the others.
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
    tokenize.TokenError,  # NumPy, about the header of a .npy file
)
# Words in messages of decoders about a file that ends too early.
_TRUNCATED_WORDS = (
    "truncated",
    "unexpected end",
    "not enough",
    "reached eof",
    "but only got",
    "requires a buffer of",
)
# Words in messages about the storage of pixels, where the file may be damaged or of an unsupported kind.
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
    """Returns the error for a sample whose image cannot be decoded."""
    return SampleError(Stage.DECODE, reason, detail)


def unsupported(detail: str) -> SampleError:
    """Returns the error for a sample whose file is complete, but of a kind that cannot be decoded."""
    return decode_error(FailureReason.UNSUPPORTED_MODE, detail)


def is_about_kind(error: SampleError) -> bool:
    """Whether a decoder's message concerns the configuration or mode of a file, which may be complete."""
    return error.reason is FailureReason.CORRUPT and any(word in error.detail.lower() for word in _KIND_WORDS)


def check_pixels(height: int, width: int, max_pixels: int) -> None:
    """Checks the size of an image against the limit.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    if height * width > max_pixels:
        detail = f"{width} x {height} is {height * width} pixels; the limit is `max_pixels={max_pixels}`"
        raise decode_error(FailureReason.TOO_MANY_PIXELS, detail)


def raise_pillow_limit(max_pixels: int) -> None:
    """Raises Pillow's limit to the limit of the request.

    Pillow checks tiles of a TIFF, frames of a GIF and crops against a process-wide limit, and rejects images with more
    than twice as many pixels.
    """
    if Image.MAX_IMAGE_PIXELS is not None:
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, -(-max_pixels // 2))


@contextlib.contextmanager
def decoder_errors() -> Iterator[None]:
    """Turns exceptions of a decoder in the block into a `SampleError`.

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
        detail = describe_exception(error)[:200]
        raise decode_error(_reason(detail.lower()), detail) from error
    except Image.DecompressionBombError as error:
        raise decode_error(FailureReason.TOO_MANY_PIXELS, str(error)) from error


def _reason(message: str) -> FailureReason:
    if any(word in message for word in _TRUNCATED_WORDS):
        return FailureReason.TRUNCATED
    if any(word in message for word in _UNSUPPORTED_WORDS):
        return FailureReason.UNSUPPORTED_MODE
    return FailureReason.CORRUPT
