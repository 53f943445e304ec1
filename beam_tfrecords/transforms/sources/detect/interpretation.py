"""Interpretations of the folders of an input, and the request that they depend on. Pure values."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.sources.detect.names import is_known, normalize
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

_MOST_NAMES = 10


@dataclasses.dataclass(frozen=True)
class ListedLabels:
    """Labels that a list gives for the images in a folder.

    Attributes:
      path: path of the list.
      labels: path of an image in the folder -> class.
      notes: notes on what else the list has.
    """

    path: str
    labels: Mapping[str, str]
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class Interpretation:
    """The meaning of the folders of an input.

    Attributes:
      bases: path of a folder below the input -> split of its images, or None. The folders in it are the classes.
      inner_splits: name of a folder inside a class folder -> split of its images.
      is_nested: whether the whole path below a base is the class.
      lists: path of a base whose labels come from a list -> these labels.
    """

    bases: Mapping[str, str | None] = dataclasses.field(default_factory=lambda: {"": None})
    inner_splits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_nested: bool = False
    lists: Mapping[str, ListedLabels] = dataclasses.field(default_factory=dict)

    @property
    def has_splits(self) -> bool:
        """Whether folders determine the split."""
        return bool(self.inner_splits) or any(self.bases.values())

    def place(self, path: str) -> tuple[str | None, str | None]:
        """Returns class and split of the image at a path below the input; None for either that folders do not give."""
        folders = path.split("/")[:-1]
        for depth in self._depths:
            base = "/".join(folders[:depth])
            if len(folders) >= depth and base in self.bases:
                below, split = folders[depth:], self.bases[base]
                if base in self.lists:
                    return self.lists[base].labels.get("/".join(path.split("/")[depth:])), split
                if self.inner_splits:
                    split = self.inner_splits.get(below[1]) if len(below) > 1 else None
                return ("/".join(below) if self.is_nested else below[0]) if below else None, split
        return None, None

    @functools.cached_property
    def _depths(self) -> Sequence[int]:
        return sorted({base.count("/") + 1 if base else 0 for base in self.bases}, reverse=True)


@dataclasses.dataclass(frozen=True)
class Request:
    """The parts of a request that the interpretation of folders needs.

    Attributes:
      spec: settings of the source.
      needs: requested contents.
      where: the input, as messages quote it.
      name: last component of the input's path.
      root: path of the input folder; None if it is not a folder, not the only input, or the request names paths in it.
      key_prefix: prefix of the keys; "" for a single input.
      inputs: names of all inputs that are interpreted together, if there are several.
      says_splits: whether the inputs state their splits.
      folders: paths of the input folders, even if the request names paths in them; empty for a glob.
    """

    spec: SourceSpec
    needs: Needs
    where: str = ""
    name: str = ""
    root: str | None = None
    key_prefix: str = ""
    inputs: Sequence[str] = ()
    says_splits: bool = False
    folders: Sequence[str] = ()

    @property
    def roots(self) -> Sequence[str]:
        """The folders whose files show what they are; without them, only their names do."""
        return [self.root] if self.root is not None else [*filter(storage.archive_of, self.folders)]

    @property
    def by_folders(self) -> bool:
        """Whether folders give the labels."""
        return Content.LABEL in self.needs.contents and self.spec.label_pattern is None

    @functools.cached_property
    def named(self) -> frozenset[str]:
        """Classes that the request names, normalized."""
        return frozenset(map(normalize, (*self.needs.class_names, *self.spec.classes)))

    @property
    def names_paths(self) -> bool:
        """Whether the request has settings for specific paths or classes of this input."""
        return bool(self.spec.globs or self.needs.class_names or self.needs.splits.folders)

    def path(self, below: str) -> str:
        """Returns the full path of a folder below the root."""
        return storage.join(self.root or "", below) if below else self.root or ""

    def class_pattern(self, depth: int) -> str:
        """Returns the `label_pattern` that uses the folder at a depth below the input as the class."""
        return f"^{'[^/]+/' * (self.key_prefix.count('/') + depth)}(?P<label>[^/]+)/"


class UnclearError(Exception):
    """The meaning of the folders is ambiguous.

    Attributes:
      found: description of the ambiguity, for the message.
      answers: readings; of those of one meaning, the first that works is used.
      code: code of the `RequestError` that it becomes.
      has_lists: whether lists give labels that the folders lack, so that the answers are better than the lists alone.
    """

    def __init__(self, found: str, answers: Sequence[Reading] = (), *, code: str, has_lists: bool = False) -> None:
        super().__init__(found)
        self.code = code
        self.has_lists = has_lists
        self.found = found
        self.answers = answers


def join(base: str, name: str) -> str:
    """Joins a path below the input and a name; the path may be empty."""
    return f"{base}/{name}" if base else name


def one_or_all(paths: list[str]) -> str | list[str]:
    """Returns a single path as it is, and several as a list, as settings take them."""
    return paths[0] if len(paths) == 1 else paths


def depth_of(path: str) -> int:
    """Returns the number of folders in a path."""
    return path.count("/") + 1 if path else 0


def show_names(names: Sequence[str], *, quote: bool = False) -> str:
    """Lists the first few names, for a message."""
    shown = [repr(printable(name)) if quote else printable(name) for name in names[:_MOST_NAMES]]
    return (", ".join(shown) or "no folders") + (", …" if len(names) > _MOST_NAMES else "")


def write_splits(splits: Mapping[str, str | None]) -> str:
    """Writes the setting `splits` for some folders."""
    return ",".join(f"{split}={folder}" for folder, split in splits.items())


def describe_folders(paths: Iterable[str]) -> Iterator[str]:
    """Yields a note on folders of images that may be classes, for a layout without labels: the first that differ."""
    parts = [[one for one in path.split("/") if not is_known(one)] for path in paths]
    levels = (set(names) - {""} for names in itertools.zip_longest(*parts, fillvalue=""))
    yield from describe_unstored("folders", next((names for names in levels if len(names) > 1), ()))


def describe_unstored(what: str, names: Iterable[str]) -> Iterator[str]:
    """Yields a note on folders or inputs that may be classes, for a layout without labels."""
    others = sorted(name for name in names if not is_known(name))
    if len(others) > 1:
        yield f"the layout does not store the {what} {show_names(others)}, which may be classes"
