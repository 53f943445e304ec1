"""Converts the values of a row, a record or the members of an archive to the reference of its sample."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import Content, contents_in
from beam_tfrecords.features.fields import CAPTIONS
from beam_tfrecords.transforms.labels import numbered_label, whole_number
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import Locator, SampleRef, Scalar, Value
from beam_tfrecords.transforms.sources.description import Labels
from beam_tfrecords.transforms.sources.detect.column_names import USUAL_LABELS, find_usual, plain_name
from beam_tfrecords.transforms.sources.detect.columns import Columns
from beam_tfrecords.transforms.sources.detect.roles import parse_cell
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.tables.box_cells import MaskColumns, read_number
from beam_tfrecords.transforms.sources.tables.cells import (
    invalid_row,
    is_missing,
    plain_labels,
    read_label,
    read_text,
    read_value,
    read_values,
)
from beam_tfrecords.transforms.sources.tables.flags import (
    UNKNOWN_MEANINGS,
    Flags,
    describe_unknown,
    find_column_flags,
    find_list_flags,
)
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, Table, UnjoinedRow, available
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings, UnknownLabels

# Names of columns with the class names of labels that are numbers: after the label's name, and of any label.
_TEXT_WORDS = ("name", "text", "title")
_TEXT_COLUMNS = frozenset({"labelname", "classname", "categoryname", "labeltext", "classtext", "categorytext"})
# Likewise of columns with the class numbers of labels that are texts.
_NUMBER_WORDS = ("id", "index", "idx", "number", "no", "num", "")
_NUMBER_COLUMNS = frozenset({"labelid", "classid", "categoryid", "labelindex", "classindex", "classidx"})
# Number of rows from which to infer the kind of labels.
_ROWS = 1000


@dataclasses.dataclass
class Located:
    """Data of a sample besides the values of its row. A rejected sample keeps the images found before the error.

    Attributes:
      key: key of the sample if no column has it, without the prefix of its table.
      number: number of the row in its file.
      paths: name of an image -> its path in the row.
      images: as in `SampleRef.images`; likewise `size` and `fingerprint`.
      objects: annotated objects from outside the cells.
    """

    key: str
    number: int = 0
    paths: dict[str, str] = dataclasses.field(default_factory=dict)
    images: dict[str, Locator] = dataclasses.field(default_factory=dict)
    size: int = 0
    fingerprint: str = ""
    objects: Objects | None = None


class RowImages:
    """Finds the images of rows; none, or those that are known already."""

    def read_paths(self, row: Mapping[str, Any], found: Located) -> None:
        """Reads the image paths, the first of which may become the key.

        Raises:
          SampleError: a cell has no path.
        """

    def find(self, row: Mapping[str, Any], found: Located) -> None:
        """Finds the images, after all other values are read.

        Raises:
          SampleError: an image does not exist.
        """

    def place(self, row: Row | SampleError, found: Located) -> dict[str, Locator]:
        """Returns the place of the images for messages, if none was found."""
        return {}


NO_IMAGES = RowImages()


@dataclasses.dataclass(frozen=True)
class RowReader:
    """Reads the rows of one table.

    Attributes:
      columns: roles of the columns.
      features: columns that the layout needs.
      label_separator: separator of several labels in one string, or None.
      missing: words for an empty cell.
      object_classes: class names of objects whose classes are indices; empty if the table does not name classes.
      class_names: class names of labels that are indices; empty if the table does not name classes.
      flags: meaning of labels that are zeros and ones, in columns or lists; None for other labels.
      text: column with the class name for a label that is a number, or None.
      number: column with the class number for a label that is a text, or None.
      value_label: column of labels that are numbers or texts instead of classes; None for other labels.
      are_numbers: whether these labels are numbers, or lists of numbers, also as text.
      has_several: whether an empty label means an empty list of labels.
      has_several_labels: whether a label in the first rows is a list with several classes or none.
    """

    columns: Columns
    features: Sequence[str]
    label_separator: str | None
    missing: frozenset[str]
    object_classes: Sequence[str] = ()
    class_names: Sequence[str] = ()
    flags: Flags | None = None
    text: str | None = None
    number: str | None = None
    value_label: str | None = None
    are_numbers: bool = False
    has_several: bool = False
    has_several_labels: bool = False

    @functools.cached_property
    def needed(self) -> Sequence[str]:
        """All columns that the reader uses."""
        return tuple(dict.fromkeys([*self.columns.needed, *self.features, *filter(None, (self.text, self.number))]))

    @property
    def provides(self) -> frozenset[Content]:
        """Contents that the columns provide besides images."""
        of = self.columns
        found = {
            Content.LABEL: of.label or of.labels,
            Content.OBJECTS: of.objects or of.boxes,
            Content.OBJECT_MASKS: isinstance(of.boxes, MaskColumns) or (of.objects and of.objects.has_polygons),
            Content.POLYGONS: of.objects and of.objects.has_polygons,
            Content.KEYPOINTS: of.objects and of.objects.has_keypoints,
            Content.MASK: of.mask,
            Content.CAPTIONS: CAPTIONS in self.features,
            Content.COLUMNS: True,
        }
        return contents_in(found)

    def describe(self, images: Mapping[str, bool], *, has_mask: bool = False) -> dict[str, Any]:
        """Returns fields of a source's description.

        Args:
          images: as in `Description`.
          has_mask: whether the samples have masks from elsewhere.
        """
        is_list = len(images) > 1 or any(images.values())
        found = contents_in({Content.IMAGE: bool(images), Content.IMAGES: is_list, Content.MASK: has_mask})
        split = self.columns.split.name if self.columns.split else None
        used = {"used": frozenset(self.needed), "split_column": split}
        return {"images": images, "provides": self.provides | found, **used, **self.of_label}

    @property
    def of_label(self) -> dict[str, Any]:
        """Fields of a source's description about its labels."""
        of = self.columns
        length = self.flags.count if self.flags else 0
        return {
            "label_column": of.boxes.label if of.boxes else of.label,
            "has_several_labels": self.has_several_labels,
            "labels": Labels(
                may_be_indices=True, length=length, text_column=self.text or "", number_column=self.number or ""
            ),
        }

    @property
    def notes(self) -> Sequence[str]:
        """Notes on findings about the cells."""
        notes = []
        if self.flags and self.flags.count:
            notes.append(f"the labels {self.columns.label!r} are zeros and ones, one for each class")
        if self.flags and self.flags.meaning and self.flags.unknown:
            notes.append(describe_unknown(self.flags, _ROWS))
        return notes

    @functools.cached_property
    def _may_be_blank(self) -> Sequence[str]:
        return [name for name in self.columns.needed if name not in self.features]

    def blank(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the row with None in place of words for an empty cell."""
        blank = [
            name for name in self._may_be_blank if isinstance(value := row[name], str) and value.strip() in self.missing
        ]
        return {**row, **dict.fromkeys(blank)} if blank else row

    def sample(
        self,
        row: Row | SampleError,
        located: Located,
        of_file: Partition,
        images: RowImages = NO_IMAGES,
    ) -> SampleRef:
        """Returns the reference of a row; a rejected one if a value is invalid or an image does not exist.

        Args:
          row: the needed columns of the row, or the error of reading it.
          located: what is known of the sample; receives the images.
          of_file: the file of the row.
          images: finds the images.
        """
        of, key, split = self.columns, "", of_file.split
        try:
            if isinstance(row, SampleError):
                raise row
            if isinstance(row, InvalidRow):
                raise invalid_row(row.detail)
            error = row.error if isinstance(row, UnjoinedRow) else None
            row = self.blank(row)
            key = "" if of.key is None else storage.shown(read_text(row, of.key))
            images.read_paths(row, located)
            if error is not None:
                raise error
            split = self.split(row) if of.split else split
            label, columns, group = self.label(row), self.values(row), self.group(row)
            images.find(row, located)
            return SampleRef(
                of_file.key_prefix + (key or located.key),
                located.images,
                located.size,
                located.fingerprint,
                label,
                split,
                columns,
                group=group,
                objects=self.objects(row) if of.objects or of.boxes else located.objects,
            )
        except SampleError as error:
            failure = (error.reason.value, error.detail)
            known = located.images or images.place(row, located)
            return SampleRef(of_file.key_prefix + (key or located.key), known, split=split, failure=failure)

    def samples(self, rows: Sequence[Mapping[str, Any]], first: int, of_file: Partition) -> RefColumns:
        """Converts several rows without images; see `sample`.

        Args:
          rows: the needed columns of each row.
          first: number of the first row.
          of_file: the file of the rows.

        Raises:
          SampleError: a row is rejected.
        """
        of = self.columns
        rows = [self.blank(row) for row in rows] if self._may_be_blank else rows
        numbers = map(number_key, range(first, first + len(rows)))
        keys = numbers if of.key is None else [storage.shown(read_text(row, of.key)) for row in rows]
        shared: dict[str, Any] = {"split": [self.split(row) for row in rows] if of.split else of_file.split}
        if of.group:
            shared["group"] = list(map(self.group, rows))
        if of.objects or of.boxes:
            shared["objects"] = [found and list(found.pack()) for found in map(self.objects, rows)]
        values = {name: read_values(rows, name) for name in self.features}
        if self.value_label is not None:
            values[self.value_label] = list(map(self._value_label, rows))
        return RefColumns.of_rows([of_file.key_prefix + key for key in keys], self._labels(rows), values, **shared)

    def split(self, row: Mapping[str, Any]) -> str | None:
        """Returns the split that a row states.

        Raises:
          SampleError: a cell has an invalid value; the methods below raise it too.
        """
        of = self.columns.split
        return of.read(read_value(row, of.name)) if of else None

    def label(self, row: Mapping[str, Any]) -> Value:
        """Returns the label or list of labels."""
        of = self.columns
        if of.labels and self.flags:
            return [name for name in of.labels if self.flags.is_one(row[name], name)]
        if of.label is not None and self.flags and row[of.label] is not None:
            return list(map(self._class_of, self.flags.ones(row[of.label], of.label, self.label_separator)))
        label = None if of.label is None else read_label(row, of.label, separator=self.label_separator)
        if isinstance(label, list):
            label = [one for one in label if one not in self.missing]
            return list(map(self._class_of, label))
        if self.text and (number := whole_number(label)) is not None:
            text = " ".join(read_text(row, self.text, required=False).split())
            return numbered_label(number, text) if text else label
        if self.number and isinstance(label, str):
            return self._numbered(label, row)
        return [] if label is None and self.has_several else self._class_of(label)

    def _numbered(self, label: str | int | None, row: Mapping[str, Any]) -> str | int | None:
        """Returns a label that is a text with its number; without one if the row has none."""
        number = read_text(row, self.number, required=False) if self.number and isinstance(label, str) else ""
        return numbered_label(int(number), " ".join(str(label).split())) if label and number.isdecimal() else label

    def _class_of(self, label: Scalar) -> Scalar:
        """Returns the name of a class; None for -1 if classes have names."""
        if not self.class_names or not isinstance(label, int):
            return label
        return self.class_names[label] if 0 <= label < len(self.class_names) else None if label == -1 else label

    def _labels(self, rows: Sequence[Mapping[str, Any]]) -> list[Value]:
        """Applies `label` to several rows."""
        column = self.columns.label
        are_plain = not (
            self.flags or self.text or self.number or self.label_separator or self.class_names or self.has_several
        )
        if column is not None and are_plain and (labels := plain_labels(rows, column)) is not None:
            return list(labels)
        return [self.label(row) for row in rows]

    def values(self, row: Mapping[str, Any]) -> Mapping[str, Value]:
        """Returns the values of the features."""
        values = {name: read_value(row, name) for name in self.features}
        if self.value_label is not None:
            values[self.value_label] = self._value_label(row)
        return values

    def _value_label(self, row: Mapping[str, Any]) -> Value:
        """Returns a label that is a number or a text.

        Raises:
          SampleError: it is missing, blank or not finite.
        """
        name = self.value_label or ""
        value = read_value({name: parse_cell(row[name])} if self.are_numbers else row, name)
        parts = value if isinstance(value, list) else [value]
        if not parts or any(is_missing(part, self.missing, is_number=self.are_numbers) for part in parts):
            shown = shorten(str(value))
            raise SampleError(Stage.LIST, FailureReason.LABEL_MISSING, f"column {name!r} has no label: {shown}")
        if self.are_numbers and any(math.isnan(read_number(part)) for part in parts):
            detail = f"column {name!r} has {shorten(str(value))}; expected a number, or a list of numbers"
            raise SampleError(Stage.LIST, FailureReason.WRONG_TYPE, detail)
        return value

    def objects(self, row: Mapping[str, Any]) -> Objects | None:
        """Returns the annotated objects; None for a table without object columns."""
        if self.columns.boxes:
            found = self.columns.boxes.read(row, self.object_classes)
            if self.number:
                found = dataclasses.replace(found, labels=[self._numbered(label, row) for label in found.labels])
            return found
        return self.columns.objects.read(row, self.object_classes) if self.columns.objects else None

    def group(self, row: Mapping[str, Any]) -> str | None:
        """Returns the group of a row; all rows of a group go to the same split."""
        group = None if self.columns.group is None else read_value(row, self.columns.group)
        return None if group is None else str(group)


def number_key(number: int) -> str:
    """Returns the key of a row, record or image without a name; zero-padded, so that keys sort in row order."""
    return f"{number:012d}"


def row_reader(
    table: Table, columns: Columns, settings: TableSettings, needs: Needs, *, has_several: bool = False
) -> RowReader:
    """Returns the row reader of a table for a request.

    Args:
      table: the table.
      columns: roles of its columns.
      settings: settings of the table.
      needs: requested contents.
      has_several: whether a label is known to be a list of classes, rather than of zeros and ones.

    Raises:
      RequestError: the layout needs a column that the table does not have.
    """
    if needs.all_columns:
        features = tuple(sorted(table.columns))
    elif needs.columns is None:
        features = tuple(name for name in table.columns if name not in columns.needed)
    else:
        features = tuple(sorted(needs.columns))
        for name in features:
            if name not in table.columns:
                raise RequestError(
                    f"`layout` asks for column.{name}, which {table.path} does not have; {available(table, name)}",
                    code="unknown_column",
                )
    separator, missing = settings.label_separator, frozenset(settings.missing_values)
    value_label = None
    if settings.label_type is not LabelType.CLASS:
        value_label = settings.label_column or next(find_usual(table.columns, USUAL_LABELS), None)
    cells = RowReader(
        columns,
        features,
        separator,
        missing,
        value_label=value_label if value_label in features else None,
        are_numbers=settings.label_type is LabelType.FLOAT,
        has_several=has_several,
    )
    names = columns.labels or ((columns.label,) if columns.label and settings.label_type is LabelType.CLASS else ())
    rows = table.head(names, _ROWS) if names else ()
    found = [row[name] for row in rows for name in names]
    if columns.labels:
        found = [None if isinstance(cell, str) and cell.strip() in cells.missing else cell for cell in found]
        return dataclasses.replace(
            cells, flags=_check_unknown(find_column_flags(found), table, settings.unknown_labels)
        )
    flags = None if has_several else find_list_flags(found, separator)
    flags = flags and _check_unknown(flags, table, settings.unknown_labels)
    if names and not (flags or separator or has_several or needs.class_names):
        text = _find_texts(table, cells, needs)
        cells = dataclasses.replace(
            cells, text=text, number=None if text else _find_numbers(table, cells, columns.label)
        )
    elif columns.boxes and columns.boxes.label and not needs.class_names and not cells.object_classes:
        cells = dataclasses.replace(cells, number=_find_numbers(table, cells, columns.boxes.label))
    are_lists = any(isinstance(cell, list) and len(cell) != 1 for cell in found)
    return dataclasses.replace(cells, flags=flags, has_several_labels=flags.are_several if flags else are_lists)


def _find_texts(table: Table, cells: RowReader, needs: Needs) -> str | None:
    """Returns the column whose texts name the classes of labels that are numbers, based on the first rows."""
    label = cells.columns.label or ""
    wanted = {f"{plain_name(label)}{word}" for word in _TEXT_WORDS} | _TEXT_COLUMNS
    for name in table.columns if Content.LABEL in needs.contents else ():
        # `image/class/text` is beside `image/class/label`.
        folder, _, last = name.rpartition("/")
        is_beside = bool(folder) and folder == label.rpartition("/")[0] and plain_name(last) in _TEXT_WORDS
        if name == label or not (is_beside or plain_name(name) in wanted):
            continue
        if _name_each_other(table, cells, number=label, text=name):
            return name
    return None


def _find_numbers(table: Table, cells: RowReader, label: str | None) -> str | None:
    """Returns the column with the class numbers of labels that are texts, based on the first rows."""
    plain = plain_name(label or "")
    base = next((plain.removesuffix(word) for word in _TEXT_WORDS if plain.endswith(word)), plain)
    wanted = {f"{base}{word}" for word in _NUMBER_WORDS} | _NUMBER_COLUMNS
    others = [name for name in table.columns if label and name != label and plain_name(name) in wanted]
    texts = [name for name in others if _name_each_other(table, cells, number=name, text=label or "", skips_empty=True)]
    return texts[0] if texts else None


def _name_each_other(table: Table, cells: RowReader, *, number: str, text: str, skips_empty: bool = False) -> bool:
    """Whether each number in a column has one text in another, and each text one number."""
    with contextlib.suppress(SampleError):
        rows = table.head((number, text), _ROWS)
        found = [(read_label(row, number), read_text(row, text, required=False)) for row in rows]
        known = ((str(one), name) for one, name in found if one is not None and (name or not skips_empty))
        pairs = {pair for pair in known if pair[0] not in cells.missing}
        numbers, texts = {one for one, _ in pairs}, {name for _, name in pairs}
        are_named = all(map(str.isdecimal, numbers)) and all(name and not name.isdecimal() for name in texts)
        return are_named and len(numbers) == len(texts) == len(pairs) > 1
    return False


def _check_unknown(flags: Flags, table: Table, meaning: UnknownLabels | None) -> Flags:
    """Returns the flags with the requested meaning of unknown labels.

    Raises:
      RequestError: there are unknown labels, and the request does not state their meaning.
    """
    if flags.unknown and meaning is None:
        raise RequestError(
            f"{quote_input(table.path)}: {flags.unknown:,} labels of the first {_ROWS:,} rows are -1, which is unknown "
            "beside 0 and 1; expected their meaning in `unknown_labels`",
            [Reading(shown, {"unknown_labels": kind.value}) for kind, shown in UNKNOWN_MEANINGS.items()],
            code="unknown_labels",
        )
    return dataclasses.replace(flags, meaning=meaning)
