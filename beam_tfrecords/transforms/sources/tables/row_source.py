"""Lists rows with their images: one loop for all, the images that rows name, and the base class of such sources."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, File, SampleRef, object_mask
from beam_tfrecords.transforms.sources.detect.columns import Columns, choose_columns, find_label
from beam_tfrecords.transforms.sources.image_files import find_image, join_fingerprints, look, of_path
from beam_tfrecords.transforms.sources.inputs import Inputs, describe_divided, quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.path_rule import key_of_path
from beam_tfrecords.transforms.sources.source import OpenRequest, Source
from beam_tfrecords.transforms.sources.tables.box_cells import MaskColumns
from beam_tfrecords.transforms.sources.tables.cells import (
    check_end,
    fill_pattern,
    pattern_columns,
    read_paths,
    read_text,
)
from beam_tfrecords.transforms.sources.tables.object_cells import find_objects
from beam_tfrecords.transforms.sources.tables.row_values import Located, RowImages, RowReader, number_key, row_reader
from beam_tfrecords.transforms.sources.tables.table import InvalidRow, Row, Table, UnjoinedRow
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import kinds_of_words, means_evaluation

# Most rows of a batch, and most characters.
_BATCH = 256
_BATCH_CHARACTERS = 4 << 20
# Size of the caches of image look-ups.
_MOST_KNOWN = 4096
# Names of shards, each of which a dataset has once: train-00000-of-00004.parquet, train/0000.parquet.
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}|^\d{4}\.parquet$")
_MOST_SHOWN = 3
# Largest number of inputs in a reading.
_MOST_INPUTS = 12


def list_rows(
    cells: RowReader,
    rows: Iterable[Row],
    images: RowImages | None,
    of_file: Partition,
    *,
    first: int = 0,
) -> Iterator[SampleRef | RefColumns]:
    """Yields the references of rows; as columns, if rows have no images and none of a batch is rejected.

    Args:
      cells: reads the values of a row.
      rows: the rows.
      images: finds the images of the rows; None for rows without images.
      of_file: their file.
      first: number of the first row.

    Raises:
      SampleError: the table becomes unreadable.
    """
    if images is not None:
        for number, row in enumerate(rows, first):
            check_end(row)
            yield cells.sample(row, Located(number_key(number), number), of_file, images)
        return
    for together in _batches(rows):
        *_, last = together
        valid = together[:-1] if isinstance(last, InvalidRow) and last.ends else together
        refs: RefColumns | None = None
        if not any(isinstance(row, InvalidRow | UnjoinedRow) for row in valid):
            with contextlib.suppress(SampleError):
                refs = cells.samples(cast("Sequence[Mapping[str, Any]]", valid), first, of_file)
        if refs is not None:
            yield refs
        for number, row in enumerate(valid if refs is None else (), first):
            yield cells.sample(row, Located(number_key(number)), of_file)
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


class NamedImages(RowImages):
    """Finds the image files that rows name; caches the results for nearby rows with the same image, such as its boxes.

    Args:
      columns: roles of the columns.
      roots: folders to search for images.
      mask_roots: folders to search for masks.
      allow_outside_root: whether paths may leave these folders.
      keys_are_pairs: whether a key has the names of all images, because several rows have the same first one.
    """

    def __init__(
        self,
        columns: Columns,
        roots: Sequence[str],
        mask_roots: Sequence[str] = (),
        *,
        allow_outside_root: bool = False,
        keys_are_pairs: bool = False,
    ) -> None:
        self._columns, self._roots, self._mask_roots = columns, roots, mask_roots
        self._keys_are_pairs = keys_are_pairs
        find = functools.partial(find_image, allow_outside_root=allow_outside_root)
        self._find = functools.lru_cache(_MOST_KNOWN)(find)
        self._seen = functools.lru_cache(_MOST_KNOWN)(_look)

    def read_paths(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.read_paths`."""
        for name, path in self._paths(row):
            if not found.paths:
                found.key = key_of_path(path) or found.key
            elif self._keys_are_pairs:
                found.key += f"+{posixpath.basename(key_of_path(path))}"
            found.paths[name] = path

    def find(self, row: Mapping[str, Any], found: Located) -> None:
        """See `RowImages.find`."""
        of, fingerprints = self._columns, list[str]()
        for name, path in found.paths.items():
            size, fingerprint = self.add_file(found, name, path)
            found.size = found.size if fingerprints else size
            is_key = of.key is None and not fingerprints
            fingerprints.append(fingerprint if is_key else of_path(fingerprint, path))
        found.fingerprint = join_fingerprints(fingerprints)
        if of.mask is not None:
            path = read_text(row, of.mask, required=False)
            if not path:
                raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, f"column {of.mask!r} is empty")
            self._add_mask(found, MASK, path)
        if isinstance(of.boxes, MaskColumns):
            for path in of.boxes.paths(row):
                self._add_mask(found, object_mask(path), path)

    def _paths(self, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yields the name of each image, and its path in a row.

        Raises:
          SampleError: a cell has no path.
        """
        of = self._columns
        for name, pattern in of.patterns.items():
            yield name, fill_pattern(pattern, {one: read_text(row, one) for one in pattern_columns(pattern)})
        for name, column in of.images.items():
            if name in of.lists:
                yield from ((f"{name}[{number}]", path) for number, path in enumerate(read_paths(row, column)))
            else:
                # Some tables have a space after each comma.
                yield name, read_text(row, column).lstrip(" ")

    def add_file(self, found: Located, name: str, path: str) -> tuple[int, str]:
        """Adds an image; returns its size in bytes and its fingerprint."""
        try:
            uri = self._find(path, roots=self._roots)
            found.images[name] = File(uri)
            size, fingerprint, version = self._look(uri)
        except SampleError as error:
            raise (error if name == IMAGE else error.about(name)) from error
        if version:
            found.images[name] = File(uri, version)
        return size, fingerprint

    def _add_mask(self, found: Located, name: str, path: str) -> None:
        """Adds a mask of a row, and its fingerprint."""
        try:
            uri = self._find(path, roots=self._mask_roots)
            _, fingerprint, version = self._look(uri)
        except SampleError as error:
            raise error.about("mask") from error
        found.images[name] = File(uri, version)
        found.fingerprint = join_fingerprints([found.fingerprint, of_path(fingerprint, path)])

    def _look(self, uri: str) -> tuple[int, str, str]:
        """Caches `look` and its errors."""
        seen = self._seen(uri)
        if isinstance(seen, SampleError):
            raise seen.with_traceback(None)
        return seen


def _look(uri: str) -> tuple[int, str, str] | SampleError:
    try:
        return look(uri)
    except SampleError as error:
        return error


class RowSource(Source):
    """A source whose files have rows with images.

    Args:
      files: the files.
      inputs: inputs that name the files.
    """

    def __init__(self, files: Sequence[Partition], inputs: Inputs) -> None:
        super().__init__(files)
        self._inputs = inputs

    def _split_files(self, splits: Sequence[str | None], request: OpenRequest, needs: Needs) -> None:
        """Sets the splits of the files, which their names or folders say, unless the request says them.

        Args:
          splits: of the files.
          request: the request; files that it leaves out are not part of the choice of a dataset.
          needs: requested contents.

        Raises:
          RequestError: an input that is declared as one split has files of several.
          RequestError: these have two words for one split, such as `validation` and `eval`, or the input has a shard of
            a split in several folders, which are several datasets.
        """
        selection, inputs = request.spec, self._inputs
        if selection.split_column is not None or needs.splits.folders is not None:
            return
        divides = needs.splits.fractions is not None
        if len(self.partitions) > len(inputs.paths) or not inputs.splits:
            place_of = {inputs.splits.get(path): path for path in reversed(inputs.paths)}
            own: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for file, split in zip(self.partitions, splits, strict=True):
                if split and not selection.skips_path(file.key_prefix.removesuffix("/")):
                    own[place_of.get(file.split, inputs.paths[0])][split] += 1
            self.notes += describe_divided(inputs, own, "file", divides=divides)
        if divides or any(file.split for file in self.partitions):
            return
        _refuse_words(self.partitions)
        pairs = zip(self.partitions, splits, strict=True)
        self.partitions = [dataclasses.replace(file, split=split) for file, split in pairs]
        places: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for file in self.partitions:
            folder, _, name = file.uri.rpartition("/")
            if file.split and not selection.skips_path(file.key_prefix.removesuffix("/")):
                places[file.split, name].append(folder)
        folders = next((some for (_, name), some in places.items() if some[1:] and _SHARD.search(name)), [])
        if folders and self._inputs.is_alone:
            (path,) = self._inputs.paths
            # Each dataset may have folders of splits.
            while len({*map(posixpath.basename, folders)}) == 1:
                folders = [*map(posixpath.dirname, folders)]
            names = [one.removeprefix(f"{path}/") for one in folders]
            raise RequestError(
                f"{quote_input(path)}: {' and '.join(map(printable, names[:_MOST_SHOWN]))} have the same shards, like "
                "several datasets; name the one that is meant",
                [
                    *(Reading(f"{name} alone", {"input": one}) for name, one in zip(names, folders, strict=True)),
                    Reading("all of them", {"input": folders}),
                ],
                code="several_datasets",
            )

    def _see_others(self, partition: Partition, columns: Iterable[str], count: int, tally: Tally) -> None:
        """Counts the values of the columns of a file that the first file lacks."""
        known = {*self.description.columns, *self.description.other_images, *self.description.used}
        for name in columns:
            if name not in known:
                tally.see_field(printable(posixpath.basename(partition.uri)), name, count)

    def _take_columns(
        self,
        table: Table,
        settings: TableSettings,
        needs: Needs,
        label: str | None,
        *,
        has_several: bool = False,
        has_mask: bool = False,
        images: Mapping[str, bool] | None,
    ) -> RowReader:
        """Returns the reader of the rows, sets the source's columns, and adds notes on guessed columns.

        Args:
          table: the table without its image columns.
          settings: settings of the rows.
          needs: requested contents.
          label: label column, or None.
          has_several: whether a label is known to be a list of classes, rather than of zeros and ones.
          has_mask: whether the samples have masks.
          images: name of each image that a row holds -> whether it is a list; None if columns name image files.

        Raises:
          RequestError: a column of the request does not exist.
        """
        # As in other tables, a split stated in `input` takes precedence over a column.
        split = "" if self._inputs.splits else settings.split_column
        named = dataclasses.replace(settings, label_column=label, split_column=split)
        # Each row is a sample, so there are no further rows with its boxes; only a layout of objects asks for its box.
        others = needs.contents - {Content.IMAGE, Content.LABEL, Content.MASK, Content.OBJECTS}
        plain = dataclasses.replace(needs, contents=others | (needs.required & {Content.OBJECTS}))
        if images is None:
            plain = dataclasses.replace(plain, contents=plain.contents | {Content.IMAGE})
        else:
            named, plain = dataclasses.replace(named, image_column=None), dataclasses.replace(plain, images={})
        columns, notes = choose_columns(table, named, plain, has_classes=has_several)
        objects = find_objects(table, settings, needs, label or find_label(table))
        label = None if objects and label == objects.labels else label
        columns = dataclasses.replace(columns, label=label, objects=objects)
        if images is not None:
            # A column named `image` does not contain image paths here.
            columns = dataclasses.replace(columns, image=None, images={}, lists=frozenset())
        cells = row_reader(table, columns, settings, needs, has_several=has_several)
        self.notes += [*notes, *cells.notes]
        if images is None:
            images = {name: name in columns.lists for name in columns.images or columns.patterns}
        seen = cells.describe(images, has_mask=has_mask)
        self._describe(
            table=table,
            columns=table.columns,
            column_types=table.column_types,
            **{**seen, "label_column": label},
        )
        return cells

    def _note_splits(self) -> None:
        """Adds a note on splits that come only from the file names."""
        splits = {file.split for file in self.partitions if file.split}
        if splits and not self._inputs.splits:
            self.notes.append(f"splits from the names of the files: {', '.join(sorted(splits))}")


def _refuse_words(files: Sequence[Partition]) -> None:
    """Refuses files whose names have different words for one split."""
    # split -> word -> the files or folders that have it in their names
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in files:
        parts = file.uri.split("/")
        below = range(len(parts) - max(1, file.key_prefix.count("/")), len(parts))
        words = {end: re.split(r"[-_]", re.split(r"[.\d]", parts[end].lower())[0].strip("-_"))[-1] for end in below}
        end = next((end for end in below if words[end] in SPLIT_NAMES), None)
        if end is not None:
            found[SPLIT_NAMES[words[end]]][words[end]].add("/".join(parts[: end + 1]))
    named = [(split, word, path) for split in found for word in found[split] for path in sorted(found[split][word])]
    for split, words_of in found.items():
        if len(kinds_of_words(words_of)) < 2:
            continue
        suggestions = [Reading(f"all of these as {split}", {"input": [f"{one}={path}" for one, _, path in named]})]
        if any(map(means_evaluation, words_of)) and "test" not in found:
            inputs = [f"{'test' if means_evaluation(word) else one}={path}" for one, word, path in named]
            suggestions.insert(0, Reading("eval as test", {"input": inputs}))
        raise RequestError(
            f"`input`: {' and '.join(sorted(words_of))} in the names of files or folders are words for one split, "
            f"{split}; name the split of each",
            suggestions if len(named) <= _MOST_INPUTS else [],
            code="unclear_splits",
        )
