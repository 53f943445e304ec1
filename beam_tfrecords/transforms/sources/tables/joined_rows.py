"""Joins tables to a table of samples: chooses the columns by which they join, and adds their columns to its rows."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from array import array
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.tables.cells import invalid_row, read_text
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable, NamePart
from beam_tfrecords.transforms.sources.tables.table import (
    FEW_ROWS,
    InvalidRow,
    ReadTable,
    Row,
    RowRange,
    Table,
    TableFile,
    UnjoinedRow,
    available,
)

# Number of samples by which to choose columns.
_ROWS = 1000
# Columns of fewer different values, such as classes, name no samples.
_MANY = 10
# Least share of these samples that have a row, and of different keys among the rows.
_LEAST_SHARE, _UNIQUE = 0.5, 0.9
# Column of a joined table, column of the samples, and what their names have in common.
Link: TypeAlias = tuple[str, str, NamePart]


@dataclasses.dataclass(frozen=True, eq=False)
class JoinedRows(TableFile):
    """A table with the columns of others.

    Attributes:
      base: the table of the samples.
      joins: the others.
    """

    base: TableFile
    joins: Sequence[JoinedTable]

    @classmethod
    def of(cls, base: TableFile, joins: Sequence[JoinedTable], notes: Sequence[str]) -> JoinedRows:
        """Returns a table with the columns of others."""
        added = [name for join in joins for name in join.names]
        types = base.column_types
        if types is not None:
            types = {**types, **{name: kind for join in joins for name, kind in join.types.items()}}
        kept = {name: getattr(base, name) for name in ("embedded", "other_labels", "has_words")}
        return cls(
            base.path,
            (*base.columns, *added),
            column_types=types,
            notes=(*base.notes, *notes),
            places={name: place for join in joins for name, place in join.places.items()},
            **kept,
            base=base,
            joins=joins,
        )

    def may_hold_text(self, column: str) -> bool:
        """See `Table`."""
        return column not in self.base.columns or self.base.may_hold_text(column)

    def cut(self) -> tuple[Sequence[RowRange], str]:
        """See `TableFile.cut`."""
        return self.base.cut()

    def head(self, columns: Sequence[str], rows: int = FEW_ROWS) -> list[Mapping[str, Any]]:
        """See `Table.head`; joins the first rows once."""
        return super().head(columns, _ROWS)[:rows]

    def _beside(self, columns: Sequence[str], rows: int) -> Sequence[str]:
        """See `Table._beside`."""
        return [name for name in self.columns if name not in self.embedded]

    def rows(self, columns: Sequence[str], part: RowRange | None = None) -> Iterator[Row]:
        """See `TableFile.rows`; a row without a row in a joined table that has such columns is an `UnjoinedRow`."""
        joins = [join for join in self.joins if not join.names.keys().isdisjoint(columns)]
        own = [name for name in columns if name in self.base.columns]
        rows = self.base.rows([*dict.fromkeys([*own, *(join.of for join in joins)])], part)
        while batch := [*itertools.islice(rows, max((join.batch for join in joins), default=_ROWS))]:
            yield from self._join(batch, columns, joins)

    def _join(self, rows: Sequence[Row], columns: Sequence[str], joins: Sequence[JoinedTable]) -> Iterator[Row]:
        names = [[None if isinstance(row, InvalidRow) else _text(row, join.of) for row in rows] for join in joins]
        found = [join.find({name for name in of if name}) for join, of in zip(joins, names, strict=True)]
        for number, row in enumerate(rows):
            if isinstance(row, InvalidRow):
                yield row
                continue
            values, errors = dict(row), list[SampleError]()
            for of, by_name, join in zip(names, found, joins, strict=True):
                joined = by_name.get(of[number] or "", invalid_row(f"column {join.of!r} is empty"))
                errors += [joined] if isinstance(joined, SampleError) else []
                values |= dict.fromkeys(join.names) if isinstance(joined, SampleError) else joined
            chosen = {name: values[name] for name in columns}
            yield UnjoinedRow(chosen, errors[0]) if errors else chosen


def join_tables(tables: Sequence[TableFile], joins: Sequence[JoinedTable]) -> Sequence[TableFile]:
    """Returns the tables of the samples with the columns of the tables that the request joins.

    Raises:
      RequestError: as `fit`.
    """
    if not joins:
        return tables
    columns = [name for name in tables[0].columns if all(name in table.columns for table in tables)]

    def read(columns: Sequence[str]) -> Iterator[Row]:
        return itertools.chain.from_iterable(table.rows(columns) for table in tables)

    fitted, notes = fit_all(joins, ReadTable(tables[0].path, columns, read))
    return [JoinedRows.of(table, fitted, () if number else notes) for number, table in enumerate(tables)]


def fit_all(
    joins: Sequence[JoinedTable], base: Table, kept: Container[str] = ()
) -> tuple[list[JoinedTable], list[str]]:
    """Chooses the keys of the tables of a request; returns the tables, and notes.

    Args:
      joins: the tables.
      base: the table of the samples.
      kept: joined columns that are values even if they join.

    Raises:
      RequestError: as `fit`, or a table ends within a row.
    """
    fitted, columns, notes = list[JoinedTable](), [*base.columns], list[str]()
    for join in joins:
        try:
            one, found = fit(join, base)
        except SampleError as error:
            raise RequestError(f"{_shown(join)} cannot be read: {error.detail}", code="unreadable_input") from error
        names = {name: column for name, column in one.names.items() if column != one.key or name in kept}
        fitted.append(dataclasses.replace(one, names=names).beside(columns))
        columns += fitted[-1].names
        notes += found
    return fitted, notes


def fit(join: JoinedTable, base: Table) -> tuple[JoinedTable, list[str]]:
    """Chooses the columns by which a table joins samples, and checks that it does.

    Both columns have the same text, or file names without extension. The key that the request names joins; otherwise
    those columns do that have the most names in common, names before numbers, and columns of the same name before
    others.

    Args:
      join: the table.
      base: the table of the samples.

    Returns:
      The table with its key, and notes.

    Raises:
      RequestError: no columns join, several do, or a file name occurs in several folders.
    """
    columns = join.columns
    named = [join.key] if join.key else []
    own = _names(base, named if named[:1] and named[0] in base.columns else base.columns)
    theirs = _names(join.files[0], named or columns)
    hits = _find_hits(join, [*theirs], own)
    ranked: defaultdict[tuple[bool, ...], list[tuple[int, int, Link]]] = defaultdict(list)
    for link, found in hits.items():
        key, of, form = link
        ours, others = _folders(own[of]), _folders(theirs[key])
        if form is NamePart.STEM and not named and ours and others and ours.isdisjoint(others):
            continue  # `train/1.jpg` and `test/1.jpg` are two images.
        if named or sum(form.of(cell) in found for cell in own[of]) >= _LEAST_SHARE * len(own[of]):
            are_numbers = any(all(map(str.isdecimal, cells)) for cells in (own[of], theirs[key]))
            rank = len({*theirs[key]}) < _UNIQUE * len(theirs[key]), are_numbers, key != of
            ranked[rank].append((-len(found), [*NamePart].index(form), link))
    shown = _shown(join)
    if not ranked:
        first, other = (next((cell for cells in of.values() for cell in cells), "") for of in (theirs, own))
        columns_there = available(join.files[0])
        what = (
            "none of its rows has the key of a sample" if named else "fewer than half of the first samples have a row"
        )
        raise RequestError(
            f"{shown}: {what}; the first key is {printable(first)!r} there and {printable(other)!r} in the input; "
            f"keys join by the {NamePart.FULL.value} or by the {NamePart.STEM.value}; name the column with the keys "
            f"with `join_key`; {columns_there}",
            code="unmatched_join",
        )
    (_, are_numbers, _), best = min(ranked.items())
    rivals = sorted({link[0] for _, _, link in best}, key=columns.index)
    if are_numbers and len(rivals) > 1:
        raise RequestError(
            f"{shown}: the columns {', '.join(rivals)} may have the keys of the samples; name one with `join_key`",
            [Reading(f"the keys in column {name!r}", {"join_key": name}) for name in rivals],
            code="unclear_join_key",
        )
    key, of, form = min(best)[2]
    fitted = dataclasses.replace(join, key=key, of=of, form=form)
    return fitted, _check_rows(fitted, base, shown)


def _shown(join: JoinedTable) -> str:
    return f"`join={','.join(file.path for file in join.files)}`"


def _names(table: Table, columns: Sequence[str]) -> dict[str, list[str]]:
    """Returns column -> first cells, of the columns that may have names of samples: they have many values."""
    found = {}
    rows = table.head(columns, _ROWS)
    for name in columns:
        cells = [text for row in rows if (text := _text(row, name))]
        # pandas writes the numbers of rows in a column without a name.
        is_name = name.strip() and not name.startswith("Unnamed:") and len({*cells}) >= min(len(rows) ** 0.5, _MANY)
        if is_name or len(columns) == 1:
            found[name] = cells
    return found


def _folders(cells: Sequence[str]) -> set[str]:
    """Returns the names of the folders of paths."""
    return {folder for cell in cells if (folder := cell.replace("\\", "/").rpartition("/")[0].rpartition("/")[2])}


def _find_hits(join: JoinedTable, columns: Sequence[str], own: Mapping[str, Sequence[str]]) -> Mapping[Link, set[str]]:
    """Returns link -> names of samples that the table has."""
    wanted = {(of, form): {*map(form.of, cells)} for of, cells in own.items() for form in NamePart}
    hits: defaultdict[Link, set[str]] = defaultdict(set)
    for row in join.rows(columns):
        for key in columns:
            if text := _text(row, key):
                parts = {form: form.of(text) for form in NamePart}
                for (of, form), cells in wanted.items():
                    if parts[form] in cells:
                        hits[key, of, form].add(parts[form])
    return hits


def _check_rows(join: JoinedTable, base: Table, shown: str) -> list[str]:
    """Compares all rows with all samples; returns notes.

    Raises:
      RequestError: most samples have several rows, or samples in two folders share a row.
    """
    parts, fulls = array("Q"), array("Q")
    rows = (row for row in base.rows([join.of]) if not isinstance(row, InvalidRow))
    texts = (text for row in rows if (text := _text(row, join.of)))
    while some := [*itertools.islice(texts, _ROWS)]:
        parts += order_hashes(seed=0, keys=map(join.form.of, some))
        fulls += order_hashes(seed=0, keys=map(NamePart.FULL.of, some))
    samples, keys = np.unique(np.array([parts, fulls]), axis=1), np.array(order_hashes(seed=0, keys=join.keys()))
    distinct = len(np.unique(keys))
    if distinct < _UNIQUE * len(keys):
        raise RequestError(
            f"{shown}: {len(keys):,} rows for {distinct:,} different {join.key!r}; expected one row for each sample; "
            "a table with several, such as one for each box, must be the `input`, and `join` names the other one",
            code="several_rows",
        )
    shared = samples.shape[1] - len(np.unique(samples[0]))
    if shared:
        raise RequestError(
            f"{shown}: it has the {join.form.value} of images, and {shared:,} of them are in several folders; expected "
            "paths with their folders",
            code="shared_key",
        )
    unused = np.flatnonzero(~np.isin(keys, samples[0]))
    notes = (
        []
        if join.form is NamePart.FULL and join.key == join.of
        else [f"{join.shown}: column {join.key!r} joins {join.of!r} by the {join.form.value}"]
    )
    if unused.size:
        first = next(itertools.islice(join.keys(), int(unused[0]), None))
        notes.append(
            f"{join.shown}: {unused.size:,} of {keys.size:,} rows join no sample; the first has the key "
            f"{printable(first)!r}"
        )
    return notes


def _text(row: Mapping[str, Any], column: str) -> str:
    """Returns a cell as text; "" if it cannot be a name."""
    with contextlib.suppress(SampleError):
        return read_text(row, column, required=False)
    return ""
