"""Finds tables of images and labels next to the images, the settings that read them, and the labels in them."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.image_columns import is_file_name
from beam_tfrecords.transforms.sources.detect.interpretation import ListedLabels, Request
from beam_tfrecords.transforms.sources.detect.judge import describe_unused
from beam_tfrecords.transforms.sources.detect.label_columns import find_one_hot, find_only_label
from beam_tfrecords.transforms.sources.detect.list_sidecars import group_by_split, list_lists, read_list, split_of_list
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import is_usable, read_first_rows, spread, suppress_refusals
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE
from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern, pattern_columns
from beam_tfrecords.transforms.sources.tables.object_cells import COLUMN as OBJECTS
from beam_tfrecords.transforms.sources.tables.object_cells import hold_objects
from beam_tfrecords.transforms.sources.tables.table import InvalidRow

_MOST_TABLES = 8
_MOST_FOLDERS = 8
# Lists, and as many tables, in which the labels of a folder are looked for.
_MOST_FILES = 24
# Limit of labels, which are kept in memory.
_MOST_LABELS = 1_000_000
# Submission templates list test images with placeholder labels.
_NO_LABELS = re.compile(r"submission|submit", re.IGNORECASE)


def is_table(name: str) -> bool:
    """Whether a file has the extension of a table."""
    return source_of_file(name) in ("csv", "jsonl", "parquet")


def list_tables(tree: FolderTree) -> list[str]:
    """Returns the paths of the tables in the folders, those nearest to the root first."""
    return tree.find_others(is_table)


def find_tables(tree: FolderTree, request: Request) -> Iterator[Suggestion]:
    """Yields suggestions that read a table of images and labels instead of folder labels.

    Args:
      tree: the folders.
      request: the request, which names their root folder.
    """
    root = request.root
    if root is None or request.names_paths:
        return
    metadata = _find_metadata(tree, root)
    if metadata is not None:
        yield metadata[1]
    several = list(_find_tables_of_splits(tree, request, root))
    yield from several
    for path in list_tables(tree)[:_MOST_TABLES]:
        if any(word.endswith(f"={storage.join(root, path)}") for one in several for word in one.settings["input"]):
            continue
        if metadata is not None and posixpath.basename(path) == metadata[0]:
            continue
        settings = None if _NO_LABELS.search(path) else settings_of_table(path, tree, root)
        if settings is None:
            continue
        suggestion = Suggestion(f"the rows of {path}", {"input": storage.join(root, path), **settings})
        folder = settings.get("image_root", storage.dirname(storage.join(root, path)))[len(root) :].strip("/")
        if is_usable(request, suggestion.settings, images=tree.images(folder)):
            yield suggestion


def _find_tables_of_splits(tree: FolderTree, request: Request, root: str) -> Iterator[Suggestion]:
    """Yields suggestions that read a table for each split, such as train.csv and test.csv, with the same settings."""
    for paths in group_by_split(list_tables(tree)[:_MOST_TABLES]):
        if len({*map(split_of_list, paths)} - {None}) == len(paths) > 1:
            first, *others = [settings_of_table(path, tree, root) for path in paths]
            inputs = [f"{split_of_list(path)}={storage.join(root, path)}" for path in paths]
            if first and all(one == first for one in others) and is_usable(request, {**first, "input": inputs}):
                yield Suggestion(f"the rows of {', '.join(paths)}", {"input": inputs, **first})


def _find_metadata(tree: FolderTree, root: str) -> tuple[str, Suggestion] | None:
    """Returns the file name of Hugging Face's metadata tables, and the suggestion that reads them; None without any."""
    from beam_tfrecords.transforms.sources.tables.hf_folder import METADATA

    path = next((path for path in list_tables(tree) if posixpath.basename(path) in METADATA), None)
    cells = _read_cells(storage.join(root, path)) if path else None
    if path is None or cells is None or not any(map(is_file_name, cells)):
        return None
    others = {name: values for name, values in cells.items() if not is_file_name(name)}
    settings: dict[str, Any] = {"layout": "image"}
    if hold_objects(others.get(OBJECTS, ())):
        settings = {}
    elif label := find_only_label(others):
        settings = {"label_column": label}
    elif len(others) == 1 and all(isinstance(value, str) for value in next(iter(others.values()))):
        settings = {"label_column": next(iter(others)), "label_type": "text"}
    return posixpath.basename(path), Suggestion(f"the rows of {path}", {"source": "hf_folder", **settings})


def _read_cells(path: str) -> dict[str, list[Any]] | None:
    """Returns column -> cells of the first rows of a table; None if it has no rows."""
    found = read_first_rows(path, open_table)
    return {name: [row[name] for row in found[1]] for name in found[0].columns} if found else None


