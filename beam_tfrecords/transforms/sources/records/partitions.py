"""Columns in the names of folders, such as `label=cat`, as Spark and Hive write them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias
from urllib.parse import unquote

from beam_tfrecords.transforms.labels import whole_number
from beam_tfrecords.transforms.refs.sample_refs import Value
from beam_tfrecords.transforms.sources.records.record_form import read_cell
from beam_tfrecords.transforms.sources.tables.table import FirstRows

# Column -> type and values, as a feature of a record has them.
PartitionValues: TypeAlias = "dict[str, tuple[str, list[int | bytes]]]"

# How Spark and Hive write a missing value.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_of(folder: str, root: str) -> dict[str, str]:
    """Returns column -> value from the folders `column=value` below the root, and from those at the root's end."""
    own = itertools.takewhile(lambda part: "=" in part, reversed(root.split("/")))
    below = folder[len(root.rstrip("/")) :]
    pairs = (part.partition("=") for part in (*own, *below.split("/")))
    return {unquote(name): unquote(value) for name, mark, value in pairs if name and mark}


def read_values(words: Mapping[str, Mapping[str, str]]) -> dict[str, PartitionValues]:
    """Returns folder -> values of its columns; values are integers if all values of the column are."""
    found: dict[str, set[str]] = {}
    for pairs in words.values():
        for name, word in pairs.items():
            found.setdefault(name, set()).add(word)
    texts = {name for name, several in found.items() if any(whole_number(one) is None for one in several - {_NULL})}

    def read(name: str, word: str) -> tuple[str, list[int | bytes]]:
        if word == _NULL:
            return "", []
        number = None if name in texts else whole_number(word)
        return ("bytes", [word.encode()]) if number is None else ("int64", [number])

    return {
        folder: {name: read(name, word) for name, word in pairs.items()} for folder, pairs in words.items() if pairs
    }


def add_columns(start: FirstRows, partitions: Sequence[PartitionValues]) -> tuple[FirstRows, list[str]]:
    """Returns the first records with the values of folders, one folder after the other; and notes on unused columns.

    Args:
      start: the first records. Their own features win.
      partitions: the values of each folder.
    """
    several = [{name: _as_text(read_cell(value)) for name, value in one.items()} for one in partitions]
    if not several:
        return start, []
    kinds = {name: kind for one in partitions for name, (kind, _) in one.items() if kind}
    rows = [{**values, **row} for values, row in zip(itertools.cycle(several), start.first_rows, strict=False)]
    types = {**kinds, **(start.column_types or {})}
    notes = [
        f"the folders {name}=… are not used: the records have this feature" for name in kinds if name in start.columns
    ]
    columns = tuple(dict.fromkeys((*start.columns, *kinds)))
    return dataclasses.replace(start, columns=columns, column_types=types, first_rows=rows), notes


def _as_text(cell: Value) -> Value:
    return cell.decode() if isinstance(cell, bytes) else cell
