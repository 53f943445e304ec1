"""Lists rows: the loop for all tables, and the tables whose rows name their images by paths."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, File, SampleRef, object_mask
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.detect.columns import Columns
from beam_tfrecords.transforms.sources.image_files import find_image, join_fingerprints, look, of_path
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.path_rule import key_of_path
from beam_tfrecords.transforms.sources.tables.box_cells import MaskColumns
from beam_tfrecords.transforms.sources.tables.cells import check_end, read_paths, read_text
from beam_tfrecords.transforms.sources.tables.image_paths import fill_pattern, pattern_columns
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

    def cut(self) -> tuple[list[Partition], list[str]]:
        """Splits the table into row ranges for workers, and returns a note if it could not be split well."""
        ranges, problem = retry_faults(self.table.path, self.table.cut)
        name = printable(storage.basename(self.table.path))
        notes = [f"{name}: one process lists most of its rows, because {problem}"] if problem else []
        # `samples` checks the version.
        file = Partition.of(self.file, key_prefix=self.key_prefix)
        file = dataclasses.replace(file, version="", identifies=False)
        return [dataclasses.replace(file, part=tuple(part)) for part in ranges] or [file], notes

    def samples(self, part: RowRange | None = None) -> Iterator[SampleRef | RefColumns]:
        """Yields the references of the table or of a range of its rows."""
        finder = NamedImageFinder(
            self.columns, self.roots, self.mask_roots, self.allow_outside_root, self.keys_are_pairs
        )

        def locate(number: int, row: Row) -> Located:
            return NamedImages(number_key(number), finder=finder)

        has_files = self.columns.has_images or self.columns.mask is not None
        with unchanged(self.table.path, self.file.version):
            yield from list_rows(
                self.cells,
                self.table.rows(self.cells.needed, part),
                locate if has_files else None,
                prefix=self.key_prefix,
                split=self.split,
                first=part.row if part else 0,
            )


def list_rows(
    cells: RowReader,
    rows: Iterable[Row],
    locate: Callable[[int, Row], Located] | None,
    *,
    prefix: str,
    split: str | None,
    first: int = 0,
) -> Iterator[SampleRef | RefColumns]:
    """Yields the references of rows; as columns, if rows have no images and none of a batch is rejected.

    Args:
      cells: reads the values of a row.
      rows: the rows.
      locate: number of a row, and the row -> its images; None for rows without images.
      prefix: prefix of the keys.
      split: split of the rows if no column states it.
      first: number of the first row.

    Raises:
      SampleError: the table becomes unreadable.
    """
    if locate is not None:
        for number, row in enumerate(rows, first):
            check_end(row)
            yield cells.sample(row, locate(number, row), prefix=prefix, split=split)
        return
    for together in _batches(rows):
        *_, last = together
        valid = together[:-1] if isinstance(last, InvalidRow) and last.ends else together
        refs: RefColumns | None = None
        if not any(isinstance(row, InvalidRow | UnjoinedRow) for row in valid):
            with contextlib.suppress(SampleError):
                refs = cells.samples(cast("Sequence[Mapping[str, Any]]", valid), first, prefix=prefix, split=split)
        if refs is not None:
            yield refs
        for number, row in enumerate(valid if refs is None else (), first):
            yield cells.sample(row, Located(number_key(number)), prefix=prefix, split=split)
        check_end(last)
        first += len(together)


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


class NamedImageFinder:
    """Finds the image files that rows name; caches the results for nearby rows with the same image, such as its boxes.

    Args:
      columns: roles of the columns.
      roots: folders to search for images.
      mask_roots: folders to search for masks.
      allow_outside_root: whether paths may leave these folders.
      keys_are_pairs: as in `TableReader`.
    """

    def __init__(
        self,
        columns: Columns,
        roots: Sequence[str],
        mask_roots: Sequence[str] = (),
        allow_outside_root: bool = False,
        keys_are_pairs: bool = False,
    ) -> None:
        self.columns, self.roots, self.mask_roots = columns, roots, mask_roots
        self.keys_are_pairs = keys_are_pairs
        found = functools.partial(find_image, allow_outside_root=allow_outside_root)
        self.find = functools.lru_cache(_MOST_KNOWN)(found)
        self._seen = functools.lru_cache(_MOST_KNOWN)(_look)

    def look(self, uri: str) -> tuple[int, str, str]:
        """Caches `look` and its errors."""
        seen = self._seen(uri)
        if isinstance(seen, SampleError):
            raise seen.with_traceback(None)
        return seen

    def paths(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields the name of each image, and its path in a row.

        Raises:
          SampleError: a cell has no path.
        """
        of = self.columns
        for name, pattern in of.patterns.items():
            yield name, fill_pattern(pattern, {one: read_text(row, one) for one in pattern_columns(pattern)})
        for name, column in of.images.items():
            if name in of.lists:
                yield from ((f"{name}[{number}]", path) for number, path in enumerate(read_paths(row, column)))
            else:
                # Some tables have a space after each comma.
                yield name, read_text(row, column).lstrip(" ")


def _look(uri: str) -> tuple[int, str, str] | SampleError:
    try:
        return look(uri)
    except SampleError as error:
        return error


@dataclasses.dataclass(kw_only=True)
class NamedImages(Located):
    """The images that a row names by path.

    Attributes:
      finder: finder of the images.
      paths: name of an image -> its path in the row.
    """

    finder: NamedImageFinder
    paths: dict[str, str] = dataclasses.field(default_factory=dict)

    def read_paths(self, row: Mapping[str, Any]) -> None:
        """See `Located.read_paths`."""
        for name, path in self.finder.paths(row):
            if not self.paths:
                self.key = key_of_path(path) or self.key
            elif self.finder.keys_are_pairs:
                self.key += f"+{posixpath.basename(key_of_path(path))}"
            self.paths[name] = path

    def find(self, row: Mapping[str, Any]) -> None:
        """See `Located.find`."""
        of, fingerprints = self.finder.columns, list[str]()
        for name, path in self.paths.items():
            size, fingerprint = self._add_file(name, path)
            self.size = self.size if fingerprints else size
            is_key = of.key is None and not fingerprints
            fingerprints.append(fingerprint if is_key else of_path(fingerprint, path))
        self.fingerprint = join_fingerprints(fingerprints)
        if of.mask is not None:
            path = read_text(row, of.mask, required=False)
            if not path:
                raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"column {of.mask!r} is empty")
            self._add_mask(MASK, path)
        if isinstance(of.boxes, MaskColumns):
            for path in of.boxes.paths(row):
                self._add_mask(object_mask(path), path)

    def _add_file(self, name: str, path: str) -> tuple[int, str]:
        """Adds an image; returns its size in bytes and its fingerprint."""
        try:
            uri = self.finder.find(path, roots=self.finder.roots)
            self.images[name] = File(uri)
            size, fingerprint, version = self.finder.look(uri)
        except SampleError as error:
            raise (error if name == IMAGE else error.about(name)) from error
        if version:
            self.images[name] = File(uri, version)
        return size, fingerprint

    def _add_mask(self, name: str, path: str) -> None:
        """Adds a mask of a row, and its fingerprint."""
        try:
            uri = self.finder.find(path, roots=self.finder.mask_roots)
            _, fingerprint, version = self.finder.look(uri)
        except SampleError as error:
            raise error.about("mask") from error
        self.images[name] = File(uri, version)
        self.fingerprint = join_fingerprints([self.fingerprint, of_path(fingerprint, path)])
