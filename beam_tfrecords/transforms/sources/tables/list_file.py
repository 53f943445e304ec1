"""Reads image lists as tables: text files with an image path per line, optionally a class, and no header.

Food-101 and DTD list paths whose first folder is the class. ImageNet and Places365 list a path and a class number.
CelebA starts with a line for the number of rows and a line of column names, followed by paths and values.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.class_files import read_classes
from beam_tfrecords.transforms.sources.detect.column_names import IMAGE_NAMES, find_usual
from beam_tfrecords.transforms.sources.detect.unnamed_columns import (
    IMAGE,
    LABEL,
    SPLIT,
    UNNAMED,
    all_numbers,
    counts,
    find_other_labels,
    name_cells,
)
from beam_tfrecords.transforms.sources.names import is_image_name, printable, without_number
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, Table
from beam_tfrecords.transforms.sources.tables.text_table import Lines, TextTable, find_encoding, open_lines, read_start

_ID = "column_1"
# Column -> text file next to an image list that contains the column's values by image number.
_JOINED = {LABEL: "image_class_labels.txt", SPLIT: "train_test_split.txt"}
_CLASSES = "classes.txt"
# Limit of rows in these files, which are kept in memory.
_MOST_JOINED = 1_000_000
_ROWS = 50
_EXTENSIONS = (".txt", ".lst", ".list")
# A line of ICDAR's word lists: an image and a quoted text.
_QUOTED = re.compile(r'[^",;|\t]+,\s*"(?:[^"]|"")*"\s*')


@dataclasses.dataclass(frozen=True, eq=False)
class ListTable(TextTable):
    """An image list. Its columns end with `label` if the folder of an image is its class.

    Attributes:
      cells: number of cells in a row; 0 if everything after the first cell is a single cell.
      delimiter: delimiter of the cells; None for any white space.
      joined: column -> text file next to the list with its values, keyed by the cells of `column_1`.
    """

    _: dataclasses.KW_ONLY
    cells: int
    delimiter: str | None
    joined: Mapping[str, str]

    def parse(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `TextTable.parse`."""
        joined = {name: _read_values(path) for name, path in self.joined.items()}
        for line in lines:
            cells = _split(line.text, self.delimiter, cells=self.cells)
            if line.damage or (cells and len(cells) != (self.cells or 2)):
                detail = line.damage or f"{len(cells)} cells; expected {self.cells or 2}"
                yield InvalidRow(f"line {line.number}: {detail}")
            elif cells:
                row = dict(zip(self.columns, cells, strict=False))
                row = {
                    name: cell.lstrip("/").removeprefix("./") if is_image_name(cell) or name == IMAGE else cell
                    for name, cell in row.items()
                }
                if LABEL in self.columns and LABEL not in row:
                    row[LABEL] = _class_of(row[IMAGE])
                row |= {name: values.get(row[_ID], "") for name, values in joined.items()}
                yield {name: row[name] for name in columns}

    def count(self, chunk: bytes, is_last: bool) -> tuple[int, int]:
        """See `TextTable.count`."""
        return sum(1 for line in chunk.splitlines() if line.strip()), len(chunk)


def has_names_only(table: Table) -> bool:
    """Whether a row has only the name of an image, whatever columns follow from it."""
    return isinstance(table, ListTable) and table.cells == 1 and not table.joined


def open_names(path: str) -> ListTable:
    """Opens a list in which each line names an image, even if it is a number."""
    encoding = find_encoding(read_start(path))
    return ListTable(path, (IMAGE,), encoding=encoding, cells=1, delimiter=None, joined={}, has_header=False)


