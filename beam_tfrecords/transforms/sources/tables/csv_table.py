"""Reads csv and tsv files row by row. Rejects damaged rows and reads the rows after them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.unnamed_columns import find_other_labels, name_cells
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.tables.box_list import BoxList, open_box_list
from beam_tfrecords.transforms.sources.tables.csv_dialect import Dialect, find_dialect, looks_like_data
from beam_tfrecords.transforms.sources.tables.csv_rows import Cells, count_rows, read_rows
from beam_tfrecords.transforms.sources.tables.list_file import ListFile, open_list
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, RowRange
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, LabelType, TableSettings, TextSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables
from beam_tfrecords.transforms.sources.tables.text_file import Lines, cut_text, open_bytes, read_start
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json

# Number of rows from which to guess the columns of a table without a header.
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class CsvTable:
    """A csv file.

    Quoting follows RFC 4180: a quoted cell may contain delimiters, line ends and doubled quotes. Empty lines
    are ignored.

    Attributes:
      path: path of the file.
      dialect: how the text is written.
      columns: names of the columns.
      has_header: whether the first row names the columns.
      other_labels: as in `Table`.
    """

    path: str
    dialect: Dialect
    columns: Sequence[str]
    notes: Sequence[str] = ()
    has_header: bool = True
    other_labels: Sequence[str] = ()
    column_types: None = None
    embedded: Sequence[str] = ()

    @property
    def delimiter(self) -> str:
        """Cell delimiter."""
        return self.dialect.delimiter

    def may_hold_text(self, column: str) -> bool:
        """Returns True: all cells of a csv file are strings."""
        return True

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`; a row whose number of cells differs from the header's becomes an `InvalidRow`."""
        with open_bytes(self.path, part) as file:
            lines = Lines(file, self.path, self.dialect.encoding, first=part.line if part else 1)
            has_header = self.has_header and (not part or part.start == 0)
            yield from lines.until_damage(self._rows(lines, columns, has_header=has_header))

    def _rows(self, lines: Lines, columns: Sequence[str], *, has_header: bool) -> Iterator[Row]:
        cells = [(name, self.columns.index(name)) for name in columns]
        width = len(self.columns)
        rows = read_rows(lines, width=width, options=self.dialect.options)
        if has_header:
            next(rows)
        for row in rows:
            if isinstance(row, InvalidRow):
                yield row
            elif len(row.cells) != width:
                yield InvalidRow(f"line {row.line}: {len(row.cells)} cells; expected {width}")
            else:
                yield {name: row.cells[index] for name, index in cells}

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`."""
        count = functools.partial(count_rows, width=len(self.columns), options=self.dialect.options)
        ranges, problem = cut_text(self.path, self.dialect.encoding, count)
        # The header does not count as a row.
        return [part._replace(row=part.row - self.has_header) if part.start else part for part in ranges], problem


def open_input(
    inputs: Inputs, table: TableSettings, text: TextSettings, paths: PathSettings, needs: Needs
) -> MakeSource:
    """Opens csv files, and tsv files by their extension.

    Raises:
      RequestError: a file cannot be read, or does not fit the request.
    """
    has_texts = table.label_type is LabelType.TEXT
    return open_tables(lambda path: open_csv(path, text, has_texts=has_texts), inputs, table, paths, needs)


def open_csv(path: str, text: TextSettings = DETECTED, *, has_texts: bool = False) -> CsvTable | ListFile | BoxList:
    """Opens a csv file and reads its header; recognizes image lists and box lists, which have no header.

    Args:
      path: path of the file.
      text: settings of the text.
      has_texts: as in `open_list`.

    Raises:
      RequestError: the file is empty, or its first row cannot name columns.
    """
    start = read_start(path)
    refusal = refuse_json(path, start) if start.lstrip()[:1] in (b"[", b"{") else None
    if refusal is not None:
        raise refusal
    listed = None if text.delimiter else open_box_list(path, start) or open_list(path, start, has_texts=has_texts)
    if listed is not None:
        return listed
    dialect, notes = find_dialect(path, start, delimiter=text.delimiter, encoding=text.encoding)
    with open_bytes(path) as file:
        lines = Lines(file, path, dialect.encoding)
        first = list(itertools.islice(read_rows(lines, width=0, options=dialect.options), 1))
        header: Cells | InvalidRow | None = first[0] if first else None
        is_data = isinstance(header, Cells) and looks_like_data([name.strip() for name in header.cells])
        more = itertools.islice(read_rows(lines, width=0, options=dialect.options), _ROWS) if is_data else ()
        rows = [row.cells for row in more if isinstance(row, Cells)]
    if header is None:
        raise RequestError(
            f"`input={path}` is empty; the first row of a csv file must name its columns", code="empty_file"
        )
    if isinstance(header, InvalidRow):
        raise RequestError(f"`input={path}`: the header cannot be read: {header.detail}", code="invalid_file")
    names = [name.strip() for name in header.cells]
    if is_data:
        return _name_columns(path, dialect, notes, rows)
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RequestError(
            f"`input={path}`: the header names {', '.join(map(repr, twice))} more than once; it has: "
            f"{', '.join(names)}",
            code="duplicate_column",
        )
    if header.cells != names:
        dialect = dataclasses.replace(dialect, skip_spaces=True)
    return CsvTable(path, dialect, tuple(names), notes)


def _name_columns(path: str, dialect: Dialect, notes: Sequence[str], rows: Sequence[Sequence[str]]) -> CsvTable:
    """Returns a table without a header, with names for its columns.

    Args:
      path: path of the table.
      dialect: how its text is written.
      notes: notes on the dialect.
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
    note = f"{printable(storage.basename(path))}: no header, read as the columns {', '.join(names)}"
    others = find_other_labels(columns, names)
    return CsvTable(path, dialect, tuple(names), [*notes, note], has_header=False, other_labels=others)
