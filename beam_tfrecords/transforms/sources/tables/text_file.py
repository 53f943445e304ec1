"""Text files as lines: compression, encoding and damage are found here for csv and jsonl alike."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.range_reader import open_ranges
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, Row, RowRange
from beam_tfrecords.transforms.sources.unsupported_formats import find_unsupported, refuse_unsupported

_SAMPLE_BYTES = 1 << 20
# Bytes of a range of rows, about.
RANGE_BYTES = 4 << 20
# One process lists this in a minute.
_NOTED_BYTES = 64 << 20
# Characters of a row that is rejected, of which a compressed file may have any number.
_MOST_SKIPPED = 64 << 20
_BOMS = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# A character beyond ASCII that is not a byte which could not be decoded.
_VALID = re.compile("[^\x00-\x7f\udc80-\udcff]")
_UTF8 = ("utf-8", "utf-8-sig")
_DAMAGED_FILE = (EOFError, zlib.error, gzip.BadGzipFile)


def note_encoding(path: str, encoding: str) -> list[str]:
    """A note on an encoding that was assumed; none for one that the bytes prove."""
    if encoding != "cp1252":
        return []
    return [f"{printable(storage.basename(path))}: not UTF-8, read as Windows-1252; `encoding` names another encoding"]


class TextError(BuildError):
    """A text cannot be read further."""


class Line(NamedTuple):
    """A line with its line end.

    Attributes:
      number: from 1.
      text: "" for a line that is too long.
      damage: what is wrong with it, or None.
    """

    number: int
    text: str
    damage: str | None


@contextlib.contextmanager
def open_bytes(path: str, part: RowRange | None = None) -> Iterator[IO[bytes]]:
    """Opens a file; one whose name ends in `.gz` is decompressed.

    Args:
      part: the rows that are read, of a file that is not compressed; None for all.
    """
    if part is not None:
        with open_ranges(part.stop, lambda offset, length: storage.read_range(path, offset, length)) as file:
            file.seek(part.start)
            yield file
        return
    with storage.open_read(path) as file:
        yield gzip.GzipFile(fileobj=file) if _is_gzip(path) else file  # type: ignore[misc]


def read_start(path: str) -> bytes:
    """The first MiB of a file.

    Raises:
      RequestError: it is not the gzip file that its name promises, or no text.
    """
    try:
        with open_bytes(path) as file:
            start = file.read(_SAMPLE_BYTES)
    except _DAMAGED_FILE as error:
        raise RequestError(f"{quote_input(path)} is not a valid gzip file: {error}") from error
    if (found := find_unsupported(path, start)) is not None:
        raise refuse_unsupported(path, found)
    return start


def find_encoding(start: bytes) -> str:
    """The encoding of a text: by its byte order mark, else UTF-8, else UTF-16 or Windows-1252.

    Windows-1252, of which Latin-1 is a part, is assumed only if no character is valid UTF-8: a single damaged
    row does not change the encoding of a file.
    """
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    # ASCII in UTF-16 has a zero in every other byte, from the first character on.
    for first, encoding in ((0, "utf-16-be"), (1, "utf-16-le")):
        if start[first : first + 1] == b"\0" and start[first:200:2].count(0) * 2 > len(start[:200:2]):
            return encoding
    # The last character may be cut.
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(start)
    if text.isascii() or _VALID.search(text):
        return "utf-8"
    try:
        start.decode("cp1252")
    except UnicodeDecodeError:
        return "utf-8"
    return "cp1252"


class Lines:
    """Iterates the lines of a file, and takes lines back.

    Args:
      first: number of the first line.
    """

    def __init__(self, file: IO[bytes], path: str, encoding: str, *, first: int = 1) -> None:
        name = codecs.lookup(encoding).name
        # Bytes that cannot be decoded become surrogates, or U+FFFD in UTF-16, so that they spoil their line alone.
        self._is_wide = name.startswith(("utf-16", "utf-32"))
        errors = "replace" if self._is_wide else "surrogateescape"
        if name in _UTF8:
            # A byte order mark is none in the middle of a file.
            name = "utf-8-sig" if first == 1 else "utf-8"
        self._text = io.TextIOWrapper(file, encoding=name, errors=errors, newline="")
        self._path = path
        self._encoding = name.removesuffix("-sig").upper()
        self._returned: deque[Line] = deque()
        self._number = first - 1
        self._is_ended = True

    def until_damage(self, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows that are made of these lines; at the end one that says so, if the text is cut or damaged.

        A text may well end without a line end. If its last row is invalid too, it ends within this row.
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
        """Puts lines before those that are still to come."""
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
            text = text.replace("\0", "")  # Python 3.10's csv module refuses NUL.
        if not text.isascii() and ("\ufffd" in text if self._is_wide else _is_damaged(text)):
            damage = f"bytes that are not valid {self._encoding}; `encoding` names another encoding"
        return Line(self._number, text, damage)


def _is_gzip(path: str) -> bool:
    return path.lower().endswith(".gz")


def _is_damaged(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def cut_text(
    path: str, encoding: str, count_rows: Callable[[bytes, bool], tuple[int, int] | None]
) -> tuple[list[RowRange], str]:
    """Cuts a text where rows begin, which takes reading it once.

    Args:
      count_rows: (whole lines, whether they are the last) -> number of rows, and of the bytes that these take; None if
        they are not sure, so that all rows from there on are one range.

    Returns:
      As `TableFile.cut`.
    """
    ranges: list[RowRange] = []
    row, start, line, data = 0, 0, 1, b""
    size = storage.stat(path).size
    problem = "the file is compressed" if _is_gzip(path) else f"its encoding is {encoding}"
    if not _is_gzip(path) and _keeps_lines(encoding):
        problem = ""
        with storage.open_read(path) as file:
            while not problem and start < size:
                while len(data) < RANGE_BYTES and (piece := file.read(RANGE_BYTES - len(data))):
                    data += piece
                is_last = start + len(data) >= size
                chunk = data if is_last else data[: data.rfind(b"\n") + 1]
                # A carriage return alone ends a line too, and a NUL damages one.
                is_plain = chunk.count(b"\r") == chunk.count(b"\r\n") and b"\0" not in chunk
                mark = len(codecs.BOM_UTF8) if not start and chunk.startswith(codecs.BOM_UTF8) else 0
                rows, used = (is_plain and count_rows(chunk[mark:], is_last)) or (0, 0)
                if not used:
                    problem = f"a quote, carriage return or NUL from line {line:,} on may hide where rows begin"
                    break
                used += mark
                ranges.append(RowRange(row, start, start + used, line))
                row, start, line = row + rows, start + used, line + chunk.count(b"\n", 0, used)
                data = data[used:]
    if start < size:
        ranges.append(RowRange(row, start, size, line))
    return ranges, problem if size - start > _NOTED_BYTES else ""


def _keeps_lines(encoding: str) -> bool:
    """Whether every ASCII byte of a text is the ASCII character, whatever is before it."""
    name = codecs.lookup(encoding).name
    ascii = bytes(range(128))
    upper = bytes(range(128, 256)).decode(name, "replace")
    # Without a character there, as of ISO-2022-JP, others are written in ASCII bytes.
    is_one_byte = len(upper) == 128 and set(upper) != {"\ufffd"}
    return name in (*_UTF8, "ascii") or (is_one_byte and ascii.decode(name, "replace") == ascii.decode())
