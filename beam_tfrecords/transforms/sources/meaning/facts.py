"""Facts about an input: one bounded look at the files in its folders."""

from __future__ import annotations

import dataclasses
import itertools
import posixpath
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.storage.members import MemberError
from beam_tfrecords.transforms.sources.inputs import folder_of_archive, names_several
from beam_tfrecords.transforms.sources.names import has_extension, is_about_folder, skipped_kind, stem_of
from beam_tfrecords.transforms.sources.registry import source_of_file

_MOST_FILES = 20_000
# Extensions of tables, lists and documents; of more files of one extension in a folder, each may belong to an image.
_TEXTS = frozenset(
    {
        ".txt", ".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xml", ".yaml", ".yml", ".xlsx", ".xls", ".ods", ".mat",
        ".pkl", ".labels", ".lst", ".dat", ".manifest", ".npy", ".pts", ".roi",
    }
)  # fmt: skip
_FEW, _MANY = 8, 100


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
    """The images of an input, and the files that may annotate them.

    Attributes:
      roots: the folders of the input; none for files.
      groups: the images in them, by folder and extension, sorted.
      texts: paths of the tables, lists and documents in them, without those that belong to one image each.
      texts_of_images: glob of these -> one of them.
      is_whole: whether these are all images.
    """

    roots: Sequence[str]
    groups: Sequence[FileGroup]
    texts: Sequence[str]
    texts_of_images: Mapping[str, str]
    is_whole: bool

    @property
    def images(self) -> frozenset[str]:
        """Paths of all images."""
        return frozenset().union(*(group.paths for group in self.groups))


def summarise(inputs: Sequence[str]) -> Facts:
    """Lists the files of the folders among some inputs, without hidden ones.

    Args:
      inputs: paths, without their splits.

    Raises:
      OSError: a folder cannot be listed.
    """
    roots = [path for path in map(folder_of_archive, inputs) if not names_several(path) and storage.is_folder(path)]
    found: dict[tuple[str, str], set[str]] = {}
    texts: dict[tuple[str, str], list[str]] = {}
    files = 0
    try:
        for root in roots:
            for file in itertools.islice(storage.list_files(root, literal=True), _MOST_FILES - files):
                files += 1
                below = file.path[len(root) :].lstrip("/")
                extension = posixpath.splitext(below)[1].lower()
                if extension in _TEXTS and not is_about_folder(posixpath.basename(below)):
                    texts.setdefault((storage.dirname(file.path), extension), []).append(file.path)
                elif skipped_kind(below) is None and has_extension(below):
                    found.setdefault((storage.dirname(file.path), extension), set()).add(file.path)
    except MemberError:
        files = _MOST_FILES  # The rest of a damaged archive is unknown.
    groups = [FileGroup(folder, frozenset(paths)) for (folder, _), paths in sorted(found.items())]
    stems = {stem_of(path) for group in groups for path in group.paths}
    # A tar with texts beside its images is a WebDataset, which reads them.
    is_tar = any(source_of_file(storage.archive_of(root) or "") == "tar" for root in roots)
    few, of_images = list[str](), dict[str, str]()
    for (folder, extension), every in texts.items():
        paths = sorted(path for path in every if not is_tar or stem_of(path) not in stems)
        is_few = len(paths) <= _MANY and 2 * sum(stem_of(one) in stems for one in paths) < len(paths)
        if is_few or len(paths) <= _FEW:
            few += paths
        else:
            of_images[storage.join(folder, f"*{extension}")] = paths[0]
    return Facts(roots, groups, few, of_images, files < _MOST_FILES)
