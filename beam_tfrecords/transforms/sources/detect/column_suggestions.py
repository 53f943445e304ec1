"""Suggests settings for the image and label columns of a table with unusual names, based on its cells."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.sources.detect.box_columns import find_sides, has_box_names
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name, is_mask_name, may_be_label
from beam_tfrecords.transforms.sources.detect.image_columns import choose_names
from beam_tfrecords.transforms.sources.detect.label_columns import Cells, find_labels, find_one_hot, find_words
from beam_tfrecords.transforms.sources.detect.names import rank_folder, split_in_name
from beam_tfrecords.transforms.sources.detect.numbered_columns import (
    find_levels,
    find_pixel_columns,
    is_pixel_name,
    square_shape,
)
from beam_tfrecords.transforms.sources.detect.roles import Role, role_of, roles_of
from beam_tfrecords.transforms.sources.detect.unnamed_columns import LABEL, UNNAMED, all_as_numbers, all_numbers, counts
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_image_name, stem_of
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_embedded, refuse_pixels

_ROWS = 100
# If some column has a single value in these: the most rows and cells to read, and the number of these rows to look at.
_MOST_ROWS, _MOST_CELLS, _SOME_ROWS = 20_000, 1_000_000, 1_000
# Number of files to look at for images, and of cells that must lead to them.
_MOST_FILES = 20_000
_SPREAD = 7
_MOST_SUGGESTIONS, _MOST_VALUES, _MOST_PLACES = 2, 4, 4
# Columns that may name the images of an archive, and archives to try.
_MOST_KEYS = 2
# Among more columns without names, a suggested label would be a guess.
MOST_UNNAMED = 3
# Usual image folders next to tables that have ids instead of paths.
FOLDERS = ("", "train", "images", "img", "train_images", "data", "train/images")
_EXTENSIONS = (".jpg", ".png", ".jpeg", ".tif", ".tiff")
_NUMBER = re.compile(r"\d+")
_PIXELS = re.compile(r"\d+(?: \d+){63,}")


def column_suggestions(
    table: Table, *, image: str | None, needs_image: bool, needs_label: bool, needs_boxes: bool = True
) -> list[Reading]:
    """Suggests settings that read a table, based on its first rows.

    Args:
      table: the table.
      image: column of the images, if known.
      needs_image: whether the image column is still unknown.
      needs_label: whether the label column is still unknown.
      needs_boxes: whether boxes come before labels.

    Returns:
      Complete readings; none if nothing looks like images.

    Raises:
      RequestError: the table contains the images themselves.
    """
    cells, rows = read_cells(table)
    has_boxes = needs_boxes and has_box_names(table.columns)
    if needs_image and not has_boxes:
        _refuse_content(table, cells, rows, needs_label=needs_label)
    # In a table with a row per object, the rows of one image repeat its id.
    repeats = has_boxes or any(role_of(name, values) is Role.RUNS for name, values in cells.items())
    found: list[dict[str, Any]] = _find_images(table, cells, repeats=repeats) if needs_image else [{}]
    if has_boxes or not needs_label:
        what = "boxes in the images" if has_boxes else "images"
        return [Reading(f"the {what} in {show_images(images)}", images) for images in found if images]
    return [
        dataclasses.replace(one, meaning=one.meaning + (f", the images in {show_images(images)}" if found[1:] else ""))
        for images in found
        for one in _suggest_labels(table, cells, rows, images, images.get("image_column") or image)
    ]


def _suggest_labels(
    table: Table, cells: Cells, rows: int, images: Mapping[str, Any], image: str | None
) -> list[Reading]:
    """Suggests the labels of some images, and the images without labels."""
    images_of = cells.get(image or "", ())
    repeats = len(set(images_of)) < len(images_of)
    # A column with a value for each image is a name of these, too.
    pairs = {name: {*zip(images_of, values, strict=False)} for name, values in cells.items() if repeats}
    names = [name for name, some in pairs.items() if len(some) == len({*images_of}) == len({*cells[name]})]
    names += [image or "", *images.get("join_key", ())]
    others = {name: values for name, values in cells.items() if name not in names}
    if table.other_labels:
        # Without a header, names of columns mean nothing.
        unnamed = [name for name in table.columns if name == LABEL or name.startswith(UNNAMED)]
        others = {name: others[name] for name in (LABEL, *table.other_labels) if name in others}
        is_few = len(unnamed) <= MOST_UNNAMED or len(find_one_hot(others, rows)) == len(others)
        others = others if is_few else {}
    found = [*find_labels(others, rows, repeats=repeats, are_named=not table.other_labels)]
    if table.other_labels and not any("label_columns" in labels for _, labels in found):
        # The values of a column after the image may happen to be unique, like row numbers.
        after = table.columns[table.columns.index(image) :] if image in table.columns else ()
        words = {name: [*map(str, cells[name])] for name in unnamed}
        numbers = [name for name in unnamed if all_numbers(words[name]) and (name in after or not counts(words[name]))]
        found = [*all_as_numbers(numbers), *found] if {LABEL, *table.other_labels} <= {*numbers} else found
    found = found if any("unknown_labels" in labels for _, labels in found) else found[:_MOST_SUGGESTIONS]
    suggestions = [Reading(meaning, {**images, **labels}) for meaning, labels in found]
    if not any("label_columns" in one.settings for one in suggestions):
        # A single word of a class name is not a class.
        suggestions = [*_join_words(table, images)] or suggestions
    is_clear = not table.other_labels and any(
        may_be_label(str(one.settings.get("label_column"))) for one in suggestions
    )
    without = Reading("the images without labels", {**images, "layout": "image"})
    return [*suggestions, *([] if is_clear or "join" in images else [without])]


def suggest_classes(table: Table) -> list[Reading]:
    """Suggests columns of words, or named like classes, that may have the classes of boxes."""
    read, rows = read_cells(table)
    found = [labels["label_column"] for _, labels in find_labels(read, rows) if labels.keys() == {"label_column"}]
    cells = first_cells(table, found)
    names = [
        name
        for name in found
        if is_label_name(name) or not all_numbers([str(cell) for cell in cells[name] if cell is not None])
    ]
    names = names or find_words(read, rows)
    return [Reading(f"the classes in column {name!r}", {"label_column": name}) for name in names]


def _join_words(table: Table, images: Mapping[str, Any]) -> Iterator[Reading]:
    """Yields the readings that take the rest of each line as one class, or as one text."""
    if table.has_words:
        yield Reading("the rest of each line as its class", {"label_separator": "", "label_column": LABEL, **images})
        yield Reading("the rest of each line as a text", {"label_type": "text", "label_column": LABEL, **images})


def suggest_values(table: Table, *, are_numbers: bool) -> list[Reading]:
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
            suggestions.append(Reading(f"the {meaning} in column {name!r}", {"label_column": name}))
    return suggestions[:_MOST_VALUES]


def one_hot_columns(table: Table) -> list[str]:
    """Returns the columns that contain only zeros and ones in the first rows."""
    return find_one_hot(*read_cells(table))


def find_stems(
    table: Table, cells: Mapping[str, Sequence[Any]], *, repeats: bool = False, known: Sequence[str] = ()
) -> list[tuple[str, dict[str, Any]]]:
    """Finds the columns whose cells are stems of local images; returns those that may name them, with their settings.

    Args:
      table: the table.
      cells: column -> cells of the first rows that are not empty.
      repeats: whether several rows may have the same image.
      known: columns that are known to lead to images, by settings of their own.
    """
    root, sides, split = storage.dirname(table.path), find_sides([*cells]), split_in_name(stem_of(table.path))
    # A class name may also be a file name.
    stems = {
        name: values
        for name, values in cells.items()
        if values and not (name in sides or re.search("[{}]", name)) and (repeats or 2 * len({*values}) > len(values))
    }
    if storage.has_scheme(table.path) or not stems:
        return []
    places, usual = list_places(root)
    if not places:
        return [(key, {**one, "join_key": [key]}) for key in [*stems][:_MOST_KEYS] for one in join_archives(table)]
    found: dict[str, list[dict[str, Any]]] = {name: [{}] for name in known}
    for column, values in stems.items():
        words = [*map(str, [*values[:: max(len(values) // _SPREAD, 1)], values[-1]])]
        files = [word.replace("\\", "/") for word in words]
        if all(is_image_name(word) and stem_of(word) in places for word in files):
            # A column of file names decides; row numbers must not name images.
            found.setdefault(column, [{}])
            continue
        of_words = [_find_places(word, root, places, usual) for word in words]
        common = set[tuple[str, str]].intersection(*of_words)
        if common and places.get(column) and any(map(str.isdecimal, column)):
            raise RequestError(
                f"{quote_input(table.path)}: the first row, {', '.join(map(repr, table.columns))}, names an image like "
                "the others; write a header before it, such as image,label",
                code="missing_header",
            )
        if common and column not in found:
            ranks = {folder: rank_folder(folder, split) for folder, _ in common}
            best = min(ranks.values())
            # The first extension of each folder is enough.
            nearest: dict[str, str] = {}
            for folder, extension in sorted(common, key=_rank):
                if ranks[folder] == best:
                    nearest.setdefault(folder, extension)
            above = above_parts(storage.join(root, next(iter(nearest))), root)
            joined = [{"input": above, "join": [table.path], "join_key": [column]}] if above else []
            paths = [posixpath.join(folder, f"{{{column}}}{extension}") for folder, extension in nearest.items()]
            found[column] = [*joined, *({"image_path": path} for path in paths[:_MOST_PLACES])]
        elif all(of_words) and column not in found:
            # The folders of splits have the images.
            folder = posixpath.commonpath([folder for some in of_words for folder, _ in some])
            place = storage.join(root, folder).rstrip("/")
            found[column] = [{"input": place, "join": [table.path], "join_key": [column]}]
    names = choose_names({name: cells[name] for name in found})
    return [(name, settings) for name in names for settings in found[name]]


def join_archives(table: Table) -> list[dict[str, Any]]:
    """Returns the settings that join a table with the archives beside it, all or one, which may have the images."""
    files = sorted(entry.path for entry in storage.list_files(storage.join(storage.dirname(table.path), "*")))
    split = split_in_name(stem_of(table.path))
    archives = [
        path
        for path in files
        if source_of_file(path) in ("tar", "zip") and split in (None, split_in_name(stem_of(path)) or split)
    ]
    inputs = [*([archives] if len(archives) > 1 else []), *archives[:_MOST_KEYS]]
    return [{"input": one, "join": [table.path]} for one in inputs]


def above_parts(folder: str, root: str) -> str | None:
    """Returns the parent of numbered folders such as images_001 and images_002 that a folder lies in; None without any.

    The first rows of a table often name the images of only one of these.

    Args:
      folder: path of a folder with images.
      root: path of a folder above it; its parents are not looked at.
    """
    while folder.startswith(f"{root}/"):
        folder, _, name = folder.rpartition("/")
        start, *numbers = _NUMBER.split(name)
        names = (storage.basename(one) for one in storage.list_folders(folder)) if numbers else ()
        if sum(_NUMBER.split(one) == [start, *numbers] for one in names) > 1:
            return folder
    return None


def list_places(root: str) -> tuple[dict[str, set[tuple[str, str]]], list[tuple[str, str]]]:
    """Returns stem -> folders and extensions of its images below a folder; also usual ones if these are not all."""
    found: dict[str, set[tuple[str, str]]] = {}
    files = [entry.path[len(root) :].strip("/") for entry in storage.list_files(root, limit=_MOST_FILES, literal=True)]
    for path in filter(is_image_name, files):
        folder, _, name = path.rpartition("/")
        stem, extension = posixpath.splitext(name)
        found.setdefault(stem, set()).add((folder, extension))
    is_whole = len(files) < _MOST_FILES
    return found, [] if is_whole else [(folder, extension) for folder in FOLDERS for extension in _EXTENSIONS]


def _find_places(
    word: str, root: str, places: Mapping[str, set[tuple[str, str]]], usual: Sequence[tuple[str, str]]
) -> set[tuple[str, str]]:
    """Returns the folders and extensions with which a word is the path of an image."""
    return places.get(word) or {
        (folder, extension)
        for folder, extension in usual
        if storage.is_file(storage.join(root, posixpath.join(folder, word + extension)))
    }


def _rank(place: tuple[str, str]) -> tuple[int, int, int, str]:
    """Returns the place of a folder and an extension in the order of preference."""
    folder, extension = place
    return (
        FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS),
        folder.count("/"),
        _EXTENSIONS.index(extension) if extension in _EXTENSIONS else len(_EXTENSIONS),
        folder,
    )


def read_cells(table: Table) -> tuple[Cells, int]:
    """Returns column -> non-empty cells of the first rows, and the number of first rows."""
    # Skips embedded images, because a batch of them could exhaust memory.
    columns = [name for name in table.columns if name not in table.embedded]
    rows = table.head(columns, _ROWS)
    if len(rows) == _ROWS and any(len({str(row[name]) for row in rows}) == 1 for name in columns):
        # Of rows that are sorted, the first ones have one class.
        rows = table.head(columns, max(_ROWS, min(_MOST_ROWS, _MOST_CELLS // len(columns))))
        rows = rows[:: len(rows) // _SOME_ROWS + 1]
    cells = {
        name: [value for row in rows if isinstance(value := row[name], (str, int)) and value != ""] for name in columns
    }
    return cells, len(rows)


def _refuse_content(table: Table, cells: Cells, rows: int, *, needs_label: bool) -> None:
    """Raises an error for a table that contains images or pixels instead of paths."""
    if _find_images(table, cells):
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
      any_name: whether numbered columns with names unlike pixel0 count as pixels if their numbers fit, even in a table
        that names images.

    Raises:
      RequestError: see `find_pixel_columns`.
    """
    cells, _ = read_cells(table)
    others = {name: values for name, values in cells.items() if not is_pixel_name(name)}
    has_names = len(others) < len(cells)
    if table.embedded or (has_names and not any_name and _find_images(table, others)):
        return None
    columns, shape = _find_pixels(table, cells, any_name=any_name)
    # Without names of pixels, few tables have any: to look for images takes a listing.
    is_sure = has_names or any_name or not _find_images(table, others)
    return (columns, shape) if shape and is_sure else None


