"""Makes text from inputs safe to show: on a terminal, on a page, in a dataset card, in the message of an exception."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters, line separators, bidirectional controls, invisible characters and lone surrogates. The joiners
# U+200C and U+200D are safe: words and emoji are spelled with them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape(text: str) -> str:
    r"""Escapes characters that could move the cursor, end the line or reverse its direction, as in `\x1b`.

    Escaping is idempotent.
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def write_json(value: Any, *, indent: int | None = None) -> str:
    """Writes readable JSON. Unsafe characters are JSON escapes, so that parsers restore them."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "\n".join(_UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], line) for line in text.split("\n"))


def json_file(value: Any) -> bytes:
    """Returns the content of a readable JSON file."""
    return f"{write_json(value, indent=2)}\n".encode()
