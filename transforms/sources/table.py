"""What the readers of csv, jsonl and parquet files have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

# A row (characters of a csv row, bytes of a jsonl line) that is longer is refused unread. References are
# shuffled and should have a few hundred bytes; this keeps one hostile row from filling the memory.
MOST_ROW_SIZE = 4 << 20


@dataclasses.dataclass(frozen=True)
class InvalidRow:
    """A row that cannot be read.

    Attributes:
      detail: where it is and what is wrong with it.
    """

    detail: str


Row: TypeAlias = Mapping[str, Any] | InvalidRow


class Table(Protocol):
    """A manifest's file, opened far enough to know its columns."""

    @property
    def path(self) -> str:
        """Where the file is."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns, in the file's order."""

    @property
    def column_types(self) -> Mapping[str, str] | None:
        """Column -> "int64", "float" or "bytes"; None if the format has no types."""

    def may_hold_text(self, column: str) -> bool:
        """Whether the column's values can be strings, as paths of images are."""

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Every row in the file's order, with these columns only; one that a row lacks is None."""