def offer_pixels(table: Table) -> Iterator[Reading]:
    """Offers to read the pixels in a table whose image files do not exist."""
    with contextlib.suppress(RequestError):
        if find_pixels(table, any_name=True):
            settings = {"source": "pixel_table", **dict.fromkeys(("image_column", "image_path", "image_root"))}
            yield Reading("the pixels in its rows", settings)


def _find_pixels(table: Table, cells: Cells, *, any_name: bool) -> tuple[list[str], Sequence[int]]:
    """Returns the pixel columns and the image shape; both empty if nothing looks like pixels."""
    named, shape = find_pixel_columns(table.path, cells)
    if not named and any_name:
        named, shape = find_levels(cells)
    if named:
        return named, shape
    listed = [name for name, values in cells.items() if values and _PIXELS.fullmatch(str(values[0]))]
    return listed[:1], square_shape(len(str(cells[listed[0]][0]).split())) if listed else ()


def show_images(images: Mapping[str, Any]) -> str:
    """Names the settings that find the images of a table, for a message."""
    if "join" in images:
        paths = [images["input"]] if isinstance(images["input"], str) else images["input"]
        return f"{', '.join(paths)}, joined with the table"
    return next((f"column {name!r}" if key == "image_column" else name for key, name in images.items()), "")


def _find_images(table: Table, cells: Cells, *, repeats: bool = False) -> list[dict[str, Any]]:
    """Returns the settings that find images: a column of image names, or a path over a column of stems; [] without any.

    Several settings lead to different images.

    Args:
      table: the table.
      cells: column -> cells of the first rows.
      repeats: whether several rows may have the same image.
    """
    roles = roles_of(first_cells(table, [*cells]))
    names = [name for name, role in roles.items() if role in (Role.IMAGE, Role.MASK)]
    if photos := [name for name in names if not is_mask_name(name)] or names[:1]:
        # A column without a name can be a part of a path only.
        named = {"image_column": ",".join(photos)} if photos != [""] else {"image_path": "{}"}
        if not all(storage.is_web(str(cell)) for name in photos for cell in cells.get(name, ())[:_SPREAD]):
            return [named]
        # The images at these addresses may have been downloaded under the names in another column.
        others = {name: values for name, values in cells.items() if name not in photos}
        return [*(images for _, images in find_stems(table, others, repeats=repeats)), named]
    return [images for _, images in find_stems(table, cells, repeats=repeats)]
