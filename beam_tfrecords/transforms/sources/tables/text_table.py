"""Tables in text files. A form of text, such as csv, only adds a parser, which turns lines into rows."""

from __future__ import annotations

import codecs
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.unnamed_columns import UNNAMED
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.table import Row, RowRange, TableFile
from beam_tfrecords.transforms.sources.tables.text_file import UTF8, Lines, is_gzip, open_lines

# Approximate size of a range of rows.
RANGE_BYTES = 4 << 20
# One process lists this in a minute; a larger range without a split is worth a note.
_NOTED_BYTES = 64 << 20


class RowParser(Protocol):
    """Turns the lines of a text into rows. Picklable."""

    def rows(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """Yields the rows with only these columns, those before the first sample included."""

    def count(self, chunk: bytes, is_last: bool) -> tuple[int, int] | None:
        """Counts the rows in a chunk.

        Args:
          chunk: whole lines, of which the first starts a row.
          is_last: whether the file ends after them.

        Returns:
          The number of rows and their size in bytes; None if it is uncertain where rows start.
        """


@dataclasses.dataclass(frozen=True, eq=False)
class TextTable(TableFile):
    """A table in a text file.

    Attributes:
      encoding: encoding of the text.
      parser: reads the rows.
      skips: number of rows before the first sample, such as a header.
      has_header: whether the file names its columns; otherwise its cells do.
    """

    encoding: str
    parser: RowParser
    _: dataclasses.KW_ONLY
    skips: int = 0
    has_header: bool = True

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `TableFile.rows`; a row that does not fit the columns becomes an `InvalidRow`."""
        with open_lines(self.path, self.encoding, part) as lines:
            skips = 0 if part and part.start else self.skips
            yield from lines.until_damage(itertools.islice(self.parser.rows(lines, columns), skips, None))

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`; reads the file once."""
        size = storage.stat(self.path).size
        problem = "" if _keeps_lines(self.encoding) else f"its encoding is {self.encoding}"
        if is_gzip(self.path):
            problem = "the file is compressed"
        if problem:
            return [], problem if size > _NOTED_BYTES else ""
        ranges: list[RowRange] = []
        row, start, line, data = 0, 0, 1, b""
        with storage.open_read(self.path) as file:
            while start < size:
                while len(data) < RANGE_BYTES and (piece := file.read(RANGE_BYTES - len(data))):
                    data += piece
                is_last = start + len(data) >= size
                chunk = data if is_last else data[: data.rfind(b"\n") + 1]
                # A lone carriage return also ends a line, and a NUL damages its line.
                is_plain = chunk.count(b"\r") == chunk.count(b"\r\n") and b"\0" not in chunk
                mark = len(codecs.BOM_UTF8) if not start and chunk.startswith(codecs.BOM_UTF8) else 0
                rows, used = (is_plain and self.parser.count(chunk[mark:], is_last)) or (0, 0)
                if not used:
                    problem = f"a quote, carriage return or NUL from line {line:,} on may hide where rows begin"
                    ranges.append(RowRange(row, start, size, line))
                    break
                used += mark
                ranges.append(RowRange(row, start, start + used, line))
                row, start, line = row + rows, start + used, line + chunk.count(b"\n", 0, used)
                data = data[used:]
        # A header is no row.
        ranges = [part._replace(row=part.row - self.skips) if part.start else part for part in ranges]
        return ranges, problem if size - start > _NOTED_BYTES else ""


def _keeps_lines(encoding: str) -> bool:
    """Whether every byte below 128 is an ASCII character, independent of the bytes before it."""
    name = codecs.lookup(encoding).name
    ascii = bytes(range(128))
    upper = bytes(range(128, 256)).decode(name, "replace")
    # Encodings without upper-half characters, such as ISO-2022-JP, write other characters in ASCII bytes.
    is_one_byte = len(upper) == 128 and set(upper) != {"\ufffd"}
    return name in (*UTF8, "ascii") or (is_one_byte and ascii.decode(name, "replace") == ascii.decode())


def name_alike(tables: Sequence[TableFile]) -> list[TableFile]:
    """Gives the columns of tables without headers the same names, because tables of one request have one meaning.

    The table whose cells name the most columns decides: in a short one, each row may have a class of its own.
    """
    bare = [table for table in tables if isinstance(table, TextTable) and not table.has_header]
    if not bare or len(bare) < len(tables) or len({(type(table.parser), len(table.columns)) for table in bare}) > 1:
        return [*tables]
    best = min(bare, key=lambda table: sum(name.startswith(UNNAMED) for name in table.columns))
    return [_renamed(table, best) if [*table.columns] != [*best.columns] else table for table in bare]


def _renamed(table: TextTable, best: TextTable) -> TextTable:
    name, columns = printable(storage.basename(table.path)), best.columns
    shown = (
        f"{name}: no header, read as the columns {', '.join(columns)}, as {printable(storage.basename(best.path))} is"
    )
    notes = [note for note in table.notes if "header" not in note]
    parser = dataclasses.replace(table.parser, columns=columns)  # type: ignore[type-var]  # each parser is a dataclass
    return dataclasses.replace(
        table, columns=columns, parser=parser, notes=[*notes, shown], other_labels=best.other_labels
    )
