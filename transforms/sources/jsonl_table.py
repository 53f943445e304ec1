"""Jsonl files: one JSON object per line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

from transforms import storage
from transforms.errors import RequestError
from transforms.sources.source_spec import SourceSpec
from transforms.sources.table import MOST_ROW_SIZE, InvalidRow, Row
from transforms.sources.table_source import TableSource, open_tables

_BOM = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True)
class JsonlTable:
    """A jsonl file. The names in its first object are its columns; empty lines are ignored.

    Attributes:
      path: the file.
      columns: names of the columns.
      column_types: None; values have types, columns do not.
    """

    path: str
    columns: Sequence[str]
    column_types: None = None

    def may_hold_text(self, column: str) -> bool:
        """Always; any row may have a string there."""
        return True

    def rows(self, columns: Sequence[str]) -> Iterator[Row]:
        """Every row; a line that is not a JSON object is an `InvalidRow`."""
        with storage.open_read(self.path) as file:
            for row in _read_objects(file):
                yield row if isinstance(row, InvalidRow) else {name: row.get(name) for name in columns}


def open_source(spec: SourceSpec) -> TableSource:
    """Opens jsonl files.

    Raises:
      RequestError: a file cannot be read, or does not fit the request.
    """
    return open_tables(spec, open_jsonl)


def open_jsonl(path: str) -> JsonlTable:
    """Reads the first object.

    Raises:
      RequestError: the file has no object.
    """
    with storage.open_read(path) as file:
        for row in _read_objects(file):
            if not isinstance(row, InvalidRow):
                return JsonlTable(path, tuple(row))
    raise RequestError(f"`input={path}` has no line with a JSON object; a jsonl file has one on every line")


def _read_objects(file: IO[bytes]) -> Iterator[dict[str, Any] | InvalidRow]:
    number = 0
    while line := file.readline(MOST_ROW_SIZE + 1):
        number += 1
        if len(line) > MOST_ROW_SIZE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MOST_ROW_SIZE)
            yield InvalidRow(f"line {number}: more than {MOST_ROW_SIZE:,} bytes")
            continue
        if number == 1:
            line = line.removeprefix(_BOM)
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode())
        except UnicodeDecodeError:
            yield InvalidRow(f"line {number}: bytes that are not valid UTF-8")
        except RecursionError:
            yield InvalidRow(f"line {number}: nested too deeply")
        except ValueError as error:  # Invalid JSON, or a number with too many digits.
            yield InvalidRow(f"line {number}: {error}")
        else:
            yield row if isinstance(row, dict) else InvalidRow(f"line {number}: not a JSON object")
