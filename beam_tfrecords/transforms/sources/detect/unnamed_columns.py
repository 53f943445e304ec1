"""Guesses column names for tables without a header, and a command that adds it. Pure functions."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.split_column import are_splits
from beam_tfrecords.transforms.sources.names import is_image_name
from beam_tfrecords.transforms.sources.tables.box_cells import read_number


def name_columns(path: str, rows: Sequence[Sequence[str]], delimiter: str) -> list[Suggestion]:
    """Suggests a command that adds a header to a table; [] if its first row does not name an image.

    The first column with image names is the image, a column of split names is the split, four consecutive columns of
    numbers are a box, and the first remaining column is the label.

    Args:
      path: path of the table.
      rows: cells of its first rows.
      delimiter: cell delimiter.
    """
    width = len(rows[0])
    columns = [[row[number] for row in rows if len(row) == width] for number in range(width)]
    image = next((number for number, cell in enumerate(rows[0]) if is_image_name(cell)), None)
    if image is None or storage.has_scheme(path) or path.endswith(".gz"):
        return []
    names = {image: "image", **dict(_find_box(columns))}
    split = next((number for number in range(width) if number not in names and are_splits(columns[number])), None)
    names |= {} if split is None else {split: "split"}
    label = next((number for number in range(width) if number not in names), None)
    names |= {} if label is None else {label: "label"}
    header = delimiter.join(names.get(number, f"column_{number + 1}") for number in range(width))
    shown = header.replace("\t", "\\t")
    command = f"{{ printf '{shown}\\n'; cat {shlex.quote(path)}; }} > {shlex.quote(path + '.csv')}"
    unlabelled = {"layout": "image"} if label is None and len(names) < 4 else {}
    settings = {**({"delimiter": " "} if delimiter == " " else {}), **unlabelled}
    return [Suggestion(f"the columns {shown}", {"input": f"{path}.csv", **settings}, [command])]


def _find_box(columns: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
    """Yields names for the only four numeric columns if these are consecutive: two corners if possible, else a size."""
    numbers = [
        number
        for number, cells in enumerate(columns)
        if any(map(str.strip, cells)) and all(read_number(cell) == read_number(cell) for cell in cells if cell.strip())
    ]
    if len(numbers) != 4 or numbers[3] - numbers[0] != 3:
        return
    boxes = [list(map(read_number, box)) for box in zip(*(columns[number] for number in numbers), strict=True)]
    are_sizes = any(third <= x or fourth <= y for x, y, third, fourth in boxes)
    names = ("x", "y", "width", "height") if are_sizes else ("xmin", "ymin", "xmax", "ymax")
    yield from zip(numbers, names, strict=True)
