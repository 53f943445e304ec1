"""Finds tables and lists of images and labels next to the images, the settings that read them, and their labels."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.detect.column_names import is_split_name, names_no_label, plain_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import above_parts, suggest_classes
from beam_tfrecords.transforms.sources.detect.image_columns import METADATA, choose_names, is_file_name
from beam_tfrecords.transforms.sources.detect.interpretation import ListedLabels, Request, depth_of, one_or_all
from beam_tfrecords.transforms.sources.detect.label_columns import (
    FRACTION,
    are_many_numbers,
    are_texts,
    find_one_hot,
    find_only_label,
)
from beam_tfrecords.transforms.sources.detect.names import rank_folder, split_in_name
from beam_tfrecords.transforms.sources.detect.split_column import SPLIT_FLAGS, are_splits
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE, LABEL, SPLIT, all_numbers
from beam_tfrecords.transforms.sources.image_files import as_named
from beam_tfrecords.transforms.sources.meaning.ledger import describe_ledger, find_unused
from beam_tfrecords.transforms.sources.names import is_image_name, printable, stem_of
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.cells import fill_pattern, pattern_columns
from beam_tfrecords.transforms.sources.tables.list_file import ListTable, has_names_only
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Table, TableFile, open_table
from beam_tfrecords.transforms.sources.tables.text_table import name_alike
from beam_tfrecords.transforms.splits import name_split

# Number of tables to look at, of rows to read of each, and of values of a column.
_MOST_TABLES = 8
_FIRST_ROWS = 200
_SPREAD = 5
_PARTITION = "partition"
# Numbers of lists, of tables in which the labels of a folder are looked for, and of folders of the images of a list.
_MOST_FILES = 24
_MOST_PLACES = 12
# Limit of labels, which are kept in memory.
_MOST_LABELS = 1_000_000
# Submission templates list test images with placeholder labels; predictions are not labels either.
TEMPLATE = re.compile(r"submission|submit|predict", re.IGNORECASE)
_SPLITS = ("train", "validation", "test")
_LABEL_WORDS = re.compile(r"label|class|annot|list|truth|box|gt\b|caption|token", re.IGNORECASE)
# Least number of columns of a list with an image and several attributes.
_ATTRIBUTES = 3
# Lists of positions in images.
_POSITIONS = re.compile(r"box|landmark|part|keypoint")
_CLASS_LIST = re.compile(r"class(?:es|_?names|_list)\.txt", re.IGNORECASE)
_CAPTIONS = re.compile(r"caption|token", re.IGNORECASE)
_DIGITS = re.compile(r"(\d+)")
# Columns about the file of an image, and where it is from.
_MEASURES = re.compile(
    r"width|height|size|depth|channel|area|date|time|path|folder|dir|url|md5|hash|author|licen[cs]e|credit|copyright|^$"
    r"|unnamed|\bid$|_id$|index",
    re.IGNORECASE,
)
# Rows of a table that describes images, and images that it names.
_LEAST_ROWS, _LEAST_NAMED = 4, 3


# Path -> table or list and its first rows.
_Value = TypeVar("_Value")
Tables: TypeAlias = Mapping[str, tuple[Table, Sequence[Mapping[str, Any]]]]


def is_table(name: str) -> bool:
    """Whether a file has the extension of a table."""
    return source_of_file(name) in ("csv", "jsonl", "parquet")


def list_tables(tree: FolderTree) -> list[str]:
    """Returns the paths of the tables in the folders, those nearest to the root first."""
    return tree.find_others(is_table)


def list_lists(tree: FolderTree) -> list[str]:
    """Returns the paths of text files in the folders, those nearest to the root first, without those of one image."""
    found = tree.find_others(lambda name: name.lower().endswith((".txt", ".lst")))
    return [path for path in found if stem_of(path) not in tree.image_stems]


def name_label_lists(tree: FolderTree) -> list[str]:
    """Returns the text files whose names contain a split or a word for labels."""
    return [path for path in list_lists(tree) if _split_in_name(path) or _LABEL_WORDS.search(posixpath.basename(path))]


def name_split_lists(tree: FolderTree) -> list[str]:
    """Returns a group of text files for several splits, such as train.txt and test.txt; [] if there is none."""
    found = list_lists(tree)
    named = next((paths for paths in group_by_split(found) if len({*map(split_of_list, paths)} - {None}) > 1), None)
    return named or [path for path in found if posixpath.basename(path) == "train_test_split.txt"]


def find_rows(tree: FolderTree, request: Request) -> Iterator[tuple[Reading, bool]]:
    """Yields readings of tables or lists of the images, several of one kind together, then each alone.

    Args:
      tree: the folders.
      request: the request, which names their root folder.

    Yields:
      A reading, and whether it is clear which column has the labels.
    """
    root = request.root
    if root is None or request.names_paths:
        return
    tables = [path for path in list_tables(tree)[:_MOST_TABLES] if not TEMPLATE.search(path)]
    metadata = [*_find_metadata(tables, root)]
    yield from ((one, True) for one in metadata)
    tables = [path for path in tables if not (metadata and posixpath.basename(path) in METADATA)]
    alike = _group_by_name(tables)
    for group in (*alike, *group_by_split(tables), *_group_lists(tree, root)):
        opened = _open_tables(group, root)
        found = _find_images(opened, tree, root)
        are_one = len(found) == len(group) and len({str(image) for image, _ in found.values()}) == 1
        if not found or (group in alike and not are_one):
            continue
        columns = {path: {*table.columns} for path, (table, _) in opened.items()}
        first, *_, last = columns[next(iter(columns))], *columns.values()
        table, rows = next(iter(opened.values()))
        cells = {name: [row[name] for row in rows] for name in table.columns}
        lacking = {name: cells[name] for name in first - last}
        label = find_only_label(lacking) if len(lacking) == 1 else None
        if label:
            # The test images of a competition have no labels.
            one = _read_rows([path for path in opened if label in columns[path]], found, root)
            are_numbers = are_many_numbers(label, lacking[label])
            meaning = f"{one.meaning}, the {'numbers' if are_numbers else 'classes'} in column {label!r}"
            settings = {"label_column": label, **({"label_type": "float"} if are_numbers else {})}
            yield Reading(meaning, {**one.settings, **settings}), True
        is_clear = _is_label_clear(table, cells, next(iter(found.values()))[0])
        alone = (
            [_read_rows([path], found, root) for path in opened]
            if any(one != first for one in columns.values())
            else []
        )
        if not (alone and _has_splits(cells)):
            yield _read_rows([*opened], found, root), is_clear
        yield from ((one, is_clear) for one in alone)


def _is_label_clear(table: Table, cells: Mapping[str, Sequence[Any]], image: Mapping[str, str]) -> bool:
    """Whether a single column, or each but that of the images, has labels."""
    columns = pattern_columns(image.get("image_path") or f"{{{image.get('image_column', IMAGE)}}}")
    others = {name: values for name, values in cells.items() if name not in columns}
    numbers = [[*map(str, values)] for values in others.values()]
    if table.other_labels and all(map(all_numbers, numbers)):
        return False
    rows = len(next(iter(cells.values()), ()))
    return find_only_label(others) is not None or 1 < len(find_one_hot(others, rows)) == len(others)


def _has_splits(cells: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a table has a column of several splits, which says more than the names of tables."""
    several = [name for name, values in cells.items() if len({*map(str, values)}) > 1]
    return any(plain_name(name) in SPLIT_FLAGS or are_splits(cells[name]) for name in several)


