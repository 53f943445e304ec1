"""Finds image lists next to images (text files with image paths, often one per split), and suggests their settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.sources.detect.column_names import NOT_LABEL_NAMES, plain_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import one_hot_columns
from beam_tfrecords.transforms.sources.detect.interpretation import Request
from beam_tfrecords.transforms.sources.detect.names import is_annotation, split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import is_usable, read_first_rows, spread
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE, LABEL, SPLIT

_MOST_LISTS = 24
_MOST_FOLDERS = 12
_SPLITS = ("train", "validation", "test")
_LABEL_WORDS = re.compile(r"label|class|annot|list|truth|box|gt\b", re.IGNORECASE)
# Lists of positions in images.
_NO_LABELS = re.compile(r"box|landmark|part|keypoint")
# Train and validation in one list, next to a list for test.
_TRAIN_AND_VALIDATION = re.compile(r"train_?val", re.IGNORECASE)
_DIGITS = re.compile(r"(\d+)")


def list_lists(tree: FolderTree) -> list[str]:
    """Returns the paths of text files in the folders, those nearest to the root first."""
    return tree.find_others(lambda name: name.lower().endswith(".txt"))


def name_label_lists(tree: FolderTree) -> list[str]:
    """Returns the text files whose names contain a split or a word for labels."""
    return [path for path in list_lists(tree) if split_of_list(path) or _LABEL_WORDS.search(posixpath.basename(path))]


def name_split_lists(tree: FolderTree) -> list[str]:
    """Returns a group of text files for several splits, such as train.txt and test.txt; [] if there is none."""
    found = list_lists(tree)
    named = next((paths for paths in group_by_split(found) if len({*map(split_of_list, paths)} - {None}) > 1), None)
    return named or [path for path in found if posixpath.basename(path) == "train_test_split.txt"]


def find_lists(tree: FolderTree, request: Request) -> Iterator[Suggestion]:
    """Yields suggestions that read lists of images with labels, using the lists for the most splits.

    Args:
      tree: the folders.
      request: the request, which names their root folder.
    """
    root = request.root
    if root is None or request.names_paths:
        return
    groups = group_by_split(list_lists(tree)[:_MOST_LISTS])
    suggestions = [found for paths in groups if (found := _suggest(paths, tree, root))]
    most = max(
        (len(one.settings["input"]) for one in suggestions if isinstance(one.settings["input"], list)), default=1
    )
    # Prefers several attributes per image over a single number.
    for one in sorted(suggestions, key=lambda one: "label_columns" not in one.settings):
        inputs = one.settings["input"]
        if (len(inputs) if isinstance(inputs, list) else 1) == most and is_usable(request, one.settings):
            yield one


def _plain(path: str) -> str:
    """Returns the name of a list without its split, which all lists of a group share."""
    return plain_name("_".join(word for word in _words(path) if split_in_name(word) is None))


def split_of_list(path: str) -> str | None:
    """Returns the split in the name of a list, or None."""
    return split_in_name("_".join(_words(path)))


def _words(path: str) -> list[str]:
    stem = _TRAIN_AND_VALIDATION.sub("train", posixpath.basename(path).rpartition(".")[0])
    return re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", stem)


def _is_of_another_split(path: str, split: str | None) -> bool:
    """Whether the path of a folder contains a split other than the split of a list."""
    found = set(map(split_in_name, path.split("/"))) - {None}
    return split is not None and bool(found) and split not in found


def group_by_split(paths: Sequence[str]) -> list[list[str]]:
    """Groups lists or tables that differ only in their split; returns groups with the most splits first."""
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for path in paths:
        split = split_of_list(path) or ""
        key = (posixpath.dirname(path), _plain(path) if split else posixpath.basename(path))
        groups.setdefault(key, {}).setdefault(split, path)
    # Keeps only the first of numbered folds.
    order = {key: [int(word) if word.isdecimal() else -1 for word in _DIGITS.split(key[1])] for key in groups}
    found: dict[tuple[str, str], list[str]] = {}
    for key in sorted(groups, key=lambda key: (-len(groups[key]), key[0], order[key], key)):
        lists = [groups[key][split] for split in ("", *_SPLITS) if split in groups[key]]
        found.setdefault((key[0], _DIGITS.sub("", key[1])), lists)
    return [*found.values()]


def _suggest(paths: Sequence[str], tree: FolderTree, root: str) -> Suggestion | None:
    """Suggests reading the lists of a group; None if they do not contain images with labels."""
    if NOT_LABEL_NAMES.search(_plain(paths[0])) or _NO_LABELS.search(_plain(paths[0])):
        return None
    found = {path: one for path in paths if (one := read_list(path, tree, root))}
    settings = [one for _, one in found.values()]
    if not found or any(one != settings[0] for one in settings):
        return None
    inputs = [(f"{split}=" if (split := split_of_list(path)) else "") + storage.join(root, path) for path in found]
    roots = [storage.join(root, folder) if folder else root for folder, _ in found.values()]
    where = roots if len({*roots}) > 1 else roots[0]
    beside = [storage.dirname(storage.join(root, path)) for path in found]
    image_root = {} if {*beside} == {*roots} and len({*roots}) == 1 else {"image_root": where}
    shown = inputs if len(inputs) > 1 else inputs[0]
    return Suggestion(f"the rows of {', '.join(found)}", {"source": "csv", "input": shown, **settings[0], **image_root})


def read_list(path: str, tree: FolderTree, root: str) -> tuple[str, dict[str, Any]] | None:
    """Returns the folder that paths in a list are relative to, and settings for image and label; None if unsuitable."""
    from beam_tfrecords.transforms.sources.tables.csv_table import open_csv

    table, rows = read_first_rows(storage.join(root, path), open_csv) or (None, [])
    if table is None or table.parser.form != "list":
        return None
    found = _find_folder([row[IMAGE] for row in spread(rows)], path, tree, root)
    if found is None:
        return None
    folder, ending = found
    image = {"image_path": f"{{{IMAGE}}}{ending}"} if ending else {}
    one_hot = one_hot_columns(table)
    labels = {row.get(LABEL, "") for row in rows}
    if len(labels) > 1 and not any(label.startswith("-") for label in labels):
        splits = {"split_column": SPLIT} if SPLIT in table.columns else {}
        return folder, {**image, "label_column": LABEL, **splits}
    return (folder, {**image, "label_columns": ",".join(one_hot)}) if len(one_hot) > 1 else None


def _find_folder(words: Sequence[str], of: str, tree: FolderTree, root: str) -> tuple[str, str] | None:
    """Returns the folder that paths in a list are relative to, and the extension that they lack; None if not found.

    Args:
      words: some of the paths.
      of: path of the list.
      tree: the folders.
      root: path of their root folder.
    """
    beside, split = posixpath.dirname(of), split_of_list(of)
    folders = {""}
    endings = {""}
    for path, held in tree.walk():
        if held.images:
            folders |= {path, posixpath.dirname(path)}
            endings |= {posixpath.splitext(name)[1] for _, name in held.names}
    # Prefers folders of the list's split, because other splits may contain images with the same numbers. Tries mask
    # folders last, because masks have the names of their images.
    near = sorted(
        folders,
        key=lambda one: (
            any(map(is_annotation, one.split("/"))),
            _is_of_another_split(one, split),
            not beside or not f"{one}/".startswith(f"{beside}/"),
            one.count("/"),
            one,
        ),
    )
    for folder in near[:_MOST_FOLDERS]:
        for ending in sorted(endings):
            if all(storage.is_file(storage.join(root, posixpath.join(folder, word + ending))) for word in words):
                return folder, ending
    return None
