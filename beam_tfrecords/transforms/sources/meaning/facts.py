"""Facts about an input: one bounded look at the files of its folders."""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.inputs import names_several
from beam_tfrecords.transforms.sources.names import has_extension, skipped_kind

_MOST_FILES = 20_000


@dataclasses.dataclass(frozen=True)
class FileGroup:
    """The files of one extension directly in a folder.

    Attributes:
      folder: path of the folder, such as `/data/photos/train`.
      extension: extension in lower case.
      are_images: whether the extension is that of an image format.
      paths: their paths.
    """

    folder: str
    extension: str
    are_images: bool
    paths: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Facts:
    """The files of an input.

    Attributes:
      roots: the folders of the input; none for files.
      groups: the files in them, by folder and extension, sorted.
      is_whole: whether these are all files.
    """

    roots: Sequence[str]
    groups: Sequence[FileGroup]
    is_whole: bool

    @property
    def images(self) -> frozenset[str]:
        """Paths of all images."""
        return frozenset().union(*(group.paths for group in self.groups if group.are_images))


def summarise(inputs: Sequence[str]) -> Facts:
    """Lists the files of the folders among some inputs, without hidden files.

    Args:
      inputs: paths, without their splits.

    Raises:
      OSError: a folder cannot be listed.
    """
    roots = [path for path in inputs if not names_several(path) and storage.is_folder(path)]
    found: dict[tuple[str, str], set[str]] = {}
    files = 0
    for root in roots:
        for file in itertools.islice(storage.list_files(root, literal=True), _MOST_FILES - files):
            files += 1
            below = file.path[len(root) :].lstrip("/")
            kind = skipped_kind(below)
            if (kind is None or kind.startswith(".")) and has_extension(below):
                extension = posixpath.splitext(below)[1].lower()
                found.setdefault((storage.dirname(file.path), extension), set()).add(file.path)
    groups = [
        FileGroup(folder, extension, skipped_kind(f"x{extension}") is None, frozenset(paths))
        for (folder, extension), paths in sorted(found.items())
    ]
    return Facts(roots, groups, files < _MOST_FILES)
