"""Rows of manifests as samples, whatever file format they come from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transforms import storage
from transforms.errors import FailureReason, RequestError, SampleError, Stage
from transforms.sources.image_paths import resolve, shorten
from transforms.sources.spec import Skipped, SourceSpec
from transforms.sources.table import InvalidRow, Row, Table
from transforms.values import SampleRef, Value

# As long as a path can be on Linux.
_MOST_KEY = 4096


@dataclasses.dataclass(frozen=True)
class _Reading:
    """How the rows of one table become samples: the names of the columns, or None for what it lacks."""

    table: Table
    key_prefix: str
    root: str
    allow_outside_root: bool
    image: str | None
    label: str | None
    split: str | None
    key: str | None
    features: Sequence[str]

    def samples(self) -> Iterator[SampleRef]:
        named = (self.image, self.label, self.split, self.key)
        needed = dict.fromkeys([*(name for name in named if name is not None), *self.features])
        for number, row in enumerate(self.table.rows(tuple(needed))):
            yield self._reference(row, number)

    def _reference(self, row: Row, number: int) -> SampleRef:
        # Wide enough that the names sort as the rows do.
        key, uri, split = f"{number:012d}", None, None
        try:
            if isinstance(row, InvalidRow):
                raise _invalid(row.detail)
            image = None if self.image is None else _text(row, self.image)
            if self.key is not None:
                key = _text(row, self.key)
            elif image is not None:
                key = image
            split = None if self.split is None else _text(row, self.split, required=False) or None
            label = None if self.label is None else _label(row, self.label)
            columns = {name: _cell(name, row[name]) for name in self.features}
            if image is None:
                return SampleRef(self.key_prefix + key, None, 0, "", label, split, columns)
            uri = resolve(image, root=self.root, allow_outside_root=self.allow_outside_root)
            size, fingerprint = _look(uri)
            return SampleRef(self.key_prefix + key, uri, size, fingerprint, label, split, columns)
        except SampleError as error:
            failure = (error.reason.value, error.detail)
            return SampleRef(self.key_prefix + key, uri, split=split, failure=failure)


class Manifest:
    """Lists the rows of one or more tables as samples.

    Attributes:
      name: "csv", "jsonl" or "parquet".
      skipped: nothing; a row is a sample or a refused one.
      columns: names of all columns.
      column_types: column -> type, from a schema; None if the format has none.
      has_images: whether the rows name images.
    """

    def __init__(self, name: str, tables: Mapping[str, Table], spec: SourceSpec) -> None:
        """Settles which column is what.

        Args:
          name: name of the source.
          tables: what keys begin with -> table.
          spec: what is asked for.

        Raises:
          RequestError: a column asked for does not exist, or the tables do not fit together.
        """
        self.name = name
        self.skipped = Skipped()
        self._readings = [_reading(table, prefix, spec) for prefix, table in tables.items()]
        self.columns: Sequence[str] = tuple(
            dict.fromkeys(column for table in tables.values() for column in table.columns)
        )
        self.column_types = _merged_types(list(tables.values()))
        self.has_images = self._readings[0].image is not None
        for reading in self._readings[1:]:
            if (reading.image is not None) != self.has_images:
                raise RequestError(
                    f"--input={self._readings[0].table.path} and --input={reading.table.path}: "
                    "one has a column with images and the other has none; convert them one by one"
                )

    def samples(self) -> Iterator[SampleRef]:
        """One reference per row, in the tables' order; to be iterated once."""
        for reading in self._readings:
            yield from reading.samples()


