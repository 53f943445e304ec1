"""The folders of `image_root`, and of which file of the input each is."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.image_files import find_all
from beam_tfrecords.transforms.sources.inputs import InputFile, quote_input, split_of_word
from beam_tfrecords.transforms.sources.path_rule import shorten

_MOST_NAMES = 20


@dataclasses.dataclass(frozen=True)
class FileRoots:
    """The folders that the images of a file may be in.

    Attributes:
      own: those of this file alone; empty if the request does not tell them from the others.
      every: all folders.
    """

    own: tuple[str, ...]
    every: tuple[str, ...]

    def choose(self, names: Iterable[str], *, allow_outside_root: bool) -> tuple[str, ...]:
        """The folders to look in, by the names of the first images.

        The file's own, if each of these images that is somewhere is there: the folders of other files may have other
        images of the same names. Else all.

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
                    f"`image_root`: there is {' and '.join(map(shorten, found))}, so that the name does not say which "
                    "image is meant; `image_root=train=FOLDER` says the folder of a split, as for `input`, and as many "
                    "folders as inputs are each of the input at its place"
                )
        return roots

    def have(self, names: Iterable[str], *, allow_outside_root: bool) -> bool:
        """Whether an image of these names is in one of the folders."""
        return any(_find(name, self.every, allow_outside_root=allow_outside_root) for name in names)


def pair_roots(files: Sequence[InputFile], words: Sequence[str]) -> list[FileRoots]:
    """The folders of each file.

    A folder is of the files of the split that the request says or both names say; else of the file at its place, if
    there are as many. Files in different folders with one of these, or one around them, have their own first.

    Args:
      files: of the input.
      words: values of `image_root`; empty for the folders of the files.

    Raises:
      RequestError: a split has no folder.
    """
    beside = [storage.dirname(file.entry.path) for file in files]
    if not words:
        return [FileRoots((), (folder,)) for folder in beside]
    said, folders = zip(*map(split_of_word, words), strict=True)
    every = tuple(dict.fromkeys(folders))
    if any(said):
        return [FileRoots((), _roots_of_split(file, said, folders)) for file in files]
    splits = list(map(_split_of, files))
    of_folders = _splits_of_folders(folders)
    if len(every) > 1 and None not in of_folders and set(splits) <= set(of_folders):
        own = [tuple(one for one, of in zip(folders, of_folders, strict=True) if of == split) for split in splits]
        return [FileRoots(some, every) for some in own]
    if len(files) == len(every) > 1:
        return [FileRoots((folder,), every) for folder in folders]
    if len(set(beside)) == len(files) > 1 and all(_is_around(folder, beside) for folder in every):
        return [FileRoots((own,), tuple(dict.fromkeys((own, *every)))) for own in beside]
    return [FileRoots((), every)] * len(files)


def _roots_of_split(file: InputFile, said: Sequence[str | None], folders: Sequence[str]) -> tuple[str, ...]:
    split = _split_of(file)
    found = tuple(dict.fromkeys(folder for one, folder in zip(said, folders, strict=True) if one in (None, split)))
    if not found:
        words = ", ".join(sorted({one for one in said if one}))
        raise RequestError(
            f"`image_root` names folders of {words}, and none of {split or 'the split'}, which "
            f"{quote_input(file.entry.path)} is; expected `image_root={split or 'SPLIT'}=FOLDER` for each split"
        )
    return found


def _split_of(file: InputFile) -> str | None:
    """The split that the request says, or the name of a file, or that of its folder."""
    name, folder = storage.basename(file.entry.path), storage.basename(storage.dirname(file.entry.path))
    return file.split or split_in_name(name.partition(".")[0]) or split_in_name(folder)


def _splits_of_folders(folders: Sequence[str]) -> list[str | None]:
    """The split that the path of each folder says, below the folder that they are all in."""
    paths = [folder.rstrip("/").split("/") for folder in folders]
    common = sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))
    return [next(filter(None, map(split_in_name, reversed(path[common:]))), None) for path in paths]


def _is_around(folder: str, beside: Sequence[str]) -> bool:
    return any(f"{one.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/") for one in beside)


def _find(name: str, roots: Sequence[str], *, allow_outside_root: bool) -> list[str]:
    try:
        return find_all(name, roots=roots, allow_outside_root=allow_outside_root)
    except SampleError:
        # It is a failure of its own once it is listed.
        return []
