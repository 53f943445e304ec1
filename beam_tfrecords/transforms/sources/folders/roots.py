"""Roots: the folders and globs from which images are listed."""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, show_names
from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.inputs import has_wildcards, quote_input
from beam_tfrecords.transforms.sources.names import is_system_folder, printable
from beam_tfrecords.transforms.sources.path_labels import named_split_folders
from beam_tfrecords.transforms.sources.selection import Selection
from beam_tfrecords.transforms.splits import Splits

# In an object store, checking this many folders takes about a second.
_MOST_FOLDERS = 5_000


@dataclasses.dataclass(frozen=True)
class Root:
    """A folder or glob from which images are listed.

    Attributes:
      listing: the folder or glob.
      folder: folder that keys are relative to; for a glob, the last folder before its first wildcard.
      key_prefix: prefix of the keys: empty, or with several roots a name and `/`.
      split: split of all images, if the request or the names of all roots state it.
    """

    listing: str
    folder: str
    key_prefix: str = ""
    split: str | None = None

    @property
    def start(self) -> int:
        """Number of characters of a listed path before the part relative to the folder."""
        return len(self.folder.rstrip("/")) + 1

    @property
    def is_folder(self) -> bool:
        """Whether the root is a folder, and not a glob; a folder's name may contain wildcards."""
        return self.listing == self.folder

    def folder_names(self, below: str = "") -> list[str]:
        """Returns the names of the subfolders that the listing covers, without hidden and system folders."""
        names = storage.list_folders(storage.join(self.folder, below) if below else self.folder)
        if not below and self.listing != self.folder:
            first, _, rest = self.listing[self.start :].partition("/")
            if "**" not in first:
                names = fnmatch.filter(names, first) if rest else []
        return [name for name in names if not name.startswith(".") and not is_system_folder(name)]


def root_of(path: str) -> Root:
    """Returns the root for the absolute path of a folder or glob."""
    if not has_wildcards(path):
        return Root(path, path)
    return Root(path, re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0] or "/")


def check_named_splits(roots: Sequence[Root], splits: Splits) -> None:
    """Checks that the split folders in the request exist.

    Raises:
      RequestError: no root has such a folder.
    """
    named = named_split_folders(splits)
    if named is None:
        return
    existing = {name for root in roots for name in root.folder_names()}
    for folder in named:
        if folder not in existing:
            raise RequestError(
                f"`splits` names the folder {printable(folder)!r}, which "
                f"{', '.join(quote_input(root.listing) for root in roots)} does not have; "
                f"it has: {show_names(sorted(existing))}",
                code="unknown_split",
            )


def describe_empty(root: Root, tree: FolderTree, found: Interpretation, selection: Selection) -> Iterator[str]:
    """Yields a note on class folders without images."""
    bases: Mapping[str, str | None] = found.bases if len(found.bases) < _MOST_FOLDERS else {}
    for base in bases:
        full = {*tree.below(base)}
        if len(full) > _MOST_FOLDERS:
            continue
        with contextlib.suppress(OSError):
            names = retry_faults(root.folder, functools.partial(root.folder_names, base))
            empty = [
                name
                for name in names
                # Requests exclude a folder by a glob for its contents.
                if name not in full and selection.skips_path(f"{root.key_prefix}{base}/{name}/_".lstrip("/")) is None
            ]
            if empty:
                yield f"no image in the folder {show_names(empty)} of {printable(storage.join(root.folder, base))}"