def settings_of_table(path: str, tree: FolderTree, root: str) -> dict[str, Any] | None:
    """Returns the settings that read a table; None if it names no images, or its label column is ambiguous."""
    cells = _read_cells(storage.join(root, path))
    if cells is None:
        return None
    images = _find_images(path, cells, tree, root)
    if images is None:
        return None
    column, settings = images
    others = {name: values for name, values in cells.items() if name != column}
    if label := find_only_label(others):
        return {**settings, "label_column": label}
    columns = find_one_hot(others, len(cells[column]))
    are_classes = 1 < len(columns) == len(others)
    return {**settings, "label_columns": ",".join(columns)} if are_classes else None


def _find_images(
    path: str, cells: Mapping[str, Sequence[Any]], tree: FolderTree, root: str
) -> tuple[str, dict[str, Any]] | None:
    """Returns the column that names images, and the settings that find the images; None if there is none."""
    beside = posixpath.dirname(path)
    folders = ["", *(one for one, folder in tree.walk() if folder.images and one)][: _MOST_FOLDERS + 1]
    split = split_in_name(posixpath.basename(path).rpartition(".")[0])
    # Tries columns of file names before columns of numbers.
    for column, values in sorted(cells.items(), key=lambda item: not _has_extension(map(str, item[1]))):
        some = spread(values)
        words = [str(value) for value in some if isinstance(value, (str, int)) and str(value)]
        if len(words) < len(some):
            continue
        found = [(folder, ending) for folder in folders if (ending := _ending(words, folder, tree, root)) is not None]
        if len(found) > 1:
            # Other splits may have images with the same numbers.
            found = [one for one in found if split_in_name(one[0].partition("/")[0]) == (split or "train")]
        if len(found) != 1:
            continue
        folder, ending = found[0]
        where = {"image_root": storage.join(root, folder).rstrip("/")} if folder != beside else {}
        return column, {**({"image_path": f"{{{column}}}{ending}"} if ending else {"image_column": column}), **where}
    return None


def _ending(words: Sequence[str], folder: str, tree: FolderTree, root: str) -> str | None:
    """Returns the extension, possibly "", that turns cells into names of images in a folder; None if there is none."""
    endings = [""] if _has_extension(words) else sorted({posixpath.splitext(name)[1] for name in tree.names([folder])})
    for ending in endings:
        paths = [posixpath.join(folder, word + ending) for word in words]
        if all(not one.startswith("/") and storage.is_file(storage.join(root, one)) for one in paths):
            return ending
    return None


def _has_extension(words: Iterable[str]) -> bool:
    return all(posixpath.splitext(word)[1].lower() in IMAGE_EXTENSIONS for word in words)


def find_labels(
    tree: FolderTree, root: str, base: str, split: str | None, classes: Collection[str]
) -> ListedLabels | None:
    """Finds a list that covers at least half of the images in a folder, with only the given classes; None without one.

    Args:
      tree: the folders.
      root: path of their root folder.
      base: path of the folder, relative to the root.
      split: split of the images in the folder.
      classes: names of the class folders of other splits.
    """
    paths = [*list_lists(tree)[:_MOST_FILES], *list_tables(tree)[:_MOST_FILES]]
    for path in (one for one in paths if split_of_list(one) in (None, split)):
        found = _read_labels(path, tree, root, base)
        if set(found.labels.values()) <= {*classes} and 0 < tree.total(base) <= 2 * len(found.labels):
            return found
    return None


def _read_labels(path: str, tree: FolderTree, root: str, base: str) -> ListedLabels:
    """Reads a list or table; without labels if it has none, or two labels for an image."""
    nothing = ListedLabels(path, {})
    is_list = path.lower().endswith(".txt")
    listed = read_list(path, tree, root) if is_list else None
    folder, settings = listed or ("", {}) if is_list else (posixpath.dirname(path), settings_of_table(path, tree, root))
    label = (settings or {}).get("label_column")
    if not settings or not label:
        return nothing
    images = settings.get("image_root") or storage.join(root, folder).rstrip("/")
    pattern = settings.get("image_path") or f"{{{settings.get('image_column', IMAGE)}}}"
    columns = pattern_columns(pattern)
    labels: dict[str, str] = {}
    notes: list[str] = []
    with suppress_refusals():
        table = open_table(storage.join(root, path))
        for row in itertools.islice(table.rows([*columns, label]), _MOST_LABELS):
            if isinstance(row, InvalidRow):
                continue
            name = fill_pattern(pattern, {column: str(row[column]) for column in columns})
            image = storage.join(images, name.removeprefix("./"))
            below = image.removeprefix(f"{storage.join(root, base)}/")
            if below != image and labels.setdefault(below, str(row[label])) != str(row[label]):
                return nothing
        notes = describe_unused(table, {*columns, label})
    return ListedLabels(path, labels, notes)
