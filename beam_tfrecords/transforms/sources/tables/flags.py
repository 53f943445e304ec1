"""Reads labels given as a zero or one per class, in a list or in one column per class. Pure functions."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.table_settings import UnknownLabels

_WORDS = {
    **dict.fromkeys(("1", "1.0", "1.", "true", "yes"), 1),
    **dict.fromkeys(("0", "0.0", "0.", "false", "no"), 0),
    **dict.fromkeys(("-1", "-1.0", "-1."), -1),
}
# A list as Python or NumPy prints it: [0, 1, 1], [0. 1. 1.].
_LIST = re.compile(r"\s*[\[(]([-+.,\s01]*)[\])]\s*")

# How a request may treat unknown labels -> description of the resulting dataset.
UNKNOWN_MEANINGS = {
    UnknownLabels.NO: "unknown labels as no",
    UnknownLabels.YES: "unknown labels as yes",
    UnknownLabels.REJECT: "the rows without unknown labels",
}


@dataclasses.dataclass(frozen=True)
class Flags:
    """The meaning of zeros and ones.

    Attributes:
      count: number of classes in a list; 0 for columns.
      has_zeros: whether 0 marks an absent class. If so, -1 means unknown, as in CheXpert; otherwise -1 means absent, as
        in CelebA.
      unknown: number of unknown labels in the first rows.
      empty: number of empty cells in the first rows; counted only for columns.
      meaning: how the request treats unknown labels; None if it does not say.
      are_several: whether a sample of the first rows has several classes or none.
    """

    count: int = 0
    has_zeros: bool = True
    unknown: int = 0
    empty: int = 0
    meaning: UnknownLabels | None = None
    are_several: bool = True

    def is_one(self, value: Any, column: str) -> bool:
        """Whether a cell is a one.

        Raises:
          SampleError: the cell is neither one nor zero, or is an unknown label.
        """
        flag = _flag(value)
        if flag is None and self.meaning and _is_empty(value):
            return False
        if flag is None or (flag == 0 and not self.has_zeros):
            expected = "0 or 1" if self.has_zeros else "-1 or 1, as in the first rows"
            raise invalid_row(f"column {column!r} has {shorten(str(value))}; expected {expected}")
        if flag < 0 and self.has_zeros:
            if self.meaning in (UnknownLabels.NO, UnknownLabels.YES):
                return self.meaning is UnknownLabels.YES
            detail = f"column {column!r} has -1, which is neither yes nor no beside 0 and 1"
            raise SampleError(Stage.LIST, FailureReason.LABEL_MISSING, detail)
        return flag == 1

    def ones(self, cell: Any, column: str, separator: str | None) -> list[int]:
        """Returns the class numbers of a list of zeros and ones.

        Raises:
          SampleError: the list contains other values, or has the wrong length.
        """
        values = _values(cell, separator)
        if values is None or len(values) != self.count:
            found = shorten(str(cell)) if values is None else f"{len(values):,} numbers"
            raise invalid_row(f"column {column!r} has {found}; expected {self.count:,} zeros and ones")
        return [number for number, value in enumerate(values) if self.is_one(value, column)]


def describe_unknown(flags: Flags, rows: int) -> str:
    """Returns a note on how unknown labels are treated.

    Args:
      rows: number of first rows in which unknown labels were counted.
    """
    said = flags.meaning.value if flags.meaning else ""
    taken = said if said in ("no", "yes") else "unknown, which rejects its row"
    empty = f", and an empty cell is no ({flags.empty:,})" if flags.empty else ""
    return f"-1 in the labels is {taken} ({flags.unknown:,} in the first {rows:,} rows){empty}"


def find_list_flags(cells: Iterable[Any], separator: str | None) -> Flags | None:
    """Infers the meaning of lists of zeros and ones from the first cells; returns None for other cells.

    Lists of class numbers are ascending, so if all lists are strictly ascending, they are not flags.
    """
    lists = [_values(cell, separator) for cell in cells if cell not in (None, "", [])]
    flags = [list(map(_flag, values or ())) for values in lists]
    found = {flag for row in flags for flag in row}
    if len(set(map(len, flags))) != 1 or len(flags[0]) < 2 or None in found:
        return None
    if all(row == sorted(set(row)) for row in flags):  # type: ignore[type-var]
        return None
    unknown = sum(row.count(-1) for row in flags) if 0 in found else 0
    return Flags(len(flags[0]), 0 in found, unknown, are_several=any(row.count(1) != 1 for row in flags))


def find_column_flags(cells: Iterable[Any]) -> Flags:
    """Infers the meaning of columns of zeros and ones from their first cells."""
    cells = list(cells)
    found = Counter(map(_flag, cells))
    has_zeros = 0 in found or -1 not in found
    return Flags(has_zeros=has_zeros, unknown=found[-1] if has_zeros else 0, empty=sum(map(_is_empty, cells)))


def _is_empty(value: Any) -> bool:
    return value is None or value != value or value == ""


def _flag(value: Any) -> int | None:
    return _WORDS.get(str(value).strip().lower())


def _values(cell: Any, separator: str | None) -> Sequence[Any] | None:
    if isinstance(cell, str):
        listed = _LIST.fullmatch(cell)
        if listed:
            return re.findall(r"[-+.\d]+", listed[1])
        return cell.split(separator) if separator and separator in cell else None
    return cell if isinstance(cell, list | tuple) else None
