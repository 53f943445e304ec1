"""The columns that a condition may name, without what reads one: that imports parts of pyarrow that most do without."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from beam_tfrecords.examples.layouts import COLUMN, Layout
from beam_tfrecords.output.index import INDEX_SCHEMA

# What every condition may name. The split is that of the file; `labels` are all of a record's, from `join_labels`.
LABELS = "labels"
SCHEMA = pa.schema([*INDEX_SCHEMA, pa.field("split", pa.string()), pa.field(LABELS, pa.string())])
_TYPES = {"int64": pa.int64(), "float": pa.float32(), "bytes": pa.string()}


def condition_schema(layout: Layout) -> pa.Schema:
    """What a condition may name for records of a layout: besides `SCHEMA`, the layout's columns with one value."""
    columns = {one.column: one.type for one in layout.features if one.column is not None and not one.several}
    return pa.schema([*SCHEMA, *(pa.field(COLUMN + name, _TYPES[columns[name]]) for name in sorted(columns))])


def join_labels(names: Sequence[str | None]) -> str:
    """The labels of a record as the text in which a condition looks for one."""
    return "".join(f"\x1f{name}\x1f" for name in names)
