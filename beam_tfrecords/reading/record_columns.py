"""Columns that a condition may name, and reads those that the index lacks from the records.

Separate from the parser of conditions, which imports rarely needed parts of pyarrow.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.errors import BuildError
from beam_tfrecords.features.fields import COLUMN, ClassValue
from beam_tfrecords.features.layouts import Feature, Layout
from beam_tfrecords.features.serialize import parse_example
from beam_tfrecords.tfrecord import Compression, RecordError, open_stream, read_records

# Columns that every condition may name. `split` is the split of the file; `labels` is a text made by `join_labels`.
LABELS = "labels"
SCHEMA = pa.schema([*INDEX_SCHEMA, pa.field("split", pa.string()), pa.field(LABELS, pa.string())])
_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.string()}


def condition_schema(layout: Layout) -> pa.Schema:
    """Returns the columns that a condition may name: `SCHEMA`, and the layout's columns with one value."""
    columns = {
        # A condition names the class, not its index.
        one.column: "bytes" if one.is_class else one.type
        for one in layout.features
        if one.column is not None and not (one.several or one.length)
    }
    return pa.schema([*SCHEMA, *(pa.field(COLUMN + name, _TYPES[columns[name]]) for name in sorted(columns))])


def join_labels(names: Sequence[str | None]) -> str:
    """Joins the labels of a record to the text that a condition searches."""
    return "".join(f"\x1f{name}\x1f" for name in names)


@dataclasses.dataclass(frozen=True)
class RecordColumns:
    """Reads columns of records; takes as long as reading the shards.

    Attributes:
      layout: layout of the examples.
      class_names: the classes of the dataset.
      compression: compression of the shards.
    """

    layout: Layout
    class_names: tuple[str, ...]
    compression: Compression

    @classmethod
    def of(cls, dataset: StoredDataset) -> RecordColumns:
        """Returns the reader of the columns that conditions use and the indices of a dataset lack."""
        return cls(dataset.layout, dataset.class_names, dataset.compression)

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """Columns that a condition may name."""
        return condition_schema(self.layout)

    def read(self, path: str, shard: Shard, names: Sequence[str]) -> pa.Table:
        """Returns columns of all records of a shard, named as in `condition_schema`.

        Raises:
          BuildError: the shard is damaged, or the number of its records differs from the manifest.
        """
        features = {one.column and COLUMN + one.column: one for one in self.layout.features}
        label = next((one for one in self.layout.features if one.class_value is not None), None)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        file = storage.join(path, shard.file)
        try:
            with storage.open_read(file) as opened:
                for record in read_records(open_stream(opened, self.compression)):
                    values = parse_example(record.data)
                    for name, column in columns.items():
                        column.append(self._labels(values, label) if name == LABELS else _value(values, features[name]))
        except (RecordError, ValueError, EOFError) as error:
            raise BuildError(f"{file} cannot be read: {error}") from error
        fields = [self.schema.field(name) for name in names]
        table = pa.table([pa.array(columns[field.name], field.type) for field in fields], schema=pa.schema(fields))
        if table.num_rows != shard.records:
            raise BuildError(f"{file} has {table.num_rows} records; the manifest says {shard.records}")
        return table

    def _labels(self, values: Mapping[str, tuple[str, list[Any]]], feature: Feature | None) -> str:
        if feature is None or feature.class_value is None:
            return ""
        kind: ClassValue = feature.class_value
        _, found = values.get(feature.name, ("", []))
        return join_labels([kind.find(value, self.class_names) for value in found])


def _value(values: Mapping[str, tuple[str, list[Any]]], feature: Feature) -> Any:
    _, found = values.get(feature.name, ("", []))
    value = found[0] if len(found) == 1 else None
    if feature.is_class:
        return None if value is None else ClassValue.INDEX.find(value, feature.class_names)
    return value.decode(errors="replace") if isinstance(value, bytes) else value
