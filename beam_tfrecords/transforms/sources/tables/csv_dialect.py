"""How a csv file is written: its encoding and its delimiter, found from its first lines."""

from __future__ import annotations

import csv
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.tables.text_file import find_encoding, note_encoding

_DELIMITERS = (",", ";", "\t", "|")
_LINES = 50
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a csv file is written.

    Attributes:
      skip_spaces: whether spaces after a delimiter are not part of a cell.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    skip_spaces: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """As options of `csv.reader`."""
        return {"delimiter": self.delimiter, "skipinitialspace": self.skip_spaces}


def find_dialect(path: str, start: bytes, *, delimiter: str | None, encoding: str | None) -> tuple[Dialect, list[str]]:
    """The dialect of a file, and notes on what its name does not say.

    Args:
      path: of the file; a tsv file is expected to have tabs, another one commas.
      delimiter: as the request says; None to find it.
      encoding: as the request says; None to find it.
    """
    notes = []
    if encoding is None:
        encoding = find_encoding(start)
        notes += note_encoding(path, encoding)
    if delimiter is None:
        usual = "\t" if path.lower().removesuffix(".gz").endswith(".tsv") else ","
        delimiter = _find_delimiter(start.decode(encoding, "replace"), usual)
        if delimiter != usual:
            shown = "tabs" if delimiter == "\t" else repr(delimiter)
            notes.append(f"{printable(storage.basename(path))}: cells are separated by {shown}")
    return Dialect(delimiter, encoding), notes


def looks_like_data(names: Sequence[str]) -> bool:
    """Whether a first row is not a header: a cell names an image file, or all cells are numbers."""
    return any(map(is_image_name, names)) or all(map(_NUMBER.fullmatch, names))


def _find_delimiter(text: str, usual: str) -> str:
    """The delimiter that the header has and that gives the most rows the header's number of cells."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    lines = re.split(r"\r\n|\r|\n", text.replace("\0", ""), maxsplit=_LINES)[:_LINES]
    best, best_score = usual, 0.0
    for delimiter in (usual, *_DELIMITERS):
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        width = len(rows[0]) if rows else 0
        score = sum(len(row) == width for row in rows) / len(rows) if width > 1 else 0.0
        if score > best_score:
            best, best_score = delimiter, score
    return best
