"""Columns that a condition may name. Separate from the parser, which imports rarely needed parts of pyarrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from beam_tfrecords.examples.layouts import COLUMN, Layout
from beam_tfrecords.output.index import INDEX_SCHEMA

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
