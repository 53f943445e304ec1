"""Compares the records that the program makes of an input with what the input means."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.meanings.meaning import REST, Label, Meaning, Split, canonical
from tests.meanings.pictures import HEIGHT, WIDTH, is_gray
from tests.meanings.program import Reading, Record

# How the program says the names that it has given to the columns of a table.
_NAMED = re.compile(r"(?:read as the columns|for the columns) ([^:\n]+?)(?:, with|, without|:|\n|$)")
# Roles of columns that hold no class names.
_NO_CLASSES = frozenset({"box", "vector", "annotation", "image", "mask", "split", "value"})


class Comparison:
    """The records of a request beside the items that they mean.

    Args:
      meaning: of the input.
      settings: of the request.
      reading: what the program makes of it.
      is_offered: whether an offer has the settings.
      is_part: whether the offer says that it reads a part of the input.
    """

    def __init__(
        self, meaning: Meaning, settings: Mapping[str, Any], reading: Reading, *, is_offered: bool, is_part: bool
    ) -> None:
        self._is_offered, self._is_part = is_offered, is_part
        self._meaning, self._settings, self._reading = meaning, settings, reading
        self._used: set[str] = set()
        # Fields of a sample without which it may be rejected.
        self._needed: list[Sequence[bool]] = []
        self._items: list[int] = []
        # Item -> the class of each of its boxes, if the records have classes.
        self._names_of_objects: dict[int, list[str]] = {}

    def problems(self) -> Iterator[str]:
        """Yields what is wrong with the records."""
        is_each = "," in str(self._settings.get("class_names")) or self._settings.get("layout") == "image"
        if self._is_offered and len(self._meaning.images) > 1 and is_each:
            # The folders of pairs as classes, or each image without a label, as the offer says.
            return
        yield from self._match_images()
        if self._is_all_images() and not self._is_named((self._meaning.table,)):
            yield f"silent table: {self._meaning.table} is not named"
        if len(self._items) < len(self._reading.records):
            return
        for check in (self._labels, self._columns, self._splits, self._boxes, self._masks, self._lost, self._roles):
            found = list(check())
            yield from found
            if found:
                return

    def _match_images(self) -> Iterator[str]:
        images = self._meaning.images
        named = self._settings.get("image_column")
        places = {
            number: (item, field)
            for field, numbers in images.items()
            for item, number in enumerate(numbers)
            if number is not None
        }
        if self._is_all_images():
            return
        of_name: dict[str, str] = {}
        for record in self._reading.records:
            items = set()
            for name, numbers in record.images.items():
                for number in numbers if isinstance(numbers, list) else [numbers]:
                    if self._is_offered and self._meaning.masks and is_gray(number) and number not in places:
                        # A mask as an image, as the offer says.
                        continue
                    item, field = places.get(number, (-1, ""))
                    items.add(item)
                    if isinstance(numbers, int) and of_name.setdefault(name, field) != field:
                        yield f"images: {record.key} has {field} as its {name}, others {of_name[name]}"
                        return
                    self._used.add(field)
            if not record.images:
                items = {self._item_of_key(record)}
            if not items:
                return
            if len(items) != 1 or -1 in items:
                yield f"images: {record.key} has the images {record.images} of the items {sorted(items)}"
                return
            self._items.append(items.pop())
        doubled = [item for item, count in Counter(self._items).items() if count > 1]
        if doubled:
            yield f"images: the image of item {doubled[0]} is in {self._items.count(doubled[0])} records"
        columns = set(str(named).split(",")) & set(images)
        if not columns <= self._used:
            yield f"images: {named} was named, and {sorted(self._used)} are stored"
        for field in self._used:
            self._needed.append([number is not None for number in images[field]])
        if images and self._reading.records and len(images) > 1 and next(iter(images)) not in self._used:
            first = next(iter(images))
            if not named and not self._is_named((first,)):
                yield f"images: {sorted(self._used)} are stored, not {first}"

    def _is_all_images(self) -> bool:
        """Whether an offer takes all images of a folder, and not the table in it."""
        is_folder = self._meaning.table and self._settings.get("source") != "hf_folder"
        return bool(self._is_offered and is_folder and self._settings.get("layout") == "image")

    def _item_of_key(self, record: Record) -> int:
        return int(record.key) if record.key.isdecimal() and int(record.key) < self._meaning.count else -1

    def _pairs(self) -> Iterator[tuple[Record, int]]:
        return zip(self._reading.records, self._items, strict=True)

    def _labels(self) -> Iterator[str]:
        records = self._reading.records
        if not any(record.labels is not None or record.objects is not None for record in records):
            return
        if {name for record in records for _, name in record.objects or []} == {"object"}:
            return
        if self._is_offered and {name for record in records for name in record.labels or []} == {
            self._settings.get("class_names")
        }:
            # The only class, as the offer says.
            return
        fitting = [label for label in self._meaning.labels if _may_be_classes(label) and self._is_wanted(label)]
        is_rest = self._is_offered and "rest of each line" in self._reading.text
        fitting = [label for label in fitting if (label.fields == REST) == is_rest]
        if self._is_offered and not is_rest and self._settings.get("label_separator") == "":
            # Each cell as one class, as the offer says.
            fitting = [self._offered(name) for one in fitting for name in one.fields if name in self._meaning.columns]
        columns = [self._place(name) for name in self._named_labels()]
        column = next(iter(columns), "")
        if not fitting and self._is_offered and len(columns) > 1 and set(columns) <= self._meaning.columns.keys():
            fitting = [self._offered_columns(columns)]
        if not fitting and self._is_offered and column in self._meaning.columns:
            wrong = next((one for one in self._meaning.roles if column in one.words and one.kind in _NO_CLASSES), None)
            if wrong:
                yield f"offers: {column}, which is a {wrong.kind}, as the classes"
                return
            fitting = [self._offered(column)]
        found = [(label, *self._compare_label(label)) for label in fitting]
        right = next((one for one in found if not one[1]), None)
        if right is None:
            if any(record.labels for record in records) or any(record.objects for record in records):
                wrong = found[0][1] if found else f"nothing has classes; found {self._shown_labels()}"
                yield f"labels: {wrong}"
            return
        label, _, is_raw = right
        self._names_of_objects = {item: self._names_of(label, item, is_raw) for item in range(self._meaning.count)}
        if label.names and is_raw and "class_names" in self._settings:
            yield f"labels: `class_names` was given, and the classes are {list(self._reading.class_names)[:6]}"
        if label.names and not is_raw:
            self._use("names")
        if (
            not label.is_first
            and label.fields != REST
            and records[0].objects is None
            and "label_column" not in self._settings
            and not self._is_asked()
        ):
            yield f"labels: {label.fields} were taken as the label"
        self._used.update(label.fields)
        if label.fields == REST:
            self._use_all()
        if records and (records[0].objects is not None or "label.index" in self._reading.fields):
            self._needed.append([bool(values) for values in label.values])

    def _offered(self, column: str) -> Label:
        """Returns the label of a column that an offer names."""
        separator = self._settings.get("label_separator")
        cells = [
            list(map(canonical, cell))
            if isinstance(cell, list)
            else list(filter(None, [canonical("" if cell is None else cell)]))
            for cell in self._meaning.columns[column]
        ]
        if separator:
            cells = [[part for cell in one for part in cell.split(separator)] for one in cells]
        return Label((column,), [[canonical(part) for part in one] for one in cells])

    def _offered_columns(self, columns: Sequence[str]) -> Label:
        """Returns the label of columns that an offer names, with a class each."""
        cells = self._meaning.columns
        ones = [[name for name in columns if canonical(cells[name][n]) == "1"] for n in range(self._meaning.count)]
        return Label(tuple(columns), ones)

    def _is_asked(self) -> bool:
        return "layout" in self._settings or "label_columns" in self._settings

    def _is_wanted(self, label: Label) -> bool:
        named = {self._place(name) for name in self._named_labels()}
        return not named or named == set(label.fields) - {"label"} or named == set(label.fields)

    def _named_labels(self) -> Sequence[str]:
        if self._is_offered and "rest of each line" in self._reading.text:
            return ()  # The column is that of the table that a command makes.
        drafted = re.findall(r"\blabel: ([^,}]+)", str(self._settings.get("mapping")))
        named = self._settings.get("label_columns") or self._settings.get("label_column") or ",".join(drafted)
        return str(named).split(",") if named else ()

    def _place(self, name: str) -> str:
        """Returns a column by its place, such as column_2, if the program has named the columns."""
        return next((place for place, given in self._given_names().items() if given == name), name)

    def _given_names(self) -> Mapping[str, str]:
        """Returns the place of a column, such as column_2 -> the name that the program gave to it."""
        found = _NAMED.findall(self._reading.text.replace("\\t", ","))
        if not found or "column_1" not in self._meaning.columns:
            return {}
        names = re.split(r"[,;|\s]+", found[-1].strip())
        return {f"column_{place}": name for place, name in enumerate(names, 1)}

    def _shown_labels(self) -> str:
        record = self._reading.records[0]
        return f"{record.labels if record.objects is None else record.objects!r} in {record.key}"

    def _compare_label(self, label: Label) -> tuple[str, bool]:
        """Returns what differs, and whether the labels are values of the input rather than names for them."""
        wrong = ""
        for is_raw in (False, True) if label.names else (True,):
            wrong = next((one for one in (self._differs(label, *pair, is_raw) for pair in self._pairs()) if one), "")
            if not wrong:
                return "", is_raw
        return wrong, True

    def _differs(self, label: Label, record: Record, item: int, is_raw: bool) -> str:
        if record.objects is not None:
            wanted, given = self._names_of(label, item, is_raw), [name for _, name in record.objects]
            if self._meaning.boxes is None or not given or sorted(given) == sorted(wanted):
                return ""
            return f"objects of {record.key} are {given}, not {wanted}"
        wanted, given = _shown(label, label.values[item], is_raw), list(record.labels or [])
        if not any(map(self._is_allowed, given)) and "classes" in self._settings:
            return f"{record.key} is {given}, and `classes` leaves it out"
        return "" if set(given) == set(wanted) else f"{record.key} is {given}, not {wanted} as {label.fields} say"

    def _names_of(self, label: Label, item: int, is_raw: bool) -> list[str]:
        """Returns the class of each object of an item that the request takes."""
        names = _shown(label, label.rows[item] if label.rows else label.values[item], is_raw)
        return list(filter(self._is_allowed, names))

    def _is_allowed(self, name: str) -> bool:
        """Whether the request takes a class."""
        wanted = self._settings.get("classes")
        return wanted is None or name in str(wanted).split(",")

    def _columns(self) -> Iterator[str]:
        for record, item in self._pairs():
            for name, values in record.columns.items():
                if name == "label" and "rest of each line" in self._reading.text:
                    self._use_all()
                labels = [one for one in self._meaning.labels if name == one.fields[0] and one.kind != "class"]
                if not labels and name not in self._meaning.columns:
                    continue
                self._used.add(name)
                wanted = [list(label.values[item]) for label in labels]
                if name in self._meaning.columns and (self._is_offered or not labels):
                    cell = self._meaning.columns[name][item]
                    wanted.append(cell if isinstance(cell, list) else [] if cell is None else [cell])
                wanted = [one for one in wanted if not any(isinstance(value, dict) for value in one)]
                if wanted and not any(
                    _alike(values, one) or sorted(map(str, values)) == sorted(map(str, one)) for one in wanted
                ):
                    yield f"values: {record.key} has {values} in {name}, not {wanted[0]}"
                    return
        for name in self._reading.records[0].columns if self._reading.records else ():
            self._needed += [
                [bool(one) for one in label.values] for label in self._meaning.labels if name in label.fields
            ]

    def _splits(self) -> Iterator[str]:
        stored = {record.split for record in self._reading.records}
        wrong = []
        named = self._settings.get("split_column")
        for split in self._meaning.splits:
            if named and named not in split.fields:
                continue
            differs = [
                f"{record.key} is in {record.split}, not {split.values[item] or 'train'} as {split.fields} say"
                for record, item in self._pairs()
                if record.split not in (split.values[item] or "train", self._word_of_split(split, item))
            ]
            if not differs:
                self._used.update(split.fields)
                return
            wrong.append(differs[0])
        if stored <= {"train"}:
            if named:
                yield f"splits: {named} was named, and all samples are in train"
            return
        yield f"splits: {wrong[0] if wrong else f'the samples are in {sorted(stored)}, and nothing says splits'}"

    def _word_of_split(self, split: Split, item: int) -> str:
        """Returns the word of an item in a column, which may be the split as it is."""
        cells = self._meaning.columns.get(split.fields[0])
        return str(cells[item]).lower() if cells else ""

    def _boxes(self) -> Iterator[str]:
        boxes = self._meaning.boxes
        if not any(record.objects is not None for record in self._reading.records):
            return
        if boxes is None:
            yield f"boxes: found {self._shown_labels()}, and there are none"
            return
        self._use("box")
        if self._is_offered and "box_format" in self._settings:
            return
        for record, item in self._pairs():
            if "classes" in self._settings:
                continue
            wanted, given = [_to_shares(box) for box in boxes[item]], list(record.objects or [])
            # "" is any class: the records have none of the input's.
            names = self._names_of_objects.get(item, [])
            names = names if len(names) == len(wanted) else [""] * len(wanted)
            pairs = list(zip(wanted, names, strict=True))
            if len(pairs) != len(given) or not all(_is_among(*pair, given) for pair in pairs):
                yield f"boxes: {record.key} has {given}, not {pairs}"
                return

    def _masks(self) -> Iterator[str]:
        masks = self._meaning.masks
        if not any(record.mask is not None for record in self._reading.records):
            return
        if masks is None:
            yield "masks: there are none, and the records have some"
            return
        self._use("mask")
        self._needed.append([mask is not None for mask in masks])
        for record, item in self._pairs():
            if record.mask != masks[item]:
                yield f"masks: {record.key} has {record.mask}, not {masks[item]}"
                return

    def _use_all(self) -> None:
        """Notes that the records store what the whole line of a list says."""
        self._used.update(word for role in self._meaning.roles for word in role.words)

    def _use(self, kind: str) -> None:
        """Notes that the records store all roles of a kind."""
        self._used.update(word for role in self._meaning.roles if role.kind == kind for word in role.words)

    def _lost(self) -> Iterator[str]:
        """Yields items without a record that lack nothing that the records store."""
        if self._is_part:
            return
        there = set(self._items)
        lost = [item for item in range(self._meaning.count) if item not in there]
        lost = [item for item in lost if all(has[item] for has in self._needed)]
        if "classes" in self._settings:
            # Samples of other classes are left out, as the request says.
            labels = self._meaning.labels[:1]
            lost = [item for item in lost if any(self._is_allowed(name) for one in labels for name in one.values[item])]
        if lost:
            failures = dict(self._reading.failures)
            yield f"lost: {len(lost)} of {self._meaning.count} items, such as {lost[0]}; failures: {failures}"

    def _roles(self) -> Iterator[str]:
        is_unread = self._meaning.table and not self._used - {*self._meaning.images}
        if not self._reading.records or (is_unread and self._is_named((self._meaning.table,))):
            return
        named = {self._place(name) for name in self._named_labels()}
        has_names = any(label.names and named & set(label.fields) for label in self._meaning.labels)
        for role in self._meaning.roles:
            if role.kind == "names" and self._is_offered and not has_names and (named or not self._has_classes()):
                # The names of what the offer does not take.
                continue
            if self._used.isdisjoint(role.words) and not self._is_named(role.words):
                yield f"silent {role.kind}: {role.kind} in {', '.join(role.words)} is neither stored nor named"
                return

    def _has_classes(self) -> bool:
        return any(record.labels is not None or record.objects is not None for record in self._reading.records)

    def _is_named(self, words: Sequence[str]) -> bool:
        given = self._given_names()
        words = [*words, *(given[word] for word in words if word in given)]
        text = (self._reading.text + "\n" + " ".join(map(str, self._settings.values()))).replace("\\t", " ")
        return any(re.search(rf"(?<![\w]){re.escape(word)}(?![\w])", text) for word in words)


def _shown(label: Label, values: Sequence[Any], is_raw: bool) -> list[str]:
    """Returns values as the input has them, or the names that they stand for."""
    texts = [canonical(value) for value in values]
    return texts if is_raw else [label.names.get(text, text) for text in texts]


def _may_be_classes(label: Label) -> bool:
    """Whether a label is a class; texts that recur may be meant as classes."""
    texts = [tuple(values) for values in label.values]
    return label.kind == "class" or (label.kind == "text" and len(set(texts)) * 2 <= len(texts))


def _to_shares(box: Sequence[float]) -> tuple[float, ...]:
    return box[0] / WIDTH, box[1] / HEIGHT, box[2] / WIDTH, box[3] / HEIGHT


def _is_among(box: Sequence[float], name: str, objects: Sequence[tuple[Sequence[float], str]]) -> bool:
    """Whether there is an object with this box, and this class if one is given."""
    return any(_alike(box, other) and name in ("", of_class) for other, of_class in objects)


def _alike(given: Sequence[Any], wanted: Sequence[Any]) -> bool:
    if len(given) != len(wanted):
        return False
    return all(
        abs(float(one) - float(other)) < 1e-3 * max(1.0, abs(float(other)))
        if isinstance(one, float | int) and _is_number(other)
        else canonical(one) == canonical(other)
        for one, other in zip(given, wanted, strict=True)
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
