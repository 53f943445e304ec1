"""Tables that hold the pixels of images as numbers: a text of them in a cell, as FER2013, or a column for each.

The workers read the tables, one each, and copy the pixels to a staging file.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.detect.column_names import is_label_name
from beam_tfrecords.transforms.sources.detect.column_suggestions import find_pixels
from beam_tfrecords.transforms.sources.detect.columns import choose_label, find_label
from beam_tfrecords.transforms.sources.detect.image_columns import find_image_column
from beam_tfrecords.transforms.sources.inputs import InputFile, describe_splits, find_files, quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.pixel_rows import ReadPixels
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table import FirstRows, InvalidRow, Table


class PixelTableSource(RowSource):
    """Tables with the pixels of images.

    Raises:
      RequestError: they do not fit the request.
    """

    unit = "row"
    labels_may_be_indices = True

    def __init__(self, files: Sequence[InputFile], table: Table, spec: SourceSpec) -> None:
        super().__init__(files)
        self.name = spec.source
        found = find_pixels(table, any_name=True)
        if found is None:
            raise RequestError(
                f"{quote_input(table.path)} has no pixels of square images: a column of texts such as '70 80 82 …', or "
                "columns such as pixel0, pixel1, …"
            )
        pixels, shape = found
        columns = tuple(name for name in table.columns if name not in pixels)
        types = {name: kind for name, kind in (table.column_types or {}).items() if name in columns}
        rest = FirstRows(table.path, columns, types or dict.fromkeys(columns, "bytes"), _first_rows(table, columns))
        label = self._choose_label(rest, spec)
        cells = self._take_columns(rest, spec, label)
        self.column_types = types or None
        splits = splits_of(files) if spec.input_splits or cells.columns.split is None else {}
        self.notes += describe_splits(splits, list(splits.values()), spec)
        self.read_container: ReadPixels = ReadPixels(cells, pixels, tuple(shape), splits, spec.delimiter, spec.encoding)

    def _choose_label(self, table: FirstRows, spec: SourceSpec) -> str | None:
        named = [name for name in table.columns if is_label_name(name)]
        then = named if len(named) == 1 else ()
        label = choose_label(table, spec, then=then)
        if label in then and label != spec.label_column and find_label(table) is None:
            self.notes.append(f"{printable(storage.basename(table.path))}: labels from column {label!r}")
        return label


def recognises(container: Container, spec: SourceSpec) -> bool:
    """Whether a table has pixels, and the request wants images and does not say where their files are."""
    if not spec.needs_image or spec.image_column is not None or spec.image_path is not None:
        return False
    try:
        table = open_table(container.uri, delimiter=spec.delimiter, encoding=spec.encoding)
    except (RequestError, OSError) as error:
        if storage.is_unanswered(error):
            raise
        return False  # Opening it as another table says why.
    found = find_pixels(table)
    return found is not None and find_image_column(table.columns) in (None, *found[0])


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the files, and reads the header of the first.

    Raises:
      RequestError: a file does not exist, or they do not fit the request.
    """
    files = find_files(spec)
    table = open_table(files[0].entry.path, delimiter=spec.delimiter, encoding=spec.encoding)
    return functools.partial(PixelTableSource, files, table)


def _first_rows(table: Table, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    rows = zip(range(100), table.rows(columns), strict=False)
    return [row for _, row in rows if not isinstance(row, InvalidRow)]
