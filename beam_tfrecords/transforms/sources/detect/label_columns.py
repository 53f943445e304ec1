"""Finds label columns by their names and cells, if the request names none."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords.transforms.labels import are_decimals, find_separator, repeats_parts, words_recur
from beam_tfrecords.transforms.sources.detect.box_columns import find_sides
from beam_tfrecords.transforms.sources.detect.column_names import (
    LABEL_NAMES,
    OF_PEOPLE,
    TEXT_NAMES,
    is_plural,
    names_no_label,
    plain_name,
)
from beam_tfrecords.transforms.sources.detect.numbered_columns import sort_by_number
from beam_tfrecords.transforms.sources.detect.roles import NO_LABELS, Role, role_of
from beam_tfrecords.transforms.sources.detect.split_column import SPLIT_FLAGS, are_splits
from beam_tfrecords.transforms.sources.detect.unnamed_columns import UNNAMED, all_as_numbers
from beam_tfrecords.transforms.sources.tables.flags import UNKNOWN_MEANINGS, find_column_flags

Cells: TypeAlias = Mapping[str, Sequence[str | int]]

_MOST_LABELS = 2
_LONGEST_LABEL = 60
_LEAST_WORDS = 3
# So many numbers are seldom classes.
_MANY = 30
# Here -1 means absent, as in CelebA's attributes.
_ONE_HOT = {"0", "1", "0.0", "1.0", "-1", "-1.0"}
_VALUE_NAMES = re.compile(rf"(?:^|{OF_PEOPLE})age$|price|score|rating|value|^target$|^y$")
_PRICES = re.compile(r"price|rating|^target$|^y$")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_WORD = re.compile(r"[^\W\d_]+")
FRACTION = re.compile(r"-?\d*\.\d+")
_SEPARATORS = re.compile(r"[|;,]")
# Names of files, such as films, and ids.
_NO_WORD = re.compile(r"[^\s.]\.[A-Za-z][A-Za-z0-9]{2,3}$|^[0-9A-Fa-f-]{16,}$")


def find_one_hot(cells: Cells, rows: int) -> list[str]:
    """Finds columns of zeros and ones; sorts columns with numbered names by number.

    Ignores columns of only ones, and all columns if each of them is constant. Some constant columns are fine, because
    the first rows may not include a rare class.
    """
    words = {
        name: {str(value).removesuffix(".0") for value in values}
        for name, values in cells.items()
        if "," not in name and values and set(map(str, values)) <= _ONE_HOT
    }
    # Names such as `group` rule out labels, unless the columns on both sides have zeros and ones, too.
    columns = [*cells]
    sides = zip(columns[1:], columns, columns[2:], strict=False)
    beside = {name for name, before, after in sides if {before, after} <= words.keys()}
    words = {name: one for name, one in words.items() if name in beside or not names_no_label(name)}
    if {len(cells[name]) for name in words} != {rows} or any(
        sum(str(value) in ("1", "1.0") for value in row) != 1
        for row in zip(*(cells[name] for name in words), strict=True)
    ):
        # Only if each row has a one, a column called `train` is one of the classes.
        words = {name: found for name, found in words.items() if plain_name(name) not in SPLIT_FLAGS}
    # If some labels are unknown, others may be empty.
    may_be_empty = any({"-1", "0"} <= found for found in words.values())
    full = {name for name in words if len(cells[name]) == rows}
    found = {name: values for name, values in words.items() if may_be_empty or name in full}
    names = [name for name, values in found.items() if values != {"1"} or name not in full]
    if not any(len(words) > 1 for words in found.values()):
        return []
    # Without a header, those of one set stand beside each other.
    places = [int(name.removeprefix(UNNAMED)) for name in names if re.fullmatch(rf"{UNNAMED}\d+", name)]
    if places and max(places) - min(places) >= len(names):
        return []
    numbered = iter(sort_by_number(name for name in names if re.search(r"\d", name)))
    return [next(numbered) if re.search(r"\d", name) else name for name in names]


def _are_numbers(values: Sequence[str | int]) -> bool:
    return all(_NUMBER.fullmatch(str(value)) for value in values)


def are_many_numbers(name: str, values: Sequence[str | int]) -> bool:
    """Whether cells are so many different numbers that they are seldom classes, under a name without such a word."""
    is_other = re.search(f"{LABEL_NAMES.pattern}|id$", plain_name(name)) is not None
    return not is_other and len({*values}) >= _MANY and _are_numbers(values)


def find_labels(
    cells: Cells, rows: int, *, repeats: bool = False, are_named: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields settings that find labels, with their meaning: (meaning, settings).

    Args:
      cells: cells of the columns that may contain labels.
      rows: number of rows.
      repeats: whether several rows may have the same image.
      are_named: whether the file names its columns.
    """
    sides = find_sides(list(cells))
    may_be = {name for name, values in cells.items() if name not in sides and _may_be_named(name, values)}
    one_hot = find_one_hot(cells, rows)
    texts = {name: {*map(str, cells[name])} for name in may_be}
    separators = {
        name: find_separator(some) or (" " if words_recur(some, are_several=is_plural(name)) else None)
        for name, some in texts.items()
    }
    labels = [
        name
        for name, values in cells.items()
        if name in may_be
        and max(map(len, map(str, values)), default=_LONGEST_LABEL) < _LONGEST_LABEL
        and (1 < len(set(values)) < len(values) or repeats_parts(values, separators[name]))
    ]
    named = [name for name in labels if are_named and LABEL_NAMES.search(plain_name(name))]
    if len(one_hot) > 1 and set(named) <= set(one_hot):
        shown, settings = f"a class for each of the columns {', '.join(one_hot)}", {"label_columns": ",".join(one_hot)}
        if not find_column_flags(value for name in one_hot for value in cells[name]).unknown:
            yield shown, settings
            return
        for unknown, meaning in UNKNOWN_MEANINGS.items():
            yield f"{shown}, {meaning}", {**settings, "unknown_labels": unknown.value}
        return
    named_so = {
        name: kind for name, values in cells.items() if name not in labels and (kind := _kind_by_name(name, values))
    }
    # A price is a label rather than any column that repeats.
    is_price = not named and any(map(_PRICES.search, map(plain_name, named_so)))
    if is_price:
        yield from _describe_values(named_so, repeats=repeats)
    # Words are classes rather than numbers.
    labels = sorted(named or labels, key=lambda name: (_are_numbers(cells[name]), len(set(cells[name]))))
    # Of numbers under names that say nothing, any may be classes, or none.
    are_bare = not named and all(_are_numbers(cells[name]) for name in labels)
    values = named_so or (_find_values(cells, rows) if are_bare else {})
    many = {name for name in labels if not named and are_many_numbers(name, cells[name])}
    # Of several such columns, each value of one may be different.
    many |= {name for name, kind in values.items() if many and kind == "float"}
    yield from _describe_values({name: "float" for name in cells if name in many}, repeats=repeats)
    most = 1 if values else _MOST_LABELS
    values = {name: kind for name, kind in values.items() if name not in many}
    for number, name in enumerate(labels[:most]):
        separator = separators[name] if repeats_parts(cells[name], separators[name]) else None
        # A space may also be part of a class name, which is asked separately.
        several = {"label_separator": separator} if separator and separator != " " else {}
        yield f"the classes in column {name!r}", {"label_column": name, **several}
        if number == 0:
            yield from _find_heads(cells, rows, labels)
        if repeats and separators[name] is None:
            grouped = {"label_column": name, "group_rows": True, "layout": "multilabel"}
            yield f"the classes in column {name!r} of all rows of an image", grouped
    if not is_price:
        yield from _describe_values(values, repeats=repeats)


