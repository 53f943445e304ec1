"""Detects the encoding and the delimiter of a csv file from its first lines."""

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
    """The format of a csv file.

    Attributes:
      delimiter: cell delimiter.
      encoding: encoding of the text.
      skip_spaces: whether to ignore spaces after a delimiter.
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    skip_spaces: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Options for `csv.reader`."""
        return {"delimiter": self.delimiter, "skipinitialspace": self.skip_spaces}


def find_dialect(path: str, start: bytes, *, delimiter: str | None, encoding: str | None) -> tuple[Dialect, list[str]]:
    """Returns the dialect of a file, and notes on an unusual encoding or delimiter.

    Args:
      path: path of the file; the expected delimiter is a tab for tsv files, else a comma.
      start: first bytes of the file.
      delimiter: delimiter that the request states; None to detect it.
      encoding: encoding that the request states; None to detect it.
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
    """Returns the delimiter with which most rows have as many cells as the header."""
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
