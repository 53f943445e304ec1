"""Folders and globs that images are listed from, and their split folders, found by a look at the top level."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import re
from collections.abc import Iterator, Mapping

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from transforms.sources.folder_roles import find_splits, may_be_splits, refuse_fractions, refuse_wrapper, show_names
from transforms.sources.inputs import has_wildcards, quote_input
from transforms.sources.names import is_system_folder, printable, skipped_kind
from transforms.sources.path_labels import named_split_folders
from transforms.sources.selection import EVERYTHING, Selection
from transforms.sources.source_spec import SourceSpec

# A folder with no image among its first files counts as one without images, which keeps the look cheap.
_LOOK_AT_FILES = 10_000


@dataclasses.dataclass(frozen=True)
class Root:
    """A folder or glob that images are listed from.

    Attributes:
      listing: the folder or glob.
      folder: the folder that keys are relative to: for a glob, the one before its first wildcard.
      key_prefix: prefix of the keys: empty, or with several roots a name and `/`.
      selection: which samples are wanted; a folder without any does not count as a class or a split.
      splits: folder directly below `folder` -> split; None if splits do not come from folders.
      only_splits: whether files outside the split folders are skipped; otherwise they are rejected samples.
    """

    listing: str
    folder: str
    key_prefix: str = ""
    selection: Selection = EVERYTHING
    splits: Mapping[str, str] | None = None
    only_splits: bool = False

    @property
    def start(self) -> int:
        """Number of characters of a listed path before the part relative to the folder."""
        return len(self.folder.rstrip("/")) + 1

    @property
    def is_folder(self) -> bool:
        """Whether the listing is of a folder, whatever its name, and not of a glob."""
        return self.listing == self.folder

    def folder_names(self, below: str = "") -> list[str]:
        """Names of the folders in a folder below the root, as far as the listing leads; without hidden ones."""
        names = storage.list_folders(storage.join(self.folder, below) if below else self.folder)
        if not below and self.listing != self.folder:
            first, _, rest = self.listing[self.start :].partition("/")
            if "**" not in first:
                names = fnmatch.filter(names, first) if rest else []
        return [name for name in names if not name.startswith(".") and not is_system_folder(name)]

    def folders(self, below: str = "") -> Iterator[str]:
        """Those of `folder_names` that hold wanted samples."""
        for name in self.folder_names(below):
            if self.holds_samples(f"{below}/{name}" if below else name):
                yield name

    def holds_samples(self, below: str | None = None) -> bool:
        """Whether a folder below the root, or what the root lists, holds wanted samples."""
        listing = self.listing if below is None else storage.join(self.folder, below)
        entries = storage.list_files(
            listing, limit=_LOOK_AT_FILES, special=True, literal=below is not None or self.is_folder
        )
        paths = (entry.path[self.start :] for entry in entries)
        return any(
            skipped_kind(path) is None and self.selection.skips_path(self.key_prefix + path) is None for path in paths
        )


def root_of(path: str) -> Root:
    """The root of a folder or a glob, given by its absolute path."""
    if not has_wildcards(path):
        return Root(path, path)
    return Root(path, re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0] or "/")


def with_splits(roots: list[Root], spec: SourceSpec) -> list[Root]:
    """The roots with their split folders: those that the request names, or those that are found.

    Raises:
      RequestError: a named folder does not exist, the folders found are ambiguous, or the request has fractions
        and split folders would become classes.
    """
    named = named_split_folders(spec)
    if named is not None:
        existing = {name for root in roots for name in root.folder_names()}
        for folder in named:
            if folder not in existing:
                raise RequestError(
                    f"`splits` names the folder {printable(folder)!r}, which "
                    f"{', '.join(quote_input(root.listing) for root in roots)} does not have; "
                    f"it has: {show_names(sorted(existing))}"
                )
        return [dataclasses.replace(root, splits=named, only_splits=True) for root in roots]
    if spec.splits_auto:
        return [dataclasses.replace(root, splits=_find_splits(root, spec)) for root in roots]
    if spec.needs_label and spec.label_pattern is None:
        for root in roots:
            found = _find_splits(root, spec)
            inputs = ", ".join(quote_input(storage.join(root.folder, name)) for name in found or ())
            remedy = f"give each folder as an input of its own ({inputs})"
            refuse_fractions(found, where=quote_input(root.listing), remedy=remedy)
    return roots


def refuse_unfit(root: Root, spec: SourceSpec) -> None:
    """Refuses a root whose folders cannot be the classes: it has none, or a single one that wraps those of the classes.

    Raises:
      RequestError: says what else can give the labels.
    """
    tops = [""] if root.splits is None else [name for name in root.splits if root.holds_samples(name)]
    classes: list[str] = []
    for top in tops:
        # Two names are enough: they are not a single class.
        classes += [f"{top}/{name}" if top else name for name in itertools.islice(root.folders(top), 2)]
    if classes:
        where = quote_input(root.listing)
        refuse_wrapper(classes, below=root.folders, class_names=spec.class_names, where=where, in_splits=tops != [""])
        return
    if not root.holds_samples():
        return  # No image at all: the caller counts them and says so.
    where = "its split folders" if root.splits else "it"
    raise RequestError(
        f"{quote_input(root.listing)}: the images are directly in {where}, so that no folder names their class; "
        "say how a name gives the label (`label_pattern=(?P<label>cat|dog)`), give a table (csv, jsonl, parquet), "
        "sort the images into a folder per class, or say `layout=image` for images without labels"
    )


def _find_splits(root: Root, spec: SourceSpec) -> Mapping[str, str] | None:
    if not may_be_splits(root.folder_names()):
        return None  # A look into each of a thousand class folders would take long in a bucket.
    names, where = list(root.folders()), quote_input(root.listing)
    return find_splits(names, below=root.folders, class_names=spec.class_names, where=where)
