"""Joins the columns of a table to the records of an existing dataset by key."""

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

# Workers keep tables up to this size in memory; they read a larger table again for each shard.
_HELD_BYTES = 32 << 20
# Number of rows for finding the columns with lists.
_ROWS = 100


@dataclasses.dataclass(frozen=True)
class JoinedTable:
    """A table with one row per key. Picklable.

    Attributes:
      path: path of the file.
      size: size in bytes at the start of the build.
      fingerprint: fingerprint at the start of the build.
      key: column with the keys.
      types: other column -> "int64", "float" or "bytes"; "" if the format has no types.
      lists: columns with several values.
    """

    path: str
    size: int
    fingerprint: str
    key: str
    types: Mapping[str, str]
    lists: frozenset[str]

    @classmethod
    def open(cls, path: str | None, key: str) -> JoinedTable | None:
        """Opens the table of a request; returns None if `path` is None.

        Raises:
          RequestError: the file is not a table, or has no key column.
        """
        if path is None:
            return None
        if source_of_file(path) not in ("csv", "jsonl", "parquet") or not storage.is_file(path):
            raise RequestError(f"`join={path}`: expected a csv, jsonl or Parquet file", code="unknown_format")
        table, entry = open_table(path), storage.stat(path)
        if key not in table.columns:
            raise RequestError(
                f"`join_key={key}`: {path} has no such column; {available(table)}", code="unknown_column"
            )
        names = [name for name in table.columns if name != key]
        rows = table.head(names, _ROWS)
        lists = frozenset(name for name in names if any(isinstance(row[name], list) for row in rows))
        types = {name: (table.column_types or {}).get(name, "") for name in names}
        return cls(path, entry.size, entry.fingerprint, key, types, lists)

    def layout_words(self) -> dict[str, Any]:
        """Returns a feature for each column, in the format of a spec file."""
        return {
            name: {"field": f"column.{name}", "type": kind} | ({"several": True} if name in self.lists else {})
            for name, kind in self.types.items()
        }

    def find(self, keys: Collection[str], columns: Collection[str]) -> dict[str, Mapping[str, Value] | SampleError]:
        """Returns key -> column values, or the error of an invalid row; omits keys that the table lacks.

        Raises:
          SampleError: the table is damaged.
          BuildError: the table has changed since the build started.
        """
        if storage.stat(self.path).fingerprint != self.fingerprint:
            raise BuildError(f"{self.path} has changed since the build began; start again")
        if self.size > _HELD_BYTES:
            return dict(_read(self.path, self.key, frozenset(columns), frozenset(keys)))
        held = _hold(self.path, self.fingerprint, self.key, frozenset(columns))
        return {key: held[key] for key in keys if key in held}

    def describe_unused(self, records: Iterable[str]) -> list[str]:
        """Returns a note on rows without a record.

        Args:
          records: keys of all records.

        Raises:
          RequestError: no row has a record.
        """
        with contextlib.suppress(SampleError, BuildError):  # The listing reports damage.
            rows = np.frombuffer(order_hashes(seed=0, keys=_read_keys(self.path, self.key)), np.uint64)
            unused = np.flatnonzero(~np.isin(rows, np.frombuffer(order_hashes(seed=0, keys=records), np.uint64)))
            if unused.size:
                key = next(itertools.islice(_read_keys(self.path, self.key), int(unused[0]), None))
                if unused.size == rows.size:
                    raise RequestError(
                        f"`join={self.path}`: none of its {rows.size:,} rows has the key of a record; the first is "
                        f"{printable(key)!r}; expected the keys of the index in column {self.key!r}, or another "
                        "`join_key`",
                        code="unmatched_join",
                    )
                name = printable(storage.basename(self.path))
                return [
                    f"{name}: {unused.size:,} of {rows.size:,} rows join no record; the first has the key "
                    f"{printable(key)!r}"
                ]
        return []

    def lacks(self, key: str) -> SampleError:
        """Returns the error of a sample without a row in the table."""
        return _unusable(f"{printable(storage.basename(self.path))} has no row with {self.key} {key!r}")


@functools.lru_cache(maxsize=1)
def _hold(
    path: str, fingerprint: str, key: str, columns: frozenset[str]
) -> dict[str, Mapping[str, Value] | SampleError]:
    """Reads and caches all rows of a table; the fingerprint is part of the cache key."""
    return dict(_read(path, key, columns, None))


def _read_keys(path: str, key: str) -> Iterator[str]:
    for row in open_table(path).rows([key]):
        check_end(row)
        with contextlib.suppress(SampleError):  # Its sample is reported as lacking a row.
            if not isinstance(row, InvalidRow):
                yield read_text(row, key)


def _read(
    path: str, key: str, columns: frozenset[str], wanted: frozenset[str] | None
) -> Iterator[tuple[str, Mapping[str, Value] | SampleError]]:
    seen: dict[str, Mapping[str, Value]] = {}
    for row in open_table(path).rows([key, *sorted(columns)]):
        check_end(row)
        if isinstance(row, InvalidRow):
            continue  # Its sample is reported as lacking a row.
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
