"""The sources. A new one is a module with a function `open_input`, and one line here.

Parameters of `open_input` name the parts of the request that it reads: `inputs`, `needs` and fields of `SourceSpec`, or
`spec` for all its settings. It returns a `MakeSource`.
"""

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
      takes: settings that it takes, of those that some source does not.
    """

    name: str
    module: str
    extensions: tuple[str, ...] = ()
    among: str = ""
    reads_folders: bool = False
    takes: tuple[str, ...] = ()

    @property
    def has_columns(self) -> bool:
        """Whether its samples have columns of any name."""
        return "label_column" in self.takes


# Settings of folders and of rows, those that name files, and those of texts.
_FOLDERS = ("label_pattern", "classes")
MASK_FILES = ("mask_root", "mask_suffix", "image_suffix")
_ROWS = (
    "label_column", "label_columns", "label_separator", "unknown_labels", "split_column", "key_column", "group_column",
    "classes",
)  # fmt: skip
_BOXES = ("box_columns", "box_format", "box_unit")
_TABLE = (*_ROWS, *_BOXES, "image_column", "image_path", "image_root", "mask_column", "mask_root")
_TEXT = ("delimiter", "encoding")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tzst")
_JSONL = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
SOURCES = (
    Entry("image_folder", "folders.image_folder", takes=("classes", *MASK_FILES)),
    Entry("filename_pattern", "folders.image_folder", takes=(*_FOLDERS, *MASK_FILES)),
    Entry("csv", "tables.csv_table", _CSV, takes=(*_TABLE, *_TEXT)),
    Entry("jsonl", "tables.jsonl_table", _JSONL, takes=(*_TABLE, "encoding")),
    Entry("parquet", "tables.parquet_table", (".parquet",), takes=_TABLE),
    Entry(
        "hf_parquet",
        "tables.hf_parquet",
        (".parquet",),
        among="parquet",
        reads_folders=True,
        takes=(*_ROWS, "image_column", "image_root", "mask_column"),
    ),
    Entry(
        "pixel_table",
        "tables.pixel_table",
        (*_CSV, ".parquet", ".jsonl"),
        among="csv",
        takes=(*_ROWS, *_TEXT),
    ),
    Entry("hf_folder", "tables.hf_folder", takes=(*_ROWS, *_BOXES, *_TEXT, "image_column", "mask_column", "mask_root")),
    Entry("coco", "annotations.coco", (".json",), takes=("image_root",)),
    Entry("yolo", "annotations.yolo", (".yaml", ".yml", ".data"), reads_folders=True, takes=("image_root",)),
    Entry("voc", "annotations.voc"),
    Entry("tar", "archives.tar", _TAR, takes=_FOLDERS),
    Entry("zip", "archives.zip", (".zip",), takes=_FOLDERS),
    Entry(
        "tfrecord",
        "records.tfrecord",
        (".tfrecord", ".tfrecords", ".tfrec", ".record", ".tfrecord.gz"),
        reads_folders=True,
        takes=(*_ROWS, "image_column", "mask_column", "join", "join_key"),
    ),
    Entry("numpy", "arrays.numpy_arrays", (".npz", ".npy"), reads_folders=True, takes=(*_ROWS, "image_column")),
    Entry("idx", "arrays.idx", ("-ubyte", "-ubyte.gz"), reads_folders=True, takes=_ROWS),
    Entry("cifar", "arrays.cifar", (".bin",), reads_folders=True, takes=_ROWS),
    Entry(
        "webdataset",
        "archives.webdataset",
        _TAR,
        among="tar",
        takes=(*_ROWS, "image_column", "mask_column"),
    ),
    Entry("python", "functions.python", takes=("parts", "classes", "group_column", "image_root")),
)
FUNCTIONS = "python"
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
    return _find_ending(path)[0]


def ending_of_file(path: str) -> str:
    """The extension by which a file belongs to its source, such as `.tar.gz`; "" if it belongs to none."""
    return _find_ending(path)[1]


def _find_ending(path: str) -> tuple[str | None, str]:
    # Shards have their numbers behind the extension.
    name = re.sub(r"-\d{5,}-of-\d{5,}$", "", path)
    endings = ((entry.name, ending) for entry in SOURCES if not entry.among for ending in entry.extensions)
    found = next(((source, ending) for source, ending in endings if name.lower().endswith(ending)), None)
    return (found[0], name[-len(found[1]) :]) if found else (None, "")
