"""Opens csv and tsv files: finds their delimiter and columns, and recognizes other forms of text."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.unnamed_columns import find_other_labels, name_cells
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.csv_rows import CsvParser
from beam_tfrecords.transforms.sources.tables.list_file import open_list
from beam_tfrecords.transforms.sources.tables.table import InvalidRow
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, LabelType, TextSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables
from beam_tfrecords.transforms.sources.tables.text_file import choose_encoding, open_lines, read_start
from beam_tfrecords.transforms.sources.tables.text_table import TextTable
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json, refuse_list

# Number of rows from which to guess the columns of a table without a header.
_ROWS = 1000
# Number of lines from which to find the delimiter.
_LINES = 50
_DELIMITERS = (",", ";", "\t", "|")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


def open_input(request: OpenRequest) -> MakeSource:
    """Opens csv files, and tsv files by their extension.

    Raises:
      RequestError: a file cannot be read, or does not fit the request.
    """
    settings = request.spec

    def open_one(path: str) -> TextTable:
        found = open_csv(path, settings, has_rest=settings.label_type is LabelType.TEXT)
        has_rest = found.has_words and settings.label_separator == ""
        return open_csv(path, settings, has_rest=True) if has_rest else found

    return open_tables(open_one, request)


def open_csv(path: str, text: TextSettings = DETECTED, *, has_rest: bool = False) -> TextTable:
    """Opens a csv file and reads its header, or a text of another form, which has no header.

    Args:
      path: path of the file.
      text: settings of the text.
      has_rest: as in `open_list`.

    Raises:
      RequestError: the file is empty, or its first row cannot name columns.
    """
    start = read_start(path)
    refusal = refuse_json(path, start) if start.lstrip()[:1] in (b"[", b"{") else None
    if refusal is not None:
        raise refusal
    if not text.delimiter:
        if (refusal := refuse_list(path, start)) is not None:
            raise refusal
        if (table := open_list(path, start, has_rest=has_rest)) is not None:
            return table
    encoding, notes = choose_encoding(path, start, text.encoding)
    delimiter = text.delimiter
    if delimiter is None:
        delimiter, unusual = _find_delimiter(path, start.decode(encoding, "replace"))
        notes += unusual
    later = [
        cell for line in _lines(start.decode(encoding, "replace"))[1:] for cell in line.split(delimiter)[1:] if cell
    ]
    are_spaced = any(map(is_image_name, later)) and all(cell.startswith(" ") for cell in later)
    parser = CsvParser((), delimiter)
    with open_lines(path, encoding) as lines:
        header, comments = next(parser.read(lines), None), 0
        while isinstance(header, tuple) and len(header[1]) == 1 and header[1][0].startswith("#"):
            header, comments = next(parser.read(lines), None), comments + 1
        if header is None:
            raise RequestError(
                f"`input={path}` is empty; the first row of a csv file must name its columns", code="empty_file"
            )
        if isinstance(header, InvalidRow):
            raise RequestError(f"`input={path}`: the header cannot be read: {header.detail}", code="invalid_file")
        _, cells = header
        names, other_labels = tuple(cell.strip() for cell in cells), list[str]()
        is_data = _looks_like_data(names)
        first = itertools.islice(parser.read(lines), _ROWS) if is_data else ()
        rows = [row[1] for row in first if not isinstance(row, InvalidRow)]
    if is_data:
        names, other_labels = _name_columns(path, rows or [cells])
        notes.append(f"{printable(storage.basename(path))}: no header, read as the columns {', '.join(names)}")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RequestError(
            f"`input={path}`: the header names {', '.join(map(repr, twice))} more than once; it has: "
            f"{', '.join(names)}",
            code="duplicate_column",
        )
    return TextTable(
        path,
        names,
        encoding,
        CsvParser(names, delimiter, skip_spaces=are_spaced or (not is_data and cells != [*names])),
        skips=comments + (not is_data),
        has_header=not is_data,
        notes=notes,
        delimiter=delimiter,
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


def _looks_like_data(names: Sequence[str]) -> bool:
    """Whether a first row is not a header: a cell names an image file, or all cells are numbers."""
    return any(map(is_image_name, names)) or all(map(_NUMBER.fullmatch, names))


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
    lines = [line for line in _lines(text) if not line.startswith("#")] or _lines(text)

    def fit(delimiter: str) -> float:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        width = len(rows[0]) if rows else 0
        return sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0

    best = max((usual, *_DELIMITERS), key=fit)
    shown = "tabs" if best == "\t" else repr(best)
    name = printable(storage.basename(path))
    return best, [] if best == usual else [f"{name}: cells are separated by {shown}"]
