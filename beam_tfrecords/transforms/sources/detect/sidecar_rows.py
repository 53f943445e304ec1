"""Finds sidecars with rows, tables and lists, and reads their first rows."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from beam_tfrecords.transforms.sources.detect.tree import FolderTree
from beam_tfrecords.transforms.sources.detect.trial import suppress_refusals
from beam_tfrecords.transforms.sources.tables.table import TableFile

_ROWS = 200
_SPREAD = 5
_TableFile = TypeVar("_TableFile", bound=TableFile)
_Value = TypeVar("_Value")


def list_sidecars(tree: FolderTree, is_wanted: Callable[[str], bool]) -> list[str]:
    """Returns the paths of files with a wanted name, those nearest to the root first."""
    found = [posixpath.join(path, name) for path, _ in tree.walk() for name in tree.others(path) if is_wanted(name)]
    return sorted(found, key=lambda path: (path.count("/"), path))


def read_first_rows(
    path: str, open_file: Callable[[str], _TableFile]
) -> tuple[_TableFile, list[Mapping[str, Any]]] | None:
    """Opens a table and reads its valid first rows; returns None if there are none."""
    found = None
    with suppress_refusals():
        table = open_file(path)
        found = table, table.head(table.columns, _ROWS)
    return found if found and found[1] else None


def spread(values: Sequence[_Value]) -> list[_Value]:
    """Returns some values from all parts of the rows, because images of different parts may be in different folders.

    Used to test whether the images that the values name exist.
    """
    return [*values[:: max(len(values) // _SPREAD, 1)], values[-1]]
