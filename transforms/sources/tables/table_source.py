"""Tables as sources: a row is a sample, whatever the format of the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, RequestError, SampleError, Stage
from transforms.refs import File, SampleRef
from transforms.service_faults import retry_faults
from transforms.sources.inputs import find_files, quote_input
from transforms.sources.source import Source
from transforms.sources.source_spec import SourceSpec
from transforms.sources.tables.cells import invalid_row, read_label, read_text, read_value
from transforms.sources.tables.image_paths import resolve, shorten
from transforms.sources.tables.table import InvalidRow, Row, Table
from transforms.sources.tables.table_columns import (
    Columns,
    available,
    choose_columns,
    describe_columns,
    fill_pattern,
    pattern_columns,
)


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads the rows of one table as samples."""

    table: Table
    version: str
    key_prefix: str
    root: str
    allow_outside_root: bool
    label_separator: str | None
    columns: Columns
    features: Sequence[str]

    def samples(self) -> Iterator[SampleRef]:
        needed = dict.fromkeys([*self.columns.needed, *self.features])
        self._check_version()
        try:
            for number, row in enumerate(self.table.rows(tuple(needed))):
                yield self._reference(row, number)
        finally:
            # Also if a row in between could not be read: then this is why.
            self._check_version()

    def _check_version(self) -> None:
        """Raises BuildError if the table is no longer the file whose columns are known."""
        if self.version:
            try:
                storage.open_read(self.table.path, version=self.version).close()
            except storage.ChangedError as error:
                raise BuildError(
                    f"{self.table.path} has changed while it was read; run the same command again once it is complete"
                ) from error

    def _reference(self, row: Row, number: int) -> SampleRef:
        # Wide enough that the keys sort as the rows do.
        key, locator, split = f"{number:012d}", None, None
        of = self.columns
        try:
            if isinstance(row, InvalidRow):
                raise invalid_row(row.detail)
            image = None if of.image is None else read_text(row, of.image)
            if of.pattern is not None:
                cells = {name: read_text(row, name) for name in pattern_columns(of.pattern)}
                image = fill_pattern(of.pattern, cells)
            if of.key is not None:
                key = read_text(row, of.key)
            elif image is not None:
                key = image
            split = None if of.split is None else read_text(row, of.split, required=False) or None
            label = None if of.label is None else read_label(row, of.label, separator=self.label_separator)
            columns = {name: read_value(row, name) for name in self.features}
            group = None if of.group is None else read_value(row, of.group)
            size, fingerprint = 0, ""
            if image is not None:
                uri = resolve(image, root=self.root, allow_outside_root=self.allow_outside_root)
                locator = File(uri)
                size, fingerprint, version = _look(uri)
                locator = File(uri, version)
            return SampleRef(
                self.key_prefix + key,
                locator,
                size,
                fingerprint,
                label,
                split,
                columns,
                group=None if group is None else str(group),
            )
        except SampleError as error:
            failure = (error.reason.value, error.detail)
            return SampleRef(self.key_prefix + key, locator, split=split, failure=failure)


class TableSource(Source):
    """Lists the rows of one or more tables as samples.

    Args:
      tables: key prefix -> table.
      spec: the request; its source is "csv", "jsonl" or "parquet".
      versions: key prefix -> version of the file, as `storage.FileEntry.version`.

    Raises:
      RequestError: a column of the request does not exist, or the tables do not fit together.
    """

    unit = "row"
    labels_may_be_indices = True

    def __init__(self, tables: Mapping[str, Table], spec: SourceSpec, *, versions: Mapping[str, str]) -> None:
        super().__init__()
        self.name = spec.source
        self._readers: list[_Reader] = []
        for prefix, table in tables.items():
            reader, notes = _reader(table, prefix, spec, version=versions[prefix])
            self._readers.append(reader)
            self.notes += notes
        self.columns = tuple(dict.fromkeys(column for table in tables.values() for column in table.columns))
        self.column_types = _merge_types(list(tables.values()))
        self.has_images = self._readers[0].columns.has_images
        for reader in self._readers[1:]:
            if reader.columns.has_images != self.has_images:
                raise RequestError(
                    f"{quote_input(self._readers[0].table.path)} and {quote_input(reader.table.path)}: one has a "
                    "column with images and the other has none; convert them separately"
                )

    def describe_columns(self) -> str:
        """The columns of the first table, and which of them look like images and labels."""
        return describe_columns(self._readers[0].table)

    def samples(self) -> Iterator[SampleRef]:
        """One reference per row, in the order of the tables; may be iterated once.

        Raises:
          BuildError: a table is replaced meanwhile, or a service fault.
        """
        for reader in self._readers:
            yield from reader.samples()


def open_tables(spec: SourceSpec, open_table: Callable[[str], Table]) -> TableSource:
    """Opens the tables of a request.

    Args:
      spec: the request.
      open_table: opens one table by its path.

    Raises:
      RequestError: a table cannot be read, or does not fit the request.
    """
    where = f"{quote_input(spec.input[0])} is a {spec.source} table"
    if spec.label_pattern is not None:
        raise RequestError(
            f"`label_pattern={spec.label_pattern}` finds labels in the paths of folders, but {where}; "
            "leave it out and name the column of the labels with `label_column`"
        )
    if spec.split_folders is not None:
        raise RequestError(
            f"`splits` names folders ({', '.join(spec.split_folders)}), but {where}; name its column with "
            "`split_column`, or give fractions (`splits=train=0.9,test=0.1`)"
        )
    files = find_files(spec.input)
    tables = {prefix: open_table(file.path) for prefix, file in files.items()}
    return TableSource(tables, spec, versions={prefix: file.version for prefix, file in files.items()})


def _reader(table: Table, key_prefix: str, spec: SourceSpec, *, version: str) -> tuple[_Reader, list[str]]:
    columns, notes = choose_columns(table, spec)
    if spec.columns is None:
        chosen = columns.needed
        features = tuple(name for name in table.columns if name not in chosen)
    else:
        features = tuple(sorted(spec.columns))
        for name in features:
            if name not in table.columns:
                raise RequestError(
                    f"`layout` asks for column.{name}, which {table.path} does not have; {available(table)}"
                )
    reader = _Reader(
        table=table,
        version=version,
        key_prefix=key_prefix,
        root=spec.image_root or storage.dirname(table.path),
        allow_outside_root=spec.allow_outside_root,
        label_separator=spec.label_separator,
        columns=columns,
        features=features,
    )
    return reader, notes


def _merge_types(tables: Sequence[Table]) -> Mapping[str, str] | None:
    merged: dict[str, str] = {}
    for table in tables:
        if table.column_types is None:
            return None
        for column, kind in table.column_types.items():
            if merged.setdefault(column, kind) != kind:
                raise RequestError(
                    f"{quote_input(table.path)}: column {column!r} is {kind} there, but {merged[column]} in another "
                    "input"
                )
    return merged


def _look(uri: str) -> tuple[int, str, str]:
    """Size, fingerprint and version of a local image; a remote one would cost a request per row."""
    if storage.has_scheme(uri):
        # Without it no row of this scheme could be read: the request is wrong, not the row.
        storage.check_scheme(uri)
        return 0, "", ""
    try:
        entry = retry_faults(uri, lambda: storage.stat(uri))
    except FileNotFoundError as error:
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, f"no such file: {shorten(uri)}") from error
    except OSError as error:
        detail = f"{error.strerror or 'not a regular file'}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error
    return entry.size, entry.fingerprint, entry.version
