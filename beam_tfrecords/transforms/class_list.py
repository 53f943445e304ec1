"""Class names that a request or a file gives: a list, or names with the numbers or ids of the classes. Pure functions.

One function reads plain values (`list_classes`) and one reads files of every form (`parse_class_file`);
docs/sources/class_names.md has the table of forms. What neither understands is an error that says what was found, never
a class name.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import yaml

from beam_tfrecords.dataset.label_files import parse_label_map
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.transforms.labels import ClassNames, whole_number
from beam_tfrecords.transforms.refs.sample_refs import Scalar

EXPECTED = "expected a name per line, or `number: name` lines; or CSV (.csv), JSON or YAML, or a label_map.pbtxt"
_MOST_CLASSES = 1_000_000
# Characters. The parser of YAML reads a megabyte in some seconds.
_MOST_YAML = 1 << 20
# Names in a message.
_MOST_SHOWN = 100
# Names that only a class with the number 0 has.
_BACKGROUND = ("background", "bg", "void", "none", "unlabeled", "unlabelled", "nothing")
# Ids of WordNet and of Freebase, as ImageNet and Open Images use them.
_ID = re.compile(r"(?:[nvar]\d{8}|/[mgt]/[0-9a-z_]+)")
_NUMBERED = re.compile(r"(\d{1,9})(\s*[:=\t,;|)]\s*|\.\s+|\s+-\s+|\s+)(\S.*)")
_NUMBERED_WORD = re.compile(r"(\d{1,9}):\s*(\S.*)")
_NUMBER_LAST = re.compile(r"((?:\S.*)?[^\s:=,;|])\s+(\d{1,9})")
# Lines of other forms: `cat: 0`, `class 0: cat`.
_NAME_FIRST = re.compile(r"\S.*?\s*[:=\t,;|]\s*\d{1,9}")
_NUMBERED_CLASS = re.compile(
    r"(?:class|label|category|id|index)[\s_]*\d{1,9}(?:\s*[:=\t,;|)]\s*|\s+-\s+)\S.*", re.IGNORECASE
)
# Labels such as 001, which `whole_number` reads as names.
_PADDED = re.compile(r"0[0-9]{1,8}")
_WITH_ID = re.compile(rf"({_ID.pattern})[\s,:;|]\s*(\S.*)")
_YAML_KEY = re.compile(
    r"(?:names|classes|labels|class_names|categories|id2label|label2id)\s*:\s*(?:\[|\{|$)", re.MULTILINE
)
_IMAGE = re.compile(r"\.(?:jpe?g|png|gif|bmp|webp|tiff?)(?:[\s,\"']|$)", re.IGNORECASE)
# Words that the header of a column of names, numbers or ids may be; lower case, without separators.
_NAME_WORDS = (
    "name", "classname", "labelname", "displayname", "categoryname", "signname", "class", "label", "category", "names",
    "classes", "labels", "categories", "title", "text", "words", "species", "breed",
)  # fmt: skip
_NUMBER_WORDS = (
    "id", "index", "idx", "classid", "labelid", "classindex", "classidx", "labelindex", "categoryid", "number",
    "classnumber", "code", "value", "target", "no", "trainid",
)  # fmt: skip
# Words of the header of a column that counts the samples of each class.
_COUNT_WORDS = ("count", "counts", "images", "samples", "instances", "total", "frequency", "size", "num", "support")
# Keys of JSON and YAML documents below which the classes are.
_WRAPPERS = (
    "names", "classes", "class_names", "labels", "label_names", "categories", "id2label", "label2id", "class_to_idx",
    "class_to_index", "class_indices", "label_map", "idx_to_class", "index_to_class", "items", "item",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class ClassList:
    """Classes in index order.

    Attributes:
      names: names of the classes.
      numbers: number of each class, ascending, if the list has numbers. A label that is a number means one of these.
      ids: text id of each class, such as `n01440764`; empty if the list has none. A label may be an id instead.
    """

    names: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def by_number(self) -> Mapping[int, str]:
        """Number -> name; numbers count from 0 if the list has none."""
        return dict(zip(self.numbers or range(len(self.names)), self.names, strict=True))

    def to_json(self) -> Any:
        """Returns a plain value that `list_classes` reads as this list."""
        known = {"name": self.names, "index": self.numbers, "id": self.ids}
        if not (self.numbers or self.ids):
            return list(self.names)
        return [{key: values[place] for key, values in known.items() if values} for place in range(len(self.names))]


def fit_classes(
    classes: ClassList,
    labels: Iterable[Scalar],
    *,
    numbers_are_indices: bool,
    first_class: int = 0,
    where: str = "`class_names`",
) -> ClassNames:
    """Returns the classes that labels mean by name, by id or by number.

    The list gives the numbers. If the list has none, they count from 0 or, if all labels fit only so, from 1. Labels
    may have leading zeros.

    Args:
      labels: all labels of the input.
      numbers_are_indices: whether labels that are numbers can be indices; False for names of folders.
      first_class: number of the first class in the format of the input, if no label is smaller.
      where: the setting or file that has the names, for the message.

    Raises:
      RequestError: the labels may count from 0 or from 1, also if the list counts from 1 and the labels fit it from 0.
    """
    names = classes.names
    numbered: dict[Scalar, str] = dict(zip(classes.numbers, names, strict=False))
    ids: dict[Scalar, str] = dict(zip(classes.ids, names, strict=False))
    plain = ClassNames(names, numbers_are_indices and not numbered, {**ids, **numbered})
    if not numbers_are_indices or (not numbered and any(whole_number(name) is not None for name in names)):
        return plain
    by_name = ClassNames(names)
    unnamed = {
        label: number
        for label in labels
        if (number := _label_number(label)) is not None and by_name.find(label) is None
    }
    first = _find_first(classes, {*unnamed.values()}, first_class=first_class, where=where)
    by_number: dict[Scalar, str] = numbered or dict(zip(range(first, first + len(names)), names, strict=True))
    padded = {
        label: by_number[number] for label, number in unnamed.items() if _is_padded(label) and number in by_number
    }
    return dataclasses.replace(
        plain,
        numbers_are_indices=not numbered and not first,
        names_of={**plain.names_of, **(by_number if first else {}), **padded},
    )


def _find_first(classes: ClassList, labels: Collection[int], *, first_class: int, where: str) -> int:
    """Returns the number of the first class, for labels that are numbers; see `fit_classes`."""
    names = classes.names
    numbers = {number for number in labels if number >= 0}
    has_first, has_last = 0 in numbers, len(names) in numbers
    span = f"{where} has {len(names):,} names, and " + (
        f"the labels are numbers from {min(labels)} to {max(labels)}"
        if len(labels) > 1
        else f"the only number in the labels is {min(labels, default=0)}"
    )
    if classes.numbers:
        if classes.numbers == (*range(1, len(names) + 1),) and has_first and not has_last:
            raise RequestError(
                f"{span}, but the numbers of the names are from 1 to {len(names):,}; expected the number before each "
                f"name, such as 0:{names[0]}",
                _suggest_numbers(
                    {
                        "numbers from 0": (0, names),
                        "numbers from 1, where 0 is the class background": (0, ("background", *names)),
                    }
                ),
                code="first_class_number",
            )
        return classes.numbers[0]
    if not numbers or numbers == {*range(len(names))}:
        return 0
    if (has_first and not has_last) or (not has_last and _plain(names[0]) in _BACKGROUND):
        return 0
    if not has_first and (has_last or first_class == 1):
        return 1
    if has_first:
        raise RequestError(
            f"{span}; expected a name for each number from 0 on",
            [Reading("0 as a class `background`", {"class_names": ",".join(["background", *names])})]
            if _may_be_words(names) and "background" not in names
            else [],
            code="unknown_class",
        )
    raise RequestError(
        f"{span}, so they may count from 0 or from 1; expected the number before each name, such as 1:{names[0]}",
        _suggest_numbers({"numbers from 1": (1, names), "numbers from 0": (0, names)}),
        code="first_class_number",
    )


def _label_number(label: Scalar) -> int | None:
    """Returns a label as a number, also one with leading zeros; None if it is not one."""
    return int(str(label)) if _is_padded(label) else whole_number(label)


def _is_padded(label: Scalar) -> bool:
    return isinstance(label, str) and _PADDED.fullmatch(label) is not None


def _suggest_numbers(meanings: Mapping[str, tuple[int, Sequence[str]]]) -> list[Reading]:
    """Suggests class names for each meaning: first number and names."""
    return [
        Reading(meaning, {"class_names": ",".join(f"{number}:{name}" for number, name in enumerate(names, first))})
        for meaning, (first, names) in meanings.items()
        if _may_be_words(names) and len({*names}) == len(names)
    ]


def _may_be_words(names: Sequence[str]) -> bool:
    """Whether the setting `class_names` can list these names."""
    return len(names) <= _MOST_SHOWN and not any("," in name for name in names)


class _Named(dict[str, Any]):
    """What is known of one class: `name`, `number`, `id`."""


def list_classes(value: Any) -> ClassList:
    """Reads a plain value: a list of names or objects, or a mapping of names and numbers in either direction.

    Raises:
      ValueError: the value has another form; says what was found and what was expected.
    """
    if isinstance(value, Mapping):
        wrapped = {key: value[key] for key in value if key in _WRAPPERS and isinstance(value[key], (Mapping, list))}
        if wrapped:
            found = {key: list_classes(one) for key, one in wrapped.items()}
            first, *others = found.values()
            if any(other.names != first.names for other in others):
                raise ValueError(f"its keys {' and '.join(found)} have different classes; expected one list of classes")
            return next((one for one in found.values() if one.numbers), first)
        only = next(iter(value.values()), None) if len(value) == 1 else None
        if isinstance(only, list) and only and all(isinstance(one, (Mapping, list, tuple)) for one in only):
            return list_classes(only)
        return _of_mapping(value)
    if isinstance(value, (list, tuple)):
        if any(isinstance(one, (Mapping, list, tuple)) for one in value):
            return _combine([_of_object(one) for one in value])
        return _combine([_Named(name=one) for one in value])
    raise ValueError(f"{_describe(value)}; expected names in index order, or a mapping of name to number")


def parse_class_words(words: Sequence[str]) -> ClassList:
    """Reads the words of a comma-separated text: names, or `number:name` for all."""
    found = _match_all(_NUMBERED_WORD, [word.strip() for word in words])
    if found:
        return _combine([_Named(number=int(match[1]), name=match[2]) for match in found])
    return _combine([_Named(name=word) for word in words])


def parse_class_file(data: bytes, name: str, *, are_numbered: bool = False) -> ClassList:
    """Reads a file of class names in any form of `EXPECTED`.

    Args:
      data: content of the file.
      name: name of the file; its extension tells JSON, YAML and CSV apart where the content does not.
      are_numbered: whether a number at the start of every line is that of the class, even if there are large gaps.

    Raises:
      ValueError: as `list_classes`.
    """
    try:
        text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"it is not text in UTF-8; {EXPECTED}") from None
    if "\0" in text:
        raise ValueError(f"it is a binary file; {EXPECTED}")
    lines = [re.sub(r"\s+#\s.*", "", line).strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise ValueError(f"it is empty; {EXPECTED}")
    if pictured := next((line for line in lines if _IMAGE.search(line)), None):
        raise ValueError(f"it lists images, such as {_shorten(pictured)}; {EXPECTED}")
    extension = name.rpartition(".")[2].lower()
    for form, is_meant in (
        (_parse_json, extension == "json" or text.lstrip()[0] in "[{"),
        (_parse_label_map, extension == "pbtxt" or re.match(r"item\s*\{", lines[0])),
        (_parse_yaml, extension in ("yaml", "yml") or _YAML_KEY.match(lines[0]) or _are_items(lines)),
    ):
        if is_meant:
            return form(text)
    if len(lines) > _MOST_CLASSES:
        raise ValueError(f"it has {len(lines):,} lines; {EXPECTED}")
    if lines[0].startswith("<"):
        raise ValueError(f"it begins with {_shorten(lines[0])}; {EXPECTED}")
    found = _parse_table(lines, "\t" if extension == "tsv" else None) if extension in ("csv", "tsv") else None
    return found or _parse_lines(lines, are_numbered=are_numbered)


def _parse_label_map(text: str) -> ClassList:
    """Reads a StringIntLabelMap; does not fill gaps in its numbers.

    Raises:
      ValueError: it has no items with a number and a name.
    """
    found = parse_label_map(text)
    if not found:
        raise ValueError("it has no `item { id: 1 name: 'cat' }`; expected a StringIntLabelMap")
    return _combine([_Named(number=number, name=name) for number, name in found.items()])


def _parse_json(text: str) -> ClassList:
    try:
        value = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        if "twice" in str(error):
            raise
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            # JSON lines, an object per line.
            objects = [json.loads(line) for line in lines] if len(lines) > 1 else []
        except ValueError:
            objects = []
        # A Python literal such as {0: 'cat'} is YAML too.
        return list_classes(objects) if objects else _parse_yaml(text, "JSON")
    return list_classes(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"it has the key {twice!r} twice; expected each class once")
    return found


def _parse_yaml(text: str, said: str = "YAML") -> ClassList:
    if len(text) > _MOST_YAML:
        raise ValueError(f"it has more than {_MOST_YAML >> 20} MiB of {said}; expected a file of class names")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(f"it cannot be read as {said}: {_shorten(' '.join(str(error).split()), 120)}") from error
    return list_classes(value)


def _are_items(lines: Sequence[str]) -> bool:
    """Whether lines are the items of a YAML list."""
    return all(line.startswith("- ") for line in lines)


def _of_mapping(value: Mapping[Any, Any]) -> ClassList:
    """Reads {name: number}, {number: name}, {number: [id, name]}, {id: name} and {key: object}."""
    if not value:
        raise ValueError(f"an empty mapping; {EXPECTED}")
    keys, values = list(value), list(value.values())
    if all(isinstance(one, (Mapping, list, tuple)) for one in values):
        return _combine([_of_object(one, key=key) for key, one in value.items()])
    are_numbers = [[_number(one) is not None for one in side] for side in (keys, values)]
    has_int = all(type(one) is int for one in values)
    if all(type(key) is int for key in keys) and not has_int:
        are_numbers[1] = [False]
    if all(are_numbers[1]) and (has_int or not all(are_numbers[0])):
        return _combine([_Named(name=key, number=_number(one)) for key, one in value.items()])
    if all(are_numbers[0]):
        return _combine([_Named(number=_number(key), name=one) for key, one in value.items()])
    for sides in ((keys, values), (values, keys)):
        if all(isinstance(one, str) and _ID.fullmatch(one) for one in sides[0]):
            return _combine([_Named(id=id_, name=name) for id_, name in zip(*sides, strict=True)])
    kinds = Counter(map(type, values))
    odd = min(range(len(values)), key=lambda place: kinds[type(values[place])])
    raise ValueError(f"a mapping of {_describe(keys[odd])} to {_describe(values[odd])}; {EXPECTED}")


def _of_object(value: Any, key: Any = None) -> _Named:
    """Reads {"id": 1, "name": "cat"}, [1, "cat"], ["1", "cat"] and a plain name; `key` is the key of a mapping."""
    entry = _Named()
    if isinstance(value, Mapping):
        plain = {_plain(str(name)): one for name, one in value.items()}
        for word in _NAME_WORDS:
            one = plain.get(word)
            if isinstance(one, str) or (type(one) is int and word.endswith("name")):
                entry.setdefault("name", one)
        for word in _NUMBER_WORDS + _NAME_WORDS[1:]:
            one = plain.get(word)
            if type(one) is int:
                entry.setdefault("number", one)
            elif isinstance(one, str) and word not in _NAME_WORDS:
                entry.setdefault("id", one) if _number(one) is None else entry.setdefault("number", _number(one))
    elif isinstance(value, (list, tuple)):
        are_ids = [isinstance(one, str) and _ID.fullmatch(one) is not None for one in value]
        has_number = any(are_ids) or any(type(one) is int for one in value) or key is not None
        for one, is_id in zip(value, are_ids, strict=True) if len(value) in (1, 2) else ():
            number = one if type(one) is int else None if has_number or len(value) == 1 else _number(one)
            kind = "id" if is_id else "name" if number is None else "number"
            if kind in entry:
                raise ValueError(f"two values of one kind, {_shorten(str(list(value)))}, for a class; {EXPECTED}")
            entry[kind] = one if number is None else number
    else:
        entry["name"] = value
    if key is not None:
        kind = "name" if "name" not in entry else "number" if _number(key) is not None else "id"
        entry.setdefault(kind, _number(key) if kind == "number" else key)
    if "name" not in entry:
        raise ValueError(f"{_describe(value)} without a name; {EXPECTED}")
    return entry


def _parse_lines(lines: Sequence[str], *, are_numbered: bool = False) -> ClassList:
    """Reads lines: names, or names with numbers or ids."""
    if _plain(lines[0]) in _NAME_WORDS and len(lines) > 2:
        lines = lines[1:]
    if found := _match_all(_WITH_ID, lines):
        entries = [_Named(id=match[1], name=match[2]) for match in found]
    elif found := _match_all(_NUMBERED, lines):
        entries = [_Named(number=int(match[1]), name=match[3]) for match in found]
        numbers = {entry["number"] for entry in entries}
        # Names may begin with a number and a space too.
        are_marked = are_numbered or all(match[2].strip(" ") for match in found)
        if len(numbers) < len(entries) or not (are_marked or _are_dense(numbers)):
            raise ValueError(
                f"its lines begin with numbers that are not 0, 1, 2, …, such as {_shorten(lines[0])}; {EXPECTED}"
            )
    elif found := _match_numbers_last(lines):
        entries = [_Named(number=int(match[2]), name=match[1]) for match in found]
    else:
        _refuse_other_lines(lines)
        entries = [_Named(name=line) for line in lines]
    marks = r"[\t|;,]" if len(lines) == 1 else r"[\t|;]"
    if several := next((entry["name"] for entry in entries if re.search(marks, entry["name"])), None):
        raise ValueError(f"it has the line {_shorten(several)}, which is not a name; {EXPECTED}")
    return _combine(entries)


def _match_numbers_last(lines: Sequence[str]) -> list[re.Match[str]]:
    """Matches lines of a name and a number, as Places365 has them; names may end in numbers, but not in these."""
    found = _match_all(_NUMBER_LAST, lines)
    numbers = sorted(int(match[2]) for match in found)
    are_all = numbers in ([*range(len(lines))], [*range(1, len(lines) + 1)])
    return found if len({match[1] for match in found}) == len(found) > 1 and are_all else []


def _refuse_other_lines(lines: Sequence[str]) -> None:
    """Checks that lines without numbers at their start are names.

    Raises:
      ValueError: they are not.
    """
    for pattern in (_NUMBERED, _WITH_ID, _NAME_FIRST, _NUMBERED_CLASS):
        if sum(bool(pattern.fullmatch(line)) for line in lines) * 2 > len(lines):
            raise ValueError(f"it has numbers or ids in lines such as {_shorten(lines[-1])}; {EXPECTED}")
    for number, line in enumerate(lines):
        is_count = not number and _NAME_FIRST.fullmatch(line)
        if is_count or line[0] in "[]{}<\"'" or line[-1] in '[]{}>,;:"' or "=" in line:
            raise ValueError(f"it has the line {_shorten(line)}, which is not a name; {EXPECTED}")


def _match_all(pattern: re.Pattern[str], lines: Sequence[str]) -> list[re.Match[str]]:
    found = [match for line in lines if (match := pattern.fullmatch(line))]
    return found if len(found) == len(lines) else []


def _parse_table(lines: Sequence[str], delimiter: str | None) -> ClassList | None:
    """Reads CSV; returns None for a single column without a header."""
    delimiter = delimiter or max("\t,;|", key=lines[0].count)
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    except csv.Error as error:
        raise ValueError(f"it cannot be read as CSV: {error}") from error
    width = len(rows[0])
    odd = next((row for row in rows if len(row) != width), None)
    if odd is not None:
        raise ValueError(
            f"it has rows of {width} and of {len(odd)} cells, such as {_shorten(' '.join(odd))}; {EXPECTED}"
        )
    if width == 1:
        return None if rows == [[line] for line in lines] else _parse_lines([row[0] for row in rows])
    words = [_plain(cell) for cell in rows[0]]
    first_numbers = [_number(cell) is not None for cell in rows[0]]
    is_pair = width == 2 and _is_number_and_text(rows[1:])
    has_header = not any(first_numbers) and (
        is_pair or bool({*words} & {*_NAME_WORDS, *_NUMBER_WORDS, "mid", "wnid", "synset"})
    )
    if len(rows) == 1 and not has_header and all(first_numbers) == any(first_numbers):
        return None
    body = rows[1:] if has_header else rows
    if not body:
        raise ValueError(f"it has a header and no rows; {EXPECTED}")
    columns = list(zip(*body, strict=True))
    are_numbers = [all(_number(cell) is not None for cell in cells) for cells in columns]
    are_ids = [all(map(_ID.fullmatch, cells)) for cells in columns]
    words = words if has_header else [""] * width
    texts = [n for n in range(width) if not are_ids[n] and not are_numbers[n]]
    if has_header:
        texts = [n for n in range(width) if not are_ids[n] and words[n] in _NAME_WORDS and not are_numbers[n]]
        texts = texts or [n for n in range(width) if words[n] in _NAME_WORDS and not are_ids[n] and not is_pair][:1]
        texts = texts or [n for n in range(width) if not are_ids[n] and not are_numbers[n]]
    if len(texts) > 1:
        known = [_NAME_WORDS.index(words[n]) for n in texts if words[n] in _NAME_WORDS]
        best = min(known, default=None)
        texts = [n for n in texts if best is not None and words[n] == _NAME_WORDS[best]]
        texts = texts if best is not None and _NAME_WORDS[best].endswith("name") else []
    if len(texts) != 1:
        shown = _shorten(delimiter.join(rows[0]))
        raise ValueError(f"it has {width} columns, {shown}, and which one has the names is unclear; {EXPECTED}")
    name = texts[0]
    others = [
        n
        for n in range(width)
        if n != name
        and (not has_header or words[n] in _NUMBER_WORDS + _NAME_WORDS or (is_pair and words[n] not in _COUNT_WORDS))
    ]
    numbers = [n for n in others if are_numbers[n] and len({*columns[n]}) == len(body)]
    ids = [n for n in range(width) if are_ids[n]]
    if not has_header and len(numbers) + len(ids) != width - 1:
        raise ValueError(f"it has {width} columns without a header, {_shorten(delimiter.join(rows[0]))}; {EXPECTED}")
    numbers.sort(key=lambda n: _NUMBER_WORDS.index(words[n]) if words[n] in _NUMBER_WORDS else len(_NUMBER_WORDS))
    return _combine(
        [
            _Named(
                name=row[name],
                **({"number": _number(row[numbers[0]])} if numbers else {}),
                **({"id": row[ids[0]]} if ids else {}),
            )
            for row in body
        ]
    )


def _is_number_and_text(rows: Sequence[Sequence[str]]) -> bool:
    """Whether rows of two cells are the numbers and names of classes, whatever their header says."""
    columns = [[_number(cell) for cell in cells] for cells in zip(*rows, strict=True)]
    numbers = [{*cells} for cells in columns if None not in cells]
    return len(numbers) == 1 and len(numbers[0]) == len(rows) and _are_dense(numbers[0])


def _are_dense(numbers: Collection[Any]) -> bool:
    """Whether numbers begin with 0 or 1 and have no large gaps."""
    return min(numbers) <= 1 and max(numbers) <= 2 * len(numbers) + 10


def _combine(entries: Sequence[_Named]) -> ClassList:
    """Returns the classes in the order of their numbers, or else of the list.

    Raises:
      ValueError: a name is not a text, only some classes have numbers, or two have the same number.
    """
    if not entries:
        raise ValueError("expected names in index order, none of them empty")
    for entry in entries:
        name = entry["name"]
        if not isinstance(name, (str, int)) or isinstance(name, bool):
            raise ValueError(f"YAML reads {name!r} there; write names in quotes, such as 'no', 'null' or '1.0'")
        if not str(name).strip():
            raise ValueError("expected names in index order, none of them empty")
    numbers = [entry["number"] for entry in entries if "number" in entry]
    if len(numbers) not in (0, len(entries)):
        raise ValueError("only some of its classes have a number; expected a number for each, or for none")
    if len({*numbers}) < len(numbers) or min(numbers, default=0) < 0:
        raise ValueError("two of its classes have the same number, or one is negative; expected each number once")
    if numbers:
        entries = sorted(entries, key=lambda entry: entry["number"])
    ids = [str(entry["id"]) for entry in entries if "id" in entry]
    return ClassList(
        tuple(str(entry["name"]).strip() for entry in entries),
        tuple(sorted(numbers)),
        tuple(ids) if len(ids) == len(entries) else (),
    )


def _number(value: Any) -> int | None:
    number = None if isinstance(value, (bool, float)) or not isinstance(value, (str, int)) else whole_number(value)
    return number if number is not None and number >= 0 else None


def _plain(word: str) -> str:
    return re.sub(r"[\s_\-]+", "", word.strip().strip("\"'").lower())


def _describe(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a fraction", str: "a text", type(None): "nothing"}
    shown = f" ({_shorten(str(value))})" if isinstance(value, (str, int, float)) else ""
    return kinds.get(type(value), "an object" if isinstance(value, Mapping) else "a list") + shown


def _shorten(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
