"""A table whose columns join the records of a dataset of ours by their keys."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.refs.sample_refs import Value
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.cells import check_end, read_text, read_value
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, available

# The rows of a table up to this size are held by each worker; a larger one is read again for each shard.
_HELD_BYTES = 32 << 20
# Rows that show which columns are lists.
_ROWS = 100


@dataclasses.dataclass(frozen=True)
class JoinedTable:
    """A table, with a row for each key. Picklable.

    Attributes:
      path: of the file, with its `size` in bytes and its `fingerprint` when the build began.
      key: column with the keys.
      types: another column -> "int64", "float" or "bytes"; "" where the format has no types.
      lists: the columns with several values.
    """

    path: str
    size: int
    fingerprint: str
    key: str
    types: Mapping[str, str]
    lists: frozenset[str]

    @classmethod
    def open(cls, path: str | None, key: str) -> JoinedTable | None:
        """The table of a request; None if it names none.

        Raises:
          RequestError: it is no table, or has no such column.
        """
        if path is None:
            return None
        if source_of_file(path) not in ("csv", "jsonl", "parquet") or not storage.is_file(path):
            raise RequestError(f"`join={path}`: expected a csv, jsonl or Parquet file")
        table, entry = open_table(path), storage.stat(path)
        if key not in table.columns:
            raise RequestError(f"`join_key={key}`: {path} has no such column; {available(table)}")
        names = [name for name in table.columns if name != key]
        rows = [row for row in itertools.islice(table.rows(names), _ROWS) if not isinstance(row, InvalidRow)]
        lists = frozenset(name for name in names if any(isinstance(row[name], list) for row in rows))
        types = {name: (table.column_types or {}).get(name, "") for name in names}
        return cls(path, entry.size, entry.fingerprint, key, types, lists)

    def layout_words(self) -> dict[str, Any]:
        """A feature for each column, as a spec file has it."""
        return {
            name: {"field": f"column.{name}", "type": kind} | ({"several": True} if name in self.lists else {})
            for name, kind in self.types.items()
        }

    def find(self, keys: Collection[str], columns: Collection[str]) -> dict[str, Mapping[str, Value] | SampleError]:
        """Key -> the values of columns, or why the row cannot be used; without keys that the table lacks.

        Raises:
          SampleError: the table is damaged.
          BuildError: it has changed since the build began.
        """
        if storage.stat(self.path).fingerprint != self.fingerprint:
            raise BuildError(f"{self.path} has changed since the build began; start again")
        if self.size > _HELD_BYTES:
            return dict(_read(self.path, self.key, frozenset(columns), frozenset(keys)))
        held = _hold(self.path, self.fingerprint, self.key, frozenset(columns))
        return {key: held[key] for key in keys if key in held}

    def describe_unused(self, records: Iterable[str]) -> list[str]:
        """A note on rows that join no record.

        Args:
          records: the keys of all of them.

        Raises:
          RequestError: no row joins one.
        """
        with contextlib.suppress(SampleError, BuildError):  # listing says what is damaged
            rows = np.frombuffer(order_hashes(seed=0, keys=_read_keys(self.path, self.key)), np.uint64)
            unused = np.flatnonzero(~np.isin(rows, np.frombuffer(order_hashes(seed=0, keys=records), np.uint64)))
            if unused.size:
                key = next(itertools.islice(_read_keys(self.path, self.key), int(unused[0]), None))
                if unused.size == rows.size:
                    raise RequestError(
                        f"`join={self.path}`: none of its {rows.size:,} rows has the key of a record; the first is "
                        f"{printable(key)!r}; expected the keys of the index in column {self.key!r}, or another "
                        "`join_key`"
                    )
                name = printable(storage.basename(self.path))
                return [
                    f"{name}: {unused.size:,} of {rows.size:,} rows join no record; the first has the key "
                    f"{printable(key)!r}"
                ]
        return []

    def lacks(self, key: str) -> SampleError:
        """The failure of a sample that the table has no row for."""
        return _unusable(f"{printable(storage.basename(self.path))} has no row with {self.key} {key!r}")


@functools.lru_cache(maxsize=1)
def _hold(
    path: str, fingerprint: str, key: str, columns: frozenset[str]
) -> dict[str, Mapping[str, Value] | SampleError]:
    """All rows of a table as it is now."""
    return dict(_read(path, key, columns, None))


def _read_keys(path: str, key: str) -> Iterator[str]:
    for row in open_table(path).rows([key]):
        check_end(row)
        with contextlib.suppress(SampleError):  # its sample has no row then
            if not isinstance(row, InvalidRow):
                yield read_text(row, key)


def _read(
    path: str, key: str, columns: frozenset[str], wanted: frozenset[str] | None
) -> Iterator[tuple[str, Mapping[str, Value] | SampleError]]:
    seen: dict[str, Mapping[str, Value]] = {}
    for row in open_table(path).rows([key, *sorted(columns)]):
        check_end(row)
        if isinstance(row, InvalidRow):
            continue  # its sample has no row then
        try:
            name = read_text(row, key)
        except SampleError:
            continue
        if wanted is not None and name not in wanted:
            continue
        try:
            values = {column: read_value(row, column) for column in columns}
        except SampleError as error:
            yield name, error
            continue
        if seen.setdefault(name, values) != values:
            yield name, _unusable(f"{printable(storage.basename(path))} has different rows with {key} {name!r}")
        else:
            yield name, values


def _unusable(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.VALUE_MISSING, detail)
