"""Base class of the sources whose containers have rows of values with their images."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.output.split_names import SPLIT_NAMES
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.detect.columns import choose_columns, find_label
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import ContainerSource
from beam_tfrecords.transforms.sources.tables.object_cells import find_objects
from beam_tfrecords.transforms.sources.tables.row_values import RowReader, row_reader
from beam_tfrecords.transforms.sources.tables.table import Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings


class RowSource(ContainerSource):
    """A source whose containers have rows with images.

    Args:
      files: the files.
      inputs: inputs that name the files.
    """

    def __init__(self, files: Sequence[InputFile], inputs: Inputs) -> None:
        super().__init__(files)
        self._inputs = inputs

    def _take_columns(
        self,
        table: Table,
        settings: TableSettings,
        needs: Needs,
        label: str | None,
        *,
        has_several: bool = False,
        has_mask: bool = False,
    ) -> RowReader:
        """Returns the reader of the rows, sets the source's columns, and adds notes on guessed columns.

        Args:
          table: the table without its image columns.
          settings: settings of the rows.
          needs: requested contents.
          label: label column, or None.
          has_several: whether a label is known to be a list of classes, rather than of zeros and ones.
          has_mask: whether the samples have masks.

        Raises:
          RequestError: a column of the request does not exist.
        """
        # As in other tables, a split stated in `input` takes precedence over a column.
        split = "" if self._inputs.splits else settings.split_column
        named = change_settings(settings, image_column=None, label_column=label, split_column=split)
        # Each row is a sample, so there are no further rows with its boxes; only a layout of objects asks for its box.
        has_box = needs.names_objects
        plain = dataclasses.replace(needs, image=False, label=False, mask=False, objects=has_box, images={})
        columns, notes = choose_columns(table, named, plain, has_classes=has_several)
        # A column named `image` does not contain image paths here.
        objects = find_objects(table, settings, needs, label or find_label(table))
        label = None if objects and label == objects.labels else label
        columns = dataclasses.replace(columns, image=None, images={}, lists=frozenset(), label=label, objects=objects)
        cells = row_reader(table, columns, settings, needs, has_several=has_several)
        self.notes += [*notes, *cells.notes]
        self.columns, self.column_types, self.label_column = table.columns, table.column_types, label
        self.split_column = columns.split.name if columns.split else None
        self.text_column, self.one_hot_length = cells.text or "", cells.one_hot_length
        self.table, self.used, self.has_several_labels = table, frozenset(cells.needed), cells.has_several_labels
        self.provides = cells.provides | {Content.IMAGE, *([Content.MASK] if has_mask else [])}
        has_several = len(self.images) > 1 or any(self.images.values())
        self.provides |= {Content.IMAGES} if has_several else frozenset()
        return cells

    def _note_splits(self, splits: Mapping[str, str]) -> None:
        """Adds a note on splits that come only from the file names."""
        if splits and not self._inputs.splits:
            self.notes.append(f"splits from the names of the files: {', '.join(sorted(set(splits.values())))}")


def splits_of(files: Sequence[InputFile]) -> dict[str, str]:
    """Returns file -> split, for the files whose split is known."""
    return {file.entry.path: file.split for file in files if file.split}


def shard_splits(files: Sequence[InputFile], name: re.Pattern[str]) -> dict[str, str]:
    """Returns file -> split from shard names, by the group `split` of a pattern that must match all names."""
    found = {file.entry.path: name.fullmatch(storage.basename(file.entry.path)) for file in files}
    if not all(found.values()):
        return {}
    words = {path: match["split"].lower() for path, match in found.items() if match}
    # `name_train` is a dataset name and a split; `train_extra` is a split.
    return {path: SPLIT_NAMES.get(word.rpartition("_")[2], word) for path, word in words.items()}


def shard_or_path_splits(files: Sequence[InputFile], name: re.Pattern[str]) -> dict[str, str]:
    """Returns `shard_splits` if these have usual names, else the splits of the folders, as for shards named `data`."""
    shards = shard_splits(files, name)
    are_usual = not set(SPLIT_NAMES.values()).isdisjoint(shards.values())
    return (are_usual and shards) or _path_splits(files) or shards


def _path_splits(files: Sequence[InputFile]) -> dict[str, str]:
    """Returns file -> split from paths such as train/0000.parquet; {} unless every path contains a split."""
    words = {file.entry.path: file.key_prefix.strip("/").removesuffix(".parquet").split("/") for file in files}
    found = {path: next(filter(None, map(split_in_name, reversed(parts))), None) for path, parts in words.items()}
    if None in found.values():
        return {}
    return {path: split for path, split in found.items() if split}