def _read_rows(paths: Sequence[str], found: Mapping[str, tuple[dict[str, str], str]], root: str) -> Reading:
    """Suggests reading tables or lists, given the images that some of them name: see `_find_images`."""
    # A short table may name too few images to show where these are.
    first = next(iter(found.values()))
    images, folders = zip(*(found.get(path, first) for path in paths), strict=True)
    beside = tuple(storage.dirname(storage.join(root, path)) for path in paths)
    settings: dict[str, Any] = {} if is_table(paths[0]) else {"source": "csv"}
    settings |= {"input": one_or_all(name_split_inputs(paths, root)), **images[0]}
    if all(folders) and folders != beside:
        settings["image_root"] = one_or_all([*folders]) if len({*folders}) > 1 else folders[0]
    return Reading(f"the rows of {', '.join(paths)}", settings)


def _group_lists(tree: FolderTree, root: str) -> list[list[str]]:
    """Returns groups of lists: captions first, those of positions and the like last, attributes before a number."""

    def rank(paths: Sequence[str]) -> tuple[bool, bool, int, bool]:
        name, opened = "_".join(_words(paths[0])), _open_tables(paths[:1], root)
        are_few = all(len(table.columns) < _ATTRIBUTES for table, _ in opened.values())
        are_positions = bool(names_no_label(name) or _POSITIONS.search(name))
        return are_positions, _CAPTIONS.search(name) is None, -len(paths), are_few

    # A list of numbered class names does not label images, even if the images have numbers for names.
    lists = [path for path in list_lists(tree) if not _CLASS_LIST.fullmatch(posixpath.basename(path))]
    return sorted(group_by_split(lists[:_MOST_FILES]), key=rank)


