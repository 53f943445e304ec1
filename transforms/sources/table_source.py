"""Tables as sources: a row is a sample, whatever the format of the file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

from transforms import storage
from transforms.errors import FailureReason, RequestError, SampleError, Stage
from transforms.refs import File, SampleRef
from transforms.sources.cells import invalid_row, read_label, read_text, read_value
from transforms.sources.image_paths import resolve, shorten
from transforms.sources.inputs import find_files, quote_input
from transforms.sources.source import Source
from transforms.sources.source_spec import SourceSpec
from transforms.sources.table import InvalidRow, Row, Table


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads the rows of one table as samples; the columns are None where the table has none."""

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
        # Wide enough that the keys sort as the rows do.
        key, locator, split = f"{number:012d}", None, None
        try:
            if isinstance(row, InvalidRow):
                raise invalid_row(row.detail)
            image = None if self.image is None else read_text(row, self.image)
            if self.key is not None:
                key = read_text(row, self.key)
            elif image is not None:
                key = image
            split = None if self.split is None else read_text(row, self.split, required=False) or None
            label = None if self.label is None else read_label(row, self.label)
            columns = {name: read_value(row, name) for name in self.features}
            size, fingerprint = 0, ""
            if image is not None:
                locator = File(resolve(image, root=self.root, allow_outside_root=self.allow_outside_root))
                size, fingerprint = _look(locator.uri)
            return SampleRef(self.key_prefix + key, locator, size, fingerprint, label, split, columns)
        except SampleError as error:
            failure = (error.reason.value, error.detail)
            return SampleRef(self.key_prefix + key, locator, split=split, failure=failure)


class TableSource(Source):
    """Lists the rows of one or more tables as samples.

    Args:
      tables: key prefix -> table.
      spec: the request; its source is "csv", "jsonl" or "parquet".

    Raises:
      RequestError: a column of the request does not exist, or the tables do not fit together.
    """

    unit = "row"
    labels_may_be_indices = True

    def __init__(self, tables: Mapping[str, Table], spec: SourceSpec) -> None:
        super().__init__()
        self.name = spec.source
        self._readers = [_reader(table, prefix, spec) for prefix, table in tables.items()]
        self.columns = tuple(dict.fromkeys(column for table in tables.values() for column in table.columns))
        self.column_types = _merge_types(list(tables.values()))
        self.has_images = self._readers[0].image is not None
        for reader in self._readers[1:]:
            if (reader.image is not None) != self.has_images:
                raise RequestError(
                    f"{quote_input(self._readers[0].table.path)} and {quote_input(reader.table.path)}: one has a "
                    "column with images and the other has none; convert them separately"
                )

    def samples(self) -> Iterator[SampleRef]:
        """One reference per row, in the order of the tables; may be iterated once."""
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
    tables = {prefix: open_table(file.path) for prefix, file in find_files(spec.input).items()}
    return TableSource(tables, spec)


def _reader(table: Table, key_prefix: str, spec: SourceSpec) -> _Reader:
    image = _column(table, "image_column", spec.image_column, "image")
    label = _column(table, "label_column", spec.label_column, "label")
    # Fractions ignore a column that happens to be called "split".
    split = _column(table, "split_column", spec.split_column, "split" if spec.splits_auto else None)
    key = _column(table, "key_column", spec.key_column, None)
    if label is None and spec.needs_label:
        raise RequestError(
            f"{quote_input(table.path)} has no column 'label', which the layout needs; name another with "
            f"`label_column`, or choose a `layout` without a label; {_available(table)}"
        )
    if image is not None and not table.may_hold_text(image):
        raise RequestError(
            f"{quote_input(table.path)}: the values in column {image!r} are not strings, but an image is given by its "
            f"path; name the column with the paths with `image_column`; {_available(table)}"
        )
    if spec.columns is None:
        features = tuple(name for name in table.columns if name not in (image, label, split, key))
    else:
        features = tuple(sorted(spec.columns))
        for name in features:
            if name not in table.columns:
                raise RequestError(
                    f"`layout` asks for column.{name}, which {table.path} does not have; {_available(table)}"
                )
    return _Reader(
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


def _column(table: Table, setting: str, named: str | None, default: str | None) -> str | None:
    if named is None:
        return default if default in table.columns else None
    if named not in table.columns:
        raise RequestError(f"`{setting}={named}`: {table.path} has no such column; {_available(table)}")
    return named


def _available(table: Table) -> str:
    return f"it has: {', '.join(table.columns)}"


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


def _look(uri: str) -> tuple[int, str]:
    """Size and fingerprint of a local image; a remote one would cost a request per row."""
    if storage.has_scheme(uri):
        return 0, ""
    try:
        entry = storage.stat(uri)
    except FileNotFoundError as error:
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, f"no such file: {shorten(uri)}") from error
    except OSError as error:
        detail = f"{error.strerror or 'not a regular file'}: {shorten(uri)}"
        raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail) from error
    return entry.size, entry.fingerprint