def _describe_values(found: Mapping[str, str], *, repeats: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the settings that read columns of texts or numbers, from the type of their labels."""
    yield from all_as_numbers([name for name, kind in found.items() if kind == "float"])
    for name, kind in found.items():
        # Each of several captions of an image has its own row.
        grouped = {"group_rows": True} if repeats and kind == "text" else {}
        meaning = "texts" if kind == "text" else "numbers"
        yield f"the {meaning} in column {name!r}", {"label_column": name, "label_type": kind, **grouped}


def _kind_by_name(name: str, values: Sequence[str | int]) -> str | None:
    """Returns the type of the labels in a column with a usual name of texts or values; None for another name."""
    plain, are_numbers = plain_name(name), _are_numbers(values)
    if TEXT_NAMES.search(plain):
        return "text" if values and not are_numbers else None
    return "float" if values and are_numbers and _VALUE_NAMES.search(plain) else None


def are_texts(values: Sequence[Any]) -> bool:
    """Whether cells are sentences."""
    counts = [len(_WORD.findall(value)) if isinstance(value, str) else 0 for value in values]
    return 2 * sum(count >= _LEAST_WORDS for count in counts) > len(counts)


def _find_values(cells: Cells, rows: int) -> Mapping[str, str]:
    """Returns the columns of texts, or else of fractions, and the type of their labels."""
    whole = {name: values for name, values in cells.items() if len(values) == rows > 1}
    texts = [name for name, values in whole.items() if are_texts(values) and role_of(name, values) not in NO_LABELS]
    # Beside the images, a single column of words has what these show, such as the letters of a plate.
    only = [name for name, values in cells.items() if len({*values}) == len(values) > 1 and _have_words(values)]
    texts = texts or [name for name in only if len(cells) == 1 and _may_be_named(name, cells[name])]
    numbers = [name for name, values in whole.items() if any(FRACTION.fullmatch(str(value)) for value in values)]
    numbers = [name for name in numbers if _are_numbers(whole[name]) and not find_sides([*cells])]
    return dict.fromkeys(texts, "text") or dict.fromkeys(numbers, "float")


def _have_words(values: Sequence[Any]) -> bool:
    """Whether the cells hold neither numbers nor lists of numbers."""
    return not _are_numbers(values) and any(_WORD.search(str(value)) for value in values)


def _find_heads(cells: Cells, rows: int, labels: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the settings that make a feature of each of several columns of words, one of which may be the label."""
    heads = [
        name
        for name, values in cells.items()
        if re.fullmatch(r"[A-Za-z]\w*", name)
        and plain_name(name) not in SPLIT_FLAGS
        and len(values) == rows
        and 1 < len(set(values)) < len(values)
        and not any(map(_NUMBER.fullmatch, map(str, values)))
        and (name in labels or not (are_splits(values) or role_of(name, values) in (*NO_LABELS, Role.TEXT)))
    ]
    if len(heads) > 1 and {*heads} & {*labels} and not any(LABEL_NAMES.search(plain_name(name)) for name in heads):
        layout = ",".join(["image", *(f"{name}:class" for name in heads)])
        yield f"a class for each of the columns {', '.join(heads)}", {"layout": layout}


def find_only_label(cells: Mapping[str, Sequence[Any]]) -> str | None:
    """Returns the label column if only one column qualifies, else None."""
    plain = {name: plain_name(name) for name in cells}
    sides = find_sides(list(cells))
    found = [
        name
        for name, values in cells.items()
        if name not in sides and _may_be_labels(values, is_only=len(cells) == 1) and _may_be_named(name, values)
    ]
    named = [name for name in found if LABEL_NAMES.search(plain[name])]
    exact = [name for name in named if plain[name] in ("label", "class", "category")]
    chosen = next((some for some in (exact, named, found) if some), [])
    filled = {name: [one for one in values if one not in (None, "")] for name, values in cells.items()}
    one_hot = find_one_hot(filled, max(map(len, cells.values()), default=0))
    if len(one_hot) > 1 and {*named} <= {*one_hot}:
        return None
    # With both `label` and `label_name`, `label` is chosen.
    return chosen[0] if len(chosen) == 1 else None


def find_words(cells: Cells, rows: int) -> list[str]:
    """Returns the columns of one word, the same in all rows, which may be the class of them all."""
    alike = [name for name, values in cells.items() if len(values) == rows > 1 and len({*values}) == 1]
    return [name for name in alike if not _are_numbers(cells[name]) and _may_be_named(name, cells[name])]


def _may_be_labels(values: Sequence[Any], *, is_only: bool) -> bool:
    words = [str(value) for value in values if value is not None and value != ""]
    if len(words) < len(values) or len(set(words)) < 2 or len(max(words, key=len)) > _LONGEST_LABEL:
        return False
    if any(isinstance(value, (float, list, bytes)) for value in values):
        return False
    if any(_SEPARATORS.search(word) or FRACTION.fullmatch(word) for word in words):
        return False
    return len(set(words)) < len(words) or (is_only and not any(" " in word for word in words))


def _holds_objects(cell: str) -> bool:
    """Whether a cell has the objects of an image: words with four numbers each, as `cat 4 5 16 20 dog 30 9 10 8`."""
    words = re.split(r"[\s,;]+", cell.strip(" ;,"))
    are_numbers = [_NUMBER.fullmatch(word) is not None for word in words]
    return are_numbers == [False, True, True, True, True] * (len(words) // 5)


def _may_be_named(name: str, values: Sequence[Any]) -> bool:
    """Whether neither the name nor the cells of a column rule out labels."""
    plain = plain_name(name)
    filled = [str(value) for value in values if value != ""]
    are_other = bool(filled) and (
        all(map(_holds_objects, filled)) or all(map(_NO_WORD.search, filled)) or are_decimals(filled)
    )
    is_other = names_no_label(name) or plain in SPLIT_FLAGS or are_splits(values) or are_other
    return not is_other and role_of(name, values) not in (*NO_LABELS, Role.TEXT)
