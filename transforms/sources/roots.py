"""Folders and globs that images are listed from, and their split folders, found by a look at the top level."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Mapping

from transforms import storage
from transforms.errors import RequestError
from transforms.sources.inputs import has_wildcards, quote_input
from transforms.sources.names import SPLIT_FOLDERS, printable, skipped_kind
from transforms.sources.path_labels import named_split_folders
from transforms.sources.source_spec import SourceSpec

# A folder with no image among its first files counts as one without images, which keeps the look cheap.
_LOOK_AT_FILES = 10_000
_MOST_NAMES = 10


@dataclasses.dataclass(frozen=True)
class Root:
    """A folder or glob that images are listed from.

    Attributes:
      listing: the folder or glob.
      folder: the folder that keys are relative to: for a glob, the one before its first wildcard.
      key_prefix: prefix of the keys: empty, or with several roots a name and `/`.
      splits: folder directly below `folder` -> split; None if splits do not come from folders.
      only_splits: whether files outside the split folders are skipped; otherwise they are rejected samples.
    """

    listing: str
    folder: str
    key_prefix: str = ""
    splits: Mapping[str, str] | None = None
    only_splits: bool = False

    @property
    def start(self) -> int:
        """Number of characters of a listed path before the part relative to the folder."""
        return len(self.folder.rstrip("/")) + 1


def root_of(path: str) -> Root:
    """The root of a folder or a glob, given by its absolute path."""
    if not has_wildcards(path):
        return Root(path, path)
    return Root(path, re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0] or "/")


def with_splits(roots: list[Root], spec: SourceSpec) -> list[Root]:
    """The roots with their split folders: those that the request names, or those that are found.

    Raises:
      RequestError: a named folder does not exist, or the folders found are ambiguous.
    """
    named = named_split_folders(spec)
    if named is not None:
        existing = {name for root in roots for name in _folders(root)}
        for folder in named:
            if folder not in existing:
                raise RequestError(
                    f"`splits` names the folder {printable(folder)!r}, which "
                    f"{', '.join(quote_input(root.listing) for root in roots)} does not have; "
                    f"it has: {_names(sorted(existing))}"
                )
        return [dataclasses.replace(root, splits=named, only_splits=True) for root in roots]
    if spec.splits_auto:
        return [dataclasses.replace(root, splits=_find_splits(root)) for root in roots]
    return roots


def refuse_flat(root: Root) -> None:
    """Refuses a root that has images but no folders that could be their classes.

    Raises:
      RequestError: says what else can give the labels.
    """
    tops = [root.folder] if root.splits is None else [storage.join(root.folder, name) for name in root.splits]
    for top in tops:
        folders = _folders(root) if root.splits is None else _visible(storage.list_folders(top))
        if any(_holds_samples(storage.join(top, name)) for name in folders):
            return
    if not _holds_samples(root.listing, start=root.start):
        return  # No image at all: the caller counts them and says so.
    where = "its split folders" if root.splits else "it"
    raise RequestError(
        f"{quote_input(root.listing)}: the images are directly in {where}, so that no folder names their class; "
        "say how a name gives the label (`label_pattern=(?P<label>cat|dog)`), give a table (csv, jsonl, parquet), "
        "sort the images into a folder per class, or choose a `layout` without a label"
    )


def _find_splits(root: Root) -> Mapping[str, str] | None:
    folders = _folders(root)
    found = [name for name in folders if name in SPLIT_FOLDERS and _holds_samples(storage.join(root.folder, name))]
    if not found:
        return None
    others = (name for name in folders if name not in SPLIT_FOLDERS and _holds_samples(storage.join(root.folder, name)))
    other = next(others, None)
    if other is None:
        return {name: SPLIT_FOLDERS[name] for name in found}
    if len(found) == 1:
        return None  # A class that happens to be called "train".
    raise RequestError(
        f"{quote_input(root.listing)} has the split folders {_names(found)}, but also images in "
        f"{printable(other)!r} beside them; say which folders are the splits (`splits=train=FOLDER,test=FOLDER`), "
        "or that none is (`splits=train=0.9,test=0.1`)"
    )


def _folders(root: Root) -> list[str]:
    """Names of the folders below the root that its listing can enter."""
    names = _visible(storage.list_folders(root.folder))
    if root.listing == root.folder:
        return names
    first, _, rest = root.listing[root.start :].partition("/")
    if "**" in first:
        return names
    return fnmatch.filter(names, first) if rest else []


def _visible(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


def _holds_samples(listing: str, *, start: int | None = None) -> bool:
    start = len(listing.rstrip("/")) + 1 if start is None else start
    entries = storage.list_files(listing, limit=_LOOK_AT_FILES, special=True)
    return any(skipped_kind(entry.path[start:]) is None for entry in entries)


def _names(names: list[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:_MOST_NAMES])
    return (shown or "no folders") + (", …" if len(names) > _MOST_NAMES else "")
