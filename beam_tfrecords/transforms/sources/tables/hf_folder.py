"""Folders with `metadata.csv`, `.jsonl` or `.parquet` beside the images, as Hugging Face's datasets reads them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.detect.image_columns import find_file_names, is_file_list, is_mask_file
from beam_tfrecords.transforms.sources.inputs import InputFile, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.any_table import open_table
from beam_tfrecords.transforms.sources.tables.table import TableFile
from beam_tfrecords.transforms.sources.tables.table_source import TableSource
from beam_tfrecords.transforms.splits import split_of_folder

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclasses.dataclass(frozen=True)
class SplitOfFolder:
    """Gives an image in a folder such as `train` this split, unless its row says another. Picklable.

    Attributes:
      folders: the inputs, each with a `/` at its end.
    """

    folders: Sequence[str]

    def __call__(self, ref: SampleRef) -> SampleRef:
        """The reference with its split."""
        if ref.split is not None or ref.uri is None:
            return ref
        folder = next((folder for folder in self.folders if ref.uri.startswith(folder)), ref.uri)
        first, slash, _ = ref.uri[len(folder) :].partition("/")
        split = split_of_folder(first) if slash else None
        return dataclasses.replace(ref, split=split) if split else ref


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the tables in the folders, and reads their headers.

    Raises:
      RequestError: there is none, or they do not fit the request.
    """
    tables: dict[str, tuple[InputFile, TableFile]] = {}
    folders = [path.rstrip("/") + "/" for path in spec.input]
    for path, folder, prefix in zip(spec.input, folders, key_prefixes(spec.input), strict=True):
        listed = storage.list_files(folder, literal=True)
        found = [entry for entry in listed if storage.basename(entry.path) in METADATA]
        if not found:
            raise RequestError(f"{quote_input(folder)}: there is none of {', '.join(METADATA)} in it")
        for entry in sorted(found, key=lambda entry: entry.path):
            below = entry.path[len(folder) :].rpartition("/")[0]
            key = f"{prefix}{below}/" if below else prefix
            if key in tables:
                other = tables[key][1].path
                raise RequestError(f"{other} and {entry.path} both say the images of one folder; delete one")
            table = open_table(entry.path, delimiter=spec.delimiter, encoding=spec.encoding)
            tables[key] = InputFile(key, entry, spec.input_splits.get(path)), table
    return functools.partial(_make_source, list(tables.values()), folders)


def _make_source(
    tables: Sequence[tuple[InputFile, TableFile]], folders: Sequence[str], spec: SourceSpec
) -> TableSource:
    opened = [table for _, table in tables]
    images = find_file_names(opened[0], spec)
    if len(images) == 1 and not (spec.images or is_file_list(*images.values())):
        spec = dataclasses.replace(spec, image_column=next(iter(images.values())))
    else:
        spec = dataclasses.replace(spec, image_column=None, images=images)
    place = SplitOfFolder(folders) if spec.splits_auto and spec.split_column is None else None
    source = TableSource(tables, spec, place)
    if masks := [*filter(is_mask_file, opened[0].columns)]:
        source.notes += [] if spec.needs_mask else [f"column {masks[0]!r}: masks are read with `layout=segmentation`"]
    return source
