"""Opens the tables that a request joins. Sources of tables need what joins them, so this is a module of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, Suggestion
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE
from beam_tfrecords.transforms.sources.inputs import split_of_word
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable, Joins
from beam_tfrecords.transforms.sources.tables.list_file import has_names_only
from beam_tfrecords.transforms.sources.tables.table import TableFile, available
from beam_tfrecords.transforms.sources.tables.text_table import TextTable


def open_joins(join: Sequence[str], join_key: Sequence[str]) -> Joins:
    """Opens the tables of a request; the lists of splits (`train=LIST`) are one table.

    Args:
      join: value of the setting `join`.
      join_key: value of the setting `join_key`.

    Raises:
      RequestError: a file is not a table, or has only names of images and no split.
    """
    pairs = [split_of_word(word) for word in join]
    lists = [(split, path) for split, path in pairs if split]
    tables = [_open([path], []) for split, path in pairs if not split]
    tables += [_open([path for _, path in lists], [split for split, _ in lists])] if lists else []
    seen: set[str] = set()
    for number, table in enumerate(tables):
        tables[number] = table.beside(seen)
        seen |= tables[number].names.keys()
    unknown = {*join_key} - {name for table in tables for name in table.files[0].columns}
    if tables and unknown and (*join_key,) != ("key",):
        raise RequestError(
            f"`join_key={','.join(join_key)}`: no joined table has a column {min(unknown)!r}; "
            f"{'; '.join(f'{table.shown}: {available(table.files[0])}' for table in tables)}",
            code="unknown_column",
        )
    return Joins(tables, join_key)


def _without_header(file: TableFile) -> TableFile:
    """Returns a list of single words, of which the first is no header, because it differs from that of other lists."""
    if not isinstance(file, TextTable) or len(file.columns) > 1:
        return file
    parser = dataclasses.replace(file.parser, columns=(IMAGE,))  # type: ignore[type-var]  # each parser is a dataclass
    return dataclasses.replace(file, columns=(IMAGE,), parser=parser, skips=0, has_header=False)


def _open(paths: Sequence[str], splits: Sequence[str]) -> JoinedTable:
    for path in paths:
        is_text = path.lower().endswith((".txt", ".lst", ".list"))
        if (source_of_file(path) not in ("csv", "jsonl", "parquet") and not is_text) or not storage.is_file(path):
            if not (storage.has_scheme(path) or storage.exists(path)):
                raise RequestError(f"`join={path}` {does_not_exist(path)}", code="not_found")
            raise RequestError(
                f"`join={path}`: expected a csv, jsonl or Parquet file, or a list", code="unknown_format"
            )
    files = [open_table(path) for path in paths]
    if splits and len({tuple(file.columns) for file in files}) > 1:
        files = [_without_header(file) for file in files]
    entries = [storage.stat(path) for path in paths]
    columns, stem = files[0].columns, storage.basename(paths[0]).split(".")[0]
    names = {name: name for name in columns}
    if isinstance(files[0], TextTable) and not files[0].has_header:
        # The file does not name its columns, and a name such as `label` would say more than is known.
        names = {f"{stem}_{number}": name for number, name in enumerate(columns)}
        names = {stem: columns[1]} if len(columns) == 2 else names
    if (len(columns) < 2 or has_names_only(files[0])) and not splits:
        split = split_in_name(stem) or "train"
        raise RequestError(
            f"`join={paths[0]}`: a list of names, without values; the list of a split is joined as SPLIT=LIST",
            [Suggestion(f"the samples of the split {split}", {"join": [f"{split}={paths[0]}"]})],
            code="missing_columns",
        )
    fingerprints = tuple(entry.fingerprint for entry in entries)
    size = sum(entry.size for entry in entries)
    return JoinedTable(files, splits, fingerprints, size, "", {"split": ""} if splits else names)
