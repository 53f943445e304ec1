"""Reads the rows of a csv file. A stray quote damages only its own line and does not swallow the following lines."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow
from beam_tfrecords.transforms.sources.tables.text_file import Line, Lines

# Bounds memory: the reader keeps all lines of a row until the row ends.
_MOST_LINES = 10_000
_OPEN = "a quote is opened and not closed"


class Cells(NamedTuple):
    """A row, and the number of its first line."""

    cells: list[str]
    line: int


class _RowEndsError(Exception):
    """The lines read so far are not one row."""


def read_rows(lines: Lines, *, width: int, options: Mapping[str, Any]) -> Iterator[Cells | InvalidRow]:
    """Yields the rows in file order; ignores empty lines.

    A quoted cell may span lines, unless its quote is never closed, the closing quote is not followed by a delimiter, or
    most of its lines are rows themselves. In these cases only the first line is invalid, and reading resumes at the
    next line.

    Args:
      lines: lines of the file.
      width: number of cells in the header; 0 if unknown.
      options: options for `csv.reader`.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
    row = _RowLines(lines)
    # Strict: otherwise an unclosed quote would silently swallow the rows after it.
    reader = csv.reader(row, strict=True, **options)
    while True:
        row.start()
        try:
            cells = next(reader, None)
            if _are_rows(row.read, width, options):
                raise _RowEndsError(_OPEN)
        except (csv.Error, _RowEndsError) as error:
            first = row.read[0]
            lines.take_back(row.read[1:])
            is_open = isinstance(error, csv.Error) and (len(row.read) > 1 or "unexpected end" in str(error))
            yield InvalidRow(f"line {first.number}: {first.damage or (_OPEN if is_open else error)}")
            continue
        if cells is None:
            return
        read = row.read
        damage = read[0].damage if len(read) == 1 else next((line.damage for line in read if line.damage), None)
        if damage:
            yield InvalidRow(f"line {read[0].number}: {damage}")
        elif cells:
            yield Cells(cells, read[0].number)


def count_rows(chunk: bytes, is_last: bool, *, width: int, options: Mapping[str, Any]) -> tuple[int, int] | None:
    """Counts the rows that `read_rows` would read from some lines of a file.

    Args:
      chunk: whole lines; the first line starts a row.
      is_last: whether the file ends after the chunk.
      width: as in `read_rows`.
      options: as in `read_rows`.

    Returns:
      Number of rows and their size in bytes; None if a quote may damage a row, or end a row where no row starts.
    """
    if b'"' not in chunk:
        if chunk[:1] in b"\r\n" or b"\n\n" in chunk or b"\n\r\n" in chunk:
            return sum(line not in (b"", b"\r") for line in chunk.split(b"\n")), len(chunk)
        return chunk.count(b"\n") + (not chunk.endswith(b"\n")), len(chunk)
    if not options["delimiter"].isascii():
        return None
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
    # Quotes and delimiters keep their positions in every encoding that extends ASCII.
    lines = [f"{line}\n" for line in chunk.decode("latin-1").removesuffix("\n").split("\n")]
    reader = csv.reader(lines, strict=True, **options)
    rows = end = 0
    try:
        for cells in reader:
            begin, end = end, reader.line_num
            if end - begin > 1 and _ends_early(lines[begin:end], width, options):
                return None
            rows += bool(cells)
    except csv.Error:
        # The last cell may continue after these lines.
        if is_last or reader.line_num < len(lines):
            return None
    used = sum(map(len, lines[:end]))
    return None if max(map(len, lines)) > MOST_ROW_SIZE else (rows, min(used, len(chunk)))


def _ends_early(lines: list[str], width: int, options: Mapping[str, Any]) -> bool:
    """Whether `read_rows` would reject these lines as a single row."""
    is_long = len(lines) > _MOST_LINES or sum(map(len, lines)) > MOST_ROW_SIZE
    return is_long or _are_rows([Line(0, text, None) for text in lines], width, options)


class _RowLines:
    """Passes the lines of one row to `csv.reader`, and keeps them."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.start()

    def start(self) -> None:
        self.read: list[Line] = []
        self._size = 0

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.read.append(line)
        self._size += len(line.text)
        if self._size > MOST_ROW_SIZE:
            raise _RowEndsError(f"a row of more than {MOST_ROW_SIZE:,} characters")
        if len(self.read) > 1 and (not line.text or len(self.read) > _MOST_LINES):
            raise _RowEndsError(line.damage or f"a row of more than {_MOST_LINES:,} lines")
        return line.text


def _are_rows(lines: list[Line], width: int, options: Mapping[str, Any]) -> bool:
    """Whether most lines after the first have as many cells as the header, which is rare inside a text cell."""
    if len(lines) < 2 or width < 2:
        return False
    first, *more = (next(csv.reader([line.text.rstrip("\r\n")], **options), []) or [""] for line in lines)
    # If rows start with an image name, one such line is enough, because lines of text do not.
    has_name = is_image_name(first[0])
    rows = sum(len(cells) == width and (not has_name or is_image_name(cells[0])) for cells in more)
    return rows >= (1 if has_name else 3) and rows * 2 > len(more)
