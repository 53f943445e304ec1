"""Base class of the sources whose files have rows of values with their images."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from beam_tfrecords.features.contents import Content, contents_in
from beam_tfrecords.transforms.sources.detect.columns import choose_columns, find_label
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import Source, partitions_of
from beam_tfrecords.transforms.sources.tables.object_cells import find_objects
from beam_tfrecords.transforms.sources.tables.row_values import RowReader, row_reader
from beam_tfrecords.transforms.sources.tables.table import Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings


class RowSource(Source):
    """A source whose files have rows with images.

    Args:
      files: the files.
      inputs: inputs that name the files.
    """

    def __init__(self, files: Sequence[InputFile], inputs: Inputs) -> None:
        super().__init__(partitions_of(files))
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
        images: Mapping[str, bool] | None = None,
        names_files: bool = False,
    ) -> RowReader:
        """Returns the reader of the rows, sets the source's columns, and adds notes on guessed columns.

        Args:
          table: the table without its image columns.
          settings: settings of the rows.
          needs: requested contents.
          label: label column, or None.
          has_several: whether a label is known to be a list of classes, rather than of zeros and ones.
          has_mask: whether the samples have masks.
          images: name of each image of a row -> whether it is a list; None for those of the description.
          names_files: whether columns name image files, as in other tables.

        Raises:
          RequestError: a column of the request does not exist.
        """
        # As in other tables, a split stated in `input` takes precedence over a column.
        split = "" if self._inputs.splits else settings.split_column
        named = dataclasses.replace(settings, label_column=label, split_column=split)
        named = named if names_files else dataclasses.replace(named, image_column=None)
        # Each row is a sample, so there are no further rows with its boxes; only a layout of objects asks for its box.
        wanted = (needs.required & {Content.OBJECTS}) | ({Content.IMAGE} if names_files else frozenset())
        others = needs.contents - {Content.IMAGE, Content.LABEL, Content.MASK, Content.OBJECTS}
        plain = dataclasses.replace(needs, contents=others | wanted)
        plain = plain if names_files else dataclasses.replace(plain, images={})
        columns, notes = choose_columns(table, named, plain, has_classes=has_several)
        objects = find_objects(table, settings, needs, label or find_label(table))
        label = None if objects and label == objects.labels else label
        columns = dataclasses.replace(columns, label=label, objects=objects)
        if not names_files:
            # A column named `image` does not contain image paths here.
            columns = dataclasses.replace(columns, image=None, images={}, lists=frozenset())
        cells = row_reader(table, columns, settings, needs, has_several=has_several)
        self.notes += [*notes, *cells.notes]
        if names_files:
            images = {name: name in columns.lists for name in columns.images or columns.patterns}
        images = self.description.images if images is None else images
        found = {
            Content.IMAGE: bool(images),
            Content.MASK: has_mask,
            Content.IMAGES: len(images) > 1 or any(images.values()),
        }
        self._describe(
            provides=cells.provides | contents_in(found),
            images=images,
            table=table,
            columns=table.columns,
            column_types=table.column_types,
            **{**cells.described, "label_column": label},
        )
        return cells

    def _note_splits(self, splits: Mapping[str, str]) -> None:
        """Adds a note on splits that come only from the file names."""
        if splits and not self._inputs.splits:
            self.notes.append(f"splits from the names of the files: {', '.join(sorted(set(splits.values())))}")


def splits_of(files: Sequence[InputFile]) -> dict[str, str]:
    """Returns file -> split, for the files whose split is known."""
    return {file.entry.path: file.split for file in files if file.split}
