"""Class names, and the class indices of a source's labels.

The same rules hold for the labels of all sources:

- Labels that are all whole numbers (1, 1.0, `1`, `1.0`) and dense are class indices. Dense means that none is negative,
  and that the largest is below 100, or at least half of the numbers from 0 to the largest occur.
- Labels that are all whole numbers but not dense are names, sorted as numbers; an error if the largest exceeds 10,000.
- Other labels are names, sorted as text. Numbers with leading zeros and names of folders are always names.
- Numbers among names are an error, and so are fractions, unless the request names the classes.

Between versions of a dataset, classes keep their indices; see `order_classes`.
"""

from __future__ import annotations

import dataclasses
import enum
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.nearest import find_near
from beam_tfrecords.transforms.refs.sample_refs import Scalar, Value

_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]{0,18}))(?:\.0+)?")
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]+")
_SMALL = 100
_SPARSE = 10_000
# Integer labels need a name for every index up to the largest, so larger numbers are not class indices.
MAX_CLASSES = 1_000_000
_SEPARATORS = "|;, "
_DECIMAL = re.compile(r"-?(\d+),(\d+)")
# A list of quoted words, or of one word.
_LISTED = re.compile(r"\s*\[(?:\s*(['\"]).*\1\s*|[^\s,]+)\]\s*", re.DOTALL)
# At least this many different numbers with gaps between them are rarely classes.
_MANY_NUMBERS = 24
# Number of samples of a class that a misspelled label may mean, and of labels that may be misspelled.
_FREQUENT, _MOST_MISSPELLED = 5, 10
_REMEDY = "use `label_type=float` to store numbers, or name the classes with `class_names`"
# Name of the class 0 in masks.
BACKGROUND = "background"
# Maximum number of names in a message.
_MOST_NAMES = 20


# Label of a sample whose split has no labels; stored as -1 and "", as in TensorFlow Datasets.
UNLABELLED = b""


class ClassOrder(str, enum.Enum):
    """Indices of classes that the request does not name: STABLE keeps the previous version's, SORTED sorts names."""

    STABLE = "stable"
    SORTED = "sorted"


