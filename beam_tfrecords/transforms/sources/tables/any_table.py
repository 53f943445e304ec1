"""Opens a table of any format."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.tables.table import TableFile
from beam_tfrecords.transforms.sources.tables.table_settings import DETECTED, TextSettings


def open_table(path: str, text: TextSettings = DETECTED) -> TableFile:
    """Opens a table of the format that its extension names, else a text.

    Raises:
      RequestError: the file does not have the format of its extension.
    """
    # Imports only the format that is needed.
    kind = source_of_file(path)
    if kind == "parquet":
        from beam_tfrecords.transforms.sources.tables.parquet_table import open_parquet

        return open_parquet(path)
    if kind == "jsonl":
        from beam_tfrecords.transforms.sources.tables.jsonl_table import open_jsonl

        return open_jsonl(path, text.encoding)
    from beam_tfrecords.transforms.sources.tables.csv_table import open_csv

    return open_csv(path, text)
