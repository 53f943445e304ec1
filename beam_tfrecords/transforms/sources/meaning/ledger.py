"""The ledger: everything of an input that a dataset does not store, or stores under another number. Pure.

Sources say which fields of tables, records, archives and documents they use; the functions here name the rest.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.column_ranges import point_columns
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import ClassValue
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.labels import ClassNames, whole_number
from beam_tfrecords.transforms.refs.sample_refs import Scalar
from beam_tfrecords.transforms.sources.description import KEYPOINTS, OUTLINE, Uses
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.roles import Role, roles_of
from beam_tfrecords.transforms.sources.detect.unnamed_columns import UNNAMED
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.object_cells import unread_fields
from beam_tfrecords.transforms.sources.tables.table import Table, first_cells

# First field that stores a content -> the layouts that have it.
_LAYOUTS = {
    OUTLINE[0]: "`layout=detection_polygons` or `layout=detection_masks` stores outlines",
    KEYPOINTS[0]: "`layout=detection_keypoints` stores keypoints",
    "column.captions": "`layout=captions` stores captions",
}
# Field of objects in a cell -> field of the layout that stores it.
_OF_OBJECTS = {"segmentation": OUTLINE[0], "segmentations": OUTLINE[0], "keypoints": KEYPOINTS[0]}
_MOST_LINES, _MOST_NAMED, _MOST_JUDGED = 10, 12, 20
# How a feature says a class -> number of the class with index 0.
_FIRST = {ClassValue.INDEX: 0, ClassValue.ID: 1}
_BY_NAMES = "`class_names` decides the numbers"
_UNNAMED = "a column without a name"
# Role of a column -> the setting that uses it.
_REMEDIES = {
    Role.IMAGE: "`image_column` with all of them takes several images",
    Role.MASK: "`layout=segmentation` takes masks",
}


class Fate(str, enum.Enum):
    """What happens to a field: it is not stored, or stored under another number."""

    NOT_STORED = "not stored"
    RENUMBERED = "stored under another number"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A field of the input that a dataset does not store as it is.

    Attributes:
      fate: what happens to the field.
      file: name of the file, or a glob for files of one form.
      field: column, key, feature, or path of keys such as `annotations[].score`.
      count: number of values; 0 if it is unknown.
      detail: what the values look like, or which number is stored for which.
      remedy: the setting that stores the field; "" if there is none.
    """

    fate: Fate
    file: str
    field: str
    count: int
    detail: str = ""
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the entry as the manifest holds it."""
        return {**dataclasses.asdict(self), "fate": self.fate.value}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Entry:
        """Returns the entry that `to_json` wrote."""
        known = {field.name: values[field.name] for field in dataclasses.fields(cls) if field.name in values}
        return cls(**{**known, "fate": Fate(known["fate"])})


def find_unstored(fields: Mapping[tuple[str, str], int], uses: Uses, layout: Layout) -> Iterator[Entry]:
    """Yields the fields that the layout does not store, sorted by file and field; not the fields within these.

    Args:
      fields: (file, field) -> number of values, of all fields that the reader has seen.
      uses: fields that the reader uses.
      layout: features of an example.
    """
    stored = {*layout.fields, *(f"column.{name}" for name in layout.columns)}
    left: set[tuple[str, str]] = set()
    for (file, field), count in sorted(fields.items()):
        parent = field.rpartition(".")[0].removesuffix("[]")
        if (file, parent) in left:
            left.add((file, field))
        elif not is_stored(field, uses, stored):
            left.add((file, field))
            (first,) = [*uses.get(field, ())][:1] or [""]
            remedy = _LAYOUTS.get(first) or (f"a layout takes such as {first}" if first else "")
            yield Entry(Fate.NOT_STORED, file, field, count, remedy=remedy)


def find_unused(
    table: Table, used: Collection[str | None], images: Sequence[str] = (), *, total: int = 0
) -> Iterator[Entry]:
    """Yields the fields of an input that its layout does not store, with what their first values are.

    Args:
      table: the fields and the first samples.
      used: used fields; may include others.
      images: further fields, which hold images.
      total: number of samples of the input; values are counted if the first rows are all of them.
    """
    names = [name for name in (*images, *table.columns) if name not in used]
    if "" in names and all(str(cell).isdecimal() for cell in first_cells(table, [""]).get("", ())):
        names.remove("")  # The row numbers that pandas writes.
    embedded = {*images, *table.embedded}
    plain = [name for name in names[:_MOST_JUDGED] if name not in embedded]
    cells = first_cells(table, plain)
    roles = roles_of(cells)
    counts = {name: sum(cell not in (None, "") for cell in some) for name, some in cells.items() if len(some) == total}
    roles |= {name: Role.MASK if is_mask_name(name) else Role.IMAGE for name in embedded}
    remedies = dict.fromkeys(_REMEDIES[roles[name]] for name in names if roles.get(name) in _REMEDIES)
    named = next(filter(None, names), None)
    remedy = "; ".join([*remedies, f"a layout takes such as column.{named}" if named else "give it a name to use it"])
    points = point_columns(plain)
    if len(points) > 2:
        remedy += f", and points that move with the image as columns.{points[0]}..{points[-1]} with `moves: points`"
    # Programs write a comma for each column without a name.
    empty = {name for name, role in roles.items() if role is Role.NOTHING and name.startswith(UNNAMED)}
    for name in names:
        if name in empty:
            continue
        detail = roles[name].value if name in roles else ""
        path, column = table.places.get(name, (table.path, name))
        file = printable(storage.basename(path))
        yield Entry(Fate.NOT_STORED, file, column or _UNNAMED, counts.get(name, 0), detail=detail, remedy=remedy)


def find_unread(table: Table, used: Collection[str | None], contents: Collection[Content]) -> Iterator[Entry]:
    """Yields the fields within the cells of used columns that no layout stores: those of annotated objects.

    Args:
      table: the columns and the first samples.
      used: used columns; may include others.
      contents: contents that the layout needs.
    """
    columns = [name for name in table.columns if name in used and name not in table.embedded]
    for column, cells in first_cells(table, columns).items() if Content.OBJECTS in contents else ():
        for name in unread_fields(cells, contents):
            remedy = _LAYOUTS.get(_OF_OBJECTS.get(name, ""), "")
            file = printable(storage.basename(table.path))
            yield Entry(Fate.NOT_STORED, file, f"{column}.{name}", 0, remedy=remedy)


def is_stored(field: str, uses: Uses, stored: Collection[str]) -> bool:
    """Whether a field of an input is used, and stored if it has a value of its own."""
    prefixes = uses.get(field)
    if prefixes is None:
        return False
    return not prefixes or any(_holds(one, prefix) for one in stored for prefix in prefixes)


def _holds(field: str, prefix: str) -> bool:
    # The name of a column may start with that of another.
    return field == prefix or (not prefix.startswith("column.") and field.startswith(prefix))


def find_renumbered(
    numbers: Mapping[str, Mapping[Scalar, int]], classes: ClassNames, layout: Layout, records: Layout | None
) -> Iterator[Entry]:
    """Yields an entry for each file in which the number of a class is not its stored number.

    Args:
      numbers: path of a file, or "" for all files -> label -> number of the class there.
      classes: the classes of the dataset.
      layout: features of an example.
      records: features of the examples of the input, in which the numbers are indices; None for other inputs.
    """
    features = {one.class_value: one for one in layout.features if one.class_value in _FIRST}
    known = {one.class_value for one in records.features if one.class_value in _FIRST} if records else set()
    for kind, feature in features.items():
        before = _FIRST[kind] if kind in known else int(known == {ClassValue.ID})
        for path, of_file in numbers.items():
            were = {label: number + before for label, number in of_file.items()}
            remedy = _BY_NAMES
            if kind is ClassValue.ID and 0 in were.values():
                remedy = f"a layout with {feature.field.removesuffix('id')}index counts from 0"
            yield from find_moved(feature.name, were, classes, first=_FIRST[kind], path=path, remedy=remedy)


def find_moved(
    feature: str,
    numbers: Mapping[Scalar, int],
    classes: ClassNames,
    *,
    first: int = 0,
    path: str = "",
    remedy: str = _BY_NAMES,
) -> Iterator[Entry]:
    """Yields an entry if the number of a class in an input is not its number in a feature.

    Args:
      feature: name of the feature.
      numbers: label -> number of the class in the input.
      classes: the classes of the feature.
      first: number of the first class in the feature.
      path: path of the file with the numbers; "" for all files.
      remedy: the setting that keeps the numbers.
    """
    stored = [(number, classes.find(label)) for label, number in numbers.items()]
    moved = sorted({(was, index + first) for was, index in stored if index is not None})
    shown = [f"{was} -> {now}" for was, now in moved if was != now]
    if shown:
        detail = ", ".join(shown[:_MOST_NAMED]) + (", …" if len(shown) > _MOST_NAMED else "")
        file = printable(storage.basename(path))
        yield Entry(Fate.RENUMBERED, file, feature, len(shown), detail=detail, remedy=remedy)


def number_labels(labels: Iterable[Scalar]) -> dict[Scalar, int]:
    """Returns label -> number, for labels that are whole numbers, or a number with a text."""
    numbers = {}
    for label in labels:
        before = label.partition("\t")[0] if isinstance(label, str) and "\t" in label else label
        if (number := whole_number(before)) is not None:
            numbers[label] = number
    return numbers


def describe_ledger(entries: Iterable[Entry]) -> list[str]:
    """Returns at most ten lines, one for the fields of each file or of files alike."""
    lines = []
    for (fate, file), several in _by_file(entries).items():
        shown = [_describe_entry(one) for one in several[:_MOST_NAMED]]
        more = f" and {len(several) - _MOST_NAMED:,} more" if len(several) > _MOST_NAMED else ""
        remedies = [*dict.fromkeys(one.remedy for one in several if one.remedy)]
        where = f"{file}: " if file else ""
        # Names of fields are data of strangers.
        lines.append(escape("; ".join([f"{fate.value}: {where}{', '.join(shown)}{more}", *remedies])))
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES + 1
        lines[_MOST_LINES - 1 :] = [f"not stored: fields of {left:,} more files; manifest.json lists them (`ledger`)"]
    return lines


def _by_file(entries: Iterable[Entry]) -> dict[tuple[Fate, str], list[Entry]]:
    """Groups entries by their file; files whose entries have the same fields are one group."""
    by_file: dict[tuple[Fate, str], list[Entry]] = {}
    for entry in entries:
        by_file.setdefault((entry.fate, entry.file), []).append(entry)
    alike: dict[tuple[Fate, tuple[str, ...]], list[str]] = {}
    for (fate, file), several in by_file.items():
        names = (one.field if fate is Fate.NOT_STORED else f"{one.field} {one.detail}" for one in several)
        alike.setdefault((fate, tuple(names)), []).append(file)
    grouped = {}
    for (fate, fields), files in alike.items():
        each = [by_file[fate, file] for file in files]
        merged = [
            dataclasses.replace(each[0][place], count=sum(of_file[place].count for of_file in each))
            for place in range(len(fields))
        ]
        grouped[fate, files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"] = merged
    return grouped


def _describe_entry(entry: Entry) -> str:
    if entry.fate is Fate.RENUMBERED:
        return f"classes in {entry.field} ({entry.detail})"
    words = [word for word in (entry.detail, f"{entry.count:,}" if entry.count else "") if word]
    return f"{entry.field} ({', '.join(words)})" if words else entry.field
