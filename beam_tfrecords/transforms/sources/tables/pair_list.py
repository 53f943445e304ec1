"""Reads pair lists as tables: a name and two numbers for two images of a person, or two names with a number each.

LFW and its successors use this format: http://vis-www.cs.umass.edu/lfw/README.txt
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.unnamed_columns import LABEL
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.text_file import Lines, find_encoding
from beam_tfrecords.transforms.sources.tables.text_table import TextTable
from beam_tfrecords.transforms.sources.unsupported_formats import PAIR_LIST

_COLUMNS = ("name_1", "number_1", "name_2", "number_2", LABEL, "image_1", "image_2")
_FOLD = "fold"


@dataclasses.dataclass(frozen=True)
class PairListParser:
    """Parses a pair list.

    Attributes:
      pairs: number of pairs in a fold, of each label; 0 for a list without folds.
    """

    form = "pair_list"
    has_names_only = False
    count = None

    pairs: int

    def rows(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `RowParser.rows`; the first line is no pair if it has only numbers."""
        number = 0
        for line in lines:
            cells = line.text.strip().split("\t")
            if not line.text.strip() or all(map(str.isdecimal, cells)):
                continue
            number += 1
            one, first, other, second = cells if len(cells) == 4 else [*cells[:2], *cells[:1], "".join(cells[2:])]
            if line.damage or not (first.isdecimal() and second.isdecimal()):
                expected = "expected a name and two numbers, or two of each"
                yield InvalidRow(f"line {line.number}: {line.damage or expected}")
                continue
            images = [f"{name}/{name}_{int(count):04d}.jpg" for name, count in ((one, first), (other, second))]
            label = "same" if len(cells) == 3 else "different"
            fold = (number - 1) // (2 * self.pairs) + 1 if self.pairs else 0
            row = dict(zip((*_COLUMNS, _FOLD), (one, first, other, second, label, *images, str(fold)), strict=True))
            yield {name: row[name] for name in columns}


def open_pair_list(path: str, start: bytes) -> TextTable | None:
    """Opens a pair list; returns None if the text is not a pair list.

    Args:
      path: path of the file.
      start: first bytes of the file.
    """
    found = PAIR_LIST.match(start)
    if found is None:
        return None
    columns = (*_COLUMNS, *([_FOLD] if found["pairs"] else []))
    note = f"{printable(storage.basename(path))}: a list of pairs, read as the columns {', '.join(columns)}"
    parser = PairListParser(int(found["pairs"] or 0))
    return TextTable(path, columns, find_encoding(start), parser, notes=[note], pairs=_COLUMNS[-2:])