def open_list(path: str, start: bytes, *, has_rest: bool = False) -> ListTable | None:
    """Opens an image list; returns None if the text is not an image list.

    Args:
      path: path of the file.
      start: first bytes of the file.
      has_rest: whether the rest of each line behind its image is one text or class, if it may be.
    """
    # A table of one column whose first cell has several words is a list as well.
    words = [] if b"\t" in start.partition(b"\n")[0] else start.partition(b"\n")[0].decode("latin-1").split()
    if not path.lower().endswith(_EXTENSIONS) and not (len(words) > 1 and is_image_name(words[0])):
        return None
    encoding = find_encoding(start)
    lines = start.decode(encoding, "replace").splitlines()[: _ROWS + 2]
    header: list[str] | None = None
    skips = 0
    if len(lines) > 2 and lines[0].strip().isdecimal() and len(lines[1].split()) > 1:
        header, skips = lines[1].split(), 2
    elif _is_header(lines):
        header, skips = lines[0].split(), 1
    filled = [line for line in lines[skips:][:_ROWS] if line.strip()]
    delimiter = "\t" if filled and "\t" in filled[0] else None
    before_rest = _find_rest(filled) if has_rest and header is None else []
    if before_rest:
        delimiter = before_rest[0]
    rows = [_split(line, delimiter) for line in filled]
    is_plain = delimiter == "\t" and is_image_name(rows[0][0])
    if not rows or (any(mark in filled[0] for mark in ",;|") and not (before_rest or is_plain)):
        return None
    only_last = all(is_image_name(cells[-1]) and not any(map(is_image_name, cells[:-1])) for cells in rows)
    if only_last and any("/" in word for word in rows[0][:-1]):
        # The paths contain spaces.
        rows = [_split(line, delimiter, cells=1) for line in filled]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    is_even = sum(len(cells) == width for cells in rows) > 0.9 * len(rows) and not (has_rest and delimiter != "\t")
    if not is_even:
        # The class names contain spaces.
        rows = [_split(line, delimiter, cells=0) for line in filled]
        if sum(len(cells) == 2 for cells in rows) <= 0.9 * len(rows):
            return None
    width = width if is_even else 2
    by_column = [*zip(*(row for row in rows if len(row) == width), strict=True)]
    columns = _name_columns(by_column, header)
    if columns is None:
        return None
    are_plain = columns[0] == IMAGE and all(name == LABEL or name.startswith(UNNAMED) for name in columns[1:])
    # Numbers are not words, and neither are unique numbers beside words.
    are_words = not any(counts(cells) and all(map(str.isdecimal, cells)) for cells in by_column[1:])
    are_words &= not all(map(all_numbers, by_column[1:]))
    has_words = is_even and delimiter is None and are_plain and are_words
    may_join = columns[0] in (_ID, LABEL) and columns[1:2] == [IMAGE] and header is None
    joined = _find_joined(path, rows) if may_join else {}
    # Of a few rows, each may seem to have a class of its own.
    columns = [_ID, *columns[1:]] if joined else columns
    other_labels = [] if header or joined else find_other_labels(by_column, columns, are_words=has_words)
    columns = [*dict.fromkeys([*columns, *joined])]
    note = f"{printable(storage.basename(path))}: a list without a header, read as the columns {', '.join(columns)}"
    return ListTable(
        path,
        columns,
        encoding=encoding,
        cells=width if is_even else 0,
        delimiter=delimiter,
        joined=joined,
        skips=skips,
        has_header=header is not None,
        notes=[] if header else [note],
        other_labels=other_labels,
        has_words=bool(other_labels) and has_words,
    )


def _split(line: str, delimiter: str | None, *, cells: int = -1) -> list[str]:
    """Splits a line into cells: with `cells=0` into the first cell and the rest, with `cells=1` not at all."""
    words = (
        [word.strip() for word in line.strip().split(delimiter, {0: 1, 1: 0}.get(cells, -1))] if line.strip() else []
    )
    # As in `cat: 1.jpg`, and `1.jpg#0` for the first caption of an image.
    return [without_number(words[0].removesuffix(":")), *words[1:]] if words[1:] else words


def _is_header(lines: Sequence[str]) -> bool:
    """Whether the first line is a header: it names no image, and every other line does."""
    first, *others = [line.split() for line in lines if line.strip()] or [[]]
    are_names = len(first) > 1 and not any(map(is_image_name, first)) and all(map(str.isidentifier, first))
    return are_names and bool(others) and all(len(row) == len(first) and any(map(is_image_name, row)) for row in others)