def _find_images(opened: Tables, tree: FolderTree, root: str) -> dict[str, tuple[dict[str, str], str]]:
    """Returns path -> settings of the images that a table or list names, and their folder; without those of none.

    Where the images are is a question for whoever reads the table if the folder is "".
    """
    found: dict[str, tuple[dict[str, str], str]] = {}
    for path, (table, rows) in opened.items():
        # Names alone say the splits, unless their folders are classes.
        if len(table.columns) < 2 or (has_names_only(table) and LABEL not in table.columns):
            continue
        # Columns are not called by numbers, nor as images are: such a first row holds data.
        named = [name for name in table.columns if not (name.isdecimal() or _names_data(name, tree.image_stems))]
        # Numbers of classes may name images, too.
        cells = {
            name: [row[name] for row in rows] for name in named if name != LABEL or not isinstance(table, ListTable)
        }
        places = {name: place for name, values in cells.items() if (place := _find_place(values, path, tree, root))}
        files = [
            name for name, values in cells.items() if _are_files(values) and _name_images(values, tree.image_stems)
        ]
        if files and places.keys().isdisjoint(files):
            # Opening the table asks where these files are. A row number must not name another image.
            found[path] = ({} if files[0] == IMAGE else {"image_column": files[0]}), ""
            continue
        columns = choose_names({name: cells[name] for name in places})
        if len(columns) == 1:
            folder, ending = places[columns[0]]
            image = {} if columns[0] == IMAGE else {"image_column": columns[0]}
            image = {"image_path": f"{{{columns[0]}}}{ending}"} if ending or not columns[0] else image
            found[path] = image, storage.join(root, folder) if folder else root
        elif any(_name_images(one, tree.image_stems) for one in cells.values()):
            found[path] = {}, ""
    return found


def _names_data(column: str, stems: Collection[str]) -> bool:
    """Whether a header is really the name of an image: one of the stems, with a digit in it."""
    return column in stems and any(map(str.isdecimal, column))


def list_labels(tree: FolderTree, request: Request) -> list[str]:
    """Returns lists of several splits, or with a column of splits, that name images and their labels."""
    root = request.root
    if root is None or request.names_paths:
        return []
    for paths in _group_lists(tree, root):
        opened = _open_tables(paths, root, ListTable)
        has_splits = len(opened) > 1 or any(SPLIT in table.columns for table, _ in opened.values())
        if has_splits and any(folder for _, folder in _find_images(opened, tree, root).values()):
            return paths
    return []


def read_tables(tree: FolderTree, root: str, paths: Sequence[str] | None = None) -> Tables:
    """Returns path -> table and first rows of the tables in the folders that have rows.

    Args:
      tree: the folders.
      root: path of their root folder.
      paths: paths of tables or lists; those of the tables by default.
    """
    some = _choose_tables(list_tables(tree) if paths is None else paths)
    read = {path: _read_first_rows(storage.join(root, path)) for path in some}
    return {path: found for path, found in read.items() if found is not None}


def list_unread(tree: FolderTree, tables: Tables) -> list[str]:
    """Returns the tables in the folders that `read_tables` found no valid rows in."""
    return [path for path in _choose_tables(list_tables(tree)) if path not in tables]


def _choose_tables(paths: Sequence[str]) -> list[str]:
    return [path for path in paths[:_MOST_TABLES] if not TEMPLATE.search(path)]


def find_folder_labels(tables: Tables, folders: Sequence[str]) -> Iterator[str]:
    """Describes the tables that have a row for each of some folders, and other labels of them.

    Args:
      tables: path -> table and first rows.
      folders: paths of the folders.
    """
    names = {posixpath.basename(folder) for folder in folders}
    for path, (table, rows) in tables.items():
        cells = {name: {str(row[name]) for row in rows} for name in table.columns}
        # A folder may have the frames of a film, whose name has an extension.
        keys = [name for name, one in cells.items() if len(one) == len(rows) and names <= one | {*map(stem_of, one)}]
        labels = [one.settings["label_column"] for one in suggest_classes(table) if keys]
        if labels:
            yield f"{printable(path)} has {labels[0]!r} of each {keys[0]!r}"


