"""Tables in text files. A form of text, such as csv, only adds how lines become rows."""

from __future__ import annotations

import abc
import codecs
import contextlib
import dataclasses
import gzip
import io
import itertools
import re
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.range_reader import open_ranges
from beam_tfrecords.transforms.sources.detect.unnamed_columns import UNNAMED
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_utf8, printable
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, Row, RowRange, TableFile
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


# Approximate size of a range of rows.
RANGE_BYTES = 4 << 20
# One process lists this in a minute; a larger range without a split is worth a note.
_NOTED_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True, eq=False)
class TextTable(TableFile):
    """A table in a text file.

    Attributes:
      encoding: encoding of the text.
      skips: number of rows before the first sample, such as a header.
      has_header: whether the file names its columns; otherwise its cells do.
    """

    _: dataclasses.KW_ONLY
    encoding: str
    skips: int = 0
    has_header: bool = True

    @abc.abstractmethod
    def parse(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """Yields the rows with only these columns, those before the first sample included."""

    @abc.abstractmethod
    def count(self, chunk: bytes, is_last: bool) -> tuple[int, int] | None:
        """Counts the rows in a chunk.

        Args:
          chunk: whole lines, of which the first starts a row.
          is_last: whether the file ends after them.

        Returns:
          The number of rows and their size in bytes; None if it is uncertain where rows start.
        """

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `TableFile.rows`; a row that does not fit the columns becomes an `InvalidRow`."""
        with open_lines(self.path, self.encoding, part) as lines:
            skips = 0 if part and part.start else self.skips
            yield from lines.until_damage(itertools.islice(self.parse(lines, columns), skips, None))

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`; reads the file once."""
        size = storage.stat(self.path).size
        problem = "" if _keeps_lines(self.encoding) else f"its encoding is {self.encoding}"
        if is_gzip(self.path):
            problem = "the file is compressed"
        if problem:
            return [], problem if size > _NOTED_BYTES else ""
        ranges: list[RowRange] = []
        row, start, line, data = 0, 0, 1, b""
        with storage.open_read(self.path) as file:
            while start < size:
                while len(data) < RANGE_BYTES and (piece := file.read(RANGE_BYTES - len(data))):
                    data += piece
                is_last = start + len(data) >= size
                chunk = data if is_last else data[: data.rfind(b"\n") + 1]
                # A lone carriage return also ends a line, and a NUL damages its line.
                is_plain = chunk.count(b"\r") == chunk.count(b"\r\n") and b"\0" not in chunk
                mark = len(codecs.BOM_UTF8) if not start and chunk.startswith(codecs.BOM_UTF8) else 0
                rows, used = (is_plain and self.count(chunk[mark:], is_last)) or (0, 0)
                if not used:
                    problem = f"a quote, carriage return or NUL from line {line:,} on may hide where rows begin"
                    ranges.append(RowRange(row, start, size, line))
                    break
                used += mark
                ranges.append(RowRange(row, start, start + used, line))
                row, start, line = row + rows, start + used, line + chunk.count(b"\n", 0, used)
                data = data[used:]
        # A header is no row.
        ranges = [part._replace(row=part.row - self.skips) if part.start else part for part in ranges]
        return ranges, problem if size - start > _NOTED_BYTES else ""


def _keeps_lines(encoding: str) -> bool:
    """Whether every byte below 128 is an ASCII character, independent of the bytes before it."""
    name = codecs.lookup(encoding).name
    ascii = bytes(range(128))
    upper = bytes(range(128, 256)).decode(name, "replace")
    # Encodings without upper-half characters, such as ISO-2022-JP, write other characters in ASCII bytes.
    is_one_byte = len(upper) == 128 and set(upper) != {"\ufffd"}
    return name in (*UTF8, "ascii") or (is_one_byte and ascii.decode(name, "replace") == ascii.decode())


def name_alike(tables: Sequence[TableFile]) -> list[TableFile]:
    """Gives the columns of tables without headers the same names, because tables of one request have one meaning.

    The table whose cells name the most columns decides: in a short one, each row may have a class of its own.
    """
    bare = [table for table in tables if isinstance(table, TextTable) and not table.has_header]
    if not bare or len(bare) < len(tables) or len({(type(table), len(table.columns)) for table in bare}) > 1:
        return [*tables]
    best = min(bare, key=lambda table: sum(name.startswith(UNNAMED) for name in table.columns))
    return [_renamed(table, best) if [*table.columns] != [*best.columns] else table for table in bare]


def _renamed(table: TextTable, best: TextTable) -> TextTable:
    name, columns = printable(storage.basename(table.path)), best.columns
    shown = (
        f"{name}: no header, read as the columns {', '.join(columns)}, as {printable(storage.basename(best.path))} is"
    )
    notes = [note for note in table.notes if "header" not in note]
    return dataclasses.replace(table, columns=columns, notes=[*notes, shown], other_labels=best.other_labels)
