"""Reads tables of image pixels: one cell with all numbers as text, as in FER2013, or one column per pixel.

Each table is a container: one worker reads it and copies the pixels to a staging file.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import find_pixels
from beam_tfrecords.transforms.sources.detect.columns import choose_label, find_label
from beam_tfrecords.transforms.sources.detect.image_columns import find_image_column
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, describe_splits, find_files, quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.pixel_rows import ReadPixels
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table import FirstRows, Table
from beam_tfrecords.transforms.sources.tables.table_settings import TableSettings, TextSettings


class PixelTableSource(RowSource):
    """Tables that contain image pixels.

    Raises:
      RequestError: the tables do not fit the request.
    """

    description = Description(unit="row", labels_may_be_indices=True)

    def __init__(
        self,
        files: Sequence[InputFile],
        table: Table,
        inputs: Inputs,
        settings: TableSettings,
        text: TextSettings,
        needs: Needs,
    ) -> None:
        super().__init__(files, inputs)
        found = find_pixels(table, any_name=True)
        if found is None:
            raise RequestError(
                f"{quote_input(table.path)} has no pixels of square images: a column of texts such as '70 80 82 …', or "
                "columns such as pixel0, pixel1, …",
                code="missing_pixel_columns",
            )
        pixels, shape = found
        columns = tuple(name for name in table.columns if name not in pixels)
        types = {name: kind for name, kind in (table.column_types or {}).items() if name in columns}
        known = types or dict.fromkeys(columns, "bytes")
        rest = FirstRows(table.path, columns, table.head(columns), column_types=known)
        label = self._choose_label(rest, settings, needs)
        cells = self._take_columns(rest, settings, needs, label)
        self._describe(column_types=types or None)
        splits = splits_of(files) if inputs.splits or cells.columns.split is None else {}
        self.notes += describe_splits(splits, list(splits.values()), inputs)
        self.read_container: ReadPixels = ReadPixels(cells, pixels, tuple(shape), splits, text)

    def _choose_label(self, table: FirstRows, settings: TableSettings, needs: Needs) -> str | None:
        named = [name for name in table.columns if is_label_name(name)]
        then = named if len(named) == 1 else ()
        label = choose_label(table, settings, needs, then=then)
        if label in then and label != settings.label_column and find_label(table) is None:
            self.notes.append(f"{printable(storage.basename(table.path))}: labels from column {label!r}")
        return label


def recognises(container: Container, table: TableSettings, text: TextSettings, needs: Needs) -> bool:
    """Whether a table contains pixels, and the request needs images and does not name image files."""
    if not needs.image or table.image_column is not None or table.image_path is not None:
        return False
    try:
        opened = open_table(container.uri, text)
    except (RequestError, OSError) as error:
        if storage.is_unanswered(error):
            raise
        return False  # Opening the file as another kind of table reports the error.
    found = find_pixels(opened)
    return found is not None and find_image_column(opened.columns) in (None, *found[0])


def open_input(inputs: Inputs, table: TableSettings, text: TextSettings, needs: Needs) -> MakeSource:
    """Finds the files, and reads the header of the first file.

    Raises:
      RequestError: a file does not exist, or the files do not fit the request.
    """
    files = find_files(inputs, by_name=needs.splits.are_auto and not table.split_column)
    first = open_table(files[0].entry.path, text)
    return functools.partial(PixelTableSource, files, first, inputs, table, text)
