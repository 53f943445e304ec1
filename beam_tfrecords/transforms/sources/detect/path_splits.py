"""Splits in words: one rule for the folders in the keys of all sources, and for the names of their inputs.

`PathWords` counts the split words at each depth of the paths of listed samples. Then `judge_splits` decides what they
mean, if the request does not say the splits and the source states none.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.sources.detect.names import is_thing, named_split, without_split
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import ending_of_file
from beam_tfrecords.transforms.splits import DEFAULT_SPLIT, name_split

# Deeper folders are not examined.
MOST_DEPTH = 16
# Names to keep at each depth: a message shows some of them, and a reading needs all.
_MOST_NAMES = 12
_MOST_SHOWN = 5
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,8}$")
# Splits that a split column may carve from the folder of another one.
_CARVED = (DEFAULT_SPLIT, "validation")
# How a request says that the words mean no splits.
ALL_IN_ONE = {"splits": f"{DEFAULT_SPLIT}=1"}
_HOW_TO_DENY = f"`splits={DEFAULT_SPLIT}=1` makes one split of all"


@dataclasses.dataclass
class Depth:
    """The folders at one depth of the paths.

    Attributes:
      counts: (split in the name, whether the name says nothing else, split that the source states) -> samples.
      names: whether they have a split -> some names, the first ones in alphabetical order.
    """

    counts: Counter[tuple[str | None, bool, str | None]] = dataclasses.field(default_factory=Counter)
    names: dict[bool, list[str]] = dataclasses.field(default_factory=lambda: {True: [], False: []})

    def add(self, name: str, stated: str | None, count: int) -> None:
        split, is_plain = split_of_component(name)
        self.counts[split, is_plain, stated] += count
        names = self.names[split is not None]
        self.names[split is not None] = sorted({*names, name})[: _MOST_NAMES + 1]

    @property
    def splits(self) -> Counter[str]:
        """Split -> number of samples."""
        found: Counter[str] = Counter()
        for (split, _, _), count in self.counts.items():
            if split is not None:
                found[split] += count
        return found

    @property
    def plain(self) -> set[str]:
        """The splits of folders that are named for little else."""
        return {split for split, is_plain, _ in self.counts if split and is_plain}

    def is_said(self, total: int) -> bool:
        """Whether all samples have a split word."""
        return sum(self.splits.values()) == total

    def is_single(self, total: int) -> bool:
        """Whether all samples are in one folder, or in folders of one split."""
        is_one = len(self.names[False]) == 1 and not self.splits
        return sum(self.counts.values()) == total and (is_one or (len(self.splits) == 1 and self.is_said(total)))

    def may_be_splits(self, total: int, *, is_first: bool) -> bool:
        """Whether some of the samples have words that look like splits.

        Args:
          total: number of samples.
          is_first: whether the folders around these are the same for all samples.
        """
        found = self.splits
        if not found or self.is_said(total):
            return False
        is_majority = len(found) > 1 and sum(found.values()) * 2 > total
        # Such as horses.zip and validation-horses.zip.
        rests = [*filter(None, map(without_split, self.names[False]))]
        is_majority |= any(without_split(name) in rests for name in self.names[True])
        return len(self.plain) > 1 or is_majority or (is_first and bool(self.plain - {DEFAULT_SPLIT}))

    def is_default_alone(self, total: int) -> bool:
        """Whether only the folders of the default split are named for a split, and not for a class of vehicles."""
        is_one = self.plain == {DEFAULT_SPLIT} and not self.is_said(total)
        return is_one and not any(is_thing(name, [name, *self.names[False]]) for name in self.names[True])

    def contradictions(self) -> Counter[tuple[str | None, bool, str | None]]:
        """Returns the counts where folder and source disagree; a split column may divide the training data."""
        usual = set(SPLIT_NAMES.values())
        return Counter(
            {
                one: count
                for one, count in self.counts.items()
                if one[2] in usual and one[2] != one[0] and (one[0], one[2]) != _CARVED
            }
        )

    def knows(self, kind: bool) -> bool:
        """Whether `names` is complete, for names with a split word or without."""
        return len(self.names[kind]) <= _MOST_NAMES


@dataclasses.dataclass
class PathWords:
    """Counts the split words in the folders of paths, in bounded memory and independent of the order.

    Attributes:
      samples: split that the source states -> number of samples.
      depths: the folders at each depth.
    """

    samples: Counter[str | None] = dataclasses.field(default_factory=Counter)
    depths: list[Depth] = dataclasses.field(default_factory=list)

    def add(self, refs: RefColumns, *, by_image: bool, counts: Iterable[int] = itertools.repeat(1)) -> None:
        """Counts references, before they get their final splits.

        Args:
          by_image: whether images have the paths, because keys are ids.
          counts: number of samples for which each reference stands.
        """
        found: Counter[tuple[str, str | None]] = Counter()
        of_each = zip(paths_of(refs, by_image=by_image), refs.each("split"), refs.each("failure"), counts, strict=False)
        for path, word, failure, count in of_each:
            if failure is None:
                found[path.rpartition("/")[0], word] += count
        for (folder, word), count in found.items():
            stated = name_split(word) if word else None
            self.samples[stated] += count
            for depth, name in enumerate(folder.split("/")[:MOST_DEPTH] if folder else ()):
                self._at(depth).add(name, stated, count)

    def _at(self, depth: int) -> Depth:
        while len(self.depths) <= depth:
            self.depths.append(Depth())
        return self.depths[depth]


@dataclasses.dataclass(frozen=True)
class WordsOf:
    """What else may say splits, and what a refusal may suggest.

    Attributes:
      where: the input, as messages quote it.
      prefixes: input -> its key prefix; empty if the inputs are not the first folders of the keys.
      name: name of a single input; "" if there are several.
      most_depth: number of leading folders that are judged; the source judges the others.
      column: split column that was found by its name; None if there is none, or if the request names it.
      by_image: as in `PathWords.add`.
      include: globs of the request.
      exclude: likewise.
    """

    where: str
    prefixes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    name: str = ""
    most_depth: int = MOST_DEPTH
    column: str | None = None
    by_image: bool = False
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()


@dataclasses.dataclass(frozen=True)
class PathSplits:
    """Where references get their splits from.

    Attributes:
      note: sentence for the user.
      by_image: as in `PathWords.add`.
      depths: depths of the folders that say the splits.
      split: split of all references instead.
    """

    note: str = dataclasses.field(compare=False)
    by_image: bool
    depths: Sequence[int] = ()
    split: str | None = None

    by_group, is_large = True, False

    @property
    def by_key(self) -> bool:
        """See `RowDecision.by_key`."""
        return not self.by_image

    def apply(self, refs: RefColumns) -> RefColumns:
        """Sets the splits of the references that are in the default split.

        Raises:
          RequestError: the folders of a path contradict each other.
        """
        paths = paths_of(refs, by_image=self.by_image)
        return refs.replace(
            split=[
                self._find(path) or split if split == DEFAULT_SPLIT else split
                for path, split in zip(paths, refs.each("split"), strict=True)
            ]
        )

    def _find(self, path: str) -> str | None:
        if self.split:
            return self.split
        folders = path.split("/")[:-1]
        found = {split_of_component(folders[depth])[0] for depth in self.depths if depth < len(folders)}
        if len(found) > 1:
            raise RequestError(
                f"the path {printable(path)} has folders of several splits; put all samples in one split with "
                "`splits=train=1`, or name the splits in a split column or by one input for each",
                [Reading("all samples in one split", ALL_IN_ONE)],
                code="contradicting_splits",
            )
        return found.pop() if found else None


def judge_splits(words: PathWords, inputs: WordsOf) -> PathSplits | None:
    """Decides what the split words in paths and in the input's name mean; None if they change nothing.

    Raises:
      RequestError: only some of the samples have split words, or these contradict a split column.
    """
    total, depths = sum(words.samples.values()), words.depths[: inputs.most_depth]
    certain = [number for number, depth in enumerate(depths) if len(depth.splits) > 1 and depth.is_said(total)]
    if words.samples[None] < total:  # The source states splits.
        agreeing = [number for number in certain if not depths[number].contradictions()]
        if inputs.column is None or not certain:
            return None
        if not agreeing:
            raise _contradicts(depths[certain[0]], inputs)
        certain = agreeing if words.samples[None] else []
        return PathSplits(_note_folders(depths[certain[0]]), inputs.by_image, certain) if certain else None
    if certain:
        return PathSplits(_note_folders(depths[certain[0]]), inputs.by_image, certain)
    for number, depth in enumerate(depths):
        if depth.may_be_splits(total, is_first=all(one.is_single(total) for one in depths[:number])):
            raise _ask(depth, number, total, inputs)
    by_folder = _find_constant(depths, total)
    by_name, is_plain = split_of_component(inputs.name)
    by_name = by_name if is_plain else None
    if by_folder and by_name and by_folder != by_name:
        raise RequestError(
            f"{inputs.where} has the name of the split {by_name}, and its paths name the split {by_folder}",
            [
                Reading(f"the split {split}", {"input": f"{split}={path}"})
                for path in inputs.prefixes
                for split in (by_name, by_folder)
            ],
            code="contradicting_splits",
        )
    split = by_folder or by_name
    if split is None or split == DEFAULT_SPLIT:
        alone = next((one for one in depths if one.is_default_alone(total)), None)
        return None if alone is None else PathSplits(_note_others(alone), inputs.by_image, split=DEFAULT_SPLIT)
    where = "the folders in the paths" if by_folder else "the name of the input"
    return PathSplits(f"the split {split} comes from {where}; {_HOW_TO_DENY}", inputs.by_image, split=split)


def _find_constant(depths: Sequence[Depth], total: int) -> str | None:
    """Returns the split of the outermost folder with a split word, if all paths share it; None if it is the default."""
    for depth in depths:
        if not depth.is_single(total) or any(name == "" or name.endswith(":") for name in depth.names[False]):
            return None
        if depth.plain:
            split = next(iter(depth.plain))
            return None if split == DEFAULT_SPLIT else split
    return None


def _ask(depth: Depth, number: int, total: int, inputs: WordsOf) -> RequestError:
    """Returns the error for paths of which only some have split words."""
    parts = {path: prefix.split("/")[:-1] for path, prefix in inputs.prefixes.items()}
    if len(parts) > 1 and all(number < len(part) for part in parts.values()):
        found = {path: split_of_component(part[number])[0] for path, part in parts.items()}
        named = [f"{split}={path}" for path, split in found.items() if split]
        every = [f"{split or DEFAULT_SPLIT}={path}" for path, split in found.items()]
        suggestions = [
            Reading("the inputs that are splits", {"input": named}),
            Reading(f"the other inputs as {DEFAULT_SPLIT}", {"input": every}),
        ]
    else:
        suggestions = _select(depth, total, inputs)
    have, lack = _show(depth.names[True]), _show(depth.names[False]) or "no folder"
    return RequestError(
        f"{inputs.where}: {have} in the paths of {sum(depth.splits.values()):,} of {total:,} samples look like splits, "
        f"and the folders of the others do not ({lack})",
        [*suggestions, Reading("all samples in one split", ALL_IN_ONE)],
        code="unclear_splits",
    )


def _select(depth: Depth, total: int, inputs: WordsOf) -> list[Reading]:
    """Suggests only the samples with split words, if globs match their paths."""
    if inputs.by_image:
        return []
    meaning = f"the samples in {_show(depth.names[True])}"
    if depth.knows(False) and sum(depth.counts.values()) == total:
        globs = [glob.escape(name) for name in depth.names[False]]
        return [Reading(meaning, {"exclude": [*inputs.exclude, *globs]})]
    if depth.knows(True) and not inputs.include:
        return [Reading(meaning, {"include": [*map(glob.escape, depth.names[True])]})]
    return []


def _contradicts(depth: Depth, inputs: WordsOf) -> RequestError:
    """Returns the error for a split column that contradicts the paths."""
    (split, _, stated), count = depth.contradictions().most_common(1)[0]
    return RequestError(
        f"{inputs.where}: column {inputs.column!r} says {stated} for {count:,} samples whose paths say {split} "
        f"({_show(depth.names[True])}); name the column with `split_column` if it is right",
        [Reading("the splits of the column", {"split_column": inputs.column})],
        code="contradicting_splits",
    )


def _note_folders(depth: Depth) -> str:
    return f"splits from the folders in the paths: {_show(depth.names[True])}; {_HOW_TO_DENY}"


def _note_others(depth: Depth) -> str:
    """Returns a note on samples that go to the default split beside those whose folders name it."""
    have, lack = _show(depth.names[True]), _show(depth.names[False]) or "no folder"
    where = f"{have} in the paths says {DEFAULT_SPLIT}, and the others ({lack}) go there too"
    return f"{where}; `input=NAME=PATH` names the split of one"


def _show(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names[:_MOST_SHOWN])) + (", …" if len(names) > _MOST_SHOWN else "")


@functools.lru_cache(maxsize=4096)
def split_of_component(name: str) -> tuple[str | None, bool]:
    """Returns the split in the name of a folder or file, or None; and whether the name says little else."""
    return named_split(_EXTENSION.sub("", name.removesuffix(ending_of_file(name))))


def paths_of(refs: RefColumns, *, by_image: bool) -> Sequence[str]:
    """Returns the path of each reference: its key, or the place of its first image below the folders of the key."""
    if not by_image:
        return refs.keys
    prefixes = (key.rpartition("/") for key in refs.keys)
    return [f"{folder}{slash}{uri or ''}" for (folder, slash, _), uri in zip(prefixes, refs.uris(), strict=True)]
