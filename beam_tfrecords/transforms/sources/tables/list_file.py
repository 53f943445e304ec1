"""Lists of images: a text with the path of an image in each row, perhaps its class, and no header, as a table.

Food-101 and DTD list paths whose first folder is the class, ImageNet and Places365 a path and a class number, CelebA a
line with the number of rows, one with the names of the columns, and then paths and values.
"""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, RowRange
from beam_tfrecords.transforms.sources.tables.text_file import Lines, cut_text, find_encoding, open_bytes

IMAGE, LABEL, SPLIT = "image", "label", "split"
_ID = "column_1"
# Texts beside a list of images and their numbers -> the column that they make.
_JOINED = {LABEL: "image_class_labels.txt", SPLIT: "train_test_split.txt"}
_CLASSES = "classes.txt"
# They are held in memory.
_MOST_JOINED = 1_000_000
_ROWS = 50
# Of so few rows each may be of another class.
_FEW = 20
_EXTENSIONS = (".txt", ".lst", ".list")


@dataclasses.dataclass(frozen=True)
class ListFile:
    """A list of images.

    Attributes:
      path: of the file.
      columns: of its cells; behind them `label`, if the folder of an image is its class.
      cells: cells of a row; 0 if all behind the first are one.
      tabs: whether tabs stand between the cells, and not any white space.
      skips: lines before the first row.
      joined: column -> the text beside the list that has its values, by the cells of `column_1`.
    """

    path: str
    columns: Sequence[str]
    cells: int
    tabs: bool
    skips: int
    encoding: str
    joined: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: Sequence[str] = ()
    column_types: None = None
    embedded: Sequence[str] = ()
    delimiter: None = None

    def may_hold_text(self, column: str) -> bool:
        """Always; all cells are strings."""
        return True

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `Table.rows`; one with another number of cells is an `InvalidRow`."""
        with open_bytes(self.path, part) as file:
            lines = Lines(file, self.path, self.encoding, first=part.line if part else 1)
            yield from lines.until_damage(self._rows(lines, columns, skips=0 if part and part.start else self.skips))

    def _rows(self, lines: Lines, columns: Sequence[str], *, skips: int) -> Iterator[Row]:
        joined = {name: _read_values(path) for name, path in self.joined.items()}
        for line in itertools.islice(lines, skips, None):
            cells = _split(line.text, tabs=self.tabs, cells=self.cells)
            if line.damage or (cells and len(cells) != (self.cells or 2)):
                detail = line.damage or f"{len(cells)} cells; expected {self.cells or 2}"
                yield InvalidRow(f"line {line.number}: {detail}")
            elif cells:
                row = dict(zip(self.columns, cells, strict=False))
                row[IMAGE] = row[IMAGE].lstrip("/").removeprefix("./")
                if LABEL in self.columns:
                    row.setdefault(LABEL, _class_of(row[IMAGE]))
                row |= {name: values.get(row[_ID], "") for name, values in joined.items()}
                yield {name: row[name] for name in columns}

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`."""
        ranges, problem = cut_text(self.path, self.encoding, _count)
        return [part._replace(row=part.row - self.skips) if part.start else part for part in ranges], problem


def open_list(path: str, start: bytes) -> ListFile | None:
    """A list of images; None if a text is none.

    Args:
      start: its first bytes.
    """
    if not path.lower().endswith(_EXTENSIONS):
        return None
    encoding = find_encoding(start)
    lines = start.decode(encoding, "replace").splitlines()[: _ROWS + 2]
    header: list[str] | None = None
    skips = 0
    if len(lines) > 2 and lines[0].strip().isdecimal() and len(lines[1].split()) > 1:
        header, skips = lines[1].split(), 2
    tabs = len(lines) > skips and "\t" in lines[skips]
    rows = [cells for line in lines[skips:][:_ROWS] if (cells := _split(line, tabs=tabs))]
    if not rows or any(mark in lines[skips] for mark in ",;|"):
        return None
    if any("/" in word for word in rows[0][:-1]) and all(is_image_name(cells[-1]) for cells in rows):
        # Paths with spaces.
        rows = [_split(line, tabs=tabs, cells=1) for line in lines[skips:][:_ROWS] if line.strip()]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    is_even = sum(len(cells) == width for cells in rows) > 0.9 * len(rows)
    if not is_even:
        # Names of classes have spaces.
        rows = [cells for line in lines[skips:][:_ROWS] if (cells := _split(line, tabs=tabs, cells=0))]
        if sum(len(cells) == 2 for cells in rows) <= 0.9 * len(rows):
            return None
    width = width if is_even else 2
    columns = _name_columns([cells for cells in rows if len(cells) == width], header)
    if columns is None:
        return None
    joined = _find_joined(path, rows) if columns[:2] == [_ID, IMAGE] and header is None else {}
    columns = [*dict.fromkeys([*columns, *joined])]
    note = f"{printable(storage.basename(path))}: a list without a header, read as the columns {', '.join(columns)}"
    return ListFile(path, columns, width if is_even else 0, tabs, skips, encoding, joined, [] if header else [note])


