"""Finds labels for a folder without class folders, in a list or table next to it."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Collection

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.detect.interpretation import ListedLabels
from beam_tfrecords.transforms.sources.detect.judge import describe_unused
from beam_tfrecords.transforms.sources.detect.list_sidecars import list_lists, read_list, split_of_list
from beam_tfrecords.transforms.sources.detect.table_sidecars import list_tables, settings_of_table
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import suppress_refusals
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.csv_table import open_csv
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern, pattern_columns
from beam_tfrecords.transforms.sources.tables.table import InvalidRow

_MOST_FILES = 24
# Limit of labels, which are kept in memory.
_MOST_LABELS = 1_000_000


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
        table = (open_csv if is_list else open_table)(storage.join(root, path))
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
