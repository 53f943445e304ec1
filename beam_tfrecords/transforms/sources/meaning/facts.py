"""Facts about an input: one bounded look at the images in its folders."""

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
    """The images of one extension directly in a folder.

    Attributes:
      folder: path of the folder, such as `/data/photos/train`.
      paths: their paths.
    """

    folder: str
    paths: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Facts:
    """The images of an input.

    Attributes:
      roots: the folders of the input; none for files.
      groups: the images in them, by folder and extension, sorted.
      is_whole: whether these are all images.
    """

    roots: Sequence[str]
    groups: Sequence[FileGroup]
    is_whole: bool

    @property
    def images(self) -> frozenset[str]:
        """Paths of all images."""
        return frozenset().union(*(group.paths for group in self.groups))


def summarise(inputs: Sequence[str]) -> Facts:
    """Lists the images of the folders among some inputs, without hidden ones.

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
            if skipped_kind(below) is None and has_extension(below):
                extension = posixpath.splitext(below)[1].lower()
                found.setdefault((storage.dirname(file.path), extension), set()).add(file.path)
    groups = [FileGroup(folder, frozenset(paths)) for (folder, _), paths in sorted(found.items())]
    return Facts(roots, groups, files < _MOST_FILES)
