"""Reads jsonl files: one JSON object per line."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.column_names import may_be_meant
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, RowRange
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings, TextSettings
from beam_tfrecords.transforms.sources.tables.table_source import open_tables
from beam_tfrecords.transforms.sources.tables.text_file import (
    Line,
    Lines,
    cut_text,
    find_encoding,
    note_encoding,
    open_bytes,
    read_start,
)
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json

# Number of rows whose fields are the columns.
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class JsonlTable:
    """A jsonl file. The names in its first objects are its columns. Empty lines are ignored."""

    path: str
    encoding: str
    columns: Sequence[str] = ()
    column_types: None = None
    notes: Sequence[str] = ()
    embedded: Sequence[str] = ()
    other_labels: Sequence[str] = ()
    delimiter: None = None

    def may_hold_text(self, column: str) -> bool:
        """Returns True: any row may contain a string."""
        return True

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`.

        A line that is not a JSON object is an `InvalidRow`, and so is one with a field of an important name that the
        first rows lack: leaving out a split or a label that appears late would be silent.
        """
        known = frozenset(self.columns)
        for row in self.objects(part):
            if isinstance(row, InvalidRow):
                yield row
                continue
            late = [] if row.keys() <= known else [name for name in row.keys() - known if may_be_meant(name)]
            if late:
                yield InvalidRow(f"the field {min(late)!r}, which none of the first {_ROWS:,} rows has")
            else:
                yield {name: row.get(name) for name in columns}

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`."""
        return cut_text(self.path, self.encoding, functools.partial(_count_rows, encoding=self.encoding))

    def objects(self, part: RowRange | None = None) -> Iterator[Row]:
        """Yields each row with all its fields."""
        with open_bytes(self.path, part) as file:
            lines = Lines(file, self.path, self.encoding, first=part.line if part else 1)
            filled = (line for line in lines if line.damage or line.text.strip())
            yield from lines.until_damage(map(_read_object, filled))


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


def open_input(
    inputs: Inputs, table: TableSettings, text: TextSettings, paths: PathSettings, needs: Needs
) -> MakeSource:
    """Opens jsonl files.

    Raises:
      RequestError: a file cannot be read, or does not fit the request.
    """
    return open_tables(functools.partial(open_jsonl, encoding=text.encoding), inputs, table, paths, needs)


def open_jsonl(path: str, encoding: str | None = None) -> JsonlTable:
    """Opens a jsonl file, and reads its columns from the first objects.

    Args:
      encoding: encoding of the text; None to detect it.

    Raises:
      RequestError: the file contains no JSON object.
    """
    start = read_start(path)
    refusal = refuse_json(path, start) if start.lstrip()[:1] == b"[" else None
    if refusal is not None:
        raise refusal
    found = encoding or find_encoding(start)
    table = JsonlTable(path, found, notes=[] if encoding else note_encoding(path, found))
    first = (row for row in itertools.islice(table.objects(), _ROWS) if not isinstance(row, InvalidRow))
    columns = tuple(dict.fromkeys(itertools.chain.from_iterable(first)))
    if columns:
        return dataclasses.replace(table, columns=columns)
    raise RequestError(
        f"`input={path}` has no line with a JSON object; a jsonl file has one on every line", code="invalid_file"
    )


def _count_rows(chunk: bytes, is_last: bool, *, encoding: str) -> tuple[int, int]:
    """Counts the rows in some lines, and their bytes."""
    objects = chunk.count(b"\n{") + chunk.startswith(b"{")
    if objects < chunk.count(b"\n") + (not chunk.endswith(b"\n")):
        # Some lines are empty, or do not start with a brace: counts the lines that are not empty.
        objects = sum(bool(line.decode(encoding, "replace").strip()) for line in chunk.split(b"\n"))
    return objects, len(chunk)
