"""From what a decoder raises to the reason for which a sample is refused."""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from transforms.errors import FailureReason, SampleError, Stage

# Pillow documents OSError, SyntaxError and ValueError; its parsers of headers let the others through.
DECODER_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    OverflowError,
    RuntimeError,  # the AVIF plugin
    struct.error,
    zlib.error,
)
# Words in their messages that mean a file that ends too early, and pixels of a kind they cannot read.
_TRUNCATED_WORDS = (
    "truncated",
    "unexpected end",
    "not enough",
    "reached eof",
    "but only got",
    "requires a buffer of",
)
_UNSUPPORTED_WORDS = ("unsupported", "not supported", "unknown pixel mode", "cannot handle")


def refusal(reason: FailureReason, detail: str) -> SampleError:
    """The refusal of a sample in the stage of decoding."""
    return SampleError(Stage.DECODE, reason, detail)


def check_pixels(height: int, width: int, max_pixels: int) -> None:
    """Refuses a size beyond the limit.

    Raises:
      SampleError: reason `too_many_pixels`.
    """
    if height * width > max_pixels:
        detail = f"{width} x {height} is {height * width} pixels, the limit is {max_pixels}"
        raise refusal(FailureReason.TOO_MANY_PIXELS, detail)


@contextlib.contextmanager
def decoder_errors() -> Iterator[None]:
    """Names what a decoder raises in the block.

    Raises:
      SampleError: reason `truncated`, `corrupt`, `unsupported_mode`, or `too_many_pixels` if memory did
        not suffice.
    """
    try:
        yield
    except DECODER_ERRORS as error:
        detail = " ".join(str(error).split())[:200] or type(error).__name__
        raise refusal(_reason(detail.lower()), detail) from error
    except (MemoryError, Image.DecompressionBombError) as error:
        detail = str(error) or "the decoder ran out of memory"
        raise refusal(FailureReason.TOO_MANY_PIXELS, detail) from error


def _reason(message: str) -> FailureReason:
    if any(word in message for word in _TRUNCATED_WORDS):
        return FailureReason.TRUNCATED
    if any(word in message for word in _UNSUPPORTED_WORDS):
        return FailureReason.UNSUPPORTED_MODE
    return FailureReason.CORRUPT
