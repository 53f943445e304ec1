"""Containers whose samples have the values of a row beside their image."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.output.split_names import SPLIT_NAMES
from beam_tfrecords.transforms.settings import change_settings
from beam_tfrecords.transforms.sources.detect.columns import choose_columns, find_label
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import ContainerSource
from beam_tfrecords.transforms.sources.tables.object_cells import find_objects
from beam_tfrecords.transforms.sources.tables.row_values import RowReader, row_reader
from beam_tfrecords.transforms.sources.tables.table import Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings

_MOST_NAMED = 20


class RowSource(ContainerSource):
    """A source whose containers hold the images of rows.

    Args:
      files: the files.
      inputs: that name them.
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
        """The reader of the rows, whose columns become the source's; adds notes on those that were guessed.

        Args:
          table: without the images.
          settings: settings of the rows.
          needs: requested contents.
          label: column of the labels; None if there is none.
          has_several: whether a label is known to be a list of any number of classes, and not of zeros and ones.
          has_mask: whether samples have masks.

        Raises:
          RequestError: a column of the request does not exist.
        """
        # A split that the request gives an input beats a column, as for other tables.
        split = "" if self._inputs.splits else settings.split_column
        named = change_settings(settings, image_column=None, label_column=label, split_column=split)
        # A row is a sample: no other has the boxes of its image.
        plain = dataclasses.replace(needs, image=False, label=False, mask=False, objects=False, images={})
        columns, notes = choose_columns(table, named, plain)
        # A column of the name `image` is no path of an image.
        objects = find_objects(table, settings, needs, label or find_label(table))
        columns = dataclasses.replace(columns, image=None, images={}, lists=frozenset(), objects=objects)
        cells = row_reader(table, columns, settings, needs, has_several=has_several)
        self.notes += [*notes, *cells.notes]
        self.columns, self.column_types, self.label_column = table.columns, table.column_types, label
        self.table, self.has_several_labels = table, cells.has_several_labels
        self.provides = cells.provides | {Content.IMAGE, *([Content.MASK] if has_mask else [])}
        has_several = len(self.images) > 1 or any(self.images.values())
        self.provides |= {Content.IMAGES} if has_several else frozenset()
        return cells

    def _note_splits(self, splits: Mapping[str, str]) -> None:
        """Adds a note on splits that only the names of the files say."""
        if splits and not self._inputs.splits:
            self.notes.append(f"splits from the names of the files: {', '.join(sorted(set(splits.values())))}")


def describe_unused(table: Table, used: Collection[str | None], needs: Needs) -> list[str]:
    """A note on the columns of files of others that nothing takes.

    Args:
      used: columns, also others than those of the table.
    """
    names = [name for name in table.columns if name not in used]
    if not names or needs.takes_all:
        return []
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return [
        f"{printable(storage.basename(table.path))}: not used: {', '.join(names[:_MOST_NAMED])}{more}; a layout takes "
        f"such as column.{names[0]}"
    ]


def splits_of(files: Sequence[InputFile]) -> dict[str, str]:
    """File -> split, of the files whose request or whose names say it."""
    return {file.entry.path: file.split for file in files if file.split}


def shard_splits(files: Sequence[InputFile], name: re.Pattern[str]) -> dict[str, str]:
    """File -> split, where the names of all files say one in a group `split`, as those of shards do."""
    found = {file.entry.path: name.fullmatch(storage.basename(file.entry.path)) for file in files}
    if not all(found.values()):
        return {}
    words = {path: match["split"].lower() for path, match in found.items() if match}
    # name_train is a name and a split, and train_extra a split of its own.
    return {path: SPLIT_NAMES.get(word.rpartition("_")[2], word) for path, word in words.items()}


def shard_or_path_splits(files: Sequence[InputFile], name: re.Pattern[str]) -> dict[str, str]:
    """`shard_splits` of usual names, else the splits of folders, where all shards are called `data`."""
    shards = shard_splits(files, name)
    are_usual = not set(SPLIT_NAMES.values()).isdisjoint(shards.values())
    return (are_usual and shards) or _path_splits(files) or shards


def _path_splits(files: Sequence[InputFile]) -> dict[str, str]:
    """File -> split, where the paths of all Parquet files below a folder say one, as in train/0000.parquet."""
    words = {file.entry.path: file.key_prefix.strip("/").removesuffix(".parquet").split("/") for file in files}
    found = {path: next(filter(None, map(split_in_name, reversed(parts))), None) for path, parts in words.items()}
    if None in found.values():
        return {}
    return {path: split for path, split in found.items() if split}
