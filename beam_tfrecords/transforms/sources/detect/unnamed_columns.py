"""Names the columns of tables without a header, by their cells. Pure functions."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from beam_tfrecords.transforms.sources.detect.roles import Role, role_of
from beam_tfrecords.transforms.sources.detect.split_column import are_splits
from beam_tfrecords.transforms.sources.tables.box_cells import read_number

IMAGE, LABEL, MASK, SPLIT = "image", "label", "mask", "split"
# Prefix of the names of other columns.
UNNAMED = "column_"
_CORNERS, _SIZES = ("xmin", "ymin", "xmax", "ymax"), ("x", "y", "width", "height")
_IMAGE_SIZE = ("image_width", "image_height")
# Maximum share of boxes with swapped corners.
_MOST_TURNED = 0.1
# Among fewer rows, each may have a class of its own.
_FEW = 20


def name_cells(columns: Sequence[Sequence[str]], images: Sequence[int]) -> list[str]:
    """Returns a name for each column: `image`, `mask`, `split`, `label`, the sides of a box, or `column_3`.

    Several images of a row are `image_1` and `image_2`. Four consecutive columns of numbers beside the only image are a
    box. The first remaining column is the label; see `find_other_labels`.

    Args:
      columns: the cells of each column.
      images: the columns with images.
    """
    masks = [number for number in images if role_of("", columns[number]) is Role.MASK]
    photos = [number for number in images if number not in masks] or images
    names = {number: f"{IMAGE}_{place}" for place, number in enumerate(photos, 1)}
    names = names if len(photos) > 1 else {photos[0]: IMAGE}
    names |= {masks[0]: MASK} if len(masks) == 1 and masks != photos else {}
    if len(photos) == 1:
        names |= _find_box([() if number in images else cells for number, cells in enumerate(columns)], photos[0])
    rest = [number for number in range(len(columns)) if number not in names and number not in images]
    splits = [number for number in rest if are_splits(columns[number])]
    # Of several, either may be meant.
    names |= {splits[0]: SPLIT} if len(splits) == 1 else {}
    labels = _find_labels(columns, rest, photos[0])
    names |= {labels[0]: LABEL} if labels else {}
    return [names.get(number, f"{UNNAMED}{number + 1}") for number in range(len(columns))]


def find_other_labels(columns: Sequence[Sequence[str]], names: Sequence[str], *, are_words: bool = False) -> list[str]:
    """Returns the columns that may be the label as well as the one of this name; [] if it is certain.

    A column with a single value cannot be the label if there are others, nor can one that follows from the label, as
    species do from breeds.

    Args:
      columns: the cells of each column.
      names: names of the columns, as `name_cells` returns them.
      are_words: whether cells are the words of a line that begins with its image, so that a class or a text of two
        words is two cells.
    """
    if LABEL not in names[: len(columns)]:
        return []
    label = columns[names.index(LABEL)]
    image = min(number for number, name in enumerate(names) if name.startswith(IMAGE))
    others = [number for number in range(len(columns)) if names[number].startswith(UNNAMED)]
    if are_words and not all(map(all_numbers, columns[image + 1 :])):
        return [names[number] for number in others if number > image]
    others = [number for number in _find_labels(columns, others, image) if len({*columns[number]}) > 1]
    if all(map(all_numbers, (label, *(columns[number] for number in others)))) and len({*label}) < len(label):
        others = [number for number in others if len({*zip(label, columns[number], strict=True)}) > len({*label})]
    return [names[number] for number in others]


def _find_labels(columns: Sequence[Sequence[str]], others: Sequence[int], image: int) -> list[int]:
    """Returns the columns that may be the label: neither splits, row numbers, nor names of rows before it."""
    may_be = [number for number in others if not (counts(columns[number]) or are_splits(columns[number]))]
    return [number for number in may_be if number > image or not _are_names(columns[number])] or may_be


def _are_names(cells: Sequence[str]) -> bool:
    """Whether cells may name rows: each is unique, and neither a text of several words nor a measurement."""
    if all_numbers(cells) and not all(map(str.isdecimal, cells)):
        return False
    return len({*cells}) == len(cells) > 1 and not any(len(cell.split()) > 1 for cell in cells)


def counts(cells: Sequence[str]) -> bool:
    """Whether each cell is unique in its column, like row numbers or row names."""
    return _are_names(cells) and (len(cells) > _FEW or all(map(str.isdecimal, cells)))


def _find_box(columns: Sequence[Sequence[str]], image: int) -> Iterator[tuple[int, str]]:
    """Yields names for the only four consecutive numbers: two corners, or a corner and a size.

    Two other numbers may be the size of the image. Only then may the box be before the image; if the numbers allow it,
    it is read as a corner and a size.
    """
    runs: list[list[int]] = []
    for number in (number for number, cells in enumerate(columns) if all_numbers(cells)):
        runs = [*runs[:-1], [*runs[-1], number]] if runs and number == runs[-1][-1] + 1 else [*runs, [number]]
    boxes, sizes = ([run for run in runs if len(run) == count] for count in (4, 2))
    if len(boxes) != 1 or len(boxes) + len(sizes) < len(runs) or len(sizes) > 1:
        return
    rows = zip(*(columns[number] for number in (*boxes[0], *itertools.chain(*sizes))), strict=True)
    numbers = [list(map(read_number, row)) for row in rows]
    # A few boxes may have swapped corners; sizes are often smaller than the coordinates before them.
    turned = sum(third <= x or fourth <= y for x, y, third, fourth, *_ in numbers)
    is_before = boxes[0][0] < image
    # Annotation programs such as makesense.ai write a corner and a size before the image.
    for are_sizes in (True, False) if is_before else (turned > _MOST_TURNED * len(numbers),):
        # A row of zeros stands for no box.
        fits = not are_sizes or all(min(third, fourth) > 0 for _, _, third, fourth, *_ in filter(any, numbers))
        fits &= all(
            x + third * are_sizes <= width and y + fourth * are_sizes <= height
            for x, y, third, fourth, width, height in (numbers if sizes else ())
        )
        if fits and (sizes or not is_before):
            yield from zip(boxes[0], _SIZES if are_sizes else _CORNERS, strict=True)
            yield from zip(itertools.chain(*sizes), _IMAGE_SIZE, strict=False)
            return


def all_as_numbers(names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the settings that store several columns of numbers, if a layout can name these."""
    if len(names) > 1 and all(re.fullmatch(r"[A-Za-z]\w*", name) for name in names):
        layout = ",".join(["image", *(f"{name}:float" for name in names)])
        yield f"a number for each of the columns {', '.join(names)}", {"layout": layout}


def all_numbers(cells: Sequence[str]) -> bool:
    """Whether cells are numbers; empty ones do not count."""
    filled = [cell for cell in cells if cell.strip()]
    return bool(filled) and all(not math.isnan(read_number(cell)) for cell in filled)
