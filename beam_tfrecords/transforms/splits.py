"""Splits: reads the rule for splits from the settings, and applies it to samples."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason
from beam_tfrecords.transforms.hashing import SPACE, split_hashes
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.settings import as_number, check_unique

_NAME = re.compile(r"[a-z][a-z0-9_]*")
NAME_RULE = "lower-case letters, digits and underscores, beginning with a letter"
DEFAULT_SPLIT = "train"
# Words in a split column that are synonyms of standard splits. All other words are separate splits: `dev` is not `val`.
_SYNONYMS = frozenset(
    {"train", "training", "validation", "validate", "valid", "val", "test", "testing", "publictest", "privatetest"}
)
_RATIO = re.compile(r"([0-9]+)\s*/\s*([0-9]+)")


@dataclasses.dataclass(frozen=True)
class Splits:
    """The rule that assigns every sample a split.

    Without `fractions` and `folders`, splits are the source's own words, and samples without a word are in `train`.

    Attributes:
      fractions: split -> share of the samples, assigned by a hash of the key; or None.
      folders: folder below the root, or word of a table's split column -> split; or None.
    """

    fractions: Mapping[str, float] | None = None
    folders: Mapping[str, str] | None = None

    @property
    def are_auto(self) -> bool:
        """Whether the source names the splits, by folders such as train or by a column `split`."""
        return self.fractions is None and self.folders is None


def split_of_folder(name: str) -> str | None:
    """Returns the split that a folder with this name usually contains, or None."""
    return SPLIT_NAMES.get(name.lower())


def split_words(folder: str) -> dict[str, str]:
    """Returns the names in the path of a folder that are words for splits, each with its split."""
    return {name: split for name in folder.split("/") if (split := split_of_folder(name))}


def kinds_of_words(words: Iterable[str]) -> set[str]:
    """Returns how words for one split begin: `val` and `valid` are forms of one word, but `evaluation` is another."""
    return {word[:2].lower() for word in words}


def means_evaluation(word: str) -> bool:
    """Whether a word for a split is `eval` or `evaluation`, which may also mean the test split."""
    return kinds_of_words([word]) == {"ev"}


def is_name(word: str) -> bool:
    """Whether TFDS accepts a word as the name of a dataset or a split."""
    return bool(_NAME.fullmatch(word))


def read_splits(word: Any) -> Splits:
    """Reads `auto`, fractions (`train=0.9,…`), or folders or words of a split column (`train=training_data,…`)."""
    if word == "auto":
        return Splits()
    if isinstance(word, str):
        items = [
            (split.strip(), value.strip()) for split, _, value in (pair.partition("=") for pair in word.split(","))
        ]
    elif isinstance(word, Mapping):
        items = [(str(split), str(value)) for split, value in word.items()]
    else:
        raise ValueError("expected auto, or a mapping of split to fraction or folder")
    if not all(split and value for split, value in items):
        raise ValueError(
            "expected auto, fractions (train=0.9,validation=0.1), or folders or words of a split column "
            "(train=training_data,validation=crossvalidation_data)"
        )
    splits = [SPLIT_NAMES[split] if split in _SYNONYMS else split for split, _ in items]
    values = [value for _, value in items]
    check_unique(splits)
    for split in splits:
        if not is_name(split) or split == "all":
            raise ValueError(f"{split!r} cannot name a split; expected {NAME_RULE} (and not 'all')")
    fractions = [_read_fraction(value) for value in values]
    if len(values) > 1 and all(map(str.isdecimal, values)) and sum(map(int, values)) == 100:
        raise ValueError("expected fractions with a sum of 1, or percentages such as 80%")
    # Whole numbers that cannot be fractions are words of a column, such as numbers of folds.
    are_folds = all(map(str.isdecimal, values)) and set(values) != {"1"}
    if are_folds or all(fraction is None for fraction in fractions):
        check_unique(values)
        return Splits(folders=dict(zip(values, splits, strict=True)))
    known = [fraction for fraction in fractions if fraction is not None and 0 < fraction <= 1]
    if len(known) < len(items):
        raise ValueError("expected fractions between 0 and 1 for all splits, or folders or words of a column for all")
    if abs(math.fsum(known) - 1) > 1e-9:
        raise ValueError(f"the fractions sum to {math.fsum(known):g}; expected 1")
    return Splits(fractions=dict(zip(splits, known, strict=True)))


def _read_fraction(word: str) -> float | None:
    """Reads `0.8`, `80%` or `4/5`."""
    if ratio := _RATIO.fullmatch(word):
        return int(ratio[1]) / int(ratio[2]) if int(ratio[2]) else None
    number = as_number(word.removesuffix("%"))
    return number / 100 if number is not None and word.endswith("%") else number


def write_splits(splits: Splits) -> Any:
    """Writes a rule as a plain value; the reverse of `read_splits`."""
    by_folder = splits.folders and {split: folder for folder, split in splits.folders.items()}
    return dict(splits.fractions or by_folder or {}) or "auto"


def assign_splits(refs: RefColumns, *, splits: Splits, seed: int) -> RefColumns:
    """Returns the references with their splits, and without their groups.

    References whose word is not a valid split become failures.

    Args:
      refs: the references.
      splits: the rule.
      seed: seed of the fractions.
    """
    if splits.fractions:
        groups = [group or key for group, key in zip(refs.each("group"), refs.keys, strict=True)]
        cuts = [_cut(value, splits.fractions) for value in split_hashes(seed=seed, keys=groups)]
        return refs.replace(split=cuts, group=None)
    words = refs.shared["split"]
    if not isinstance(words, list) and (named := name_split(words)) is not None:
        return refs.replace(split=named, group=None)
    words = refs.each("split")
    found = list(map(name_split, words))
    unknown = FailureReason.UNKNOWN_SPLIT.value
    failures = [
        failure
        or (
            [unknown, f'split {word!r}; expected {NAME_RULE}; `where=split != "{word}"` leaves such samples out']
            if named is None
            else None
        )
        for failure, word, named in zip(refs.each("failure"), words, found, strict=True)
    ]
    return refs.replace(split=found, failure=failures, group=None)


@functools.lru_cache(maxsize=64)
def name_split(word: str | None) -> str | None:
    """Returns the split for a word of the source, or None if the word is not a valid split."""
    if not word:
        return DEFAULT_SPLIT
    lower = word.lower()
    named = SPLIT_NAMES[lower] if lower in _SYNONYMS else lower if lower in SPLIT_NAMES else word
    return named if is_name(named) and named != "all" else None


def _cut(value: int, fractions: Mapping[str, float]) -> str:
    bound = 0.0
    for split, fraction in fractions.items():
        bound += fraction
        if value < bound * SPACE:
            return split
    return split