def _reading(table: Table, key_prefix: str, spec: SourceSpec) -> _Reading:
    image = _column(table, "image_column", spec.image_column, "image")
    label = _column(table, "label_column", spec.label_column, "label")
    # Fractions by hash take no notice of a column that merely happens to be called "split".
    split = _column(table, "split_column", spec.split_column, "split" if spec.splits_auto else None)
    key = _column(table, "key_column", spec.key_column, None)
    if label is None and spec.needs_label:
        raise RequestError(
            f"--input={table.path} has no column 'label', which the layout needs; name another with "
            f"--label_column, or choose a layout without a label; {_available(table)}"
        )
    if image is not None and not table.may_hold_text(image):
        raise RequestError(
            f"--input={table.path}: the values in column {image!r} are no strings, but an image is given by its "
            f"path; name the column with the paths in --image_column; {_available(table)}"
        )
    if spec.columns is None:
        features = tuple(name for name in table.columns if name not in (image, label, split, key))
    else:
        features = tuple(sorted(spec.columns))
        for name in features:
            if name not in table.columns:
                raise RequestError(
                    f"--layout asks for column.{name}, which {table.path} does not have; {_available(table)}"
                )
    return _Reading(
        table=table,
        key_prefix=key_prefix,
        root=storage.dirname(table.path),
        allow_outside_root=spec.allow_outside_root,
        image=image,
        label=label,
        split=split,
        key=key,
        features=features,
    )


def _column(table: Table, flag: str, named: str | None, default: str | None) -> str | None:
    if named is None:
        return default if default in table.columns else None
    if named not in table.columns:
        raise RequestError(f"--{flag}={named}: {table.path} has no such column; {_available(table)}")
    return named


def _available(table: Table) -> str:
    return f"it has: {', '.join(table.columns)}"


def _merged_types(tables: Sequence[Table]) -> Mapping[str, str] | None:
    merged: dict[str, str] = {}
    for table in tables:
        if table.column_types is None:
            return None
        for column, kind in table.column_types.items():
            if merged.setdefault(column, kind) != kind:
                raise RequestError(
                    f"--input={table.path}: column {column!r} is {kind} there, but {merged[column]} in another input"
                )
    return merged


def _look(uri: str) -> tuple[int, str]:
    """Size and fingerprint of a local image; a remote one would cost a request per row."""
    if storage.has_scheme(uri):
        return 0, ""
    try:
        entry = storage.stat(uri)
    except FileNotFoundError as error:
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, f"no such file: {shorten(uri)}") from error
    except OSError as error:
        detail = f"{error.strerror or 'no regular file'}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error
    return entry.size, entry.fingerprint


def _text(row: Mapping[str, Any], column: str, *, required: bool = True) -> str:
    value = _cell(column, row[column])
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError as error:
            raise _invalid(f"column {column!r} has bytes that are not valid UTF-8") from error
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if value is None or value == "":
        if required:
            raise _invalid(f"column {column!r} is empty")
        return ""
    if not isinstance(value, str):
        raise _invalid(f"column {column!r} has {shorten(str(value))}, but a string is expected")
    if len(value) > _MOST_KEY:
        raise _invalid(f"column {column!r} has {len(value):,} characters, but at most {_MOST_KEY:,} are expected")
    return value


def _label(row: Mapping[str, Any], column: str) -> Value:
    if isinstance(row[column], dict):
        raise _invalid(f"column {column!r} has an object, but a label is expected")
    value = _cell(column, row[column])
    if isinstance(value, bytes):
        return _text(row, column)
    return None if value == "" else value


def _cell(column: str, value: Any) -> Value:
    """The value as it can be packed; what is nested deeper than a list becomes its JSON text."""
    if isinstance(value, list):
        return [_scalar(column, element) for element in value]
    return _scalar(column, value)


def _scalar(column: str, value: Any) -> Any:
    if isinstance(value, (list, dict, tuple)):
        try:
            value = json.dumps(value, ensure_ascii=False, default=str)
        except RecursionError as error:
            raise _invalid(f"column {column!r} is nested too deeply") from error
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise _invalid(f"column {column!r} has a lone surrogate, which is no character") from error
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise _invalid(f"column {column!r} has an integer of more than 64 bits")
    return value


def _invalid(detail: str) -> SampleError:
    return SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
