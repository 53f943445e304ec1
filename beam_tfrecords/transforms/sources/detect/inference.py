"""Infers labels and splits from folders after all files are listed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, Suggestion
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.class_files import is_class_file
from beam_tfrecords.transforms.sources.detect.annotation_sidecars import (
    describe_annotations,
    describe_documents,
    find_annotations,
    find_formats,
)
from beam_tfrecords.transforms.sources.detect.interpretation import (
    Interpretation,
    Request,
    UnclearError,
    depth_of,
    join,
    show_names,
)
from beam_tfrecords.transforms.sources.detect.judge import describe_unread_files
from beam_tfrecords.transforms.sources.detect.layouts import interpret
from beam_tfrecords.transforms.sources.detect.names import is_known
from beam_tfrecords.transforms.sources.detect.row_sidecars import find_lists, name_split_lists
from beam_tfrecords.transforms.sources.detect.suggestions import list_rows, refuse
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree, find_prefix
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.meaning.companions import find_companions, names_images
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.path_labels import path_label

_MOST_NAMED = 3
_BESIDE_SPLITS = (FailureReason.UNKNOWN_SPLIT.value, "beside the split folders, not in one of them")


@dataclasses.dataclass(frozen=True)
class FolderMeaning:
    """The labels and splits that folders give: a decision about each reference of a listing.

    Attributes:
      found: key prefix -> interpretation of the folders below it.
      label_pattern: pattern that finds the label in the names of archives; "" if the folders give it.
      keeps_labels: whether references have their labels already, from `label_pattern` of the request.
      keeps_splits: whether to keep splits, because the listing assigned them by fractions.
      splits: key prefix -> split of all samples below it, if the inputs state their splits.
    """

    found: Mapping[str, Interpretation]
    label_pattern: str
    keeps_labels: bool
    keeps_splits: bool
    splits: Mapping[str, str]

    by_group = by_key = True

    @property
    def is_large(self) -> bool:
        """See `Decision.is_large`: lists name the label of each image."""
        return any(one.lists for one in self.found.values())

    def apply(self, refs: RefColumns) -> RefColumns:
        """Returns the references with labels, and with splits in the words of their folders."""
        places: dict[str, tuple[str | None, str | None, bool]] = {}
        is_large, found = self.is_large, []
        for key in refs.keys:
            at = key if is_large or "/" not in key else key[: key.rindex("/") + 1]
            if at not in places:
                places[at] = self._place(at)
            found.append(places[at])
        failures = [
            failure or ([*_BESIDE_SPLITS] if lacks_split else None)
            for failure, (*_, lacks_split) in zip(refs.each("failure"), found, strict=True)
        ]
        refs = refs.replace(failure=failures)
        if not self.keeps_splits:
            refs = refs.replace(split=[split for _, split, _ in found])
        return refs if self.keeps_labels else dataclasses.replace(refs, labels=[label for label, *_ in found])

    def _place(self, key: str) -> tuple[str | None, str | None, bool]:
        """Returns label and split of a key, and whether it lacks a split."""
        meaning, path, said = self._find(key)
        label, split = meaning.place(path)
        split = split or said
        if self.label_pattern:
            label = path_label(key, re.compile(self.label_pattern))
        return label, split, split is None and meaning.has_splits

    def check_splits(self, folders: FolderSummary, inputs: Inputs) -> None:
        """Checks that the folders of an input do not contradict its stated split.

        Raises:
          RequestError: a folder has another split.
        """
        for key, folder in folders.folders.items() if self.splits else ():
            meaning, path, said = self._find(f"{key}/")
            split = meaning.place(path)[1]
            if folder.images and split not in (None, said):
                by_folders = Suggestion("the splits of the folders", {"input": list(inputs.paths)})
                raise RequestError(
                    f"an input is declared as {said}, but its folder {printable(key)} looks like {split}; expected one "
                    "split in each input",
                    [by_folders] if inputs.splits else [],
                    code="contradicting_splits",
                )

    def _find(self, key: str) -> tuple[Interpretation, str, str | None]:
        """Returns the interpretation for a key, the path to interpret, and the split that its input states."""
        # The key of an unreadable archive is its prefix, without the slash.
        prefix = find_prefix(f"{key}/", self.found)
        return self.found.get(prefix, Interpretation()), key[len(prefix) :], self.splits.get(prefix)


def infer_folders(tree: FolderTree, request: Request) -> tuple[Interpretation, list[str]]:
    """Returns the interpretation of an input's folders, and notes on it.

    Raises:
      RequestError: the folders are ambiguous; suggests settings.
    """
    try:
        found, notes = interpret(tree, request)
    except UnclearError as error:
        raise refuse(error, tree, request) from None
    if request.by_folders and not request.named:
        _refuse_annotated(found, tree, request)
    notes = [f"{request.where}: {one}" for one in notes]
    read = {one.path for one in found.lists.values()}
    named = tree.find_others(is_class_file)
    # Those of a folder itself are looked for when it is opened.
    class_files = [path for path in named if "/" in path or not _looks_for_classes(request)]
    files = describe_unread_files(
        {} if Content.LABEL in request.needs.contents else find_formats(tree, request.roots),
        [] if request.named else class_files,
        [path for path in list_rows(tree) if path not in (*read, *named)],
        describe_documents(tree, request.roots),
        labels="folders" if request.by_folders else "label_pattern" if Content.LABEL in request.needs.contents else "",
    )
    classes = () if Content.LABEL in request.needs.contents else _describe_classes(found, tree)
    notes += [f"{request.where}: {one}" for one in (*files, *classes)]
    return found, notes


def _looks_for_classes(request: Request) -> bool:
    """Whether files of class names in the folders have been looked for."""
    return bool(request.folders) and storage.archive_of(request.folders[0]) is None


def _describe_classes(found: Interpretation, tree: FolderTree) -> Iterator[str]:
    """Yields a note on folders that may be classes, for a layout without labels."""
    folders = {found.place(f"{path}/")[0] for path, folder in tree.walk() if folder.images and path}
    names = sorted(name for name in folders if name is not None and not is_known(name))
    if len(names) > 1:
        yield f"the layout does not store the folders {show_names(names)}, which may be classes"


def _class_folders(found: Interpretation, tree: FolderTree) -> list[str]:
    """Returns the paths of the folders that are the classes; none if whole paths are."""
    return [] if found.is_nested else [join(base, name) for base in found.bases for name in tree.below(base)]


def _refuse_annotated(found: Interpretation, tree: FolderTree, request: Request) -> None:
    """Raises an error if there are annotations or split lists next to class folders, because either may be meant."""
    what = ""
    # Without the root, nothing is suggested.
    is_named = request.root is None and describe_annotations(tree, request.folders) != ""
    if is_named or next(find_annotations(tree, request), None) is not None:
        what = "annotations of their images"
    lists = name_split_lists(tree)
    if not what and lists and request.needs.splits.are_auto and not found.has_splits:
        is_read = (
            request.root is None
            or any(
                isinstance(one.settings["input"], list) or "split_column" in one.settings
                for one in find_lists(tree, request)
            )
            or all(names_images(tree, request.root, path) for path in lists)
        )
        what = f"lists of splits ({', '.join(map(printable, lists))})" if is_read else ""
    companions = [] if what else [*find_companions(tree, request.root or "", _class_folders(found, tree))]
    if companions:
        what = f"files that may annotate their images ({', '.join(map(printable, companions[:_MOST_NAMED]))})"
    if what:
        depth = depth_of(next(iter(found.bases)))
        pattern = request.class_pattern(depth)
        pattern = pattern.replace("[^/]+)/", ".+)/[^/]+$") if found.is_nested else pattern
        folders = Suggestion("the folders as classes", {"label_pattern": pattern})
        error = UnclearError(f"the folders may be classes, but there are {what}", [folders], code="unclear_folders")
        raise refuse(error, tree, request)
