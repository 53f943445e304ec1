"""Finds lists of splits beside an input that nothing reads."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import io
import itertools
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.inputs import folder_of_archive, folder_of_input, name_inputs
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.meaning.row_sidecars import fold_of_list, group_by_split, split_of_list
from beam_tfrecords.transforms.sources.names import printable, stem_of
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import DEFAULT_SPLIT, split_of_folder
from beam_tfrecords.transforms.stats import share_above

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_EXTENSIONS, _JSON = (".txt", ".csv", ".tsv", ".lst", ".list"), ".json"
_BETWEEN_CELLS = re.compile(r"[\s,;]+")
_FOLDER_OF_LISTS = re.compile(r"(?:sets?|splits?|lists?|metadata)$", re.IGNORECASE)
# Numbers of files to look at and to open in a folder, of bytes of a file, and of samples to find in them.
_MOST_LISTED, _MOST_FILES, _MOST_BYTES, _MOST_SAMPLES = 20_000, 32, 64 << 20, 200


def check_split_lists(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> None:
    """Checks that no lists beside the input say the splits of its images.

    Args:
      spec: the request.
      source: the listed source.
      listing: its samples.
      tally: files that are not samples.

    Raises:
      RequestError: such lists name the images; offers to read them.
    """
    inputs = name_inputs(spec.input)
    says_splits = bool(inputs.splits) or not spec.splits.are_auto or bool(spec.join)
    if says_splits or len(listing.samples) > 1:
        return
    # To look into a tar takes as long as to list it, and its listing has counted all files.
    are_archives = source.description.is_inferred_later and all(
        map(storage.archive_of, map(folder_of_archive, inputs.paths))
    )
    if are_archives and not {*_EXTENSIONS, _JSON} & tally.counts.keys():
        return
    from beam_tfrecords.transforms.listing.listing import read_light

    first = itertools.chain.from_iterable(refs.keys for refs in read_light(listing))
    some = [*itertools.islice(first, _MOST_SAMPLES)]
    keys = {*map(stem_of, some)}
    files = itertools.chain.from_iterable(refs.files() for refs in read_light(listing))
    where = f"`input={', '.join(spec.input)}`"
    whole = Reading("all images as one split", {"splits": f"{DEFAULT_SPLIT}=1"})
    roots = [folder_of_archive(folder_of_input(path)) for path in inputs.paths]
    inside = [*roots, *_wrap_images(itertools.islice(files, _MOST_SAMPLES))]
    # Lists may lie in each folder between the input and its images.
    between = storage.dirname(inside[-1])
    while any(between.startswith(f"{root}/") for root in roots):
        inside.append(between)
        between = storage.dirname(between)
    # Beside a folder of classes are files of other inputs.
    has_classes = source.description.is_inferred_later and Content.MASK not in spec.required
    around = [] if has_classes else [*map(storage.dirname, inside)]
    folders = _find_folders([*inside, *around])
    # Pascal VOC reads its own.
    folders = [one for one in folders if source.name != "voc" or "/ImageSets" not in one]
    found = _find_files(folders, without=inputs.paths)
    are_lists = all(path.lower().endswith(_EXTENSIONS) for path in inputs.paths)
    folds = dict(map(fold_of_list, inputs.paths)) if are_lists else {}
    for extension in _EXTENSIONS:
        # A list of another fold divides other images.
        named = ((path, *fold_of_list(path)) for path in found.get(extension, []))
        paths = [path for path, series, fold in named if folds.get(series, fold) == fold]
        lists, names = _choose_lists(paths, keys)
        if lists:
            shown = ", ".join(printable(storage.basename(path)) for path in lists)
            settings: dict[str, object] = {"join": [f"{split}={path}" for path, split in lists.items()]}
            meaning = "the splits of these lists"
            missing = sum(stem_of(key) not in names for refs in read_light(listing) for key in refs.keys)
            if missing > spec.max_failures * listing.total:
                meaning += f", without the {missing:,} images that they lack"
                settings["max_failures"] = share_above(missing, listing.total)
            raise RequestError(
                f"{where}: {shown} beside the images have their names, and may be their splits",
                [Reading(meaning, settings), whole],
                code="unread_lists",
            )
        for path in paths:
            # Numbers without an extension may be anything.
            name_of = posixpath.basename if all(key.isdecimal() for key in keys) else stem_of
            if _has_splits(path) and {*map(name_of, some)} <= {*_find_names(path, name_of)}:
                raise RequestError(
                    f"{where}: {printable(storage.basename(path))} beside the images has their names and splits",
                    [Reading("the splits of this table", {"join": path}), whole],
                    code="unread_lists",
                )
    for path in found.get(_JSON, ()):
        if keys <= _find_names_in_json(path):
            name = printable(storage.basename(path))
            raise RequestError(
                f"{where}: {name} beside the images has their names under the names of "
                "splits; write the names of each split into a list, and name the lists in `join`, such as "
                "`join=train=train.txt`",
                [dataclasses.replace(whole, meaning=f"{whole.meaning}, without those of {name}")],
                code="unread_lists",
            )


def _choose_lists(paths: Sequence[str], keys: Set[str]) -> tuple[Mapping[str, str], Set[str]]:
    """Returns path -> split of the lists that have most of the names, and all names in them; both empty without any.

    Args:
      paths: paths of the lists.
      keys: names of the images.
    """
    every, names = dict[str, str](), set[str]()
    best: tuple[Mapping[str, str], Set[str]] = {}, frozenset()
    for group in group_by_split(paths):
        lists = {path: split for path in group if (split := split_of_list(path))}
        own = {name for path in lists for name in _find_names(path, stem_of)} if len(lists) > 1 else set()
        if own and keys <= own:
            return lists, own
        every, names = every | lists if own else every, names | own
        best = max(best, (lists, own), key=lambda one: len(keys & one[1]))
    # Each domain may have lists of its own.
    best = max(best, (every, names), key=lambda one: len(keys & one[1]))
    return best if 2 * len(keys & best[1]) >= len(keys) > 0 else ({}, frozenset())


def _wrap_images(files: Iterable[str]) -> list[str]:
    """Returns the local folder below which some images are, if they are in several."""
    folders = {*map(storage.dirname, files)}
    are_local = all(folder.startswith("/") for folder in folders)
    return [posixpath.commonpath(folders)] if len(folders) > 1 and are_local else []


def _find_folders(around: Sequence[str]) -> list[str]:
    """Returns some folders, also folders of lists in them."""
    folders = dict.fromkeys(around)
    for folder in [*folders]:
        with suppress_refusals():
            for name in map(storage.basename, storage.list_folders(folder)):
                if _FOLDER_OF_LISTS.search(name):
                    path = storage.join(folder, name)
                    inner = map(storage.basename, storage.list_folders(path)[:_MOST_FILES])
                    folders |= dict.fromkeys([path, *(storage.join(path, one) for one in inner)])
    return [*folders]


def _find_files(folders: Sequence[str], *, without: Sequence[str]) -> dict[str, list[str]]:
    """Returns extension -> the files of that extension directly in some folders."""
    paths: dict[str, list[str]] = {}
    for folder in folders:
        with suppress_refusals():
            for one in storage.list_files(f"{glob.escape(folder)}/*", limit=_MOST_LISTED):
                extension = posixpath.splitext(one.path)[1].lower()
                if extension in (*_EXTENSIONS, _JSON) and one.size <= _MOST_BYTES and one.path not in without:
                    paths.setdefault(extension, []).append(one.path)
    return {extension: sorted(few) for extension, few in paths.items() if len(few) <= _MOST_FILES}


def _read_cells(path: str) -> Iterator[list[str]]:
    """Yields each line of a list or table, followed by its cells; nothing of a file that cannot be read."""
    # Most files say in their second line that they have no splits.
    with suppress_refusals(), storage.open_read(path) as file:
        for line in filter(str.strip, io.TextIOWrapper(file, encoding="utf-8", errors="replace")):
            # Lists may be written on Windows.
            yield [cell.strip("\"' \n").replace("\\", "/") for cell in (line, *_BETWEEN_CELLS.split(line))]


def _find_names(path: str, name_of: Callable[[str], str]) -> Iterator[str]:
    """Yields the names in the lines and cells of a list or table; further numbers in a line are classes."""
    for line, first, *others in _read_cells(path):
        yield from map(name_of, (line, first, *(one for one in others if not one.isdecimal())))


def _has_splits(path: str) -> bool:
    """Whether each row of a table, perhaps after a header, has the name of a split, and there are several."""
    found = set[str | None]()
    for number, cells in enumerate(_read_cells(path)):
        splits = {*map(split_of_folder, cells)} - {None}
        if number and not splits:
            return False
        found |= splits
    return len(found) > 1


def _find_names_in_json(path: str) -> set[str]:
    """Returns the names in an object of lists, likewise, if its keys are names of splits; else an empty set."""
    found = None
    with suppress_refusals(), contextlib.suppress(RecursionError):
        found = read_json(storage.read_bytes(path))
    lists = found if isinstance(found, dict) else {}
    if len(lists) < 2 or not all(split_of_folder(name) and isinstance(names, list) for name, names in lists.items()):
        return set()
    return {stem_of(str(name)) for names in lists.values() for name in names}
