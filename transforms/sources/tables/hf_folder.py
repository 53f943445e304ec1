"""Folders with `metadata.csv`, `.jsonl` or `.parquet` beside the images, as Hugging Face's datasets reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from transforms.refs import SampleRef
from transforms.sources.inputs import InputFile, key_prefixes, quote_input, refuse_settings
from transforms.sources.source_spec import SourceSpec
from transforms.sources.tables.any_table import open_table
from transforms.sources.tables.table import Table, TableFile
from transforms.sources.tables.table_columns import available
from transforms.sources.tables.table_source import TableSource
from transforms.splits import split_of_folder

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
IMAGE = "file_name"
_NO_SETTINGS = ("label_pattern", "image_path", "image_root")


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


def open_source(spec: SourceSpec) -> TableSource:
    """Finds the tables in the folders, and reads their headers.

    Raises:
      RequestError: there is none, or they do not fit the request.
    """
    refuse_settings(spec, _NO_SETTINGS, why="whose tables say the images and labels")
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
    column = spec.image_column or _find_image([table for _, table in tables.values()])
    place = SplitOfFolder(folders) if spec.splits_auto and spec.split_column is None else None
    return TableSource(list(tables.values()), dataclasses.replace(spec, image_column=column), place)


def _find_image(tables: Sequence[Table]) -> str:
    """The column of the images: `file_name`, or the only one such as `image_file_name`."""
    table = tables[0]
    found = [name for name in table.columns if name == IMAGE] or [
        name for name in table.columns if name.endswith(f"_{IMAGE}")
    ]
    if len(found) != 1:
        raise RequestError(
            f"{quote_input(table.path)} has {'several columns' if found else 'no column'} with a name such as "
            f"{IMAGE!r}; name one with `image_column`; {available(table)}"
        )
    return found[0]
