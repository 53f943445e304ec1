"""Which folders are splits, which are classes, and which only wrap them: judged by their names and what they share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

from beam_tfrecords.errors import RequestError
from transforms.sources.names import printable
from transforms.splits import SPLIT_NAMES, split_of_folder

# Path of a folder below the root -> names of the folders in it.
Below = Callable[[str], Iterable[str]]

_SPLITS = ("train", "validation", "test")
_MOST_NAMES = 10
_MOST_COMPARED = 20
_MOST_DEPTH = 20
# Words that are joined to the name of a split: trainset, test_images, val2017.
_FILLERS = re.compile(r"(?:set|data|images?|imgs?|files|split)$")


def find_splits(
    names: Sequence[str], *, below: Below, class_names: Sequence[str], where: str
) -> Mapping[str, str] | None:
    """The split folders among the folders that hold images: folder -> split; None if the folders are classes.

    Folders are splits if all of them have the name of one. A single one among others is a class: a train among cars.

    Args:
      names: the folders directly below the root that hold images.
      below: names of the folders in a folder.
      class_names: the classes that the request names.
      where: the input, as messages quote it.

    Raises:
      RequestError: the names look like splits, but not all of them are known.
    """
    named = set(map(_normalize, class_names))
    known = {name: split for name in names if (split := split_of_folder(name))}
    alike = {name: split for name in names if name not in known and (split := _guess(name))}
    suspects = {**known, **alike}
    others = [name for name in names if name not in suspects]
    if not suspects or any(_normalize(name) in named for name in suspects):
        return None
    if not alike and not others:
        return known
    is_majority = len(suspects) > len(others) or len(names) == 2
    looks_like_splits = (
        len(known) > 1
        or (is_majority and (bool(known) or len(set(alike.values())) > 1))
        or _share_folders(list(suspects), others, below)
    )
    if not looks_like_splits:
        return None
    by_split = {split: name for name, split in reversed(suspects.items())}
    shown = ",".join(f"{split}={printable(by_split[split])}" for split in _SPLITS if split in by_split)
    beside = f", but also images in {show_names(others, quote=True)} beside them" if others else ""
    raise RequestError(
        f"{where} has folders that look like splits, {show_names(sorted(suspects))}{beside}; say which folders are the "
        f"splits (`splits={shown}`), or name all classes if these are classes (`class_names={printable(names[0])},…`)"
    )


def may_be_splits(names: Iterable[str]) -> bool:
    """Whether a folder among these has a name that looks like a split's."""
    return any(split_of_folder(name) or _guess(name) for name in names)


def refuse_fractions(found: Mapping[str, str] | None, *, where: str, remedy: str) -> None:
    """Refuses fractions of an input whose folders are splits and would become classes.

    Args:
      found: the split folders, or None.
      where: the input, as messages quote it.
      remedy: how to divide all images anew.

    Raises:
      RequestError: says what to do.
    """
    if found:
        raise RequestError(
            f"`splits` has fractions, but {where} has the split folders {show_names(list(found))}, which would become "
            f"classes; leave `splits` out to keep these splits, or divide all images anew: {remedy}"
        )


def refuse_wrapper(
    classes: Sequence[str], *, below: Below, class_names: Sequence[str], where: str, in_splits: bool
) -> None:
    """Refuses a single class folder that only wraps the folders of the classes.

    Args:
      classes: paths of the class folders below the root, with their split folder if there is one.
      below: names of the folders in a folder.
      class_names: the classes that the request names.
      where: the input, as messages quote it.
      in_splits: whether the class folders are in split folders.

    Raises:
      RequestError: names the folder below.
    """
    names = {path.rpartition("/")[2] for path in classes}
    if len(names) != 1 or _normalize(min(names)) in set(map(_normalize, class_names)):
        return
    for path in classes:
        inner, folders = path, sorted(below(path))
        while len(folders) == 1 and split_of_folder(folders[0]) is None and inner.count("/") < _MOST_DEPTH:
            inner = f"{inner}/{folders[0]}"
            folders = sorted(below(inner))
        if not folders:
            continue
        inside = inner[len(path) - len(min(names)) :]
        remedy = (
            f"say `label_pattern=(?:^|/){re.escape(inside)}/(?P<label>[^/]+)/`"
            if in_splits
            else f"give the folder that holds the classes, {printable(inner)}"
        )
        raise RequestError(
            f"{where}: all images are in the folder {printable(path)}, which would be the only class, but it holds "
            f"the folders {show_names(folders)}; {remedy}, or say `class_names={printable(min(names))}` if it is "
            "the class"
        )


def show_names(names: Sequence[str], *, quote: bool = False) -> str:
    """The first few names, for a message."""
    shown = [repr(printable(name)) if quote else printable(name) for name in names[:_MOST_NAMES]]
    return (", ".join(shown) or "no folders") + (", …" if len(names) > _MOST_NAMES else "")


def _guess(name: str) -> str | None:
    """The split that a word in a folder's name means, as in `train2017`, `seg_test` or `training_set`."""
    for word in re.findall(r"[a-z]+", name.lower()):
        split = SPLIT_NAMES.get(_FILLERS.sub("", word)) if len(word) > 2 else None
        if split is not None:
            return split
    return None


def _share_folders(suspects: Sequence[str], others: Sequence[str], below: Below) -> bool:
    """Whether a folder has folders of the same names as another one, as splits with the same classes do."""
    found = {name for suspect in suspects[:_MOST_COMPARED] for name in below(suspect)}
    return bool(found) and any(not found.isdisjoint(below(other)) for other in others[:_MOST_COMPARED])


def _normalize(name: str) -> str:
    return unicodedata.normalize("NFC", name)
