"""The interface of a table: a csv, jsonl or parquet file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

# A longer row (characters of a csv row, bytes of a jsonl line) is rejected unread. References should have a few
# hundred bytes, because they are shuffled; the bound keeps a hostile row from filling the memory.
MOST_ROW_SIZE = 4 << 20


@dataclasses.dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be read.

    Attributes:
      detail: where it is, and what was found.
      ends: whether it is no row, but says that the table cannot be read further: nobody knows how many rows are lost.
    """

    detail: str
    ends: bool = False


Row: TypeAlias = Mapping[str, Any] | InvalidRow


class RowRange(NamedTuple):
    """Consecutive rows, which can be read without those before them.

    Attributes:
      row: number of the first, from 0.
      start: where they begin: a row of a Parquet file, a byte of a text.
      stop: where they end.
      line: number of the first line of a text, from 1.
    """

    row: int
    start: int
    stop: int
    line: int = 1


class Table(Protocol):
    """A file of rows whose columns are known."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns, in the order of the file."""

    @property
    def notes(self) -> Sequence[str]:
        """What was found about the file that its name does not say."""

    @property
    def column_types(self) -> Mapping[str, str] | None:
        """Column -> "int64", "float" or "bytes"; None if the format has no types."""

    @property
    def delimiter(self) -> str | None:
        """Between the cells of a csv file; None for other formats."""

    @property
    def embedded(self) -> Sequence[str]:
        """Columns that may hold the bytes of images."""

    def may_hold_text(self, column: str) -> bool:
        """Whether the column's values can be strings, as paths of images are."""

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Every row in the order of the file, with these columns only; None where a row lacks a column."""


def available(table: Table) -> str:
    """The columns, for a message."""
    return f"it has: {', '.join(table.columns)}"


@dataclasses.dataclass(frozen=True)
class FirstRows:
    """The first samples of a file that is no table, as one."""

    path: str
    columns: Sequence[str]
    column_types: Mapping[str, str] | None
    first_rows: Sequence[Mapping[str, Any]]
    notes: Sequence[str] = ()
    delimiter: None = None
    embedded: Sequence[str] = ()

    def may_hold_text(self, column: str) -> bool:
        """See `Table`."""
        return self.column_types is None or self.column_types[column] == "bytes"

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """The first rows."""
        return ({name: row.get(name) for name in columns} for row in self.first_rows)


class TableFile(Table, Protocol):
    """A table whose rows can be read in parts."""

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`.

        Args:
          part: the rows that are read; None for all.
        """

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """Ranges of rows that together are the table, for workers to read at once.

        Returns:
          The ranges in the order of the file, and why most of the rows are one of them; "" if they are not.
        """
