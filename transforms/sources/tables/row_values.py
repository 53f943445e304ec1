"""What the cells of a row say of its sample, besides its image. Pure functions."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.objects import Objects
from beam_tfrecords.transforms.refs import Value
from beam_tfrecords.transforms.sources.detect.column_suggestions import column_suggestions
from beam_tfrecords.transforms.sources.detect.columns import Columns, available, choose_columns, find_label
from beam_tfrecords.transforms.sources.inputs import InputFile, quote_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.cells import plain_labels, read_flag, read_label, read_value, read_values
from beam_tfrecords.transforms.sources.tables.object_cells import find_objects, read_objects
from beam_tfrecords.transforms.sources.tables.table import Table
from beam_tfrecords.transforms.splits import SPLIT_NAMES


@dataclasses.dataclass(frozen=True)
class RowReader:
    """Reads the rows of one table.

    Attributes:
      features: columns that the layout asks for.
      missing: words that mean an empty cell.
      object_classes: names of the classes of objects, which are indices; empty if the table does not name them.
    """

    columns: Columns
    features: Sequence[str]
    label_separator: str | None
    missing: frozenset[str]
    object_classes: Sequence[str] = ()

    @functools.cached_property
    def needed(self) -> Sequence[str]:
        """All columns that are read."""
        return tuple(dict.fromkeys([*self.columns.needed, *self.features]))

    @functools.cached_property
    def _may_be_blank(self) -> Sequence[str]:
        return [name for name in self.columns.needed if name not in self.features]

    def blank(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with None for words that mean an empty cell."""
        blank = [
            name for name in self._may_be_blank if isinstance(value := row[name], str) and value.strip() in self.missing
        ]
        return {**row, **dict.fromkeys(blank)} if blank else row

    def blank_each(self, rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
        """`blank` of several rows."""
        return [self.blank(row) for row in rows] if self._may_be_blank else rows

    def split(self, row: Mapping[str, Any]) -> str | None:
        """The split that a row says.

        Raises:
          SampleError: a cell cannot be what it is to be; so do the functions below.
        """
        of = self.columns.split
        return of.read(read_value(row, of.name)) if of else None

    def label(self, row: Mapping[str, Any]) -> Value:
        """The label, or a list of them."""
        of = self.columns
        if of.labels:
            return [name for name in of.labels if read_flag(row, name)]
        label = None if of.label is None else read_label(row, of.label, separator=self.label_separator)
        return [one for one in label if one not in self.missing] if isinstance(label, list) else label

    def labels(self, rows: Sequence[Mapping[str, Any]]) -> list[Value]:
        """`label` of several rows."""
        of, labels = self.columns, None
        if of.label is not None and not of.labels and self.label_separator is None:
            labels = plain_labels(rows, of.label)
        return [self.label(row) for row in rows] if labels is None else list(labels)

    def values(self, row: Mapping[str, Any]) -> Mapping[str, Value]:
        """The values of the features."""
        return {name: read_value(row, name) for name in self.features}

    def values_of_each(self, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, list[Value]]:
        """`values` of several rows, by column."""
        return {name: read_values(rows, name) for name in self.features}

    def objects(self, row: Mapping[str, Any]) -> Objects | None:
        """The annotated objects; None for a table without such a column."""
        return read_objects(row[self.columns.objects], self.object_classes) if self.columns.objects else None

    def group(self, row: Mapping[str, Any]) -> str | None:
        """What keeps rows in one split."""
        group = None if self.columns.group is None else read_value(row, self.columns.group)
        return None if group is None else str(group)


def choose_cells(
    table: Table, spec: SourceSpec, label: str | None, object_classes: Sequence[str] = ()
) -> tuple[RowReader, list[str]]:
    """The reader of a table that holds its images, and notes on the columns that were guessed.

    Args:
      table: without the images.
      spec: the request.
      label: column of the labels; None if there is none.
      object_classes: names of the classes of objects, if the table has them.

    Raises:
      RequestError: a column of the request does not exist.
    """
    # A split that the request gives an input beats a column, as for other tables.
    split = "" if spec.input_splits else spec.split_column
    named = dataclasses.replace(spec, image_column=None, label_column=label, split_column=split)
    named = dataclasses.replace(named, needs_image=False, needs_label=False, needs_mask=False, images={})
    columns, notes = choose_columns(table, named)
    # A column of the name `image` is no path of one.
    columns = dataclasses.replace(
        columns,
        image=None,
        images={},
        lists=frozenset(),
        objects=find_objects(table, spec, label or find_label(table)),
    )
    cells = row_reader(table, columns, spec)
    return dataclasses.replace(cells, object_classes=object_classes), notes


def splits_of(files: Sequence[InputFile]) -> dict[str, str]:
    """File -> split, of the files whose request or whose names say it."""
    return {file.entry.path: file.split for file in files if file.split}


def shard_splits(files: Sequence[InputFile], name: re.Pattern[str], spec: SourceSpec) -> dict[str, str]:
    """File -> split, where the names of all files say one in a group `split`, as those of shards do."""
    found = {file.entry.path: name.fullmatch(storage.basename(file.entry.path)) for file in files}
    if not spec.splits_auto or spec.split_column is not None or not all(found.values()):
        return {}
    words = {path: match["split"].lower() for path, match in found.items() if match}
    return {path: SPLIT_NAMES.get(word, word) for path, word in words.items()}


def note_splits(splits: Mapping[str, str], spec: SourceSpec) -> list[str]:
    """A note on splits that only the names of the files say."""
    if spec.input_splits or not splits:
        return []
    return [f"splits from the names of the files: {', '.join(sorted(set(splits.values())))}"]


def without_label(table: Table, what: str) -> RequestError:
    """The refusal of a table without labels, with what may be some.

    Args:
      what: is there instead.
    """
    return RequestError(
        f"{quote_input(table.path)} has {what}, which the layout needs; name another with `label_column`; "
        f"{available(table)}",
        column_suggestions(table, image=None, needs_image=False, needs_label=True),
    )


def row_reader(table: Table, columns: Columns, spec: SourceSpec) -> RowReader:
    """The reader of a table for a request.

    Raises:
      RequestError: the layout asks for a column that the table does not have.
    """
    if spec.columns is None:
        features = tuple(name for name in table.columns if name not in columns.needed)
    else:
        features = tuple(sorted(spec.columns))
        for name in features:
            if name not in table.columns:
                raise RequestError(
                    f"`layout` asks for column.{name}, which {table.path} does not have; {available(table)}"
                )
    return RowReader(columns, features, spec.label_separator, frozenset(spec.missing_values))
