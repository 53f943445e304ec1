"""Reads text files as lines; handles compression, encoding and damage."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Iterator
from typing import IO, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.range_reader import open_ranges
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_utf8, printable
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, Row, RowRange
from beam_tfrecords.transforms.sources.unsupported_formats import find_unsupported, refuse_unsupported

_SAMPLE_BYTES = 1 << 20
# Most characters to skip in an overlong row; a compressed file may contain any number.
_MOST_SKIPPED = 64 << 20
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# A non-ASCII character that is not a surrogate for an undecodable byte.
_VALID = re.compile("[^\x00-\x7f\udc80-\udcff]")
UTF8 = ("utf-8", "utf-8-sig")
_DAMAGED_FILE = (EOFError, zlib.error, gzip.BadGzipFile)


class TextError(BuildError):
    """The rest of a text cannot be read."""


class Line(NamedTuple):
    """A line with its line end.

    Attributes:
      number: line number, from 1.
      text: the line; "" if it is too long.
      damage: description of the damage, or None.
    """

    number: int
    text: str
    damage: str | None


def read_start(path: str) -> bytes:
    """Reads the first MiB of a file.

    Raises:
      RequestError: a `.gz` file is not a gzip file, or the file is not text.
    """
    try:
        with _open_bytes(path) as file:
            start = file.read(_SAMPLE_BYTES)
    except _DAMAGED_FILE as error:
        raise RequestError(f"{quote_input(path)} is not a valid gzip file: {error}", code="invalid_file") from error
    if (found := find_unsupported(path, start)) is not None:
        raise refuse_unsupported(path, found)
    return start


def find_encoding(start: bytes) -> str:
    """Detects the encoding of a text: by its byte order mark, or else UTF-16, UTF-8 or Windows-1252.

    Assumes Windows-1252, a superset of Latin-1, only if no non-ASCII character is valid UTF-8, so that a single damaged
    row does not change the encoding of a file.
    """
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    # ASCII text in UTF-16 has a zero in every other byte.
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        if start[first : first + 1] == b"\0" and start[first:200:2].count(0) * 2 > len(start[:200:2]):
            return encoding
    # The last character may be incomplete.
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(start)
    if text.isascii() or _VALID.search(text):
        return "utf-8"
    try:
        start.decode("cp1252")
    except UnicodeDecodeError:
        return "utf-8"
    return "cp1252"


def choose_encoding(path: str, start: bytes, stated: str | None) -> tuple[str, list[str]]:
    """Returns the encoding of a text, and a note if it is only assumed (Windows-1252).

    Args:
      path: path of the file.
      start: first bytes of the file.
      stated: encoding that the request states; None to detect it.
    """
    encoding = stated or find_encoding(start)
    if stated or encoding != "cp1252":
        return encoding, []
    name = printable(storage.basename(path))
    return encoding, [f"{name}: not UTF-8, read as Windows-1252; `encoding` names another encoding"]


class Lines:
    """Iterates over the lines of a file, and can take lines back.

    Args:
      file: the file, not compressed.
      path: path of the file, for messages.
      encoding: encoding of the text.
      first: number of the first line.
    """

    def __init__(self, file: IO[bytes], path: str, encoding: str, *, first: int = 1) -> None:
        name = codecs.lookup(encoding).name
        # Undecodable bytes become surrogates, or U+FFFD in UTF-16 and UTF-32, so that they damage only their own line.
        self._is_wide = name.startswith(("utf-16", "utf-32"))
        errors = "replace" if self._is_wide else "surrogateescape"
        if name in UTF8:
            # Only the start of a file has a byte order mark.
            name = "utf-8-sig" if first == 1 else "utf-8"
        self._text = io.TextIOWrapper(file, encoding=name, errors=errors, newline="")
        self._path = path
        self._encoding = name.removesuffix("-sig").upper()
        self._returned: deque[Line] = deque()
        self._number = first - 1
        self._is_ended = True

    def until_damage(self, rows: Iterator[Row]) -> Iterator[Row]:
        """Yields the rows made from these lines, and a final `InvalidRow` if the text is truncated or damaged.

        A missing line end at the end of a text is normal. Only if its last row is also invalid is the text truncated.
        """
        row: Row = {}
        last = 0
        try:
            for row in rows:
                last = self._number
                yield row
        except TextError as error:
            yield InvalidRow(str(error), ends=True)
            return
        if isinstance(row, InvalidRow) and not self._is_ended and last == self._number:
            yield InvalidRow(f"the file ends within line {self._number:,}: {row.detail}", ends=True)

    def take_back(self, lines: list[Line]) -> None:
        """Puts lines back before the next line."""
        self._returned.extendleft(reversed(lines))

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> Line:
        if self._returned:
            return self._returned.popleft()
        try:
            text = self._text.readline(MOST_ROW_SIZE + 1)
        except _DAMAGED_FILE as error:
            raise TextError(f"{self._path} cannot be read beyond line {self._number:,}: {error}") from error
        if not text:
            raise StopIteration
        self._number += 1
        self._is_ended = text.endswith(("\n", "\r"))
        if len(text) > MOST_ROW_SIZE:
            read = len(text)
            while text and not text.endswith(("\n", "\r")):
                if read > _MOST_SKIPPED:
                    raise TextError(f"{self._path} cannot be read beyond line {self._number:,}: it has no end")
                text = self._text.readline(MOST_ROW_SIZE)
                read += len(text)
            return Line(self._number, "", f"a row of more than {MOST_ROW_SIZE:,} characters")
        damage = None
        if "\0" in text:
            damage = "a NUL byte"
            text = text.replace("\0", "")  # The csv module of Python 3.10 raises on NUL.
        if "\ufffd" in text if self._is_wide else not is_utf8(text):
            damage = f"bytes that are not valid {self._encoding}; `encoding` names another encoding"
        return Line(self._number, text, damage)


@contextlib.contextmanager
def open_lines(path: str, encoding: str, part: RowRange | None = None) -> Iterator[Lines]:
    """Opens the lines of a file.

    Args:
      path: path of the file.
      encoding: encoding of the text.
      part: range of rows to read, only for an uncompressed file; None for all rows.
    """
    with _open_bytes(path, part) as file:
        yield Lines(file, path, encoding, first=part.line if part else 1)


@contextlib.contextmanager
def _open_bytes(path: str, part: RowRange | None = None) -> Iterator[IO[bytes]]:
    """Opens a file, and decompresses it if its name ends in `.gz`."""
    if part is not None:
        with open_ranges(part.stop, lambda offset, length: storage.read_range(path, offset, length)) as file:
            file.seek(part.start)
            yield file
        return
    with storage.open_read(path) as file:
        yield gzip.GzipFile(fileobj=file) if is_gzip(path) else file  # type: ignore[misc]


def is_gzip(path: str) -> bool:
    """Whether the name of a file says that it is compressed."""
    return path.lower().endswith(".gz")
