"""Proposes what ambiguous folders may mean; a trial of each says whether it works."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.detect.interpretation import Request, UnclearError
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.meaning.annotation_sidecars import (
    describe_annotations,
    find_annotations,
)
from beam_tfrecords.transforms.sources.meaning.companions import find_files_of_images
from beam_tfrecords.transforms.sources.meaning.row_sidecars import (
    find_rows,
    list_tables,
    name_label_lists,
)
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import source_of_file

_MOST_TABLES = 4
_MOST_PATHS = 3
_UNLABELLED = {"layout": "image"}


def refuse(error: UnclearError, tree: FolderTree, request: Request) -> RequestError:
    """Returns the error for an input with ambiguous folders, with suggested requests."""
    suggestions = [*propose(error, tree, request)]
    more = _describe_sidecars(tree, request, error.found)
    if request.spec.source in ("image_folder", "filename_pattern"):
        # The source in the request may not fit a pattern or a table.
        suggestions = [dataclasses.replace(one, settings={"source": None, **one.settings}) for one in suggestions]
    # The message states the finding first, then the remedy.
    seen, semicolon, remedy = error.found.partition("; ")
    return RequestError(f"{request.where}: {seen}{more}{semicolon}{remedy}", suggestions, code=error.code)


def _describe_sidecars(tree: FolderTree, request: Request, said: str = "") -> str:
    """Describes possible label files next to the images, for a message that says something so far."""
    annotations = describe_annotations(tree, request.roots)
    more = ""
    if annotations:
        more = f" (beside them are files that look like {annotations})"
    elif files := [*itertools.islice((one for one in find_files_of_images(tree) if one not in said), _MOST_PATHS)]:
        more = f" (beside them are files of each image: {', '.join(map(printable, files))})"
    rows = list_rows(tree)[:_MOST_PATHS]
    if rows:
        more += f" (tables beside them: {', '.join(map(printable, rows))})"
    return more


def list_rows(tree: FolderTree) -> list[str]:
    """Returns the paths of tables that may contain labels, and of lists whose names contain a split or such a word."""
    return [*list_tables(tree), *name_label_lists(tree)]


def find_sidecars(tree: FolderTree, request: Request) -> tuple[str, list[Reading]]:
    """Returns a message about possible label files next to the images, and the readings of these."""
    return _describe_sidecars(tree, request), [*_read_sidecars(tree, request)]


def _read_sidecars(tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Yields readings of files next to the images instead of folder labels."""
    yield from find_annotations(tree, request)
    if request.by_folders:
        yield from (one for one, _ in itertools.islice(find_rows(tree, request), _MOST_TABLES))


def _find_samples(tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Suggests a WebDataset for a tar archive with a text or JSON file beside each image."""
    archive = storage.archive_of(request.root) if request.root else None
    if archive is None or source_of_file(archive) != "tar":
        return
    names = [(path, *name.split(".")) for path, _ in tree.walk() for name in tree.others(path)]
    stems = {(path, stem) for path, stem, *_, extension in names if extension in ("json", "txt", "cls")}
    images = {(path, name.partition(".")[0]) for path, folder in tree.walk() for _, name in folder.names}
    if images and images <= stems:
        yield Reading("the samples of a WebDataset", {"source": "webdataset"})


def propose(error: UnclearError, tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Yields what ambiguous folders may mean, as the settings that say so, the most certain ones first."""
    samples = [*_find_samples(tree, request)]
    yield from samples
    yield from find_annotations(tree, request)
    if Content.MASK in request.needs.contents:
        says_masks = bool(request.spec.mask_settings)
        yield from (one for one in error.answers if says_masks or "segmentation" in one.settings.values())
        return
    rows = list[tuple[Reading, bool]]()
    if request.by_folders and not error.has_lists:
        rows += itertools.islice(find_rows(tree, request), _MOST_TABLES)
    yield from (one for one, is_clear in rows if is_clear)
    yield from error.answers
    yield from (one for one, is_clear in rows if not is_clear)
    if Content.LABEL in request.needs.contents and samples:
        # As images of a plain archive, they would lose their fields without a note.
        yield from (Reading(f"{one.meaning}, without labels", {**one.settings, **_UNLABELLED}) for one in samples)
    elif Content.LABEL in request.needs.contents:
        yield Reading("all images, without labels", _UNLABELLED)
