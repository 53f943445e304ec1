"""Suggests settings for the image and label columns of a table with unusual names, based on its cells."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.box_columns import has_box_names
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name, is_mask_name, may_be_label
from beam_tfrecords.transforms.sources.detect.label_columns import Cells, find_labels, find_one_hot
from beam_tfrecords.transforms.sources.detect.numbered_columns import (
    find_levels,
    find_pixel_columns,
    is_pixel_name,
    square_shape,
)
from beam_tfrecords.transforms.sources.detect.roles import Role, role_of
from beam_tfrecords.transforms.sources.detect.unnamed_columns import LABEL, UNNAMED, all_numbers
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_embedded, refuse_pixels

_ROWS = 100
_MOST_SUGGESTIONS = 2
# Among more columns without names, a suggested label would be a guess.
_MOST_UNNAMED = 3
# Usual image folders next to tables that have ids instead of paths.
FOLDERS = ("", "train", "images", "img", "train_images", "data", "train/images")
_EXTENSIONS = (".jpg", ".png", ".jpeg", ".tif", ".tiff")
_PIXELS = re.compile(r"\d+(?: \d+){63,}")


def column_suggestions(
    table: Table, *, image: str | None, needs_image: bool, needs_label: bool, needs_boxes: bool = True
) -> list[Suggestion]:
    """Suggests settings that read a table, based on its first rows.

    Args:
      table: the table.
      image: column of the images, if known.
      needs_image: whether the image column is still unknown.
      needs_label: whether the label column is still unknown.
      needs_boxes: whether boxes come before labels.

    Returns:
      Complete suggestions; none if nothing looks like images.

    Raises:
      RequestError: the table contains the images themselves.
    """
    cells, rows = _read_cells(table)
    if needs_boxes and has_box_names(table.columns):
        images = _find_images(table, cells, repeats=True) if needs_image else {}
        return [Suggestion(f"the boxes in the images in {_describe(images)}", images)] if images else []
    if needs_image:
        _refuse_content(table, cells, rows, needs_label=needs_label)
    # In a table with a row per object, the rows of one image repeat its id.
    has_runs = any(role_of(name, values) is Role.RUNS for name, values in cells.items())
    images = _find_images(table, cells, repeats=has_runs) if needs_image else {}
    if images is None:
        return []
    if not needs_label:
        return [Suggestion(f"the images in {_describe(images)}", images)] if images else []
    column = images.get("image_column") or image
    others = {name: values for name, values in cells.items() if name != column}
    images_of = cells.get(column or "", ())
    repeats = len(set(images_of)) < len(images_of)
    if table.other_labels:
        # Without a header, names of columns mean nothing.
        unnamed = [name for name in table.columns if name == LABEL or name.startswith(UNNAMED)]
        others = {name: others[name] for name in (LABEL, *table.other_labels) if name in others}
        others = others if len(unnamed) <= _MOST_UNNAMED else {}
    found = [*find_labels(others, rows, repeats=repeats, are_named=not table.other_labels)]
    found = found if any("unknown_labels" in labels for _, labels in found) else found[:_MOST_SUGGESTIONS]
    suggestions = [Suggestion(meaning, {**images, **labels}) for meaning, labels in found]
    if not any("label_columns" in one.settings for one in suggestions):
        # A single word of a class name is not a class.
        suggestions = [*_join_words(table, images)] or suggestions
    is_clear = not table.other_labels and any(
        may_be_label(str(one.settings.get("label_column"))) for one in suggestions
    )
    unlabelled = [] if is_clear else [Suggestion("the images without labels", {**images, "layout": "image"})]
    return [*suggestions, *unlabelled]


def suggest_classes(table: Table) -> list[Suggestion]:
    """Suggests columns of words, or named like classes, that may have the classes of boxes."""
    found = (labels for _, labels in find_labels(*_read_cells(table)) if labels.keys() == {"label_column"})
    cells = first_cells(table, names := [labels["label_column"] for labels in found])
    return [
        Suggestion(f"the classes in column {name!r}", {"label_column": name})
        for name in names
        if is_label_name(name) or not all_numbers([str(cell) for cell in cells[name] if cell is not None])
    ]


def _join_words(table: Table, images: Mapping[str, Any]) -> Iterator[Suggestion]:
    """Yields the suggestions that take the rest of each line as one class, or as one text."""
    if table.has_words:
        yield Suggestion("the rest of each line as its class", {"label_separator": "", "label_column": LABEL, **images})
        yield Suggestion("the rest of each line as a text", {"label_type": "text", "label_column": LABEL, **images})


def suggest_values(table: Table, *, are_numbers: bool) -> list[Suggestion]:
    """Suggests columns of labels that are numbers, also lists of them, or texts.

    Args:
      table: the table.
      are_numbers: whether the labels are numbers.
    """
    columns = [name for name in table.columns if name not in table.embedded]
    suggestions = []
    for name, cells in first_cells(table, columns).items():
        role = role_of(name, cells)
        words = [str(cell) for cell in cells if cell is not None]
        if (role is Role.VECTOR or all_numbers(words)) if are_numbers else role is Role.TEXT:
            meaning = "numbers" if are_numbers else "texts"
            suggestions.append(Suggestion(f"the {meaning} in column {name!r}", {"label_column": name}))
    return suggestions[:_MOST_SUGGESTIONS]


def one_hot_columns(table: Table) -> list[str]:
    """Returns the columns that contain only zeros and ones in the first rows."""
    return find_one_hot(*_read_cells(table))


def find_pattern(table: Table, column: str, values: Sequence[str | int], *, repeats: bool = False) -> str | None:
    """Finds a pattern that turns the cells of a column into paths of local images; None if there is none.

    Args:
      table: the table.
      column: the column.
      values: cells of the column.
      repeats: whether several rows may have the same image.
    """
    # A class name may also be a file name.
    is_class = len(set(values)) * 2 <= len(values) and not repeats
    if storage.has_scheme(table.path) or "/" in str(values[0]) or is_class or re.search("[{}]", column):
        return None
    root = storage.dirname(table.path)
    some = [str(values[index]) for index in (0, len(values) // 2, -1)]
    for folder in FOLDERS:
        for extension in _EXTENSIONS:
            pattern = posixpath.join(folder, f"{{{column}}}{extension}")
            if all(storage.is_file(storage.join(root, fill_pattern(pattern, {column: one}))) for one in some):
                return pattern
    return None


def _read_cells(table: Table) -> tuple[Cells, int]:
    """Returns column -> non-empty cells of the first rows, and the number of first rows."""
    # Skips embedded images, because a batch of them could exhaust memory.
    columns = [name for name in table.columns if name not in table.embedded]
    rows = table.head(columns, _ROWS)
    cells = {
        name: [value for row in rows if isinstance(value := row[name], (str, int)) and value != ""] for name in columns
    }
    return cells, len(rows)


def _refuse_content(table: Table, cells: Cells, rows: int, *, needs_label: bool) -> None:
    """Raises an error for a table that contains images or pixels instead of paths."""
    if _find_images(table, cells) is not None:
        return
    pixels, shape = _find_pixels(table, cells, any_name=True)
    others = {name: values for name, values in cells.items() if name not in pixels}
    labels = next((labels for _, labels in find_labels(others, rows)), {}) if needs_label else {}
    if table.embedded:
        raise refuse_embedded(table.path, table.embedded[0], labels)
    if shape:
        raise refuse_pixels(table.path, shape, labels)


def find_pixels(table: Table, *, any_name: bool = False) -> tuple[Sequence[str], Sequence[int]] | None:
    """Finds the pixel columns and the image shape; returns None if the table has images, or no pixels.

    The result is a single column with numbers as text, or one column per pixel.

    Args:
      table: the table.
      any_name: whether numbered columns with names unlike pixel0 count as pixels if their numbers fit.

    Raises:
      RequestError: see `find_pixel_columns`.
    """
    cells, _ = _read_cells(table)
    others = {name: values for name, values in cells.items() if not is_pixel_name(name)}
    if table.embedded or _find_images(table, others) is not None:
        return None
    columns, shape = _find_pixels(table, cells, any_name=any_name)
    return (columns, shape) if shape else None


def _find_pixels(table: Table, cells: Cells, *, any_name: bool) -> tuple[list[str], Sequence[int]]:
    """Returns the pixel columns and the image shape; both empty if nothing looks like pixels."""
    named, shape = find_pixel_columns(table.path, cells)
    if not named and any_name:
        named, shape = find_levels(cells)
    if named:
        return named, shape
    listed = [name for name, values in cells.items() if values and _PIXELS.fullmatch(str(values[0]))]
    return listed[:1], square_shape(len(str(cells[listed[0]][0]).split())) if listed else ()


def _describe(images: Mapping[str, str]) -> str:
    return next((f"column {name!r}" if key == "image_column" else name for key, name in images.items()), "")


def _find_images(table: Table, cells: Cells, *, repeats: bool = False) -> dict[str, Any] | None:
    """Returns the setting that finds images: a column of image names, or a path pattern over ids; None without images.

    Args:
      table: the table.
      cells: column -> cells of the first rows.
      repeats: whether several rows may have the same image.
    """
    names = [name for name, values in cells.items() if role_of(name, values) in (Role.IMAGE, Role.MASK)]
    if photos := [name for name in names if not is_mask_name(name)] or names[:1]:
        return {"image_column": ",".join(photos)}
    found = (find_pattern(table, name, values, repeats=repeats) for name, values in cells.items() if values)
    pattern = next(filter(None, found), None)
    return {"image_path": pattern} if pattern else None
