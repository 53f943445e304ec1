"""Splits in the names of TFRecord files."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.inputs import InputFile, splits_of_names

_SHARD = r"-\d{5,}-of-\d{5,}"
# photos-extra.tfrecord-00000-of-00007 as in TFDS, whose splits may have any name.
_TFDS = re.compile(rf".*-(?P<word>[a-z]\w*)\.[a-z_]+{_SHARD}", re.IGNORECASE | re.DOTALL)
# train-00000-of-01024 as in ImageNet, or coco_train.record-00000-of-00100.
_SHARDED = re.compile(rf"(?P<word>.*?)(?:\.[a-z]+)?{_SHARD}(?:\.\w+)*", re.IGNORECASE | re.DOTALL)
# Largest number of inputs in a suggestion.
_MOST_INPUTS = 12


def record_splits(files: Sequence[InputFile]) -> dict[str, str]:
    """Returns file -> split from the names of the files; {} if they say none, or if folders say another one.

    Raises:
      RequestError: the names of files or folders have two words for one split, such as `validation` and `eval`.
    """
    _refuse_words(files)
    paths = [file.entry.path for file in files]
    splits = _shard_splits([*map(storage.basename, paths)]) or splits_of_names(paths)
    for file, split in zip(files, splits, strict=True):
        if split is None or not {None, split}.issuperset(map(split_in_name, file.key_prefix.split("/")[:-2])):
            return {}
    return {path: split for path, split in zip(paths, splits, strict=True) if split}


def place_files(files: Sequence[InputFile], folders: Mapping[str, str]) -> list[InputFile]:
    """Returns the files in folders that a request names as splits, with their splits; [] unless each name is a folder.

    Args:
      folders: path of a folder, or name of it at any depth -> split.
    """
    names = {f"/{folder.strip('/')}/": split for folder, split in folders.items()}
    splits = [next((names[name] for name in names if name in f"/{file.key_prefix}"), None) for file in files]
    if not {*names.values()} <= {*splits}:
        return []
    return [file._replace(split=split) for file, split in zip(files, splits, strict=True) if split]


def _refuse_words(files: Sequence[InputFile]) -> None:
    """Refuses files whose names have different words for one split."""
    # split -> word -> the files, or the folders, that are named so
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in files:
        parts = file.entry.path.split("/")
        below = range(len(parts) - max(1, file.key_prefix.count("/")), len(parts))
        words = {end: re.split(r"[-_]", re.split(r"[.\d]", parts[end].lower())[0].strip("-_"))[-1] for end in below}
        end = next((end for end in below if words[end] in SPLIT_NAMES), None)
        if end is not None:
            found[SPLIT_NAMES[words[end]]][words[end]].add("/".join(parts[: end + 1]))
    named = [(split, word, path) for split in found for word in found[split] for path in sorted(found[split][word])]
    for split, words_of in found.items():
        # `val` and `valid` are forms of one word.
        kinds = {word[:2] for word in words_of}
        if len(kinds) < 2:
            continue
        suggestions = [Suggestion(f"all of these as {split}", {"input": [f"{one}={path}" for one, _, path in named]})]
        if "ev" in kinds and "test" not in found:
            inputs = [f"{'test' if word.startswith('ev') else one}={path}" for one, word, path in named]
            suggestions.insert(0, Suggestion("eval as test", {"input": inputs}))
        raise RequestError(
            f"`input`: {' and '.join(sorted(words_of))} in the names of files or folders are words for one split, "
            f"{split}; name the split of each",
            suggestions if len(named) <= _MOST_INPUTS else [],
            code="unclear_splits",
        )


def _shard_splits(names: Sequence[str]) -> list[str | None]:
    """Returns the split of each shard; [] if a file has another name, or if no word is usual for a split."""
    if all(map(_TFDS.fullmatch, names)):
        words = [match["word"].lower() for match in map(_TFDS.fullmatch, names) if match]
        return [SPLIT_NAMES.get(word.rpartition("_")[2], word) for word in words]
    words = [match["word"].lower() for match in map(_SHARDED.fullmatch, names) if match]
    if len(words) < len(names):
        return []
    # `testdev` is the split of `coco_testdev` beside `coco_train`.
    pieces = zip(*(re.findall(r"[^-_.]+[-_.]*", word) for word in words), strict=False)
    start = sum(len(same[0]) for same in itertools.takewhile(lambda several: len({*several}) == 1, pieces))
    splits = [SPLIT_NAMES.get(re.split(r"[-_.]", word)[-1], word[start:] or word) for word in words]
    return [*splits] if {*splits} & {*SPLIT_NAMES.values()} else []
