"""Suggests requests that resolve an ambiguous input, after checking what each would list."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.detect.annotation_sidecars import (
    describe_annotations,
    find_annotations,
)
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request, UnclearError, join
from beam_tfrecords.transforms.sources.detect.layouts import ALSO_THINGS, interpret
from beam_tfrecords.transforms.sources.detect.mask_pairs import without_masks
from beam_tfrecords.transforms.sources.detect.names import named_split
from beam_tfrecords.transforms.sources.detect.row_sidecars import (
    find_rows,
    find_unclear_tables,
    list_tables,
    name_label_lists,
)
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.companions import find_files_of_images
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.splits import Splits, read_splits, split_of_folder

_MOST_SUGGESTIONS = 3
_MOST_ANSWERS = 4
_MOST_TABLES = 2
_MOST_PATHS = 3
_MASKS = ("segmentation", "detection_masks")
_UNLABELLED = {"layout": "image"}


def refuse(error: UnclearError, tree: FolderTree, request: Request) -> RequestError:
    """Returns the error for an input with ambiguous folders, with suggested requests."""
    suggestions: list[Suggestion] = []
    for one in _suggestions(error, tree, request):
        # Several images of one sample have no mask.
        if one.settings.get("layout") in _MASKS and request.root and "images" in one.settings:
            continue
        one = _drop_globs(one, tree, request)
        if one.settings not in [other.settings for other in suggestions]:
            suggestions.append(one)
        if len({one.meaning for one in suggestions}) == _MOST_SUGGESTIONS:
            break
    has_rows = any({"label_column", "label_columns", "source"} & one.settings.keys() for one in suggestions)
    if request.by_folders and not has_rows and not error.has_lists:
        suggestions += itertools.islice(find_unclear_tables(tree, request), _MOST_TABLES)
    more = _describe_sidecars(tree, request, suggestions, error.found)
    if request.spec.source in ("image_folder", "filename_pattern"):
        # The source in the request may not fit a pattern or a table.
        suggestions = [dataclasses.replace(one, settings={"source": None, **one.settings}) for one in suggestions]
    # The message states the finding first, then the remedy.
    seen, semicolon, remedy = error.found.partition("; ")
    return RequestError(f"{request.where}: {seen}{more}{semicolon}{remedy}", suggestions, code=error.code)


def _describe_sidecars(tree: FolderTree, request: Request, suggestions: Sequence[Suggestion], said: str = "") -> str:
    """Describes possible label files next to the images, for a message.

    Args:
      tree: the folders.
      request: the request.
      suggestions: suggestions of the message; if these read a table, tables are not listed again.
      said: what the message says so far.
    """
    annotations = describe_annotations(tree, request.roots)
    more = ""
    if annotations:
        more = f" (beside them are files that look like {annotations})"
    elif files := [*itertools.islice((one for one in find_files_of_images(tree) if one not in said), _MOST_PATHS)]:
        more = f" (beside them are files of each image: {', '.join(map(printable, files))})"
    rows = list_rows(tree)[:_MOST_PATHS]
    if rows and not any("label_column" in one.settings for one in suggestions):
        more += f" (tables beside them: {', '.join(map(printable, rows))})"
    return more


def list_rows(tree: FolderTree) -> list[str]:
    """Returns the paths of tables that may contain labels, and of lists whose names contain a split or such a word."""
    return [*list_tables(tree), *name_label_lists(tree)]


def find_sidecars(tree: FolderTree, request: Request) -> tuple[str, list[Suggestion]]:
    """Returns a message about possible label files next to the images, and suggestions that read them."""
    found = [*_read_sidecars(tree, request)]
    return _describe_sidecars(tree, request, found), found


def _read_sidecars(tree: FolderTree, request: Request) -> Iterator[Suggestion]:
    """Yields suggestions that read files next to the images instead of folder labels."""
    yield from find_annotations(tree, request)
    if request.by_folders:
        rows = [*itertools.islice(find_rows(tree, request), _MOST_TABLES)]
        yield from rows or itertools.islice(find_unclear_tables(tree, request), _MOST_TABLES)


def _find_samples(tree: FolderTree, request: Request) -> Iterator[Suggestion]:
    """Suggests a WebDataset for a tar archive with a text or JSON file beside each image."""
    archive = storage.archive_of(request.root) if request.root else None
    if archive is None or source_of_file(archive) != "tar":
        return
    names = [(path, *name.split(".")) for path, _ in tree.walk() for name in tree.others(path)]
    stems = {(path, stem) for path, stem, *_, extension in names if extension in ("json", "txt", "cls")}
    images = {(path, name.partition(".")[0]) for path, folder in tree.walk() for _, name in folder.names}
    if images and images <= stems:
        yield Suggestion("the samples of a WebDataset", {"source": "webdataset"})


def _suggestions(error: UnclearError, tree: FolderTree, request: Request) -> Iterator[Suggestion]:
    """Yields all suggestions, the most certain ones first."""
    samples = [*_find_samples(tree, request)]
    yield from samples
    yield from find_annotations(tree, request)
    followed = _answer(error, tree, request, Suggestion("", {}), _MOST_ANSWERS)
    if Content.MASK in request.needs.contents:
        says_masks = bool(request.spec.mask_settings)
        yield from (one for one in followed if says_masks or "segmentation" in one.settings.values())
        return
    if request.by_folders and not error.has_lists:
        yield from itertools.islice(find_rows(tree, request), _MOST_TABLES)
    yield from followed
    if Content.LABEL in request.needs.contents and samples:
        # As images of a plain archive, they would lose their fields without a note.
        yield from (Suggestion(f"{one.meaning}, without labels", {**one.settings, **_UNLABELLED}) for one in samples)
    elif Content.LABEL in request.needs.contents:
        for one in _follow(*_apply(tree, request, _UNLABELLED), Suggestion("", _UNLABELLED), _MOST_ANSWERS):
            if "images" in one.settings:  # They have no labels anyway.
                continue
            yield dataclasses.replace(one, meaning=f"{one.meaning or 'all images'}, without labels")


def _follow(tree: FolderTree, request: Request, said: Suggestion, most: int) -> Iterator[Suggestion]:
    """Yields the unambiguous requests that result from adding further answers.

    Args:
      tree: the folders under the settings so far.
      request: the request with the settings so far.
      said: the suggestion so far.
      most: largest number of further answers.
    """
    if "images" in said.settings:  # Another input, whose names say all.
        yield said
        return
    try:
        found, _ = interpret(tree, request)
    except UnclearError as error:
        yield from _answer(error, tree, request, said, most)
        return
    if _has_samples(tree, request, found):
        yield said


def _answer(
    error: UnclearError, tree: FolderTree, request: Request, said: Suggestion, most: int
) -> Iterator[Suggestion]:
    """Yields the results of `_follow` for each answer to an ambiguity."""
    for answers in error.answers if most else ():
        for answer in answers:
            both = said.then(answer)
            kept = {name: value for name, value in both.settings.items() if value is not None or name == "input"}
            one = dataclasses.replace(both, settings=kept)
            clear = list(_follow(*_apply(tree, request, answer.settings), one, most - 1))
            yield from clear
            if clear:
                break


def _apply(tree: FolderTree, request: Request, settings: Mapping[str, Any]) -> tuple[FolderTree, Request]:
    """Returns the tree and the request with additional settings applied."""
    spec, needs, name, root = request.spec, request.needs, request.name, request.root
    moved = settings.get("input")
    if isinstance(moved, str):
        below = moved[len(root or "") :].strip("/")
        tree, name, root = tree.inside(below), storage.basename(below) or name, moved
        request = dataclasses.replace(request, folders=[moved])
    elif moved:  # Each folder becomes a separate input, which is unambiguous.
        needs = dataclasses.replace(needs, splits=Splits(folders=needs.splits.folders))
        first = moved[0].partition(root or "")[2].strip("/")
        tree, name = tree.inside(first), storage.basename(first)
        request = dataclasses.replace(request, folders=[moved[0]])
    if "splits" in settings:
        folders = read_splits(settings["splits"]).folders if settings["splits"] else None
        needs = dataclasses.replace(needs, splits=Splits(folders=folders))
        tree = tree.within(folders) if folders else tree
    if "class_names" in settings:
        needs = dataclasses.replace(needs, class_names=tuple(settings["class_names"].split(",")))
    if "label_pattern" in settings:
        spec = dataclasses.replace(spec, label_pattern=settings["label_pattern"])
    if "layout" in settings:
        masks = {Content.MASK} if settings["layout"] == "segmentation" else set()
        needs = dataclasses.replace(needs, contents=needs.contents - {Content.LABEL, Content.MASK} | masks)
        tree = without_masks(tree, settings, root)
    if "exclude" in settings:
        spec = dataclasses.replace(spec, exclude=tuple(settings["exclude"]))
        tree = tree.select(lambda path: spec.skips_path(request.key_prefix + path) is None)
        root = None  # Globs apply to paths below this input.
    return tree, dataclasses.replace(request, spec=spec, needs=needs, name=name, root=root)


def _drop_globs(one: Suggestion, tree: FolderTree, request: Request) -> Suggestion:
    """Removes globs that the suggestion adds but that match nothing in its split folders."""
    folders = read_splits(one.settings["splits"]).folders if one.settings.get("splits") else None
    if not folders or "exclude" not in one.settings:
        return one
    paths = [join(path, name) for path, folder in tree.walk() for _, name in folder.names]
    paths = [request.key_prefix + path for path in paths if path.partition("/")[0] in folders]
    kept = list(request.spec.exclude)
    for glob in one.settings["exclude"][len(kept) :]:
        selection = Selection(exclude=(glob,))
        kept += [glob] if any(map(selection.skips_path, paths)) else []
    return dataclasses.replace(one, settings={**one.settings, "exclude": kept or None})


def _has_samples(tree: FolderTree, request: Request, found: Interpretation) -> bool:
    """Whether there are images; if labels are needed, also whether all have one, with several classes and no splits."""
    folders = [(path, folder) for path, folder in tree.walk() if folder.images]
    if Content.LABEL not in request.needs.contents:
        return bool(folders)
    pattern = request.spec.label_pattern
    if pattern is None:
        unlisted = [path for path, _ in folders if not any(f"{path}/".startswith(f"{one}/") for one in found.lists)]
        labels = {found.place(f"{path}/" if path else "")[0] for path in unlisted}
    else:
        by_folder: defaultdict[str, set[str | None]] = defaultdict(set)
        for path, folder in folders:
            for _, name in folder.names:
                match = re.search(pattern, request.key_prefix + join(path, name))
                by_folder[path.partition("/")[0]].add(match["label"] if match else None)
        # A split may have no labels.
        of_splits = [one for name, one in by_folder.items() if one != {None} or split_of_folder(name) is None]
        labels = {None} if not of_splits else {label for one in of_splits for label in one}
    are_said = request.named or (pattern and len(request.inputs) > 1)
    are_splits = any(label and split_of_folder(label) and label.lower() not in ALSO_THINGS for label in labels)
    are_splits |= all(label and named_split(label)[1] for label in labels)
    return None not in labels and not are_splits and len(labels) > (0 if are_said else 1)
