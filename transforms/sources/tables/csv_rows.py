"""The rows of a csv file, after a stray quote too: it damages its own line and swallows none of the others."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow
from transforms.sources.tables.text_file import Line, Lines

_WORD = re.compile(r"[^\W_]+")
# Continued lines that look like rows, after which a quoted cell is not read further.
_ENOUGH_ROWS = 20
# All lines of a row are kept until its end is found.
_MOST_LINES = 10_000
_OPEN = "a quote is opened and not closed"


class Cells(NamedTuple):
    """A row.

    Attributes:
      cells: its cells.
      line: number of its first line.
    """

    cells: list[str]
    line: int


class _RowEndsError(Exception):
    """The lines read so far are not one row."""


def read_rows(lines: Lines, *, width: int, options: Mapping[str, Any]) -> Iterator[Cells | InvalidRow]:
    """The rows in the order of the file; empty lines are ignored.

    A quoted cell may span lines. It does not if its quote is never closed, if what follows the closing quote is not
    a delimiter, or if most of its lines look like rows themselves: then the first line alone is invalid, and reading
    resumes at the line after it.

    Args:
      lines: of the file.
      width: cells of the header; 0 if it is not known.
      options: of `csv.reader`.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
    row = _RowLines(lines, width, options)
    # Strict, because a quote that is never closed would otherwise swallow the rows after it silently.
    reader = csv.reader(row, strict=True, **options)
    while True:
        row.start()
        try:
            cells = next(reader, None)
            if row.like_rows:
                row.check_end()
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


class _RowLines:
    """Gives `csv.reader` the lines of one row, and counts those that look like rows themselves."""

    def __init__(self, lines: Lines, width: int, options: Mapping[str, Any]) -> None:
        self._lines = lines
        self._width = width
        self._options = options
        self.start()

    def start(self) -> None:
        self.read: list[Line] = []
        self._size = 0
        self.like_rows = 0
        self._shape: str | None = None

    def check_end(self) -> None:
        """Raises `_RowEndsError` if most of the continued lines look like rows."""
        # One such line is enough where rows begin with paths, which lines of text do not.
        enough = 1 if self._shape and "." in self._shape and " " not in self._shape else 3
        if self.like_rows >= enough and self.like_rows * 2 > len(self.read) - 1:
            raise _RowEndsError(_OPEN)

    def __iter__(self) -> _RowLines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.read.append(line)
        self._size += len(line.text)
        if self._size > MOST_ROW_SIZE:
            raise _RowEndsError(f"a row of more than {MOST_ROW_SIZE:,} characters")
        if len(self.read) > 1:
            if not line.text or len(self.read) > _MOST_LINES:
                raise _RowEndsError(line.damage or f"a row of more than {_MOST_LINES:,} lines")
            self.like_rows += self._looks_like_row(line.text)
            if self.like_rows >= _ENOUGH_ROWS:
                self.check_end()
        return line.text

    def _looks_like_row(self, text: str) -> bool:
        """Whether a continued line has as many cells as the header, the first of the shape of this row's first."""
        if self._width < 2:
            return False
        if self._shape is None:
            first = self._split(self.read[0].text)
            self._shape = _shape(first[0]) if len(first) > 1 else ""
        cells = self._split(text)
        return len(cells) == self._width and (not self._shape or _shape(cells[0]) == self._shape)

    def _split(self, text: str) -> list[str]:
        return next(csv.reader([text.rstrip("\r\n")], **self._options), None) or [""]


def _shape(cell: str) -> str:
    """What the cells of one column often share: `cat/img_01.jpg` becomes `a/a_a.a`."""
    return _WORD.sub("a", cell)