@dataclasses.dataclass(frozen=True)
class ClassNames:
    """The classes, in index order.

    Attributes:
      numbers_are_indices: whether a label that is a whole number is a class index, as in a table. If the names are
        numbers themselves, the label is the class with that name. A folder named `1` is always the class `1`.
      names_of: label of the source -> its class, for labels that are neither names nor indices. A whole number is a key
        for the number as a text too.
    """

    names: tuple[str, ...]
    numbers_are_indices: bool = False
    names_of: Mapping[Scalar, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = {whole_number(name): index for index, name in enumerate(self.names)}
        numbers.pop(None, None)
        object.__setattr__(self, "_index", {_text(name): index for index, name in enumerate(self.names)})
        object.__setattr__(self, "_numbers", numbers)

    def find(self, label: Scalar) -> int | None:
        """Returns the index of a label given as a name or as an index; None if there is no such class."""
        if label is None or label in ("", UNLABELLED):
            return None
        index: int | None = self._index.get(_text(label))  # type: ignore[attr-defined]
        number = None if index is not None else whole_number(label)
        if index is None and self.names_of:
            name = self.names_of.get(label, None if number is None else self.names_of.get(number))
            index = None if name is None else self._index.get(_text(name))  # type: ignore[attr-defined]
        if index is not None or not self.numbers_are_indices:
            return index
        if self._numbers:  # type: ignore[attr-defined]
            found: int | None = self._numbers.get(number)  # type: ignore[attr-defined]
            return found
        return number if number is not None and 0 <= number < len(self.names) else None

    def with_background(self, labels: Iterable[Scalar]) -> ClassNames:
        """Returns the classes of the numbers in masks: `BACKGROUND` has index 0, and the others follow.

        If no label has the number 0, it is not a class: the classes of a table may start at 1.
        """
        if self.names[:1] == (BACKGROUND,):
            return self
        is_free = all(self.find(label) != 0 for label in labels)
        names = self.names[1:] if self.names[:1] == ("0",) and is_free else self.names
        indices: dict[Scalar, str] = dict(enumerate(self.names)) if self.numbers_are_indices else {}
        return ClassNames((BACKGROUND, *names), names_of={**indices, **self.names_of})

    def count(self, labels: Mapping[Scalar, int]) -> dict[str, int]:
        """Returns the number of samples of each class: class -> samples, from label -> samples."""
        found: Counter[int | None] = Counter()
        for label, count in labels.items():
            found[self.find(label)] += count
        return {name: found[index] for index, name in enumerate(self.names)}

    def resolve(self, label: Scalar) -> tuple[int, str]:
        """Returns the class index and name of a label; -1 and "" for `UNLABELLED`.

        Raises:
          SampleError: the label is missing, or there is no such class.
        """
        if label is None or label == "":
            raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")
        if label == UNLABELLED:
            return -1, ""
        index = self.find(label)
        if index is None:
            raise SampleError(Stage.LABEL, FailureReason.UNKNOWN_CLASS, f"{label!r} is not one of the class names")
        return index, self.names[index]


def numbered_label(number: int, text: str) -> str:
    """Returns the label for a class that a source describes by a number and a text."""
    return f"{number}\t{text}"


def name_numbered(labels: Iterable[Scalar], *, first_class: int = 0) -> ClassNames:
    """Returns the classes of `numbered_label`s, with their numbers as indices; unused numbers become `category_3`.

    Args:
      first_class: number of the class with index 0; 0 if a label has the number 0.
    """
    found: dict[int, str] = {}
    names_of: dict[Scalar, str] = {}
    numbered = [label for label in labels if isinstance(label, str) and "\t" in label]
    for label in sorted(numbered, key=lambda label: (int(label.partition("\t")[0]), label)):
        number, _, text = label.partition("\t")
        # If two classes have the same text, such as ImageNet's cranes, the name of the second includes its number.
        name = text if text not in found.values() or found.get(int(number)) == text else f"{text} ({number})"
        names_of[label] = found.setdefault(int(number), name)
    first = min([first_class, *found])
    return ClassNames(fill_numbers(found, first=first), names_of=names_of)


def numbers_of(names: Iterable[str], *, first: int = 0) -> dict[Scalar, int]:
    """Returns name -> number of class names in the order of their numbers."""
    return {name: number for number, name in enumerate(names, first)}


def fill_numbers(names: Mapping[int, str], *, first: int) -> tuple[str, ...]:
    """Returns number -> name as a list from `first` on, with `category_3` for a number without a name."""
    return tuple(names.get(number, f"category_{number}") for number in range(first, max(names, default=-1) + 1))


def name_by_texts(
    labels: Iterable[Scalar], *, first_class: int = 0, are_texts: bool = False
) -> tuple[ClassNames, bool]:
    """Returns the classes of a table's `numbered_label`s in the order of their numbers, and whether texts name them.

    If a number has several texts, or a text several numbers, the labels alone are the classes.

    Args:
      labels: the labels; a label that is the text of another one belongs to its class.
      first_class: number of the class with index 0; 0 if a label has the number 0.
      are_texts: whether the labels are texts beside which there are numbers, rather than numbers beside texts.

    Raises:
      RequestError: as `infer_class_names`.
    """
    numbered = {label: label.split("\t", 1) for label in labels if isinstance(label, str) and "\t" in label}
    texts = {int(number): text for number, text in numbered.values()}
    others = [label for label in labels if label not in numbered]
    known = set(texts.values()) if are_texts else set[str]()
    are_names = len(texts) == len(set(texts.values())) == len(numbered) and not any(
        label not in (None, "") and label not in known for label in others
    )
    if are_texts and not are_names:
        names = sorted({*texts.values(), *(str(label) for label in others if label not in (None, ""))})
        return ClassNames(tuple(names), names_of={label: text for label, (_, text) in numbered.items()}), False
    unnamed = [label for label in others if label not in known]
    classes = infer_class_names([*texts, *unnamed], numbers_are_indices=True, first_class=first_class)
    names_of_all = {name: texts.get(int(name), f"category_{name}") if are_names else name for name in classes.names}
    names_of: dict[Scalar, str] = {label: names_of_all[str(int(number))] for label, (number, _) in numbered.items()}
    return ClassNames(tuple(names_of_all.values()), classes.numbers_are_indices and not are_names, names_of), are_names


def infer_class_names(
    labels: Iterable[Scalar], *, numbers_are_indices: bool, first_class: int = 0, remedy: str = ""
) -> ClassNames:
    """Infers class names if the request gives none; see the rules above.

    Args:
      numbers_are_indices: whether numbers can be class indices; False for names of folders.
      first_class: number of the class with index 0 if classes are numbers; 0 if a label is 0.
      remedy: advice for the message if labels are not classes; "" to name the settings for labels.

    Raises:
      RequestError: the labels are numbers that are neither class indices nor names, or mix numbers and names.
    """
    found = {label for label in labels if label is not None and label != ""}
    names = {_text(label) for label in found}
    if not numbers_are_indices or not names or (all(map(str.isdecimal, names)) and any(map(_has_zeros, names))):
        return ClassNames(sort_names(names))
    numbers = {label: number for label in found if (number := whole_number(label)) is not None}
    fractions = [label for label in found if label not in numbers and _is_fraction(label)]
    words = [label for label in found if label not in numbers and not _is_fraction(label)]
    if words and (numbers or fractions):
        raise RequestError(
            f"the labels are names ({_quote(words)}) and numbers ({_quote([*numbers, *fractions])}); "
            f"{remedy or _say_all(names)}",
            code="mixed_labels",
        )
    if fractions:
        raise RequestError(
            f"the labels are fractions ({_quote(fractions)}), which are not classes; {remedy or _REMEDY}",
            [] if remedy else [Reading("the labels as numbers", {"label_type": "float"})],
            code="labels_not_classes",
        )
    if words:
        return ClassNames(sort_names(names))
    integers = set(numbers.values())
    smallest, largest = min(integers), max(integers)
    first = min(smallest, first_class)
    is_dense = are_dense(integers, first=first)
    if smallest < 0 or largest >= MAX_CLASSES or (largest > _SPARSE and not is_dense):
        raise RequestError(
            f"the labels are {len(integers):,} integers from {smallest} to {largest}, which are not class indices; "
            f"{remedy or _REMEDY}",
            code="labels_not_classes",
        )
    return ClassNames(tuple(map(str, range(first, largest + 1) if is_dense else sorted(integers))), True)


def are_dense(numbers: Collection[int], *, first: int) -> bool:
    """Whether few of the numbers from `first` to the largest are missing, so that each of them is a class."""
    return max(numbers) - first < _SMALL or len(numbers) * 2 > max(numbers) - first


def order_classes(previous: Sequence[str], found: Sequence[str], order: ClassOrder) -> tuple[str, ...]:
    """Returns the classes of a version, in index order.

    Args:
      previous: classes of the previous version, in index order; empty if there is none.
      found: classes of the input, in the order that they would have without a previous version.
      order: STABLE keeps the index of every previous class, even without samples; new classes follow in found order.
    """
    if order is ClassOrder.SORTED:
        return tuple(found)
    known = set(map(_text, previous))
    return (*previous, *(name for name in found if _text(name) not in known))


def keep_indices(previous: Sequence[str], found: ClassNames, order: ClassOrder) -> ClassNames:
    """Returns the classes of the input with the indices of the previous version; see `order_classes`.

    Labels that are bare indices cannot change. So if the input has such labels and the previous classes are not named
    by numbers, returns the found classes unchanged.
    """
    if found.numbers_are_indices and None in map(whole_number, previous):
        return found
    return dataclasses.replace(found, names=order_classes(previous, found.names, order))


def describe_order(found: Sequence[str], ordered: Sequence[str]) -> Iterator[str]:
    """Yields a note if classes have other indices than they would have without a previous version."""
    if tuple(found) == tuple(ordered):
        return
    new = {_text(name): index for index, name in enumerate(found)}
    unused = [name for name in ordered if _text(name) not in new]
    moved = sum(new.get(_text(name), index) != index for index, name in enumerate(ordered))
    what = [f"{len(unused):,} without samples: {_quote(unused)}"] if unused else []
    what += [f"{moved:,} would have another index in a dataset of their own"] if moved else []
    yield f"classes keep the indices of the version before ({'; '.join(what)}); `class_order=sorted` numbers them anew"


def describe_labels(labels: Iterable[Scalar], class_names: ClassNames, *, in_cells: bool) -> list[str]:
    """Returns notes on labels and inferred classes that are unusual but may be intended.

    Args:
      in_cells: whether labels are cells of a table that were not split by a separator.
    """
    notes: list[str] = []
    if class_names.names_of:
        return notes
    notes += _describe_case(class_names.names)
    if class_names.numbers_are_indices:
        notes += _describe_numbers(
            {number for label in labels if (number := whole_number(label)) is not None}, class_names
        )
    texts = {label for label in labels if isinstance(label, str) and label} if in_cells else set()
    separator = find_separator(texts)
    if separator:
        several = [text for text in texts if separator in text]
        notes.append(
            f"labels such as {_quote(several)} look like several labels in one cell; if they are, "
            f"use `label_separator={separator}`"
        )
    return notes


def describe_unique(counts: Mapping[Scalar, int]) -> list[str]:
    """Returns a note if nearly every sample has its own text as its label.

    Args:
      counts: label -> number of samples.
    """
    texts = {label: count for label, count in counts.items() if isinstance(label, str) and whole_number(label) is None}
    if len(texts) < _MANY_NUMBERS or len(texts) * 2 <= sum(texts.values()):
        return []
    return [
        f"there are {len(texts):,} classes for {sum(texts.values()):,} labels, such as {_quote(texts)}; if they are "
        "texts such as captions, use `label_type=text`"
    ]


def describe_misspelled(counts: Mapping[Scalar, int]) -> list[str]:
    """Returns notes on labels that a single sample has and that are spelled nearly like a frequent one.

    Args:
      counts: label -> number of samples.
    """
    words = {label: count for label, count in counts.items() if isinstance(label, str) and label.isalpha()}
    frequent = [label for label, count in words.items() if count >= _FREQUENT]
    rare = [label for label, count in words.items() if count == 1]
    # Many rare classes are a long tail rather than typos.
    near = {label: find_near(label, frequent) for label in rare} if len(rare) <= _MOST_MISSPELLED else {}
    return [
        f"the label {label!r} occurs once, and {name!r} {words[name]:,} times; if it is a typo, correct it in the input"
        for label, name in near.items()
        if name is not None
    ]


def find_separator(texts: Collection[str]) -> str | None:
    """Returns the separator of labels in the cells of a column; None if each cell seems to have one label."""
    texts = set(texts)
    if are_decimals(texts):
        return None
    if texts and all(map(_LISTED.fullmatch, texts)):
        return ","
    for separator in _SEPARATORS:
        several = [text for text in texts if separator in text]
        are_lists = any(text.strip()[:1] == "[" and text.strip()[-1:] == "]" for text in several)
        are_all = len(several) == len(texts)
        if separator == " ":  # May also be part of a class name.
            counts = Counter(part for text in texts for part in _parts(text, separator))
            is_meant = any(
                parts & texts and all(counts[part] > 1 for part in parts)
                for parts in (_parts(text, separator) for text in several)
            )
        else:
            is_meant = are_all or are_lists or any(_parts(text, separator) & texts for text in several)
        if several and is_meant:
            return separator
    return None


def are_decimals(cells: Collection[str]) -> bool:
    """Whether cells are numbers with decimal commas, such as 35,4, and not each two classes, which are in order."""
    found = [_DECIMAL.fullmatch(cell) for cell in cells]
    numbers = [one.groups() for one in found if one]
    return len(numbers) == len(cells) and any(int(before) >= int(after) for before, after in numbers)


def words_recur(texts: Collection[str], *, are_several: bool) -> bool:
    """Whether cells may have several classes with spaces between them, because most of their words are in other cells.

    Words of one name, such as those of `red panda` and `red fox`, keep their place from the first or the last word.

    Args:
      texts: the different cells.
      are_several: whether the name of their column is a plural.
    """
    rows = [text.split() for text in texts]
    places = [(word, place, len(words) - place) for words in rows for place, word in enumerate(words)]
    counts = Counter(word for word, _, _ in places)
    first = Counter(word for word, _ in {(word, place) for word, place, _ in places})
    last = Counter(word for word, _ in {(word, place) for word, _, place in places})
    are_known = are_several or all(map(str.isdecimal, counts))
    again = [counts[word] for word in counts if counts[word] > 1 and (are_known or min(first[word], last[word]) > 1)]
    return len(again) > 1 and len(places) > len(rows) and 2 * sum(again) >= len(places)


def repeats_parts(cells: Sequence[Scalar], separator: str | None) -> bool:
    """Whether cells contain several labels each, which recur in other cells."""
    texts = {*map(str, cells)}
    parts = [part.strip() for text in texts for part in text.split(separator)] if separator else []
    return len(parts) > len(texts) and 1 < len(set(parts)) < len(parts)


def _describe_case(names: Iterable[str]) -> Iterator[str]:
    by_case: dict[str, list[str]] = {}
    for name in names:
        by_case.setdefault(name.casefold(), []).append(name)
    alike = [same for same in by_case.values() if len(same) > 1]
    if alike:
        yield f"classes that differ only in case are classes of their own: {_quote(alike[0])}"


def _describe_numbers(numbers: set[int], class_names: ClassNames) -> Iterator[str]:
    names = class_names.names
    is_dense = names == tuple(map(str, range(len(names))))
    unused = [index for index in range(len(names)) if index not in numbers] if is_dense else []
    if len(numbers) >= _MANY_NUMBERS and (unused or not is_dense):
        yield (
            f"the labels are {len(numbers):,} numbers from {min(numbers)} to {max(numbers)}, which look like ages or "
            "identifiers rather than classes"
        )
    elif unused and numbers:
        more = ", …" if len(unused) > 3 else ""
        yield (
            f"the labels are class indices, and no sample has {', '.join(map(str, unused[:3]))}{more}: there are "
            f"{len(names):,} classes, {len(numbers):,} with samples; `class_names` decides the indices"
        )


def whole_number(label: Scalar) -> int | None:
    """Returns a label, given as a number or text, as a whole number; None if it is not one or has leading zeros."""
    if isinstance(label, str):
        match = _WHOLE.fullmatch(label)
        return int(match[1]) if match else None
    if isinstance(label, float):
        return int(label) if label.is_integer() else None
    return label if isinstance(label, int) and not isinstance(label, bool) else None


def class_label(value: Value, missing: Collection[str]) -> Value:
    """Returns a value of a column as a label; None if it is blank or one of the words for empty cells."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    label = value if isinstance(value, list) else plain_label(value)
    return None if isinstance(label, str) and label in missing else label


def plain_label(value: Scalar) -> Scalar:
    """Returns the value of a cell as a label: without spaces around it; None if it is blank or not a number."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        # An empty cell in a numeric column is NaN.
        return None if value != value else int(value) if value.is_integer() and abs(value) < 2**63 else value
    return value


def _text(label: Scalar) -> str:
    # Booleans become the names `false` and `true`.
    text = str(label).lower() if isinstance(label, bool) else str(label)
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Sorts names as numbers if all are numbers, else as text."""
    names = set(names)
    if all(name.isascii() and name.isdecimal() for name in names):
        return tuple(sorted(names, key=lambda name: (int(name[:4000]), name)))
    return tuple(sorted(names))


def _has_zeros(name: str) -> bool:
    return len(name) > 1 and name.startswith("0")


def _is_fraction(label: Scalar) -> bool:
    return isinstance(label, float) or (isinstance(label, str) and bool(_FRACTION.fullmatch(label)))


def _say_all(names: Iterable[str]) -> str:
    ordered = sorted(names)
    if len(ordered) <= _MOST_NAMES and not any("," in name for name in ordered):
        return f"use `class_names={','.join(ordered)}`, in the order of the indices"
    return "use `class_names` with all of them in index order"


def _parts(text: str, separator: str) -> set[str]:
    return {part.strip() for part in text.split(separator)}


def _quote(labels: Iterable[Scalar]) -> str:
    ordered = sorted(labels, key=str)
    return ", ".join(repr(label) for label in ordered[:3]) + (", …" if len(ordered) > 3 else "")
