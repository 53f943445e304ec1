"""Reads jsonl files: one JSON object per line."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.column_names import may_be_meant
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, TableSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables
from beam_tfrecords.transforms.sources.tables.text_table import (
    Line,
    Lines,
    TextTable,
    choose_encoding,
    open_lines,
    read_start,
)
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json

# Number of rows whose fields are the columns.
_ROWS = 1000


class JsonlTable(TextTable):
    """A table of JSON objects, one per line; its columns are the names in the first ones. Empty lines are ignored."""

    def parse(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `TextTable.parse`.

        A line that is not a JSON object is an `InvalidRow`, and so is one with a field of an important name that the
        first rows lack: leaving out a split or a label that appears late would be silent.
        """
        known = frozenset(self.columns)
        for row in _read_objects(lines):
            if isinstance(row, InvalidRow):
                yield row
                continue
            late = [] if row.keys() <= known else [name for name in row.keys() - known if may_be_meant(name)]
            if late:
                yield InvalidRow(f"the field {min(late)!r}, which none of the first {_ROWS:,} rows has")
            else:
                yield {name: row.get(name) for name in columns}

    def count(self, chunk: bytes, is_last: bool) -> tuple[int, int]:
        """See `TextTable.count`."""
        objects = chunk.count(b"\n{") + chunk.startswith(b"{")
        if objects < chunk.count(b"\n") + (not chunk.endswith(b"\n")):
            # Some lines are empty, or do not start with a brace: counts the lines that are not empty.
            objects = sum(bool(line.decode(self.encoding, "replace").strip()) for line in chunk.split(b"\n"))
        return objects, len(chunk)


def _read_objects(lines: Lines) -> Iterator[dict[str, Any] | InvalidRow]:
    return map(_read_object, (line for line in lines if line.damage or line.text.strip()))


def _read_object(line: Line) -> dict[str, Any] | InvalidRow:
    if line.damage:
        return InvalidRow(f"line {line.number}: {line.damage}")
    try:
        row = read_json(line.text)
    except RecursionError:
        return InvalidRow(f"line {line.number}: nested too deeply")
    except ValueError as error:  # Invalid JSON, or a number that is too large.
        return InvalidRow(f"line {line.number}: {error}")
    return row if isinstance(row, dict) else InvalidRow(f"line {line.number}: not a JSON object")


def open_table(path: str, settings: TableSettings = DETECTED) -> JsonlTable:
    """Opens a jsonl file, and reads its columns from the first objects.

    Raises:
      RequestError: the file contains no JSON object.
    """
    start = read_start(path)
    refusal = refuse_json(path, start) if start.lstrip()[:1] == b"[" else None
    if refusal is not None:
        raise refusal
    encoding, notes = choose_encoding(path, start, settings.encoding)
    with open_lines(path, encoding) as lines:
        rows = itertools.islice(lines.until_damage(_read_objects(lines)), _ROWS)
        columns = tuple(dict.fromkeys(name for row in rows if not isinstance(row, InvalidRow) for name in row))
    if columns:
        return JsonlTable(path, columns, encoding=encoding, notes=notes)
    raise RequestError(
        f"`input={path}` has no line with a JSON object; a jsonl file has one on every line", code="invalid_file"
    )


open_input = functools.partial(open_tables, open_table)
