"""Parses csv rows. A stray quote damages only its own line and does not swallow the following lines."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.text_file import Line, Lines

# Bounds memory: the reader keeps all lines of a row until the row ends.
_MOST_LINES = 10_000
_OPEN = "a quote is opened and not closed"


class _RowEndsError(Exception):
    """The lines read so far are not one row."""


@dataclasses.dataclass(frozen=True)
class CsvParser:
    """Parses a csv file.

    Quoting follows RFC 4180: a quoted cell may contain delimiters, line ends and doubled quotes. Empty lines
    are ignored.

    Attributes:
      columns: names of the columns; empty if unknown.
      delimiter: cell delimiter.
      skip_spaces: whether to ignore spaces after a delimiter.
    """

    columns: Sequence[str]
    delimiter: str
    skip_spaces: bool = False

    def rows(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `RowParser.rows`; a row whose number of cells differs from the header's becomes an `InvalidRow`."""
        wanted = [(name, self.columns.index(name)) for name in columns]
        width = len(self.columns)
        for row in self.read(lines):
            if isinstance(row, InvalidRow):
                yield row
                continue
            line, cells = row
            if len(cells) != width:
                yield InvalidRow(f"line {line}: {len(cells)} cells; expected {width}")
            else:
                yield {name: cells[index] for name, index in wanted}

    def read(self, lines: Lines) -> Iterator[tuple[int, list[str]] | InvalidRow]:
        """Yields the number of the first line and the cells of each row, in file order; ignores empty lines.

        A quoted cell may span lines, unless its quote is never closed, the closing quote is not followed by a
        delimiter, or most of its lines are rows themselves. In these cases only the first line is invalid, and reading
        resumes at the next line.
        """
        csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
        row = _RowLines(lines)
        # Strict: otherwise an unclosed quote would silently swallow the rows after it.
        reader = self._reader(row, strict=True)
        while True:
            row.start()
            try:
                cells = next(reader, None)
                if self._are_rows(row.read):
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
                yield read[0].number, cells

    def count(self, chunk: bytes, is_last: bool) -> tuple[int, int] | None:
        """See `RowParser.count`; returns None if quotes may be damaged, so that the lines of rows are uncertain."""
        if b'"' not in chunk:
            if chunk[:1] in b"\r\n" or b"\n\n" in chunk or b"\n\r\n" in chunk:
                return sum(line not in (b"", b"\r") for line in chunk.split(b"\n")), len(chunk)
            return chunk.count(b"\n") + (not chunk.endswith(b"\n")), len(chunk)
        if not self.delimiter.isascii():
            return None
        csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
        # Quotes and delimiters keep their positions in every encoding that extends ASCII.
        lines = [f"{line}\n" for line in chunk.decode("latin-1").removesuffix("\n").split("\n")]
        reader = self._reader(lines, strict=True)
        rows = end = 0
        try:
            for cells in reader:
                begin, end = end, reader.line_num
                if end - begin > 1 and self._ends_early(lines[begin:end]):
                    return None
                rows += bool(cells)
        except csv.Error:
            # The last cell may continue after these lines.
            if is_last or reader.line_num < len(lines):
                return None
        used = sum(map(len, lines[:end]))
        return None if max(map(len, lines)) > MOST_ROW_SIZE else (rows, min(used, len(chunk)))

    def _reader(self, lines: Iterable[str], *, strict: bool = False) -> Any:
        return csv.reader(lines, delimiter=self.delimiter, skipinitialspace=self.skip_spaces, strict=strict)

    def _ends_early(self, lines: list[str]) -> bool:
        """Whether `read` would reject these lines as a single row."""
        is_long = len(lines) > _MOST_LINES or sum(map(len, lines)) > MOST_ROW_SIZE
        return is_long or self._are_rows([Line(0, text, None) for text in lines])

    def _are_rows(self, lines: list[Line]) -> bool:
        """Whether most lines after the first have as many cells as the header, which is rare inside a text cell."""
        width = len(self.columns)
        if len(lines) < 2 or width < 2:
            return False
        first, *more = (next(self._reader([line.text.rstrip("\r\n")]), []) or [""] for line in lines)
        # If rows start with an image name, one such line is enough, because lines of text do not.
        has_name = is_image_name(first[0])
        rows = sum(len(cells) == width and (not has_name or is_image_name(cells[0])) for cells in more)
        return rows >= (1 if has_name else 3) and rows * 2 > len(more)


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