def find_contradictions(
    tables: Tables, tree: FolderTree, place: Callable[[str], tuple[str | None, str | None]]
) -> Iterator[str]:
    """Yields the tables that give images of a class folder different labels, or another split than their folders do.

    Args:
      tables: path -> table and first rows.
      tree: the folders.
      place: returns the class and the split that the folders give the image at a path.
    """
    for path, (table, first) in tables.items():
        cells = {name: [row[name] for row in first] for name in table.columns}
        rows = [{str(value) for value in row} for row in zip(*cells.values(), strict=True)]
        split = next((name for name in cells if is_split_name(name) and are_splits(cells[name])), None)
        for column, values in cells.items():
            label = find_only_label({name: one for name, one in cells.items() if name != column})
            labels: dict[str | None, set[str]] = {}
            moved = False
            for number, value in enumerate(values if label or split else ()):
                image = _locate(str(value), rows[number], path, tree)
                if image is None:
                    continue
                said, placed = place(image)
                if label:
                    labels.setdefault(said, set()).add(str(cells[label][number]))
                if split and placed:
                    moved |= name_split(str(cells[split][number])) != placed
            if moved or any(len(several) > 1 for several in labels.values()):
                yield path
                break


def _locate(cell: str, row: Collection[str], table: str, tree: FolderTree) -> str | None:
    """Returns the path of the image that a cell names; None without one, or if several have the name.

    Images of one name are told apart by their folders: in the cell, in another cell, or the table's own.

    Args:
      cell: the cell, which may be a path.
      row: all cells of its row.
      table: path of the table.
      tree: the folders.
    """
    *folders, name = cell.replace("\\", "/").split("/")
    named = tree.paths_by_stem.get(posixpath.splitext(name)[0], [])
    parts = {*(folders or row), posixpath.basename(posixpath.dirname(table))}
    is_only = len(named) == 1 and not folders
    known = [one for one in named if is_only or parts & {*one.split("/")[:-1]}]
    ends = [sum(_ends(one, folders[at:]) for at in range(len(folders))) for one in known]
    known = [one for one, count in zip(known, ends, strict=True) if count == max(ends)]
    return known[0] if len(known) == 1 else None


def _ends(path: str, folders: Sequence[str]) -> bool:
    """Whether the folders in the path of an image end with these."""
    return path.split("/")[:-1][-len(folders) :] == [*folders]


def find_descriptions(tables: Tables, tree: FolderTree) -> Iterator[str]:
    """Yields the tables that say more of the images than a class: texts, boxes, fractions, or several things.

    Args:
      tables: path -> table and first rows.
      tree: the folders.
    """
    for path, (table, first) in tables.items():
        cells = {name: [row[name] for row in first] for name in table.columns}
        named = [name for name, values in cells.items() if _name_images(values, tree.image_stems)]
        others = {name: values for name, values in cells.items() if name not in named and not _MEASURES.search(name)}
        repeated = {name: values for name, values in others.items() if 1 < len({*map(str, values)}) <= len(values) / 2}
        # A class and its number are one thing.
        things = {tuple(map(values.index, values)) for values in repeated.values()}
        most = 2 if any(map(is_split_name, repeated)) else 1
        says_more = len(things) > most or any(are_texts(one) or _are_fractions(one) for one in others.values())
        if named and len(first) >= _LEAST_ROWS and says_more:
            yield path


def _name_images(values: Sequence[Any], stems: Collection[str]) -> bool:
    """Whether cells name several of some images."""
    return sum(stem_of(str(one).replace("\\", "/")) in stems for one in values) >= _LEAST_NAMED


def _are_files(values: Sequence[Any]) -> bool:
    """Whether all cells are file names of images."""
    return all(isinstance(one, str) and is_image_name(one) for one in values)


def _are_fractions(values: Sequence[Any]) -> bool:
    """Whether cells are numbers that count nothing."""
    return 2 * sum(FRACTION.fullmatch(str(value)) is not None for value in values) > len(values)


