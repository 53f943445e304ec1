"""Prints for people. What is printed may hold names, cells and headers that come from outside."""

from __future__ import annotations

import re
from typing import TextIO

# Control characters, line separators, bidirectional controls, invisible characters and lone surrogates. The joiners
# U+200C and U+200D stay: words and emoji are spelled with them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape(text: str) -> str:
    r"""Writes characters that could move the cursor, end the line or turn its direction as escapes such as `\x1b`."""
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PrintError(Exception):
    """What is printed cannot be written, such as to a full disk; the message says why."""


def show(*lines: str, file: TextIO | None = None) -> None:
    """Prints lines, escaped.

    Args:
      lines: without line breaks; those in a name are escaped.
    """
    try:
        print("\n".join(map(escape, lines)), file=file)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise PrintError(f"the output cannot be printed: {error.strerror}") from error
