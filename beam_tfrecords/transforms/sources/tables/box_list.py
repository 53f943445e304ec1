"""Reads box lists as tables: text files with, for each image, a line with its path, the number of boxes, and the boxes.

WIDER FACE uses this format: https://shuoyang1213.me/WIDERFACE/
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.objects.objects import MOST_OBJECTS
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row
from beam_tfrecords.transforms.sources.tables.text_file import Lines, find_encoding
from beam_tfrecords.transforms.sources.tables.text_table import TextTable
from beam_tfrecords.transforms.sources.unsupported_formats import BOX_LIST

# Limit of characters; a longer line is damage and would exhaust memory.
_LONGEST_BOX = 1000
_SIDES = ("x", "y", "width", "height")
# Columns after the sides in WIDER FACE.
_ATTRIBUTES = ("blur", "expression", "illumination", "invalid", "occlusion", "pose")


@dataclasses.dataclass(frozen=True)
class BoxListParser:
    """Parses a box list: one row per box; a row with empty sides for an image without boxes.

    An image whose number of boxes differs from the stated number gets one invalid row.

    Attributes:
      columns: `image`, the sides, and any further columns.
    """

    form = "box_list"
    has_names_only = False
    count = None

    columns: Sequence[str]

    def rows(self, lines: Lines, columns: Sequence[str]) -> Iterator[Row]:
        """See `RowParser.rows`."""
        for row in self._rows(lines):
            yield row if isinstance(row, InvalidRow) else {name: row[name] for name in columns}

    def _rows(self, lines: Lines) -> Iterator[Row]:
        image, boxes, count = "", list[list[str]](), ""
        for line in itertools.chain(lines, [None]):
            text = line.text.strip() if line else ""
            if line and line.damage:
                yield InvalidRow(f"line {line.number}: {line.damage}")
            elif line is None or is_image_name(text):
                if image:
                    yield from self._rows_of(image, count, boxes)
                image, boxes, count = text, [], ""
            elif image and not count:
                count = text
            elif text and len(boxes) <= MOST_OBJECTS:
                boxes.append(text[:_LONGEST_BOX].split())

    def _rows_of(self, image: str, count: str, boxes: Sequence[Sequence[str]]) -> Iterator[Row]:
        width = len(self.columns) - 1
        empty = dict.fromkeys(self.columns, "")
        if count == "0" and all(set(box) == {"0"} for box in boxes):
            # WIDER FACE writes a line of zeros for an image without boxes.
            yield {**empty, IMAGE: image}
            return
        if count != str(len(boxes)) or any(len(box) != width for box in boxes):
            found = f"{len(boxes)} lines of boxes; expected {count or 'their number'} with {width} numbers"
            yield {**empty, IMAGE: image, self.columns[1]: found}
            return
        for box in boxes:
            yield dict(zip(self.columns, [image, *box], strict=True))


def open_box_list(path: str, start: bytes) -> TextTable | None:
    """Opens a box list; returns None if the text is not a box list.

    Args:
      path: path of the file.
      start: first bytes of the file.
    """
    found = BOX_LIST.match(start)
    if found is None:
        return None
    more = len(found["box"].split()) - len(_SIDES)
    names = _ATTRIBUTES if more == len(_ATTRIBUTES) else [f"column_{number}" for number in range(6, more + 6)]
    columns = (IMAGE, *_SIDES, *names)
    note = f"{printable(storage.basename(path))}: a list of boxes, read as the columns {', '.join(columns)}"
    return TextTable(path, columns, find_encoding(start), BoxListParser(columns), notes=[note])
