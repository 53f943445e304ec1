"""Csv and tsv files, read row by row. A damaged row is rejected and the rows after it are read."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO

from transforms import storage
from transforms.errors import RequestError
from transforms.sources.source_spec import SourceSpec
from transforms.sources.table import MOST_ROW_SIZE, InvalidRow, Row
from transforms.sources.table_source import TableSource, open_tables


@dataclasses.dataclass(frozen=True)
class CsvTable:
    """A csv file in UTF-8, with or without BOM, whose first row names its columns.

    Quoting follows RFC 4180: a quoted cell may contain delimiters, line ends and doubled quotes. Empty lines
    are ignored.

    Attributes:
      path: the file.
      delimiter: between the cells.
      columns: names of the columns.
      column_types: None; csv has no types.
    """

    path: str
    delimiter: str
    columns: Sequence[str]
    column_types: None = None

    def may_hold_text(self, column: str) -> bool:
        """Always; all cells of a csv file are strings."""
        return True

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Every row; one whose number of cells differs from the header's is an `InvalidRow`."""
        cells = [(name, self.columns.index(name)) for name in columns]
        width = len(self.columns)
        with storage.open_read(self.path) as file:
            rows = _read_rows(file, self.delimiter)
            next(rows)
            for row in rows:
                if isinstance(row, InvalidRow):
                    yield row
                elif len(row.cells) != width:
                    yield InvalidRow(f"line {row.line}: {len(row.cells)} cells, but the header has {width}")
                else:
                    yield {name: row.cells[index] for name, index in cells}


def open_source(spec: SourceSpec) -> TableSource:
    """Opens csv files, and tsv files by their extension.

    Raises:
      RequestError: a file cannot be read, or does not fit the request.
    """
    return open_tables(spec, lambda path: open_csv(path, "\t" if path.lower().endswith(".tsv") else ","))


def open_csv(path: str, delimiter: str) -> CsvTable:
    """Reads the header.

    Raises:
      RequestError: the file is empty, or its first row cannot name columns.
    """
    with storage.open_read(path) as file:
        header = next(_read_rows(file, delimiter), None)
    if header is None:
        raise RequestError(f"`input={path}` is empty; the first row of a csv file must name its columns")
    if isinstance(header, InvalidRow):
        raise RequestError(f"`input={path}`: the header cannot be read: {header.detail}")
    twice = [name for name, count in Counter(header.cells).items() if count > 1]
    if twice:
        raise RequestError(
            f"`input={path}`: the header names {', '.join(map(repr, twice))} more than once; "
            f"it has: {', '.join(header.cells)}"
        )
    return CsvTable(path, delimiter, tuple(header.cells))


@dataclasses.dataclass(frozen=True)
class _Cells:
    cells: list[str]
    line: int


class _RowTooLongError(Exception):
    pass


class _Lines:
    """The lines of a csv file, and the damage found in those of the current row."""

    def __init__(self, file: IO[bytes]) -> None:
        # Bytes that are not UTF-8 become surrogates, so that they spoil their row alone.
        self._text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
        self.damage: str | None = None
        self.number = 0
        self._row_size = 0

    def start_row(self) -> None:
        self.damage = None
        self._row_size = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._text.readline(MOST_ROW_SIZE + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self._row_size += len(line)
        if self._row_size > MOST_ROW_SIZE:
            while line and not line.endswith(("\n", "\r")):
                line = self._text.readline(MOST_ROW_SIZE)
            raise _RowTooLongError
        if "\0" in line:
            self.damage = "a NUL byte"
            line = line.replace("\0", "")  # Python 3.10's csv module refuses NUL.
        if not line.isascii():
            try:
                line.encode()
            except UnicodeEncodeError:
                self.damage = "bytes that are not valid UTF-8"
        return line


def _read_rows(file: IO[bytes], delimiter: str) -> Iterator[_Cells | InvalidRow]:
    csv.field_size_limit(max(csv.field_size_limit(), MOST_ROW_SIZE))
    lines = _Lines(file)
    # Strict, because a quote that is never closed would otherwise swallow the rows after it silently.
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.start_row()
        first_line = lines.number + 1
        try:
            cells = next(reader, None)
        except _RowTooLongError:
            yield InvalidRow(f"line {first_line}: a row of more than {MOST_ROW_SIZE:,} characters")
            continue
        except csv.Error as error:
            yield InvalidRow(f"line {first_line}: {error}")
            continue
        if cells is None:
            return
        if lines.damage:
            yield InvalidRow(f"line {first_line}: {lines.damage}")
        elif cells:
            yield _Cells(cells, first_line)
