"""The interface of a table: a csv, jsonl or parquet file."""

from __future__ import annotations

import abc
import dataclasses
import functools
import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from beam_tfrecords.errors import SampleError
from beam_tfrecords.nearest import list_known
from beam_tfrecords.transforms.sources.registry import find_source, module_of_table
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, TableSettings

# Limit for a row (characters of a csv row, bytes of a jsonl line); longer rows are rejected without being read.
# References are shuffled and should have a few hundred bytes; the limit keeps a malicious row from filling the memory.
MOST_ROW_SIZE = 4 << 20
# Number of tables whose first rows are kept, and the most characters and elements of their cells.
_MOST_TABLES, _MOST_KEPT = 8, 16 << 20
# Number of rows of which all columns are read at once.
FEW_ROWS = 100


@dataclasses.dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be read.

    Attributes:
      detail: position and description of the error.
      ends: whether the table is unreadable from here on, with an unknown number of lost rows.
    """

    detail: str
    ends: bool = False


class UnjoinedRow(dict[str, Any]):
    """The columns of a row that lacks a row in a joined table.

    Args:
      values: the columns; None for those of the joined table.
      error: why there is no such row.
    """

    def __init__(self, values: Mapping[str, Any], error: SampleError) -> None:
        super().__init__(values)
        self.error = error


Row: TypeAlias = Mapping[str, Any] | InvalidRow


class RowRange(NamedTuple):
    """A range of consecutive rows that can be read without the rows before it.

    Attributes:
      row: number of the first row, from 0.
      start: start of the range: a row number in a Parquet file, a byte offset in a text.
      stop: end of the range, exclusive.
      line: number of the first line in a text, from 1.
    """

    row: int
    start: int
    stop: int
    line: int = 1


@dataclasses.dataclass(frozen=True, eq=False)
class Table(abc.ABC):
    """A file of rows with known columns. A subclass that reads a file is compared by identity.

    Attributes:
      path: path of the file.
      columns: names of the columns, in the order of the file.
      column_types: column -> "int64", "float" or "bytes"; None if the format has no types.
      notes: notes on findings about the file.
      embedded: columns that may contain image bytes.
      other_labels: columns that may be the label as well as `label`, if the file does not name its columns.
      has_words: whether a class or a text of several words may be several cells.
      places: joined column -> path of its file, and its name there.
    """

    path: str
    columns: Sequence[str]
    _: dataclasses.KW_ONLY
    column_types: Mapping[str, str] | None = None
    notes: Sequence[str] = ()
    embedded: Sequence[str] = ()
    other_labels: Sequence[str] = ()
    has_words: bool = False
    places: Mapping[str, tuple[str, str]] = dataclasses.field(default_factory=dict)

    @abc.abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yields the rows in file order with only these columns; None for a column that a row lacks."""

    def may_hold_text(self, column: str) -> bool:
        """Whether the column's values can be strings, such as image paths."""
        return True

    def head(self, columns: Sequence[str], rows: int = FEW_ROWS) -> list[Mapping[str, Any]]:
        """Returns the first rows, without those that cannot be read. Most cells are read once and kept."""
        return _first_rows(self).head(columns, rows)

    def _beside(self, columns: Sequence[str], rows: int) -> Sequence[str]:
        """Returns further columns whose first cells cost little once these are read."""
        return [name for name in self.columns if name not in self.embedded] if rows <= FEW_ROWS else ()


class _FirstRows:
    """The first rows of a table. A column is read again only if more of its rows are asked for.

    Args:
      table: the table.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        # Column -> number of rows that were asked for, and their cells; `InvalidRow` for a row that cannot be read.
        self._known: dict[str, tuple[int, list[Any]]] = {}
        self._kept = 0

    def head(self, columns: Sequence[str], rows: int) -> list[Mapping[str, Any]]:
        """See `Table.head`."""
        known = {name: self._known[name] for name in columns if self._known.get(name, (0,))[0] >= rows}
        missing = [name for name in columns if name not in known]
        if missing or not columns:
            known |= self._read([*dict.fromkeys([*missing, *self._table._beside(missing, rows)])], rows)
        several = [known[name][1][:rows] for name in columns or list(known)[:1]]
        return [
            dict(zip(columns, row, strict=False))
            for row in zip(*several, strict=False)  # of different lengths if the file was replaced meanwhile
            if not any(isinstance(cell, InvalidRow) for cell in row)
        ]

    def _read(self, columns: Sequence[str], rows: int) -> dict[str, tuple[int, list[Any]]]:
        found = list(itertools.islice(self._table.rows(columns), rows))
        cells = {name: (rows, [one if isinstance(one, InvalidRow) else one[name] for one in found]) for name in columns}
        self._kept += sum(
            len(cell) for _, some in cells.values() for cell in some if isinstance(cell, str | bytes | list)
        )
        if self._kept <= _MOST_KEPT:
            self._known |= cells
        return cells


_first_rows = functools.lru_cache(maxsize=_MOST_TABLES)(_FirstRows)


def first_cells(table: Table, columns: Sequence[str], *, rows: int = 100) -> dict[str, list[Any]]:
    """Returns column -> cells of the first rows, of those that can be read."""
    found = table.head(columns, rows)
    return {name: [row[name] for row in found] for name in columns}


def available(table: Table, wrong: str = "") -> str:
    """Lists the columns, for a message; names the one that is most like a wrong name first."""
    return list_known(wrong, table.columns)


@dataclasses.dataclass(frozen=True)
class FirstRows(Table):
    """The first samples of a file in another format, presented as a table."""

    first_rows: Sequence[Mapping[str, Any]]

    def may_hold_text(self, column: str) -> bool:
        """See `Table`."""
        return self.column_types is None or self.column_types[column] == "bytes"

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Yields the first rows."""
        return ({name: row.get(name) for name in columns} for row in self.first_rows)

    def head(self, columns: Sequence[str], rows: int = FEW_ROWS) -> list[Mapping[str, Any]]:
        """See `Table.head`."""
        return [{name: row.get(name) for name in columns} for row in self.first_rows[:rows]]


@dataclasses.dataclass(frozen=True, eq=False)
class ReadTable(Table):
    """Rows that a function reads.

    Attributes:
      read: (columns) -> the rows, as from `rows`.
    """

    read: Callable[[Sequence[str]], Iterator[Row]]

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """See `Table.rows`."""
        return self.read(columns)


class TableFile(Table):
    """A table that can be read in ranges of rows."""

    @abc.abstractmethod
    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`.

        Args:
          part: range of rows to read; None for all rows.
        """

    @abc.abstractmethod
    def cut(self) -> tuple[Sequence[RowRange], str]:
        """Splits the table into row ranges that workers can read in parallel.

        Returns:
          The ranges in file order, none if the table can only be read as a whole; and the reason if the table could
          not be split well, else "".
        """


def open_table(path: str, settings: TableSettings = DETECTED) -> TableFile:
    """Opens a table of the format that its extension names, else a text.

    Raises:
      RequestError: the file does not have the format of its extension.
    """
    module = module_of_table(path) or find_source("csv", "").module
    # Imports only the format that is needed.
    opened: TableFile = importlib.import_module(f"beam_tfrecords.transforms.sources.{module}").open_table(
        path, settings
    )
    return opened
