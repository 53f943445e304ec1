"""Assigns the folders of `image_root` and `mask_root` to the inputs."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import NoReturn

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.image_files import find_all
from beam_tfrecords.transforms.sources.inputs import quote_input, split_of_word
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.path_rule import shorten

_MOST_NAMES = 20


@dataclasses.dataclass(frozen=True)
class FileRoots:
    """The folders that may contain the images that a file names.

    Attributes:
      own: folders of this file alone; empty if the request assigns no folder to a file.
      every: all folders.
      setting: setting that names the folders.
    """

    own: tuple[str, ...]
    every: tuple[str, ...]
    setting: str = "image_root"

    def choose(self, names: Iterable[str], *, allow_outside_root: bool) -> tuple[str, ...]:
        """Returns the folders to search, based on the names of the first images.

        Prefers the file's own folders if they contain every one of these images that exists: folders of other files may
        have different images of the same names. Otherwise returns all folders.

        Raises:
          RequestError: an image is in several folders.
        """
        if len(self.every) == 1:
            return self.every
        first = list(itertools.islice(names, _MOST_NAMES))
        find = functools.partial(_find, allow_outside_root=allow_outside_root)
        is_own = self.own and all(find(name, self.own) or not find(name, self.every) for name in first)
        roots = self.own if is_own else self.every
        for name in first if len(roots) > 1 else ():
            if len(found := find(name, roots)) > 1:
                raise RequestError(
                    f"`{self.setting}`: {' and '.join(map(shorten, found))} exist, so the name does not tell "
                    f"which image is meant; `{self.setting}=train=FOLDER` gives the folder of one split; "
                    "with as many folders as inputs, each folder belongs to the input at its position",
                    code="ambiguous_image",
                )
        return roots

    def have(self, names: Iterable[str], *, allow_outside_root: bool) -> bool:
        """Whether one of the folders contains an image of these names."""
        return any(_find(name, self.every, allow_outside_root=allow_outside_root) for name in names)


def pair_roots(files: Sequence[Partition], words: Sequence[str], setting: str = "image_root") -> list[FileRoots]:
    """Returns the folders of each file; see `own_roots`.

    If every root is the folder of a file or contains one, and no two files share a folder, each file searches its own
    folder first.

    Args:
      files: files of the input.
      words: values of the setting; empty for the folders of the files.
      setting: setting with these values.

    Raises:
      RequestError: a split has no folder.
    """
    beside = [storage.dirname(file.uri) for file in files]
    if not words:
        return [FileRoots((), (folder,), setting) for folder in beside]
    said, folders = zip(*map(split_of_word, words), strict=True)
    every = tuple(dict.fromkeys(folders))
    own = own_roots([(file.uri, file.split) for file in files], words, setting)
    if any(said):
        return [FileRoots((), some, setting) for some in own]
    if any(own):
        return [FileRoots(some, every, setting) for some in own]
    if len(set(beside)) == len(files) > 1 and all(_is_around(folder, beside) for folder in every):
        return [FileRoots((one,), tuple(dict.fromkeys((one, *every))), setting) for one in beside]
    return [FileRoots((), every, setting)] * len(files)


def keep_roots(error: RequestError, roots: Sequence[str]) -> RequestError:
    """Returns the error with readings that add a folder to those which have the images of other inputs."""
    suggestions = [
        dataclasses.replace(one, settings={**one.settings, "image_root": [*dict.fromkeys([*roots, folder])]})
        if roots and isinstance(folder := one.settings.get("image_root"), str)
        else one
        for one in error.suggestions
    ]
    return RequestError(error.message, suggestions, code=error.code, traceback=error.traceback)


def own_roots(inputs: Sequence[tuple[str, str | None]], words: Sequence[str], setting: str) -> list[tuple[str, ...]]:
    """Returns the folders that belong to each input alone; empty if the request assigns none.

    A folder belongs to the inputs of its split, which the request or the names state. Without splits, folders and
    inputs pair up in order if their numbers are equal.

    Args:
      inputs: path of each file or folder, and its split if known.
      words: values of the setting.
      setting: setting with these values.

    Raises:
      RequestError: a split has no folder.
    """
    said, folders = zip(*map(split_of_word, words), strict=True)
    every = tuple(dict.fromkeys(folders))
    common = _count_common([*(path for path, _ in inputs), *folders])
    splits = [split or _split_of(path, common) for path, split in inputs]
    if any(said):
        of_splits = {split: _roots_of_split(split, said, folders) for split in splits}
        for (path, _), split in zip(inputs, splits, strict=True):
            if not of_splits[split]:
                _refuse_split(path, split, sorted({one for one in said if one}), setting)
        return [of_splits[split] for split in splits]
    of_folders = _splits_of_folders(folders)
    if len(every) > 1 and None not in of_folders and set(splits) <= set(of_folders):
        return [_roots_of_split(split, of_folders, folders) for split in splits]
    if len(inputs) == len(every) > 1:
        return [(folder,) for folder in folders]
    return [()] * len(inputs)


def _roots_of_split(split: str | None, said: Sequence[str | None], folders: Sequence[str]) -> tuple[str, ...]:
    """Returns the folders of a split, and the folders without a split."""
    return tuple(dict.fromkeys(folder for one, folder in zip(said, folders, strict=True) if one in (None, split)))


def _refuse_split(path: str, split: str | None, said: Sequence[str], setting: str) -> NoReturn:
    is_which = f"none of {split}, which {quote_input(path)} is" if split else f"{quote_input(path)} has no split"
    expected = f"`{setting}={split}=FOLDER` for each split" if split else f"`input={said[0]}=FOLDER`"
    raise RequestError(
        f"`{setting}` names folders of {', '.join(said)}, and {is_which}; expected {expected}", code="unmatched_roots"
    )


def _split_of(path: str, common: int) -> str | None:
    """Returns the split in the name of a file or folder, or in the name of its parent folder.

    Args:
      common: number of leading path components that all paths of the request share; these tell nothing about splits.
    """
    *around, name = path.rstrip("/").split("/")
    return split_in_name(name.partition(".")[0]) or (split_in_name(around[-1]) if len(around) > common else None)


def _splits_of_folders(folders: Sequence[str]) -> list[str | None]:
    """Returns the split that each folder's path contains, below the parent folder of all."""
    common = _count_common(folders)
    paths = (folder.rstrip("/").split("/") for folder in folders)
    return [next(filter(None, map(split_in_name, reversed(path[common:]))), None) for path in paths]


def _count_common(paths: Sequence[str]) -> int:
    """Counts the leading components that all paths share."""
    words = zip(*(path.rstrip("/").split("/") for path in paths), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda some: len(set(some)) == 1, words))


def _is_around(folder: str, beside: Sequence[str]) -> bool:
    return any(f"{one.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for one in beside)


def _find(name: str, roots: Sequence[str], *, allow_outside_root: bool) -> list[str]:
    try:
        return find_all(name, roots=roots, allow_outside_root=allow_outside_root)
    except SampleError:
        # Listing the image reports this failure.
        return []