def _split(line: str, *, tabs: bool, cells: int = -1) -> list[str]:
    """The cells of a line; with 0 cells, the first and all others, with 1 the line."""
    if cells == 1:
        return [line.strip()] if line.strip() else []
    words = line.strip().split("\t") if tabs else line.split(None, 1 if cells == 0 else -1)
    return [word.strip() for word in words] if line.strip() else []


def _name_columns(rows: Sequence[Sequence[str]], header: Sequence[str] | None) -> list[str] | None:
    """The columns of some rows; None if these are no list of images."""
    columns = list(zip(*rows, strict=True))
    images = [number for number, cells in enumerate(columns) if all(map(is_image_name, cells))]
    images = images or [number for number, cells in enumerate(columns) if all("/" in cell for cell in cells)]
    has_numbers = any(cell.lstrip("-").isdecimal() for cell in rows[0])
    if not images and has_numbers and len(columns) > 1:
        images = [0]
    if not images:
        return None
    image = images[0]
    if header is not None:
        names = [IMAGE, *header] if len(header) == len(columns) - 1 else [*header]
        names[image : image + 1] = [IMAGE]
        return names if len(names) == len(columns) == len({*names}) else None
    names = [f"column_{number + 1}" for number in range(len(columns))]
    names[image] = IMAGE
    # Numbers and names of the rows are no classes.
    others = [number for number in range(len(columns)) if number != image and not _counts(columns[number])]
    if others:
        names[others[0]] = LABEL
    elif all(posixpath.dirname(cell.strip("/")) for cell in columns[image]):
        names.append(LABEL)
    return names


def _class_of(path: str) -> str:
    """The class of an image by its folder; below first letters, as in SUN397, all folders are the class."""
    first, *rest = posixpath.dirname(path).split("/")
    return (
        "/".join(rest) if len(first) == 1 and rest and rest[0].lower().startswith(first.lower()) else [first, *rest][-1]
    )


def _counts(cells: Sequence[str]) -> bool:
    """Whether cells are numbers, or other words, that no other row has."""
    return len({*cells}) == len(cells) > 1 and (len(cells) > _FEW or all(map(str.isdecimal, cells)))


def _find_joined(path: str, rows: Sequence[Sequence[str]]) -> dict[str, str]:
    """The texts beside a list that have classes and splits of its rows, as those of CUB-200 and NABirds do."""
    beside = {name: storage.join(storage.dirname(path), file) for name, file in _JOINED.items()}
    there = {name: file for name, file in beside.items() if storage.is_file(file)}
    first = rows[0][0]
    return {name: file for name, file in there.items() if first in _read_values(file)}


def _read_values(path: str) -> Mapping[str, str]:
    """The value of each row of a text, in words: a class by its name, a split as train or test."""
    values = _read_pairs(path)
    if storage.basename(path) == _JOINED[SPLIT]:
        return {key: {"1": "train", "0": "test"}.get(value, value) for key, value in values.items()}
    classes = storage.join(storage.dirname(path), _CLASSES)
    names = _read_pairs(classes) if storage.is_file(classes) else {}
    return {key: names.get(value, value) for key, value in values.items()}


def _read_pairs(path: str) -> dict[str, str]:
    with open_bytes(path) as file:
        pairs = (line.text.split(None, 1) for line in Lines(file, path, "utf-8"))
        return {pair[0]: pair[1].strip() for pair in itertools.islice(pairs, _MOST_JOINED) if len(pair) == 2}


def _count(chunk: bytes, is_last: bool) -> tuple[int, int]:
    return sum(1 for line in chunk.splitlines() if line.strip()), len(chunk)
