"""Reads folders with `metadata.csv`, `.jsonl` or `.parquet` next to the images, as Hugging Face's datasets does."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.sources.detect.image_columns import find_file_names, is_file_list
from beam_tfrecords.transforms.sources.inputs import InputFile, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.joined_rows import join_tables
from beam_tfrecords.transforms.sources.tables.table import TableFile, open_table
from beam_tfrecords.transforms.sources.tables.table_source import TableSource

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the tables in the folders, and reads their headers.

    Raises:
      RequestError: there is no table, or the tables do not fit the request.
    """
    inputs = request.inputs
    tables: dict[str, tuple[InputFile, TableFile]] = {}
    folders = [path.rstrip("/") + "/" for path in inputs.paths]
    for path, folder, prefix in zip(inputs.paths, folders, key_prefixes(inputs.paths), strict=True):
        listed = storage.list_files(folder, literal=True)
        found = [entry for entry in listed if storage.basename(entry.path) in METADATA]
        if not found:
            raise RequestError(f"{quote_input(folder)}: there is none of {', '.join(METADATA)} in it", code="not_found")
        for entry in sorted(found, key=lambda entry: entry.path):
            below = entry.path[len(folder) :].rpartition("/")[0]
            key = f"{prefix}{below}/" if below else prefix
            if key in tables:
                other = tables[key][1].path
                raise RequestError(
                    f"{other} and {entry.path} both list the images of one folder; delete one",
                    code="several_metadata_files",
                )
            file = InputFile(key, entry, inputs.splits.get(path))
            tables[key] = file, open_table(entry.path, request.spec)
    opened = join_tables([one for _, one in tables.values()], request.joined)
    files = [file for file, _ in tables.values()]
    return functools.partial(_make_source, list(zip(files, opened, strict=True)), request)


def _make_source(tables: Sequence[tuple[InputFile, TableFile]], request: OpenRequest, needs: Needs) -> TableSource:
    images = find_file_names(tables[0][1], request.spec.image_column, needs.images)
    image = None
    if len(images) == 1 and not (needs.images or is_file_list(*images.values())):
        image = next(iter(images.values()))
    else:
        needs = dataclasses.replace(needs, images=images)
    request = dataclasses.replace(request, spec=dataclasses.replace(request.spec, image_column=image))
    return TableSource(tables, request, needs)
