"""Lists the rows of tables that contain image paths."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, File, SampleRef, object_mask
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.containers import Container, StagingFiles
from beam_tfrecords.transforms.sources.detect.columns import Columns
from beam_tfrecords.transforms.sources.image_files import find_image, join_fingerprints, look, of_path
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.path_rule import key_of_path
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.tables.cells import check_end, read_paths, read_text
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern, pattern_columns
from beam_tfrecords.transforms.sources.tables.mask_cells import MaskColumns
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowReader, number_key
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, RowRange, TableFile, UnjoinedRow

# Most rows of a batch, and most characters.
_BATCH = 256
_BATCH_CHARACTERS = 4 << 20
# Size of the caches of image look-ups.
_MOST_KNOWN = 4096


@dataclasses.dataclass(frozen=True)
class TableReader:
    """Reads the rows of one table as samples.

    Attributes:
      keys_are_pairs: whether a key has the names of all images, because several rows have the same first one.
    """

    table: TableFile
    file: storage.FileEntry
    key_prefix: str
    split: str | None
    roots: Sequence[str]
    mask_roots: Sequence[str]
    allow_outside_root: bool
    cells: RowReader
    keys_are_pairs: bool = False

    @property
    def columns(self) -> Columns:
        return self.cells.columns

    def cut(self) -> tuple[list[Container], list[str]]:
        """Splits the table into row ranges for workers, and returns a note if it could not be split well."""
        ranges, problem = retry_faults(self.table.path, self.table.cut)
        name = printable(storage.basename(self.table.path))
        notes = [f"{name}: one process lists most of its rows, because {problem}"] if problem else []
        # `samples` checks the version.
        file = dataclasses.replace(Container.of(self.file, key_prefix=self.key_prefix), version="")
        return [dataclasses.replace(file, partition=tuple(part)) for part in ranges] or [file], notes

    def samples(self, part: RowRange | None = None) -> Iterator[SampleRef | RefColumns]:
        with unchanged(self.table.path, self.file.version):
            number, rows = part.row if part else 0, self.table.rows(self.cells.needed, part)
            finder = _ImageFinder(self.allow_outside_root)
            for together in _batches(rows):
                *_, last = together
                is_end = isinstance(last, InvalidRow) and last.ends
                yield from self._references(together[:-1] if is_end else together, number, finder)
                check_end(last)
                number += len(together)

    def _references(self, rows: Sequence[Row], first: int, finder: _ImageFinder) -> Iterable[SampleRef | RefColumns]:
        """Returns the references of a batch; as columns if rows have no images and none is rejected."""
        of = self.columns
        known: dict[str, Any] = {"prefix": self.key_prefix, "split": self.split}
        invalid = any(isinstance(row, InvalidRow | UnjoinedRow) for row in rows)
        if not (of.has_images or of.mask is not None or invalid):
            with contextlib.suppress(SampleError):
                return [self.cells.samples(cast("Sequence[Mapping[str, Any]]", rows), first, **known)]
        return (
            self.cells.sample(row, _RowImages(number_key(number), reader=self, finder=finder), **known)
            for number, row in enumerate(rows, first)
        )


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Groups rows into batches of up to `_BATCH` rows, fewer if their strings are long."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        if not isinstance(row, InvalidRow):
            size += sum([len(cell) for cell in row.values() if isinstance(cell, str)])
        if len(batch) == _BATCH or size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _ImageFinder:
    """Finds and stats images, and caches the results for nearby rows with the same image, such as its boxes."""

    def __init__(self, allow_outside_root: bool) -> None:
        self._allow_outside_root = allow_outside_root
        self._found: dict[tuple[str, Sequence[str]], str] = {}
        self._seen: dict[str, tuple[int, str, str] | SampleError] = {}

    def find(self, path: str, roots: Sequence[str]) -> str:
        """Caches `find_image`."""
        if (path, roots) not in self._found:
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            self._found[path, roots] = find_image(path, roots=roots, allow_outside_root=self._allow_outside_root)
        return self._found[path, roots]

    def look(self, uri: str) -> tuple[int, str, str]:
        """Caches `look`."""
        if uri not in self._seen:
            if len(self._seen) >= _MOST_KNOWN:
                self._seen.clear()
            try:
                self._seen[uri] = look(uri)
            except SampleError as error:
                self._seen[uri] = error
        seen = self._seen[uri]
        if isinstance(seen, SampleError):
            raise seen.with_traceback(None)
        return seen


@dataclasses.dataclass(kw_only=True)
class _RowImages(Located):
    """The images that a row names by path.

    Attributes:
      reader: reader of the table.
      finder: finder of the table's images.
      paths: name of an image -> its path in the row.
    """

    reader: TableReader
    finder: _ImageFinder
    paths: dict[str, str] = dataclasses.field(default_factory=dict)

    def read_paths(self, row: Mapping[str, Any]) -> None:
        """See `Located.read_paths`."""
        of = self.reader.columns
        for name, pattern in of.patterns.items():
            self._add(name, fill_pattern(pattern, {one: read_text(row, one) for one in pattern_columns(pattern)}))
        for name, column in of.images.items():
            if name in of.lists:
                for number, path in enumerate(read_paths(row, column)):
                    self._add(f"{name}[{number}]", path)
            else:
                # Some tables have a space after each comma.
                self._add(name, read_text(row, column).lstrip(" "))

    def _add(self, name: str, path: str) -> None:
        if not self.paths:
            self.key = key_of_path(path) or self.key
        elif self.reader.keys_are_pairs:
            self.key += f"+{posixpath.basename(key_of_path(path))}"
        self.paths[name] = path

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        reader, fingerprints = self.reader, list[str]()
        for name, path in self.paths.items():
            try:
                uri = self.finder.find(path, reader.roots)
                self.images[name] = File(uri)
                size, fingerprint, version = self.finder.look(uri)
            except SampleError as error:
                raise (error if self.paths.keys() == {IMAGE} else error.about(name)) from error
            if version:
                self.images[name] = File(uri, version)
            self.size = self.size if fingerprints else size
            is_key = reader.columns.key is None and not fingerprints
            fingerprints.append(fingerprint if is_key else of_path(fingerprint, path))
        self.fingerprint = join_fingerprints(fingerprints)
        if (column := reader.columns.mask) is not None:
            path = read_text(row, column, required=False)
            if not path:
                raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"column {column!r} is empty")
            self._add_mask(MASK, path)
        if isinstance(reader.columns.boxes, MaskColumns):
            for path in reader.columns.boxes.paths(row):
                self._add_mask(object_mask(path), path)

    def _add_mask(self, name: str, path: str) -> None:
        """Adds a mask of a row, and its fingerprint."""
        try:
            uri = self.finder.find(path, self.reader.mask_roots)
            _, fingerprint, version = self.finder.look(uri)
        except SampleError as error:
            raise error.about("mask") from error
        self.images[name] = File(uri, version)
        self.fingerprint = join_fingerprints([self.fingerprint, of_path(fingerprint, path)])


@dataclasses.dataclass(frozen=True)
class ReadRows:
    """Lists the rows of a table or of a range of rows. Picklable.

    Attributes:
      readers: (table, key prefix) -> reader of the table.
    """

    readers: Mapping[tuple[str, str], TableReader]

    def __call__(
        self, container: Container, staging: StagingFiles, skipped: Skipped
    ) -> Iterator[SampleRef | RefColumns]:
        """Yields one reference per row, or batches of references.

        Raises:
          BuildError: the table was replaced since its columns were read.
        """
        reader = self.readers[container.uri, container.key_prefix]
        return reader.samples(RowRange(*map(int, container.partition)) if container.partition else None)

    def samples(self, reader: TableReader) -> Iterator[SampleRef]:
        """Yields the references of a whole table."""
        return one_by_one(reader.samples())
