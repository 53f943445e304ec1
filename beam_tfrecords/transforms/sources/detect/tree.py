"""A summary of an input's folders, made during the listing: small, mergeable and independent of the file order."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import posixpath
import re
import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.transforms.sources.detect.mask_names import MASK_ENDING
from beam_tfrecords.transforms.sources.detect.names import is_known
from beam_tfrecords.transforms.sources.names import has_extension, is_image_name, skipped_kind

# Beyond this number, only folders whose names have the smallest hashes are kept: the same names in every folder.
_MOST_FOLDERS = 20_000
_MOST_KINDS = 20
# Names of images to keep per folder: more if folders do not give classes, because these names may.
_SOME_NAMES = 12
_MORE_NAMES = 64
_ALL = 1 << 32
# A word after a number or a hash, or letters: 1_mask, 01L_1st, 1dots, 0001x4.
_PAIR_ENDING = re.compile(
    r"(?:(?<=[0-9)])|(?<=[0-9a-f]{6}))(?:[A-Za-z]*[_. -][0-9]*[A-Za-z][A-Za-z0-9_. -]*|[A-Za-z]+[0-9]{0,2})$"
)
_LAST_WORD = re.compile(r"[_. -][^_. -]+$")
_BEFORE_NUMBER = re.compile(r"^[A-Za-z_. -]+(?=[0-9])")


@dataclasses.dataclass(slots=True)
class Folder:
    """The direct contents of a folder.

    Attributes:
      images: number of images.
      others: number of other files, by extension in lower case.
      names: names of some images, as a heap of (-hash, name); keeps those with the smallest hashes.
      other_names: names of some other files, likewise: more of them, because lists of one dataset belong together.
      most_names: number of names to keep.
      marked: names of some images that end like those of masks, likewise.
    """

    images: int = 0
    others: dict[str, int] = dataclasses.field(default_factory=dict)
    names: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    other_names: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    most_names: int = _SOME_NAMES
    marked: list[tuple[int, str]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class FolderSummary:
    """Counts files by folder, in bounded memory even for a billion files.

    Attributes:
      folders: path below the input -> contents of the folder.
      most_hash: a folder is kept if all names in its path are known words or have a smaller hash.
    """

    folders: dict[str, Folder] = dataclasses.field(default_factory=dict)
    most_hash: int = _ALL

    def add_image(self, key: str) -> None:
        """Counts an image."""
        path, _, name = key.rpartition("/")
        folder = self.folders.get(path) or self._new(path)
        if folder is not None:
            folder.images += 1
            _sample(folder.names, _ranked(name), most=folder.most_names)
            if MASK_ENDING.search(name):
                _sample(folder.marked, _ranked(name), most=folder.most_names)

    def add_other(self, key: str) -> None:
        """Counts a file that is not an image; ignores hidden files."""
        path, _, name = key.rpartition("/")
        kind = skipped_kind(key)
        if kind is None or not kind.startswith(".") or not has_extension(name):
            return
        folder = self.folders.get(path) or self._new(path)
        if folder is not None and (kind in folder.others or len(folder.others) < _MOST_KINDS):
            folder.others[kind] = folder.others.get(kind, 0) + 1
            _sample(folder.other_names, _ranked(name), most=_MORE_NAMES)

    def remove_other(self, key: str) -> list[str] | None:
        """Removes a file that is not an image.

        Returns:
          Keys of some files of its kind that are left in the folder; None if the folder had none.
        """
        path, _, name = key.rpartition("/")
        folder, kind = self.folders.get(path), skipped_kind(key)
        if folder is None or kind not in folder.others:
            return None
        folder.others[kind] -= 1
        folder.other_names = [one for one in folder.other_names if one[1] != name]
        return [f"{path}/{one}".lstrip("/") for _, one in folder.other_names if skipped_kind(one) == kind]

    def merge(self, other: FolderSummary) -> None:
        """Adds the files of another summary."""
        self._keep(min(self.most_hash, other.most_hash))
        for path, added in other.folders.items():
            folder = self.folders.get(path) or self._new(path)
            if folder is None:
                continue
            folder.images += added.images
            for kind, count in added.others.items():
                folder.others[kind] = folder.others.get(kind, 0) + count
            for one in added.names:
                _sample(folder.names, one, most=folder.most_names)
            for one in added.other_names:
                _sample(folder.other_names, one, most=_MORE_NAMES)
            for one in added.marked:
                _sample(folder.marked, one, most=folder.most_names)

    def pack(self) -> Any:
        """Converts the summary to plain values."""
        return self.most_hash, [(path, *dataclasses.astuple(folder)) for path, folder in self.folders.items()]

    @classmethod
    def unpack(cls, packed: Any) -> FolderSummary:
        """Makes a summary from the values of `pack`."""
        most_hash, folders = packed
        made = {}
        for path, images, others, names, other_names, most, marked in folders:
            names, other_names, marked = (
                [(hashed, name) for hashed, name in some] for some in (names, other_names, marked)
            )
            made[path] = Folder(images, others, names, other_names, most, marked)
        return cls(made, most_hash)

    def tree(self, prefix: str = "") -> FolderTree:
        """Returns the folders below a key prefix, such as the prefix of one of several inputs."""
        return FolderTree(
            {
                path[len(prefix) :]: folder
                for path, folder in self.folders.items()
                if not prefix or f"{path}/".startswith(prefix)
            }
        )

    def joined(self, prefixes: Container[str]) -> FolderTree:
        """Merges the folders below several key prefixes; for archives, whose names begin the keys."""
        joined = FolderSummary()
        for path, folder in self.folders.items():
            below = f"{path}/"
            joined.merge(FolderSummary({below[len(find_prefix(below, prefixes)) : -1]: folder}))
        return joined.tree()

    def _new(self, path: str) -> Folder | None:
        if self.most_hash < _ALL and not self._keeps(path):
            return None
        while len(self.folders) >= _MOST_FOLDERS:
            self._keep(self.most_hash // 2)
            if not self._keeps(path):
                return None
        names = _MORE_NAMES if all(map(is_known, filter(None, path.split("/")))) else _SOME_NAMES
        return self.folders.setdefault(path, Folder(most_names=names))

    def _keep(self, most_hash: int) -> None:
        if most_hash < self.most_hash:
            self.most_hash = most_hash
            self.folders = {path: folder for path, folder in self.folders.items() if self._keeps(path)}

    def _keeps(self, path: str) -> bool:
        return all(is_known(name) or _hash(name) < self.most_hash for name in path.split("/") if name)


class FolderTree:
    """The folders of images, and their contents.

    Args:
      folders: path below the root -> direct contents of the folder.
    """

    def __init__(self, folders: Mapping[str, Folder]) -> None:
        self.folders = folders
        self._paths = sorted(folders)

    @functools.cached_property
    def _below(self) -> Mapping[str, list[str]]:
        below: defaultdict[str, set[str]] = defaultdict(set)
        for path, folder in self.folders.items():
            while folder.images and path:
                parent, _, name = path.rpartition("/")
                if name in below[parent]:
                    break
                below[parent].add(name)
                path = parent
        return {path: sorted(names) for path, names in below.items()}

    @functools.cached_property
    def image_names(self) -> frozenset[str]:
        """The names of all images; of a large folder, of some."""
        return frozenset(name for _, folder in self.walk() for _, name in folder.names)

    @functools.cached_property
    def image_stems(self) -> frozenset[str]:
        """The names of the images without their extensions, likewise."""
        return frozenset(posixpath.splitext(name)[0] for name in self.image_names)

    @functools.cached_property
    def paths_by_stem(self) -> Mapping[str, list[str]]:
        """The paths of the images that have each of these stems, likewise."""
        paths: dict[str, list[str]] = {}
        for folder, held in self.walk():
            for _, name in held.names:
                paths.setdefault(posixpath.splitext(name)[0], []).append(posixpath.join(folder, name))
        return paths

    @functools.cached_property
    def image_words(self) -> frozenset[str]:
        """The names of the images, without extensions and last words, too; plain numbers may be anything."""
        stems = {*self.image_stems, *map(thing_of, self.image_stems)}
        return self.image_names | {stem for stem in stems if not stem.isdecimal()}

    def below(self, path: str) -> Sequence[str]:
        """Returns the names of subfolders that contain images at any depth, sorted."""
        return self._below.get(path, ())

    def images(self, path: str) -> int:
        """Returns the number of images directly in a folder."""
        folder = self.folders.get(path)
        return folder.images if folder else 0

    def walk(self, path: str = "") -> Iterator[tuple[str, Folder]]:
        """Yields a folder and all folders below it, sorted by path; includes folders without images."""
        if path in self.folders and path:
            yield path, self.folders[path]
        start, end = (bisect_left(self._paths, path + mark) for mark in ("/", "0")) if path else (0, len(self._paths))
        for one in self._paths[start:end]:
            yield one, self.folders[one]

    def total(self, path: str = "") -> int:
        """Returns the number of images in a folder, at any depth."""
        return sum(folder.images for _, folder in self.walk(path))

    def names(self, paths: Iterable[str]) -> list[str]:
        """Returns the names of some images directly in some folders."""
        found = (self.folders.get(path) for path in paths)
        return sorted(name for folder in found if folder for _, name in folder.names)

    def names_alike(self, paths: Sequence[str]) -> list[list[str]]:
        """Returns the names of some images directly in each of some folders: those that are known of all of them.

        Not every folder keeps as many names; of those with a smaller hash than the last one that it keeps, it has all.
        """
        found = [self.folders.get(path, Folder()) for path in paths]
        least = max((folder.names[0][0] for folder in found if len(folder.names) < folder.images), default=-_ALL)
        return [sorted(name for hashed, name in folder.names if hashed >= least) for folder in found]

    def others(self, path: str) -> list[str]:
        """Returns the names of some other files directly in a folder."""
        folder = self.folders.get(path)
        return sorted(name for _, name in folder.other_names) if folder else []

    def find_others(self, is_wanted: Callable[[str], bool]) -> list[str]:
        """Returns the paths of other files with a wanted name, those nearest to the root first."""
        found = [posixpath.join(path, name) for path, _ in self.walk() for name in self.others(path) if is_wanted(name)]
        return sorted(found, key=lambda path: (path.count("/"), path))

    def inside(self, path: str) -> FolderTree:
        """Returns the tree below a folder."""
        start = len(path) + 1 if path else 0
        return FolderTree({one[start:]: folder for one, folder in self.walk(path)})

    def select(self, is_wanted: Callable[[str], bool]) -> FolderTree:
        """Returns the tree with only the images whose path is wanted; estimates counts from the kept names."""
        chosen = {}
        for path, folder in self.folders.items():
            names = [(hashed, name) for hashed, name in folder.names if is_wanted(f"{path}/{name}" if path else name)]
            images = folder.images * len(names) // max(len(folder.names), 1)
            marked = [one for one in folder.marked if is_wanted(f"{path}/{one[1]}" if path else one[1])]
            chosen[path] = dataclasses.replace(folder, names=names, images=max(images, len(names)), marked=marked)
        return FolderTree(chosen)


def _sample(names: list[tuple[int, str]], one: tuple[int, str], *, most: int) -> None:
    """Keeps a ranked name if its hash is among the smallest; names are unique."""
    if (len(names) >= most and one <= names[0]) or one in names:
        return
    if len(names) < most:
        heapq.heappush(names, one)
    else:
        heapq.heapreplace(names, one)


def _ranked(name: str) -> tuple[int, str]:
    """Returns a name for a heap. An image, its mask and its other files, such as 1.jpg.txt, have the same hash.

    So do image_1 and mask_1, whatever the words before the number.
    """
    stem = name.rpartition(".")[0] or name
    stem = stem.rpartition(".")[0] if is_image_name(stem) else stem
    return -_hash(_BEFORE_NUMBER.sub("", pair_stem(stem))), name


def find_prefix(key: str, prefixes: Container[str]) -> str:
    """Returns the prefix of a key, of any number of folders; "" if none of the prefixes matches."""
    end = 0
    while key[:end] not in prefixes:
        end = key.find("/", end) + 1
        if not end:
            return ""
    return key[:end]


def thing_of(stem: str) -> str:
    """Removes the last word of a name, if the rest has a number: `pair-12-left` becomes `pair-12`, `word_12` stays."""
    start = _LAST_WORD.sub("", stem)
    return start if any(map(str.isdecimal, start)) else stem


def pair_stem(stem: str) -> str:
    """Returns the common part of the names of an image and its mask: `car_1` for `car_1` and `car_1_mask`."""
    return _PAIR_ENDING.sub("", stem)


def _hash(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "replace"))
