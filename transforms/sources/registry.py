"""The sources. A new one is a module with a function `open_source(spec) -> Source`, and one line here."""

from __future__ import annotations

import dataclasses
import re

from beam_tfrecords.errors import RequestError


@dataclasses.dataclass(frozen=True)
class Entry:
    """A source that this version can read.

    Attributes:
      name: value of the setting `source`.
      module: module of this package, imported when an input of this source is opened.
      extensions: of the files that it reads, in lower case; none for a source that reads folders.
      among: name of the source that has these extensions; the module's function `recognises` tells which files are of
        this source. "" for a source with extensions of its own.
      reads_folders: whether it reads folders of these files too.
    """

    name: str
    module: str
    extensions: tuple[str, ...] = ()
    among: str = ""
    reads_folders: bool = False


_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tzst")
SOURCES = (
    Entry("image_folder", "folders.image_folder"),
    Entry("filename_pattern", "folders.image_folder"),
    Entry("csv", "tables.csv_table", _CSV),
    Entry("jsonl", "tables.jsonl_table", (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")),
    Entry("parquet", "tables.parquet_table", (".parquet",)),
    Entry("hf_parquet", "tables.hf_parquet", (".parquet",), among="parquet"),
    Entry("pixel_table", "tables.pixel_table", (*_CSV, ".parquet", ".jsonl"), among="csv"),
    Entry("hf_folder", "tables.hf_folder"),
    Entry("coco", "annotations.coco", (".json",)),
    Entry("yolo", "annotations.yolo", (".yaml", ".yml")),
    Entry("voc", "annotations.voc"),
    Entry("tar", "archives.tar", _TAR),
    Entry("zip", "archives.zip", (".zip",)),
    Entry("tfrecord", "records.tfrecord", (".tfrecord", ".tfrecords", ".tfrecord.gz"), reads_folders=True),
    Entry("numpy", "arrays.numpy_arrays", (".npz", ".npy"), reads_folders=True),
    Entry("idx", "arrays.idx", ("-ubyte", "-ubyte.gz"), reads_folders=True),
    Entry("cifar", "arrays.cifar", (".bin",), reads_folders=True),
    Entry("webdataset", "archives.webdataset", _TAR, among="tar"),
)
NAMES = tuple(entry.name for entry in SOURCES)
FILE_EXTENSIONS = tuple(extension for entry in SOURCES if not entry.among for extension in entry.extensions)


def find_source(name: str, shown: str) -> Entry:
    """The source of this name.

    Args:
      shown: the setting that asks for it, as messages quote it.

    Raises:
      RequestError: there is no such source.
    """
    for entry in SOURCES:
        if entry.name == name:
            return entry
    raise RequestError(f"{shown}: unknown source; expected one of {', '.join(('auto', *NAMES))}")


def source_of_file(path: str) -> str | None:
    """Name of the source that a file belongs to by its extension; None if there is none."""
    extensions = {entry.name: entry.extensions for entry in SOURCES if not entry.among}
    # Shards have their numbers behind the extension.
    name = re.sub(r"-\d{5,}-of-\d{5,}$", "", path.lower())
    return next((source for source, endings in extensions.items() if name.endswith(endings)), None)