def _find_metadata(tables: Sequence[str], root: str) -> Iterator[Reading]:
    """Yields the readings of the metadata tables of Hugging Face, the only other column of texts last."""
    paths = [path for path in tables if posixpath.basename(path) in METADATA]
    found = _read_first_rows(storage.join(root, paths[0])) if paths else None
    shown = ", ".join(paths)
    columns = found[0].columns if found else ()
    others = [name for name in columns if not is_file_name(name)]
    if found and len(others) < len(columns):
        yield Reading(f"the rows of {shown}", {"source": "hf_folder"})
        texts = [row[others[0]] for row in found[1]] if len(others) == 1 else []
        if texts and all(isinstance(one, str) for one in texts) and len({*texts}) == len(texts):
            text = {"label_column": others[0], "label_type": "text"}
            yield Reading(f"the rows of {shown}, the texts in column {others[0]!r}", {"source": "hf_folder", **text})


def _find_place(values: Sequence[Any], of: str, tree: FolderTree, root: str) -> tuple[str, str] | None:
    """Returns the folder and the extension with which the cells of a column lead to images; see `_find_folder`."""
    some = _spread(values)
    words = [str(value) for value in some if isinstance(value, (str, int)) and str(value)]
    return _find_folder(words, of, tree, root) if len(words) == len(some) else None


def _plain(path: str) -> str:
    """Returns the name of a list without its split, which all lists of a group share."""
    return plain_name("_".join(word for word in _words(path) if split_in_name(word) is None))


def fold_of_list(path: str) -> tuple[str, str]:
    """Returns the name that all folds of a list share (no split, no number), and the name with its number."""
    plain = _plain(path)
    return _DIGITS.sub("", plain), plain


def split_of_list(path: str) -> str | None:
    """Returns the split in the name of a list or table, or else in the name of its folder; None if neither has one.

    A list called partition, such as list_eval_partition, has all splits.
    """
    if _PARTITION in _words(path):
        return None
    folders = (split for name in path.split("/")[:-1] if (split := split_in_name(name)))
    return _split_in_name(path) or next(folders, None)


def _split_in_name(path: str) -> str | None:
    return split_in_name("_".join(_words(path)))


def _words(path: str) -> list[str]:
    return re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", posixpath.basename(path).rpartition(".")[0])


def _read_first_rows(path: str) -> tuple[TableFile, list[Mapping[str, Any]]] | None:
    """Opens a table and reads its valid first rows; returns None if there are none."""
    found = None
    with suppress_refusals():
        table = open_table(path)
        found = table, table.head(table.columns, _FIRST_ROWS)
    return found if found and found[1] else None


