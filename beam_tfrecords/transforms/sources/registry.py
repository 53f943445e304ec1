"""The registry of sources. A new source needs a module with a function `open_input`, and a line here.

`open_input` takes an `OpenRequest` and returns a `MakeSource`.
"""

from __future__ import annotations

import dataclasses
import re

from beam_tfrecords.errors import RequestError


@dataclasses.dataclass(frozen=True)
class Registered:
    """A registered source.

    Attributes:
      name: value of the setting `source`.
      module: module in this package, imported when an input of this source is opened.
      extensions: extensions of its files, in lower case; empty for a source that reads only folders.
      among: name of the source that shares these extensions; the module's function `recognizes` detects the files of
        this source. "" for a source with its own extensions.
      reads_folders: whether the source also reads folders of such files.
      takes: accepted settings, among the settings that not all sources accept.
    """

    name: str
    module: str
    extensions: tuple[str, ...] = ()
    among: str = ""
    reads_folders: bool = False
    takes: tuple[str, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether each of its files is a table, which the function `open_table` of its module opens."""
        return self.module.startswith("tables.") and bool(self.extensions) and not self.among

    @property
    def has_columns(self) -> bool:
        """Whether its samples can have columns of any name."""
        return "label_column" in self.takes


# Groups of settings: for folders, masks, rows, boxes, paths, joined tables, tables, records and text files.
_FOLDERS = ("label_pattern", "classes")
MASK_FILES = ("mask_root", "mask_suffix", "image_suffix", "mask_classes")
_ROWS = (
    "label_column", "label_columns", "label_separator", "unknown_labels", "split_column", "key_column", "group_column",
    "classes", "group_rows", "missing_values",
)  # fmt: skip
_BOXES = ("box_columns", "box_format", "box_unit", "run_order")
_PATHS = ("image_root", "allow_outside_root")
_JOIN = ("join", "join_key")
_TABLE = (*_ROWS, *_BOXES, *_PATHS, *_JOIN, "image_column", "image_path", "mask_column", "mask_root")
_TEXT = ("delimiter", "encoding")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tzst")
_TFRECORD = (".tfrecord", ".tfrecords", ".tfrec", ".record", ".tfrecord.gz")
_JSONL = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
SOURCES = (
    Registered("image_folder", "folders.image_folder", takes=("classes", *MASK_FILES)),
    Registered("filename_pattern", "folders.image_folder", takes=(*_FOLDERS, *MASK_FILES)),
    Registered("paired_images", "folders.paired_images", takes=("images", "label_pattern", "classes")),
    Registered("csv", "tables.csv_table", _CSV, takes=(*_TABLE, *_TEXT)),
    Registered("jsonl", "tables.jsonl_table", _JSONL, takes=(*_TABLE, "encoding")),
    Registered("parquet", "tables.parquet_table", (".parquet",), takes=_TABLE),
    Registered(
        "hf_parquet",
        "tables.hf_parquet",
        (".parquet",),
        among="parquet",
        reads_folders=True,
        takes=(*_ROWS, *_BOXES, *_PATHS, "image_column", "mask_column"),
    ),
    Registered(
        "pixel_table",
        "tables.pixel_table",
        (*_CSV, ".parquet", ".jsonl"),
        among="csv",
        takes=(*_ROWS, *_TEXT),
    ),
    Registered(
        "hf_folder",
        "tables.table_source",
        takes=(*_ROWS, *_BOXES, *_TEXT, *_JOIN, "allow_outside_root", "image_column", "mask_column", "mask_root"),
    ),
    Registered("coco", "annotated.coco", (".json",), takes=(*_PATHS, "classes", "mask_root")),
    Registered("yolo", "annotated.yolo", (".yaml", ".yml", ".data"), reads_folders=True, takes=(*_PATHS, "classes")),
    Registered("voc", "annotated.documents", takes=("classes",)),
    Registered("documents", "annotated.documents", takes=("mapping", "save_mapping", "image_root", "classes")),
    Registered("tar", "archives.archive", _TAR, takes=_FOLDERS),
    Registered("zip", "archives.archive", (".zip",), takes=_FOLDERS),
    Registered(
        "tfrecord",
        "records.tfrecord",
        _TFRECORD,
        reads_folders=True,
        takes=(*_ROWS, *_BOXES, *_PATHS, *_JOIN, "image_column", "image_path", "mask_column", "pixels"),
    ),
    Registered(
        "numpy",
        "arrays.numpy_arrays",
        (".npz", ".npy"),
        reads_folders=True,
        takes=(*_ROWS, "image_column"),
    ),
    Registered("idx", "arrays.idx", ("-ubyte", "-ubyte.gz"), reads_folders=True, takes=_ROWS),
    Registered(
        "scans",
        "scans",
        (".dcm", ".dicom", ".nii", ".nii.gz"),
        reads_folders=True,
        takes=("label_pattern", "window"),
    ),
    Registered("cifar", "arrays.cifar", (".bin",), reads_folders=True, takes=_ROWS),
    Registered(
        "webdataset",
        "archives.webdataset",
        _TAR,
        among="tar",
        takes=(*_ROWS, *_BOXES, "image_column", "mask_column"),
    ),
    Registered(
        "python",
        "functions.python",
        takes=("parts", "classes", "group_column", "group_rows", *_PATHS),
    ),
)
FUNCTIONS = "python"
PAIRS = "paired_images"
DOCUMENTS, VOC = "documents", "voc"
RECORDS = "tfrecord"
# Sources of the archives themselves; for all others, an archive is a folder.
ARCHIVES = ("tar", "zip", "webdataset")
NAMES = tuple(entry.name for entry in SOURCES)
FILE_EXTENSIONS = tuple(extension for entry in SOURCES if not entry.among for extension in entry.extensions)


def find_source(name: str, shown: str) -> Registered:
    """Returns the source with this name.

    Args:
      name: value of the setting `source`.

    Raises:
      RequestError: there is no such source.
    """
    for entry in SOURCES:
        if entry.name == name:
            return entry
    raise RequestError(f"{shown}: unknown source; expected one of {', '.join(('auto', *NAMES))}", code="unknown_source")


def module_of_table(path: str) -> str | None:
    """Returns the module that reads a table with this file's extension; None for other files."""
    return next((one.module for one in SOURCES if one.is_table and one.name == source_of_file(path)), None)


def source_of_file(path: str) -> str | None:
    """Returns the name of the source that reads a file's extension; None if there is none."""
    return _find_ending(path)[0]


def ending_of_file(path: str) -> str:
    """Returns the extension that identifies a file's source, such as `.tar.gz`; "" if no source matches."""
    return _find_ending(path)[1]


def _find_ending(path: str) -> tuple[str | None, str]:
    # Shard names end with a number after the extension.
    name = re.sub(r"-\d{5,}-of-\d{5,}$", "", path)
    endings = ((entry.name, ending) for entry in SOURCES if not entry.among for ending in entry.extensions)
    found = next(((source, ending) for source, ending in endings if name.lower().endswith(ending)), None)
    return (found[0], name[-len(found[1]) :]) if found else (None, "")