def _find_rest(lines: Sequence[str]) -> list[str | None]:
    """Returns the delimiter between the image and the rest of each line, in a list; [] if the lines are not such pairs.

    Rows that `csv.writer` writes are no list: it quotes only the cells that have to be quoted.
    """
    for delimiter in ("\t", None, ",", ";", "|"):
        rows = [_split(line, delimiter, cells=0) for line in lines]
        if sum(len(cells) > 1 and is_image_name(cells[0]) for cells in rows) > 0.9 * len(rows):
            return [] if delimiter and _are_csv(lines, delimiter) else [delimiter]
    return []


def _are_csv(lines: Sequence[str], delimiter: str) -> bool:
    """Whether lines are rows of two cells as `csv.writer` writes them, or the second cell of each is quoted."""
    if all(_QUOTED.fullmatch(line) for line in lines):
        return True
    with contextlib.suppress(csv.Error):
        rows = list(csv.reader(lines, delimiter=delimiter))
        file = io.StringIO()
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
        return {len(row) for row in rows} == {2} and file.getvalue().splitlines() == [*lines]
    return False


def _name_columns(columns: Sequence[Sequence[str]], header: Sequence[str] | None) -> list[str] | None:
    """Returns names for the columns of some rows; None if they are not an image list."""
    images = [number for number, cells in enumerate(columns) if all(map(is_image_name, cells))]
    images = images or [number for number, cells in enumerate(columns) if all("/" in cell for cell in cells)][:1]
    has_numbers = any(cells[0].lstrip("-").isdecimal() for cells in columns)
    if not images and has_numbers and len(columns) > 1:
        images = [0]
    if not images:
        return None
    image = images[0]
    if header is not None:
        names = [IMAGE, *header] if len(header) == len(columns) - 1 else [*header]
        if not any(find_usual(names, IMAGE_NAMES)):
            names[image] = IMAGE
        return names if len(names) == len(columns) == len({*names}) else None
    names = name_cells(columns, images)
    is_alone = all(
        name in (IMAGE, SPLIT) or (number < image and counts(columns[number])) for number, name in enumerate(names)
    )
    if is_alone and all(posixpath.dirname(cell.strip("/")) for cell in columns[image]):
        names.append(LABEL)
    return names


def _class_of(path: str) -> str:
    """Returns the class of an image from its folder; joins the folders below an initial letter, as in SUN397."""
    first, *rest = posixpath.dirname(path).split("/")
    return (
        "/".join(rest) if len(first) == 1 and rest and rest[0].lower().startswith(first.lower()) else [first, *rest][-1]
    )


def _find_joined(path: str, rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """Finds the text files next to a list with classes and splits of its rows, as in CUB-200 and NABirds."""
    beside = {name: storage.join(storage.dirname(path), file) for name, file in _JOINED.items()}
    there = {name: file for name, file in beside.items() if storage.is_file(file)}
    first = rows[0][0]
    return {name: file for name, file in there.items() if first in _read_values(file)}


def _read_values(path: str) -> Mapping[str, str]:
    """Reads the value of each row: the class name, or train or test for a split."""
    with open_lines(path, "utf-8") as lines:
        pairs = (line.text.split(None, 1) for line in lines)
        values = {pair[0]: pair[1].strip() for pair in itertools.islice(pairs, _MOST_JOINED) if len(pair) == 2}
    if storage.basename(path) == _JOINED[SPLIT]:
        return {key: {"1": "train", "0": "test"}.get(value, value) for key, value in values.items()}
    classes = storage.join(storage.dirname(path), _CLASSES)
    if not storage.is_file(classes):
        return values
    found = read_classes(classes, are_numbered=True)
    names = {str(number): name for number, name in found.by_number.items()} if found.numbers else {}
    return {key: names.get(value, value) for key, value in values.items()}
