"""Reads the arrays of a large JSON object element by element, in bounded memory.

The C scanner of `json` decodes the elements. ijson would need one pass per array (1.8 times the time for COCO), and
rejects NaN and byte order marks; its memory grows with the square of the nesting depth, to 4 GB for a 40 kB file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import IO, Any

_CHUNK_BYTES = 1 << 20
# Limit for an element or a skipped value.
_MOST_CHARACTERS = 64 << 20
_ENDS = frozenset(" \t\n\r,:]}")
# The test `"" in _SPACES` is also true, which `next` relies on.
_SPACES = " \t\n\r"
_SPACE = re.compile(f"[{_SPACES}]*")
_DECODER = json.JSONDecoder()


class JsonError(ValueError):
    """The file is not the expected JSON; the message says where and why."""


def read_arrays(
    file: IO[bytes], names: Collection[str], others: Counter[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Yields the elements of some arrays in a JSON object, in file order.

    Args:
      file: the file, in UTF-8 with or without a byte order mark.
      names: names of the arrays; other values of the object are skipped.
      others: counts the names of the skipped values.

    Yields:
      The name of the array, and an element.

    Raises:
      JsonError: the file is not a JSON object or is damaged, or a named value is not an array.
    """
    text = _Text(file)
    for name in _read_names(text):
        if name in names:
            yield from ((name, element) for element in _read_array(text))
        else:
            text.value()
            if others is not None:
                others[name] += 1


def read_elements(
    file: IO[bytes], names: Sequence[str], *, of_object: bool = False, others: Counter[str] | None = None
) -> Iterator[Any]:
    """Yields the elements of one array, or the values of one object, in file order.

    Args:
      file: the file, in UTF-8 with or without a byte order mark.
      names: names that lead to the array or object, from the outermost; empty for the document itself.
      of_object: whether it is an object. Yields nothing if it is of the other kind, or not there.
      others: counts the names beside those that lead to it.

    Raises:
      JsonError: the file is not JSON or is damaged.
    """
    text = _Text(file)
    others = Counter() if others is None else others
    around = []
    for name in names:
        if text.next() != "{":
            return
        around.append(_read_names(text))
        for found in around[-1]:
            if found == name:
                break
            others[".".join([*names[: len(around) - 1], found])] += 1
            text.value()
        else:
            return
    if text.next() != ("{" if of_object else "["):
        return
    if of_object:
        for _ in _read_names(text):
            yield text.value()
    else:
        yield from _read_array(text)
    for depth, object_names in reversed([*enumerate(around)]):
        for found in object_names:
            others[".".join([*names[:depth], found])] += 1
            text.value()


def _read_names(text: _Text) -> Iterator[str]:
    """Yields the names in an object; the caller consumes the value of each."""
    text.take("{")
    if text.next() == "}":
        text.take("}")
        return
    while True:
        name = text.value()
        text.take(":")
        yield name
        if text.take(",}") == "}":
            return


def _read_array(text: _Text) -> Iterator[Any]:
    text.take("[")
    if text.next() == "]":
        text.take("]")
        return
    yield text.value()
    while text.take(",]") == ",":
        yield text.value()


class _Text:
    """The text of a file; keeps only the unread part of a chunk in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._before = 0
        self._is_end = False

    def next(self) -> str:
        """Returns the next character that is not white space without consuming it; "" at the end."""
        while True:
            if self._text[self._at : self._at + 1] not in _SPACES:
                return self._text[self._at]
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text) or self._is_end:
                return self._text[self._at : self._at + 1]
            self._read_more()

    def take(self, expected: str) -> str:
        """Consumes the next character, which must be one of the expected characters."""
        found = self.next()
        if not found or found not in expected:
            raise self._error(f"expected {' or '.join(expected)}, found {found or 'the end of the file'}")
        self._at += 1
        return found

    def value(self) -> Any:
        """Consumes the next value."""
        self.next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if self._is_end:
                    raise self._error(error.msg, error.pos) from None
            except RecursionError:
                raise self._error("nested too deeply") from None
            except ValueError as error:  # A number with thousands of digits.
                raise self._error(str(error)) from None
            else:
                # A number may continue in the next chunk: `0.` decodes as 0 if the following 5 is not read yet.
                if self._text[end : end + 1] in _ENDS or self._is_end:
                    self._at = end
                    return value
            if len(self._text) - self._at > _MOST_CHARACTERS:
                raise self._error(f"a value is damaged, or has more than {_MOST_CHARACTERS >> 20} million characters")
            self._read_more()

    def _read_more(self) -> None:
        left = self._text[self._at :]
        # Doubles the text each time, because decoding restarts at the beginning of the value.
        data = self._file.read(max(_CHUNK_BYTES, len(left)))
        try:
            more = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            raise JsonError(f"it is not valid UTF-8: {error.reason}") from None
        self._before += self._at
        self._text, self._at, self._is_end = left + more, 0, not data

    def _error(self, problem: str, at: int | None = None) -> JsonError:
        return JsonError(f"{problem}, at character {self._before + (self._at if at is None else at):,}")
