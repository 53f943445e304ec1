"""Opens csv and tsv files: finds their delimiter and columns, and recognizes other forms of text."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.unnamed_columns import UNNAMED, find_other_labels, name_cells
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.tables.list_file import open_list
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, LabelType, TableSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables
from beam_tfrecords.transforms.sources.tables.text_table import (
    Line,
    Lines,
    TextTable,
    choose_encoding,
    open_lines,
    read_start,
)
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json, refuse_list

# Bounds memory: the reader keeps all lines of a row until the row ends.
_MOST_LINES = 10_000
_OPEN = "a quote is opened and not closed"


class _RowEndsError(Exception):
    """The lines read so far are not one row."""


@dataclasses.dataclass(frozen=True, eq=False)
class CsvTable(TextTable):
    """A csv file.

    Quoting follows RFC 4180: a quoted cell may contain delimiters, line ends and doubled quotes. Empty lines
    are ignored.

    Attributes:
      delimiter: cell delimiter.
      skip_spaces: whether to ignore spaces after a delimiter.
    """

    _: dataclasses.KW_ONLY
    delimiter: str
    skip_spaces: bool = False

    def parse(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `TextTable.parse`; a row whose number of cells differs from the header's becomes an `InvalidRow`."""
        width = len(self.columns)
        places = dict(zip(reversed(self.columns), reversed(range(width)), strict=True))
        wanted = [(name, places[name]) for name in columns]
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
        """See `TextTable.count`; returns None if quotes may be damaged, so that the lines of rows are uncertain."""
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


_HASH = re.compile("[0-9a-f]{32,}", re.IGNORECASE)
# Number of rows from which to guess the columns of a table without a header.
_ROWS = 1000
# Number of lines from which to find the delimiter.
_LINES = 50
_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def open_table(path: str, settings: TableSettings = DETECTED) -> TextTable:
    """Opens a csv file and reads its header, or a text of another form, which has no header.

    Raises:
      RequestError: the file is empty, or its first row cannot name columns.
    """
    found = _open(path, settings, has_rest=settings.label_type is LabelType.TEXT)
    has_rest = found.has_words and settings.label_separator == ""
    return _open(path, settings, has_rest=True) if has_rest else found


open_input = functools.partial(open_tables, open_table)


def _open(path: str, settings: TableSettings, *, has_rest: bool) -> TextTable:
    """Opens a file; see `open_list` for `has_rest`."""
    start = read_start(path)
    refusal = refuse_json(path, start) if start.lstrip()[:1] in (b"[", b"{") else None
    if refusal is not None:
        raise refusal
    if not settings.delimiter:
        if (refusal := refuse_list(path, start)) is not None:
            raise refusal
        if (listed := open_list(path, start, has_rest=has_rest)) is not None:
            return listed
    encoding, notes = choose_encoding(path, start, settings.encoding)
    delimiter = settings.delimiter
    if delimiter is None:
        delimiter, unusual = _find_delimiter(path, start.decode(encoding, "replace"))
        notes += unusual
    first = _lines(start.decode(encoding, "replace"))
    later = [cell for line in first[1:] for cell in line.split(delimiter)[1:] if cell]
    are_spaced = any(map(is_image_name, later)) and all(cell.startswith(" ") for cell in later)
    # The csv module keeps a quote that follows a space as a part of the text.
    are_spaced |= all(f'{delimiter} "' in line for line in filter(str.strip, first[:-1] or first))
    table = CsvTable(path, (), encoding=encoding, delimiter=delimiter)
    with open_lines(path, encoding) as lines:
        header, comments = next(table.read(lines), None), 0
        while isinstance(header, tuple) and _is_comment(header[1]):
            header, comments = next(table.read(lines), None), comments + 1
        if header is None:
            raise RequestError(
                f"`input={path}` is empty; the first row of a csv file must name its columns", code="empty_file"
            )
        if isinstance(header, InvalidRow):
            raise RequestError(f"`input={path}`: the header cannot be read: {header.detail}", code="invalid_file")
        _, cells = header
        names, other_labels = tuple(cell.strip() for cell in cells), list[str]()
        is_data = _looks_like_data(names)
        others = itertools.islice(table.read(lines), _ROWS) if is_data else ()
        rows = [row[1] for row in others if not isinstance(row, InvalidRow)]
    if is_data:
        names, other_labels = _name_columns(path, [cells, *rows])
        notes.append(f"{printable(storage.basename(path))}: no header, read as the columns {', '.join(names)}")
    if names.count("") > 1:
        # Programs write a comma for each column without a name.
        names = tuple(name or f"{UNNAMED}{number}" for number, name in enumerate(names, 1))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RequestError(
            f"`input={path}`: the header names {', '.join(map(repr, twice))} more than once; it has: "
            f"{', '.join(names)}",
            code="duplicate_column",
        )
    return dataclasses.replace(
        table,
        columns=names,
        skip_spaces=are_spaced or (not is_data and cells != [*names]),
        skips=comments + (not is_data),
        has_header=not is_data,
        notes=notes,
        other_labels=other_labels,
    )


def _name_columns(path: str, rows: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], list[str]]:
    """Names the columns of a table without a header; also returns other columns that may be the label.

    Args:
      path: path of the table.
      rows: cells of its first rows.

    Raises:
      RequestError: no column names images.
    """
    width = len(rows[0])
    columns = [[row[number].strip() for row in rows if len(row) == width] for number in range(width)]
    images = [number for number, cell in enumerate(rows[0]) if is_image_name(cell.strip())]
    if not images:
        raise RequestError(
            f"`input={path}`: the first row looks like data ({', '.join(rows[0][:5])}), but it must name the columns; "
            "add a first line such as image,label",
            code="missing_header",
        )
    names = name_cells(columns, images)
    return tuple(names), find_other_labels(columns, names)


def _is_comment(cells: Sequence[str]) -> bool:
    """Whether a row before the header is a comment, or the line with the delimiter that Excel writes (`sep=;`)."""
    return (len(cells) == 1 and cells[0].startswith("#")) or [*cells] == ["sep=", ""]


def _looks_like_data(names: Sequence[str]) -> bool:
    """Whether a first row is not a header: a cell names an image file or is a hash, or all cells are numbers."""
    return any(is_image_name(name) or _HASH.fullmatch(name) for name in names) or all(map(_NUMBER.fullmatch, names))


def _lines(text: str) -> list[str]:
    """Returns the first lines of a text."""
    return re.split(r"\r\n|\r|\n", text.replace("\0", ""), maxsplit=_LINES)[:_LINES]


def _find_delimiter(path: str, text: str) -> tuple[str, list[str]]:
    """Returns the delimiter with which most rows have as many cells as the header, and a note if it is unusual.

    Args:
      path: path of the file; the expected delimiter is a tab for tsv files, else a comma.
      text: first lines of the file.
    """
    usual = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = [line for line in _lines(text) if not line.startswith(("#", "sep="))] or _lines(text)

    def fit(delimiter: str) -> tuple[float, int]:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        width = len(rows[0]) if rows else 0
        # Names and numbers may have a comma each; the delimiter makes more cells.
        return (sum(len(row) == width for row in rows) / len(rows), width) if width > 1 else (0.0, 0)

    best = max((usual, *_DELIMITERS), key=fit)
    shown = "tabs" if best == "\t" else repr(best)
    name = printable(storage.basename(path))
    return best, [] if best == usual else [f"{name}: cells are separated by {shown}"]