def _spread(values: Sequence[_Value]) -> list[_Value]:
    """Returns some values from all parts of the rows, because images of different parts may be in different folders.

    Used to test whether the images that the values name exist.
    """
    return [*values[:: max(len(values) // _SPREAD, 1)], values[-1]]


def group_by_split(paths: Sequence[str]) -> list[list[str]]:
    """Groups lists or tables that differ only in their split; returns groups with the most splits first."""
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for path in paths:
        split = split_of_list(path) or ""
        folder = "/".join("*" if split_in_name(name) else name for name in path.split("/")[:-1])
        key = (folder, _plain(path) if split else posixpath.basename(path))
        groups.setdefault(key, {}).setdefault(split, path)
    # Keeps only the first of numbered folds.
    order = {key: [int(word) if word.isdecimal() else -1 for word in _DIGITS.split(key[1])] for key in groups}
    found: dict[tuple[str, str], list[str]] = {}
    # Of Flickr8k.token.txt and Flickr8k.lemma.token.txt, the plain one comes first.
    for key in sorted(groups, key=lambda key: (-len(groups[key]), key[0], key[1].count("."), order[key], key)):
        lists = [groups[key][split] for split in ("", *_SPLITS) if split in groups[key]]
        found.setdefault((key[0], _DIGITS.sub("", key[1])), lists)
    return [*found.values()]


def _group_by_name(paths: Sequence[str]) -> list[list[str]]:
    """Groups the tables with the same name in different folders, each of which may be a part of the dataset."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        if split_of_list(path) is None:
            groups.setdefault(posixpath.basename(path), []).append(path)
    return [group for group in groups.values() if len(group) > 1]


def name_split_inputs(paths: Sequence[str], root: str) -> list[str]:
    """Returns lists or tables as inputs, with the splits in their names."""
    splits = [split_of_list(path) for path in paths]
    # A table of train alone may have a column of splits.
    names = ["" if split is None or splits == ["train"] else f"{split}=" for split in splits]
    return [name + storage.join(root, path) for name, path in zip(names, paths, strict=True)]


def _open_tables(paths: Sequence[str], root: str, kind: type[TableFile] = TableFile) -> Tables:
    """Returns path -> table and its first rows, whose columns have the names that all tables of a request give them."""
    opened = {path: found[0] for path in paths if (found := _read_first_rows(storage.join(root, path)))}
    tables = {path: one for path, one in opened.items() if isinstance(one, kind)}
    alike = zip(tables, name_alike([*tables.values()]), strict=True)
    return {path: (table, table.head(table.columns, _FIRST_ROWS)) for path, table in alike}


def _find_folder(words: Sequence[str], of: str, tree: FolderTree, root: str) -> tuple[str, str] | None:
    """Returns the folder that paths are relative to, and the extension that they lack; None for several, or none.

    Args:
      words: some of the paths.
      of: path of the list or table that has them.
      tree: the folders.
      root: path of their root folder.
    """
    beside, split = posixpath.dirname(of), split_of_list(of) or "train"
    folders = {""}
    endings = {""}
    for path, held in tree.walk():
        if held.images:
            folders |= {path, posixpath.dirname(path)}
            endings |= {posixpath.splitext(name)[1] for _, name in held.names}
    # Prefers folders of the list's split, because other splits may contain images with the same numbers. Tries mask
    # folders last, because masks have the names of their images.
    ranks = {
        one: (
            *rank_folder(one, split),
            not beside or not f"{one}/".startswith(f"{beside}/"),
            depth_of(one),
        )
        for one in folders
    }
    nearest = sorted(folders, key=lambda one: (ranks[one], one))[:_MOST_PLACES]
    found = [
        (folder, ending)
        for folder in nearest
        for ending in sorted(endings)
        if _lead_to_files(storage.join(root, folder), words, ending)
    ]
    # Of several equally near folders, either may be meant.
    best = [one for one in found if ranks[one[0]] == ranks[found[0][0]]]
    if len({folder for folder, _ in best}) != 1:
        return None
    folder, ending = best[0]
    missing = [word for word in words if not _is_there(storage.join(root, folder), word, ending)]
    are_elsewhere = any(_is_there(storage.join(root, one), word, ending) for word in missing for one in nearest)
    # Images of the same names in another folder are of another dataset.
    are_beside = beside and {*map(stem_of, words)} <= {*tree.inside(beside).image_stems}
    is_other = are_beside and not f"{folder}/".startswith(f"{beside}/")
    return None if are_elsewhere or is_other or above_parts(storage.join(root, folder).rstrip("/"), root) else best[0]


def _lead_to_files(folder: str, words: Sequence[str], ending: str) -> bool:
    """Whether there are files at nearly all of some paths below a folder: a few images may be missing."""
    missing = 0
    for word in words:
        missing += not _is_there(folder, word, ending)
        if missing > len(words) // _SPREAD:
            return False
    return True


def _is_there(folder: str, word: str, ending: str) -> bool:
    return storage.is_file(as_named(storage.join(folder, word + ending)))


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
    opened = _open_tables([path], root)
    image, folder = _find_images(opened, tree, root).get(path, ({}, ""))
    table, rows = opened.get(path, (None, ()))
    if table is None or not folder or table.other_labels:
        return nothing
    pattern = image.get("image_path") or f"{{{image.get('image_column', IMAGE)}}}"
    columns = pattern_columns(pattern)
    label = find_only_label({name: [row[name] for row in rows] for name in table.columns if name not in columns})
    if not label:
        return nothing
    labels: dict[str, str] = {}
    notes: list[str] = []
    with suppress_refusals():
        table = open_table(storage.join(root, path))
        for row in itertools.islice(table.rows([*columns, label]), _MOST_LABELS):
            if isinstance(row, InvalidRow):
                continue
            name = fill_pattern(pattern, {column: str(row[column]) for column in columns})
            named = storage.join(folder, name.removeprefix("./"))
            below = named.removeprefix(f"{storage.join(root, base)}/")
            if below != named and labels.setdefault(below, str(row[label])) != str(row[label]):
                return nothing
        notes = describe_ledger(find_unused(table, {*columns, label}))
    return ListedLabels(path, labels, notes)
