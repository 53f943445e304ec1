"""Finds the row of a sample in the tables that a request joins, by its key or the name of an image."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import pickle
import unicodedata
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import BuildError, FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.detect.unnamed_columns import IMAGE
from beam_tfrecords.transforms.sources.inputs import split_of_word
from beam_tfrecords.transforms.sources.names import is_image_name, printable
from beam_tfrecords.transforms.sources.registry import module_of_table
from beam_tfrecords.transforms.sources.tables.cells import check_end, read_text
from beam_tfrecords.transforms.sources.tables.list_file import has_names_only, open_names
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Table, TableFile, available, open_table
from beam_tfrecords.transforms.sources.tables.text_table import TextTable, name_alike

# Workers keep tables up to this size in memory; they read a larger table again for each batch of samples.
_HELD_BYTES = 32 << 20
# Number of samples whose rows one reading of a larger table finds.
_BATCH, _HELD_BATCH = 100_000, 1000
# Number of rows for finding the columns with lists.
_ROWS = 100
_MOST_TABLES = 16


class NamePart(str, enum.Enum):
    """What two texts have in common if they name the same sample."""

    FULL = "whole text"
    STEM = "file name without extension"

    def of(self, text: str) -> str:
        """Returns the part of a text that counts."""
        text = text.strip().removeprefix("./")
        # macOS writes accents apart.
        text = text if text.isascii() else unicodedata.normalize("NFC", text)
        if self is NamePart.FULL:
            return text
        name = text.replace("\\", "/").rpartition("/")[2]
        # Tables of DICOM files name images that were made of them, too.
        return name.rpartition(".")[0] if is_image_name(name) or name.lower().endswith(".dcm") else name


@dataclasses.dataclass(frozen=True, eq=False)
class JoinedTable:
    """A table with a row per sample, or lists of the samples of each split. Picklable.

    Attributes:
      files: the table, or the list of each split.
      splits: the split that each file lists; empty for a table.
      fingerprints: fingerprint of each file at the start of the build.
      size: size of all files in bytes.
      key: column with the names of the samples; "" if the request names none, and none is chosen.
      of: column of the samples that has the same names.
      form: what counts of the names.
      names: name of a joined column -> column of the table.
    """

    files: Sequence[TableFile]
    splits: Sequence[str]
    fingerprints: tuple[str, ...]
    size: int
    key: str
    names: Mapping[str, str]
    of: str = ""
    form: NamePart = NamePart.FULL

    @functools.cached_property
    def _identity(self) -> tuple[object, ...]:
        files = (*(file.path for file in self.files), *self.splits, *self.fingerprints)
        return (files, self.key, self.form, *self.names.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JoinedTable) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def columns(self) -> Sequence[str]:
        """Columns that all files have."""
        return [name for name in self.files[0].columns if all(name in file.columns for file in self.files)]

    @property
    def shown(self) -> str:
        """Names of the files, for messages."""
        return ", ".join(printable(storage.basename(file.path)) for file in self.files)

    @property
    def stem(self) -> str:
        """Name of the first file without its extension."""
        return storage.basename(self.files[0].path).split(".")[0]

    def beside(self, columns: Container[str]) -> JoinedTable:
        """Returns the table with the file's name before the joined columns whose names others have."""
        names = {f"{self.stem}_{name}" if name in columns else name: of for name, of in self.names.items()}
        return dataclasses.replace(self, names=names)

    @property
    def places(self) -> Mapping[str, tuple[str, str]]:
        """Joined column -> path of the first file, and the column's name there."""
        return {name: (self.files[0].path, column) for name, column in self.names.items()}

    @property
    def types(self) -> Mapping[str, str]:
        """Joined column -> "int64", "float" or "bytes"; "" if the format has no types."""
        types = self.files[0].column_types or {}
        return {name: types.get(column, "") for name, column in self.names.items()}

    @functools.cached_property
    def lists(self) -> frozenset[str]:
        """Joined columns with several values."""
        rows = [] if self.splits else self.files[0].head([*self.names.values()], _ROWS)
        return frozenset(n for n, column in self.names.items() if any(isinstance(row[column], list) for row in rows))

    def layout_words(self) -> dict[str, Any]:
        """Returns a feature for each column, in the format of a spec file."""
        return {
            name: {"field": f"column.{name}", "type": kind} | ({"several": True} if name in self.lists else {})
            for name, kind in self.types.items()
        }

    @property
    def batch(self) -> int:
        """Number of samples to find at once."""
        return _HELD_BATCH if self.size <= _HELD_BYTES else _BATCH

    def keys(self) -> Iterator[str]:
        """Yields what counts of the names of all rows."""
        for row in self.rows([self.key]):
            with contextlib.suppress(SampleError):  # Its sample is reported as lacking a row.
                yield self.form.of(read_text(row, self.key))

    def find(self, names: Collection[str]) -> dict[str, Mapping[str, Any] | SampleError]:
        """Returns name of a sample -> values of the joined columns, or why there are none.

        Raises:
          SampleError: the table is damaged.
          BuildError: the table has changed since the build started.
        """
        wanted = {name: self.form.of(name) for name in names}
        held = _hold(self) if self.size <= _HELD_BYTES else self.read(frozenset(wanted.values()))
        return {name: self._unpack(held.get(part, b""), name) for name, part in wanted.items()}

    def read(self, wanted: Collection[str] | None = None) -> dict[str, bytes | None]:
        """Returns what counts of a name -> its packed row, None for different rows; see `find` for the errors."""
        if tuple(storage.stat(file.path).fingerprint for file in self.files) != self.fingerprints:
            raise BuildError(f"{self.shown} has changed since the build began; start again")
        found: dict[str, bytes | None] = {}
        for row in self.rows([self.key, *self.names.values()]):
            with contextlib.suppress(SampleError):
                name = self.form.of(read_text(row, self.key))
                if wanted is None or name in wanted:
                    packed = pickle.dumps([row[column] for column in self.names.values()])
                    found[name] = packed if found.get(name, packed) == packed else None
        return found

    def _unpack(self, packed: bytes | None, name: str) -> Mapping[str, Any] | SampleError:
        if packed:
            return dict(zip(self.names, pickle.loads(packed), strict=True))
        what = f"{'has different rows' if packed is None else 'has no row'} with {self.key} {name!r}"
        return SampleError(Stage.LIST, FailureReason.VALUE_MISSING, f"{self.shown} {what}")

    def rows(self, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yields the rows with only these columns; the column "" of lists of splits has the split that a file lists.

        A list without one of the columns has None there.

        Raises:
          SampleError: the table is damaged.
        """
        for number, file in enumerate(self.files):
            split = {"": self.splits[number]} if self.splits and "" in columns else {}
            own = [name for name in columns if name in file.columns and name not in split]
            lacking = dict.fromkeys(name for name in columns if name not in own)
            for row in file.rows(own):
                check_end(row)
                if not isinstance(row, InvalidRow):  # Its sample is reported as lacking a row.
                    yield {**lacking, **row, **split}


_hold = functools.lru_cache(maxsize=_MOST_TABLES)(JoinedTable.read)


def open_joins(join: Sequence[str], join_key: Sequence[str]) -> list[JoinedTable]:
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
        key = next((name for name in join_key if name in table.files[0].columns), "")
        tables[number] = dataclasses.replace(table.beside(seen), key=key)
        seen |= tables[number].names.keys()
    unknown = {*join_key} - {name for table in tables for name in table.files[0].columns}
    if tables and unknown and (*join_key,) != ("key",):
        raise RequestError(
            f"`join_key={','.join(join_key)}`: no joined table has a column {min(unknown)!r}; "
            f"{'; '.join(f'{table.shown}: {available(table.files[0])}' for table in tables)}",
            code="unknown_column",
        )
    return tables


def name_joined(file: Table, columns: Sequence[str]) -> dict[str, str]:
    """Returns the name that a joined column has -> its name in the file; a file without a header gives its own name."""
    stem = storage.basename(file.path).split(".")[0]
    if not isinstance(file, TextTable) or file.has_header:
        return {name: name for name in columns}
    # The file does not name its columns, and a name such as `label` would say more than is known.
    values = [name for name in columns if name != IMAGE]
    return {stem: values[-1]} if len(columns) == 2 else {f"{stem}_{n}": of for n, of in enumerate(columns)}


def _without_header(file: TableFile, others: Collection[str]) -> TableFile:
    """Returns a list of single words without its header: a first line that no other list has is data."""
    if not isinstance(file, TextTable) or len(file.columns) > 1 or not others or file.columns[0] in others:
        return file
    return dataclasses.replace(file, columns=(IMAGE,), skips=0, has_header=False)


def _open_list(path: str) -> TableFile:
    """Opens the list of a split; numbers are names of images, too."""
    try:
        return open_table(path)
    except RequestError as error:
        if error.code != "missing_header":
            raise
        return open_names(path)


def _open(paths: Sequence[str], splits: Sequence[str]) -> JoinedTable:
    for path in paths:
        is_text = path.lower().endswith((".txt", ".lst", ".list"))
        if (module_of_table(path) is None and not is_text) or not storage.is_file(path):
            if not (storage.has_scheme(path) or storage.exists(path)):
                raise RequestError(f"`join={path}` {does_not_exist(path)}", code="not_found")
            raise RequestError(
                f"`join={path}`: expected a csv, jsonl or Parquet file, or a list", code="unknown_format"
            )
    files = [_open_list(path) if splits else open_table(path) for path in paths]
    if splits:
        others = [{name for file in files if file is not one for name in file.columns} for one in files]
        files = name_alike([_without_header(one, names) for one, names in zip(files, others, strict=True)])
    entries = [storage.stat(path) for path in paths]
    columns = [*dict.fromkeys(name for file in files for name in file.columns)]
    names = name_joined(files[0], columns)
    if (len(columns) < 2 or has_names_only(files[0])) and not splits:
        split = split_in_name(storage.basename(paths[0]).split(".")[0]) or "train"
        raise RequestError(
            f"`join={paths[0]}`: a list of names, without values; the list of a split is joined as SPLIT=LIST",
            [Reading(f"the samples of the split {split}", {"join": [f"{split}={paths[0]}"]})],
            code="missing_columns",
        )
    fingerprints = tuple(entry.fingerprint for entry in entries)
    size = sum(entry.size for entry in entries)
    return JoinedTable(files, splits, fingerprints, size, "", {**names, "split": ""} if splits else names)
