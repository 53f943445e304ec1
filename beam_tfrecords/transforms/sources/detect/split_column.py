"""Finds the split column of a table, and the meaning of its words."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.transforms.sources.detect.column_names import SPLIT_NAMES as COLUMN_NAMES
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.tables.cells import invalid_row
from beam_tfrecords.transforms.sources.tables.table import Table, available, first_cells
from beam_tfrecords.transforms.splits import Splits, name_split, read_splits

# Boolean column -> splits for true and false.
SPLIT_FLAGS = {
    **dict.fromkeys(("isvalid", "isvalidation", "isval", "valid", "validation", "val"), ("validation", "train")),
    **dict.fromkeys(("istrain", "istraining", "istrainingimage", "train"), ("train", "test")),
    **dict.fromkeys(("istest", "test"), ("test", "train")),
}
_TRUE, _FALSE = ("true", "1", "1.0", "yes", "t", "y"), ("false", "0", "0.0", "no", "f", "n")
# Beginning of a word -> split.
_BEGINNINGS = {"train": "train", "entra": "train", "lern": "train", "val": "validation", "test": "test"}
_ORDER = ("train", "validation", "test")
# Numbers of rows to inspect, and limits for words that may be splits or folds.
_ROWS = 1000
_FIRST_ROWS = 50
_MOST_WORDS = 20
_LONGEST_WORD = 20


@dataclasses.dataclass(frozen=True)
class SplitColumn:
    """The split column of a table.

    Attributes:
      name: name of the column.
      words: lower-case word -> split; None if the words are the splits.
      default: split of a word that is not in `words`; None rejects the row.
    """

    name: str
    words: Mapping[str, str] | None = None
    default: str | None = None

    def read(self, value: Any) -> str | None:
        """Returns the split of a cell; None for an empty cell.

        Raises:
          SampleError: the cell contains an unknown word, or a list.
        """
        if isinstance(value, list):
            raise invalid_row(f"column {self.name!r} has a list; expected the name of a split")
        word = _word(value)
        if not word or self.words is None:
            return word or None
        split = self.words.get(word.lower(), self.default)
        if split is None:
            known = ", ".join(self.words)
            detail = f"column {self.name!r} has {word!r}; expected one of {known}"
            raise SampleError(Stage.LIST, FailureReason.UNKNOWN_SPLIT, detail)
        return split


def find_split_column(
    table: Table, named: str | None, splits: Splits, *, taken: Sequence[str | None]
) -> tuple[SplitColumn | None, str]:
    """Returns the split column, and a note on it or "".

    Args:
      table: the table.
      named: column that the request names; "" for none.
      splits: split rule of the request.
      taken: columns with another role, that of the label first.

    Raises:
      RequestError: the column does not exist, or contradicts other settings.
    """
    if named and named not in table.columns:
        raise RequestError(
            f"`split_column={named}`: {table.path} has no such column; {available(table, named)}",
            code="unknown_column",
        )
    if splits.folders is not None:
        return _chosen(table, splits.folders, named or _usual(table, taken)), ""
    if named == "":
        return None, ""
    found: SplitColumn | None
    if named:
        found, note = _read_flags(table, named) or SplitColumn(named), ""
    else:
        found, note = _infer(table, taken, asks=splits.are_auto)
    if splits.are_auto or found is None:
        return found, note
    found_splits = sorted(_splits_in(_words(table, found.name)))
    if named or (len(found_splits) > 1 and set(found_splits) <= set(SPLIT_NAMES.values())):
        raise RequestError(
            f"`splits` has fractions, but column {found.name!r} of {quote_input(table.path)} says the splits "
            f"({', '.join(found_splits[:5])}); leave `splits` out to use it, or use `split_column=` to ignore it",
            code="input_has_splits",
        )
    return None, ""


def _chosen(table: Table, folders: Mapping[str, str], column: str | None) -> SplitColumn:
    """Returns the split column for the words in the setting `splits`."""
    asked = {word.lower(): split for word, split in folders.items()}
    if column is None:
        raise RequestError(
            f"`splits` names words of a split column ({', '.join(asked)}), and {quote_input(table.path)} has none of a "
            "usual name; name it with `split_column`, or give fractions (`splits=train=0.9,test=0.1`); it has: "
            f"{', '.join(table.columns)}",
            code="missing_split_column",
        )
    words = {word.lower() for word in _words(table, column)}
    if words and words.isdisjoint(asked):
        raise RequestError(
            f"`splits` names {', '.join(asked)}, but column {column!r} of {quote_input(table.path)} has "
            f"{', '.join(sorted(words)[:10])}",
            code="unknown_split",
        )
    return SplitColumn(column, asked, None if "train" in asked.values() else "train")


def _infer(table: Table, taken: Sequence[str | None], *, asks: bool) -> tuple[SplitColumn | None, str]:
    """Returns a column with a usual name, or a boolean column, or the only column of split names; and a note on it.

    Args:
      table: the table.
      taken: columns with another role.
      asks: whether unknown words in a column with a usual name are a question.

    Raises:
      RequestError: two columns with usual names have different splits, or one has unknown words.
    """
    column, note = _usual(table, taken), ""
    if column is not None:
        counts = _count_words(table, column)
        if asks and _are_unclear(column, counts):
            raise _unclear_words(table, column, counts)
        if column == COLUMN_NAMES[0]:
            return SplitColumn(column), ""
        if are_splits(counts):
            usual = [name for name in table.columns if _plain(name) in COLUMN_NAMES and name not in taken]
            _refuse_other_splits(table, column, usual)
            return SplitColumn(column), f"splits from column {column!r}"
        if 1 < len(counts) <= _MOST_WORDS:
            note = _note_words(column, counts)
    for name in table.columns:
        flags = None if name in taken else _read_flags(table, name)
        if flags is not None and (others := _find_alike(table, name, label=taken[0])):
            note = (
                f"column {name!r} is not used: it has zeros and ones, as {', '.join(others)} "
                f"{'has' if len(others) == 1 else 'have'}; if it says the splits, use `split_column={name}`"
            )
        elif flags is not None:
            true, false = SPLIT_FLAGS[_plain(name)]
            return flags, f"splits from column {name!r}: {true} where it is true, else {false}"
    found, seen = _find_by_words(table, [*taken, column], asks=asks)
    return found, seen or note


def _are_unclear(column: str, counts: Counter[str]) -> bool:
    """Whether a column with a usual name has words that may be splits and are unknown."""
    known = [word for word in counts if word.lower() in SPLIT_NAMES]
    if column == COLUMN_NAMES[0]:
        # Beside known ones, other names are splits of their own there (train and unlabeled), or reject their rows.
        return bool(counts) and not known
    may_be_splits = bool(known) or column.lower() == COLUMN_NAMES[0]
    return may_be_splits and len(known) < len(counts) <= _MOST_WORDS


def _unclear_words(table: Table, column: str, counts: Counter[str]) -> RequestError:
    suggestions = []
    if mapping := _map_words(counts):
        suggestions.append(Reading("these words are the splits", {"splits": _write_rule(mapping)}))
    if None not in map(name_split, counts):
        suggestions.append(Reading("each word is a split of its own", {"split_column": column}))
    suggestions.append(Reading("no splits from the column", {"split_column": ""}))
    unknown = [word for word, _ in counts.most_common() if word.lower() not in SPLIT_NAMES]
    shown = ", ".join(map(repr, unknown[:5])) + (", …" if len(unknown) > 5 else "")
    return RequestError(
        f"{quote_input(table.path)}: column {column!r} has words that are not names of splits: {shown}; give their "
        "meaning with `splits`, or ignore the column with `split_column=`",
        suggestions,
        code="unclear_split_column",
    )


def _note_words(column: str, counts: Counter[str]) -> str:
    """Returns the note on a column with a usual name and no known word."""
    # No fold has most of the rows.
    may_be_fold = [word for word in sorted(counts) if counts[word] * 2 <= counts.total()]
    are_folds = len(may_be_fold) == len(counts) and all(map(str.isdecimal, counts))
    mapping = {} if are_folds else _map_words(counts)
    if not mapping:
        mapping = next((one for word in may_be_fold if _is_rule(one := {"validation": word})), {})
    if not mapping:
        return f"column {column!r} is not used"
    return f"column {column!r} is not used; if it says the splits, use `splits={_write_rule(mapping)}`"


def _map_words(counts: Counter[str]) -> dict[str, str]:
    """Returns split -> word, as the setting `splits` takes it; empty if the setting cannot say it.

    The most frequent word is `train` if no word says so. If no word is known, the next two are `validation` and `test`.
    """
    words = {word.lower(): word for word in sorted(counts, reverse=True)}
    told = {word: split for word in words if (split := _tell_split(word))}
    mapping: dict[str, str] = {}
    for word in sorted(told, key=lambda word: (_ORDER.index(told[word]), word)):
        mapping.setdefault(told[word], words[word])
    rest = sorted(word for word in words.values() if word not in mapping.values())
    if "train" not in mapping and rest:
        most = max(rest, key=lambda word: counts[word])
        rest.remove(most)
        mapping = {"train": most, **mapping}
    free = [] if told else ["validation", "test"]
    for number, word in enumerate(rest):
        mapping[free[number] if len(rest) <= len(free) else word.lower()] = word
    return mapping if len(mapping) == len(words) and _is_rule(mapping) else {}


def _write_rule(mapping: Mapping[str, str]) -> str:
    return ",".join(f"{split}={word}" for split, word in mapping.items())


def _is_rule(mapping: Mapping[str, str]) -> bool:
    """Whether the setting `splits` takes these words; it reads `1` alone, for example, as a fraction."""
    try:
        return read_splits(_write_rule(mapping)).folders == {word: split for split, word in mapping.items()}
    except ValueError:
        return False


def _tell_split(word: str) -> str | None:
    """Returns the split of a lower-case word by its name or its beginning, also in French, Spanish and German."""
    beginnings = (split for start, split in _BEGINNINGS.items() if word.startswith(start))
    return SPLIT_NAMES.get(word) or next(beginnings, None)


def _read_flags(table: Table, column: str) -> SplitColumn | None:
    """Returns a column such as `is_valid` with the splits of true and false; None for other columns."""
    splits = SPLIT_FLAGS.get(_plain(column))
    words = {word.lower() for word in _words(table, column)} if splits else set()
    if splits is None or len(words) != 2 or not words <= {*_TRUE, *_FALSE}:
        return None
    true, false = splits
    return SplitColumn(column, {**dict.fromkeys(_TRUE, true), **dict.fromkeys(_FALSE, false)})


def _find_alike(table: Table, column: str, *, label: str | None) -> list[str]:
    """Returns other columns of zeros and ones if a column called `train`, say, may be a class as these are."""
    if _plain(column).startswith("is") or not _words(table, column) <= {"0", "1"}:
        return []
    others = [name for name in table.columns if name != label and _plain(name) not in SPLIT_FLAGS]
    cells = first_cells(table, [name for name in others if name not in table.embedded])
    return [name for name, values in cells.items() if {*map(_word, filter(_is_plain, values))} == {"0", "1"}]


def _is_plain(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _refuse_other_splits(table: Table, column: str, others: Sequence[str]) -> None:
    """Refuses a table in which one of other columns has other splits, because either may be meant."""
    if len(others) < 2:
        return
    cells = first_cells(table, others, rows=_ROWS)
    splits = {name: [SPLIT_NAMES.get(_word(cell).lower()) for cell in cells[name]] for name in others}
    other = next((name for name in others if splits[name] != splits[column] and are_splits(cells[name])), None)
    if other is None:
        return
    raise RequestError(
        f"{quote_input(table.path)}: columns {column!r} and {other!r} give different splits; name one with "
        "`split_column`",
        [Reading(f"the splits in column {name!r}", {"split_column": name}) for name in (column, other)],
        code="unclear_split_column",
    )


def are_splits(words: Iterable[Any]) -> bool:
    """Whether all words are split names."""
    found = {word.lower() for value in words if (word := _word(value))}
    return bool(found) and found <= SPLIT_NAMES.keys()


def _find_by_words(table: Table, taken: Sequence[str | None], *, asks: bool) -> tuple[SplitColumn | None, str]:
    """Returns the only column, of any name, with several split names, and a note; or a note on similar columns."""
    columns = [name for name in table.columns if name not in taken and name not in table.embedded]
    rows = table.head(columns, _FIRST_ROWS)
    first = {name: [word for row in rows if (word := _word(row[name]))] for name in columns}
    seen = [name for name, words in first.items() if sum(map(_looks_like_split, words)) * 2 > len(words)]
    words = {name: _words(table, name) for name in seen}
    certain = [name for name in seen if are_splits(words[name]) and len(_splits_in(words[name])) > 1]
    if asks and certain:
        _refuse_other_splits(table, certain[0], certain)
    if len(certain) == 1:
        return SplitColumn(certain[0]), f"splits from column {certain[0]!r}"
    notes = (
        f"column {name!r} looks like splits ({', '.join(sorted(words[name])[:3])}) and is not used; if it says them, "
        f"use `split_column={name}`"
        for name in certain or seen
        if len(words[name]) <= _MOST_WORDS
    )
    return None, ", ".join(notes)


def _looks_like_split(word: str) -> bool:
    return word.lower() in SPLIT_NAMES or (len(word) <= _LONGEST_WORD and split_in_name(word) is not None)


def _splits_in(words: Iterable[str]) -> set[str]:
    return {SPLIT_NAMES.get(word.lower(), word) for word in words}


def _usual(table: Table, taken: Sequence[str | None]) -> str | None:
    plain = {_plain(name): name for name in reversed(table.columns) if name not in taken}
    return next((plain[name] for name in COLUMN_NAMES if name in plain), None)


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name.lower())


def _words(table: Table, column: str) -> set[str]:
    """Returns the words in the first rows of a column."""
    return set(_count_words(table, column))


def _count_words(table: Table, column: str) -> Counter[str]:
    """Counts the words in the first rows of a column, without lists."""
    cells = (row[column] for row in table.head([column], _ROWS))
    return Counter(word for cell in cells if not isinstance(cell, list) and (word := _word(cell)))


def _word(value: Any) -> str:
    """Converts a cell to a word, "" if empty. Whole floats become integers, because empty cells made them floats."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    return str(value).strip()
