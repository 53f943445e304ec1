"""Joins tables to the listed samples of sources other than tables, by the samples' keys."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.features.contents import CLASSES, Content, contents_in
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.detect.columns import choose_columns, find_label
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tables.joined_rows import fit_all
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable
from beam_tfrecords.transforms.sources.tables.row_values import RowReader, row_reader
from beam_tfrecords.transforms.sources.tables.table import FirstRows, Table, available
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.splits import Splits

# Settings that name columns, and those of the label, which belong to its column.
_NAMES = ("label_column", "split_column", "group_column", "label_columns", "box_columns")
_OF_LABEL = ("label_type", "label_separator", "unknown_labels")
# Settings of columns that joined tables do not provide.
_OF_OTHERS = ("image_column", "image_path", "mask_column", "key_column")
_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class JoinedSamples:
    """The tables that a request joins to samples.

    Attributes:
      joins: the tables.
      table: the columns of all, with first cells.
      types: column -> type, as in `JoinedTable.types`.
      joined: settings about these columns.
      others: settings of the request that the source does not get -> their defaults.
      key_column: column of the source with the keys, if the request names one.
    """

    joins: Sequence[JoinedTable]
    table: Table
    types: dict[str, str]
    joined: TableSettings
    others: Mapping[str, Any]
    key_column: str | None

    @classmethod
    def of(cls, joins: Sequence[JoinedTable], table: TableSettings, *, has_columns: bool) -> JoinedSamples:
        """Reads the first rows of the tables.

        Args:
          joins: the tables.
          table: settings about columns.
          has_columns: whether the source has columns of its own.

        Raises:
          RequestError: no table has a column of the request.
        """
        # A column with the name of the samples' key joins the tables, and is not a value.
        kept = [{name: of for name, of in one.names.items() if name != table.key_column} for one in joins]
        joins = [dataclasses.replace(one, names=names) for one, names in zip(joins, kept, strict=True)]
        rows: list[dict[str, Any]] = [{} for _ in range(_ROWS)]
        types: dict[str, str] = {}
        for join in joins:
            types |= join.types
            for row, found in zip(rows, join.rows([*join.names.values()]), strict=False):
                row |= {name: found[column] for name, column in join.names.items()}
        defaults = vars(TableSettings())
        named = {name: given for name in _NAMES if (given := getattr(table, name))}
        ours = {n for n, names in named.items() if {*([names] if isinstance(names, str) else names)} <= types.keys()}
        if not has_columns and (wrong := next((name for name in named if name not in ours), None)):
            where = "; ".join(f"{join.shown}: {available(join.files[0])}" for join in joins)
            value = named[wrong] if isinstance(named[wrong], str) else ",".join(named[wrong])
            raise RequestError(f"`{wrong}={value}`: no joined table has this column; {where}", code="unknown_column")
        ours |= {*_OF_LABEL} if ours & {"label_column", "label_columns"} else {*()}
        first = FirstRows(joins[0].files[0].path, [*types], first_rows=[row for row in rows if row])
        # An empty column says that no column has the splits.
        none = {"split_column"} if table.split_column == "" else {*()}
        theirs = {n: defaults[n] for n in (*_NAMES, *_OF_LABEL, *_OF_OTHERS) if n not in ours | none}
        ours |= {*()} if has_columns else none
        return cls(
            joins,
            first,
            types,
            dataclasses.replace(table, **theirs),
            {name: defaults[name] for name in ours},
            table.key_column,
        )

    @property
    def contents(self) -> frozenset[Content]:
        """Contents that joined columns of the request provide."""
        labels = self.joined.label_column or self.joined.label_columns
        return contents_in({Content.LABEL: labels, Content.OBJECTS: self.joined.box_columns})

    def needs_of_source(self, needs: Needs) -> Needs:
        """Returns what the source itself has to provide."""
        # The words in `splits` are those of the joined column.
        has_words = self.joined.split_column and needs.splits.folders
        return dataclasses.replace(
            needs,
            contents=needs.contents - self.contents,
            columns=None if needs.columns is None else needs.columns - self.types.keys(),
            splits=Splits() if has_words else needs.splits,
        )

    def make(self, make: Callable[[Needs], Source], needs: Needs) -> Source:
        """Makes the source of the samples, with the columns of the tables.

        Raises:
          RequestError: as `choose_columns`, or the source has a column of the same name.
        """
        columns = needs.columns
        own = dataclasses.replace(
            needs,
            contents=needs.contents - ({Content.IMAGE, Content.MASK, *CLASSES} - self.contents),
            images={},
            columns=None if columns is None else columns & self.types.keys(),
        )
        found, notes = choose_columns(self.table, self.joined, own)
        label = found.label if Content.LABEL in self.contents else None
        found = dataclasses.replace(found, image=None, images={}, label=label)
        cells = row_reader(self.table, found, self.joined, own)
        try:
            source = make(self.needs_of_source(needs))
        except RequestError as error:
            label = find_label(self.table)
            if label is None or error.code != "missing_label_column":
                raise
            joined = Reading(f"the labels of the joined column {label!r}", {"label_column": label})
            raise RequestError(error.message, [joined, *error.suggestions], code=error.code) from error
        seen = source.description
        if twice := next((name for name in seen.columns if name in self.types), None):
            raise RequestError(
                f"`join={self.table.path}`: the tables and the input have a column {twice!r}; rename it in the table",
                [] if self.key_column else [Reading(f"{twice!r} as the key", {"key_column": twice})],
                code="duplicate_column",
            )
        source.notes += [*notes, *cells.notes]
        source.description = dataclasses.replace(
            seen,
            columns=(*seen.columns, *self.types),
            column_types=None if seen.column_types is None else {**seen.column_types, **self.types},
            provides=seen.provides | cells.provides,
            split_column=found.split.name if found.split else seen.split_column,
            join=JoinListed(self.joins, self.table, cells),
        )
        if Content.LABEL in self.contents:
            labels = dataclasses.replace(cells.of_label["labels"], first=seen.labels.first, numbers=seen.labels.numbers)
            of_label = {**cells.of_label, "label_column": found.label, "labels": labels}
            source.description = dataclasses.replace(source.description, **of_label)
        return source


@dataclasses.dataclass(frozen=True)
class JoinListed:
    """Joins tables to listed samples.

    Attributes:
      joins: the tables.
      table: as in `JoinedSamples`.
      cells: reads the joined columns.
    """

    joins: Sequence[JoinedTable]
    table: Table
    cells: RowReader

    @property
    def other_label(self) -> str | None:
        """The joined column of labels, by its name, if the request does not use it."""
        label = find_label(self.table)
        return None if label in self.cells.needed else label

    def fit(self, keys: Table) -> tuple[Callable[[Iterable[SampleRef]], Iterator[SampleRef]], list[str], Table]:
        """Returns a function that adds the joined values to samples, notes, and a table of the columns that it can add.

        Args:
          keys: a table with the keys of all samples in its only column.

        Raises:
          RequestError: the tables do not belong to the samples.
        """
        needed = {*self.cells.needed}
        joins, notes = fit_all(self.joins, keys, needed)
        places = {name: place for join in joins for name, place in join.places.items()}
        joins = [join for join in joins if needed & join.names.keys()]

        def add(refs: Iterable[SampleRef]) -> Iterator[SampleRef]:
            refs = iter(refs)
            while batch := [*itertools.islice(refs, max((join.batch for join in joins), default=_ROWS))]:
                found = [join.find({ref.key for ref in batch}) for join in joins]
                for ref in batch:
                    rows = [of[ref.key] for of in found]
                    yield ref if ref.failure else self._join(ref, rows)

        return add, notes, dataclasses.replace(self.table, columns=[*places], places=places)

    def _join(self, ref: SampleRef, rows: Iterable[Any]) -> SampleRef:
        of, row = self.cells.columns, dict[str, Any]()
        try:
            for one in rows:
                if isinstance(one, SampleError):
                    raise one
                row |= one
            row = dict(self.cells.blank(row))
            return dataclasses.replace(
                ref,
                label=self.cells.label(row) if of.label or of.labels else ref.label,
                split=self.cells.split(row) if of.split else ref.split,
                columns={**ref.columns, **self.cells.values(row)},
                group=self.cells.group(row) or ref.group,
                objects=self.cells.objects(row) if of.boxes or of.objects else ref.objects,
            )
        except SampleError as error:
            return dataclasses.replace(ref, failure=(error.reason.value, error.detail))
