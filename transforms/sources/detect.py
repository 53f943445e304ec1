"""Which source reads an input, and whether the request fits it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

from transforms import storage
from transforms.errors import RequestError
from transforms.sources.csv_table import open_csv
from transforms.sources.image_folder import ImageFolder
from transforms.sources.jsonl_table import open_jsonl
from transforms.sources.manifest import Manifest
from transforms.sources.names import is_utf8, printable
from transforms.sources.roots import has_wildcards, refuse_flat, root_of, with_splits
from transforms.sources.spec import Skipped, SourceSpec
from transforms.sources.table import Table
from transforms.values import SampleRef

_FOLDER_SOURCES = ("image_folder", "filename_pattern")
MANIFEST_SOURCES = ("csv", "jsonl", "parquet")
_READABLE = ("auto", *_FOLDER_SOURCES, *MANIFEST_SOURCES)
_PLANNED = ("tar", "zip", "tfrecord", "coco", "voc", "yolo")
_EXTENSIONS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".tar": "tar",
    ".tgz": "tar",
    ".tar.gz": "tar",
    ".zip": "zip",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
MANIFEST_EXTENSIONS = tuple(extension for extension, name in _EXTENSIONS.items() if name in MANIFEST_SOURCES)


class Source(Protocol):
    """Where samples come from."""

    @property
    def name(self) -> str:
        """Its name, as in `--source`."""

    @property
    def skipped(self) -> Skipped:
        """Files seen that are no samples; complete when `samples` has ended."""

    @property
    def columns(self) -> Sequence[str]:
        """Columns of a manifest; empty for a source that has none."""

    @property
    def column_types(self) -> Mapping[str, str] | None:
        """Column -> "int64", "float" or "bytes"; None where the source has no types."""

    @property
    def has_images(self) -> bool:
        """Whether the samples have images."""

    def samples(self) -> Iterator[SampleRef]:
        """All samples in bounded memory; to be iterated once."""


def open_source(spec: SourceSpec) -> Source:
    """The source that reads `spec.input`, after all that its folders and headers can say was checked.

    Raises:
      RequestError: the input does not exist or does not fit what is asked of it.
    """
    if not spec.input or not all(spec.input):
        raise RequestError("--input is missing: give a folder, a glob or a manifest (csv, jsonl, parquet)")
    if spec.source not in (*_READABLE, *_PLANNED):
        raise RequestError(f"--source={spec.source} is not known; known are {', '.join(_READABLE + _PLANNED)}")
    _refuse_planned(spec.source, f"--source={spec.source}")
    paths = [_path(path) for path in spec.input]
    for path in paths:
        if not is_utf8(path):
            raise RequestError(f"{_shown(path)} is not valid UTF-8, so that no uri can name what lies there; rename it")
    names = [_name_of_source(path, spec) for path in paths]
    for path, name in zip(paths, names, strict=True):
        if name != names[0]:
            raise RequestError(
                f"{_shown(paths[0])} is read as {names[0]}, but {_shown(path)} as {name}; "
                "the inputs of one dataset must be of one kind"
            )
    try:
        if names[0] in MANIFEST_SOURCES:
            return _open_manifest(names[0], paths, spec)
        return _open_folders(names[0], paths, spec)
    except OSError as error:
        raise RequestError(f"--input={printable(','.join(spec.input))} cannot be read: {error}") from error


def _open_folders(name: str, paths: Sequence[str], spec: SourceSpec) -> ImageFolder:
    pattern = _label_pattern(name, spec)
    for flag in ("image_column", "label_column", "split_column", "key_column"):
        if getattr(spec, flag) is not None:
            raise RequestError(
                f"--{flag}={getattr(spec, flag)} names a manifest's column, but {_shown(paths[0])} is read as "
                f"{name}, which has none; drop the flag or give the manifest as --input"
            )
    if spec.columns:
        raise RequestError(
            f"--layout asks for column.{min(spec.columns)}, but {_shown(paths[0])} is read as {name}, "
            "which has no columns; give a manifest as --input or another layout"
        )
    roots = [root_of(path) for path in paths]
    for root in roots:
        if not storage.is_folder(root.folder):
            raise RequestError(f"{_shown(root.listing)}: there is no folder {printable(root.folder)}")
    prefixes = _prefixes([root.folder for root in roots])
    roots = [dataclasses.replace(root, key_prefix=prefixes[root.folder]) for root in roots]
    roots = with_splits(roots, spec)
    if pattern is None and spec.needs_label:
        for root in roots:
            refuse_flat(root)
    return ImageFolder(roots, label_pattern=pattern)


def _open_manifest(name: str, paths: Sequence[str], spec: SourceSpec) -> Manifest:
    if spec.label_pattern is not None:
        raise RequestError(
            f"--label_pattern reads labels from the paths in folders, but {_shown(paths[0])} is a {name} manifest; "
            "drop it and name the column with the labels in --label_column"
        )
    if spec.split_folders is not None:
        raise RequestError(
            f"--splits names folders ({', '.join(spec.split_folders)}), but {_shown(paths[0])} is a {name} "
            "manifest; name its column in --split_column, or give fractions (--splits=train=0.9,test=0.1)"
        )
    files: list[str] = []
    for path in paths:
        found = [entry.path for entry in storage.list_files(path)] if has_wildcards(path) else [path]
        if not found:
            raise RequestError(f"{_shown(path)} matches no file")
        files.extend(sorted(found))
    # A glob may match more files tomorrow: its keys have their prefix from the start.
    prefixes = _prefixes(files, always=any(map(has_wildcards, paths)))
    tables = {prefixes[file]: _open_table(name, file) for file in files}
    return Manifest(name, tables, spec)


def _open_table(name: str, path: str) -> Table:
    if name == "csv":
        return open_csv(path, "\t" if path.lower().endswith(".tsv") else ",")
    if name == "jsonl":
        return open_jsonl(path)
    # Importing pyarrow takes a good part of a second, which other sources need not wait for.
    from transforms.sources.parquet_table import open_parquet

    return open_parquet(path)


def _name_of_source(path: str, spec: SourceSpec) -> str:
    try:
        is_file = _is_file(path, spec)
    except (OSError, ValueError) as error:  # of which Beam raises one or the other for an unknown scheme
        raise RequestError(f"{_shown(path)} cannot be read: {error}") from error
    if not is_file:
        if spec.source in MANIFEST_SOURCES:
            raise RequestError(f"{_shown(path)} is a folder; --source={spec.source} reads a file")
        if spec.source != "auto":
            return spec.source
        return "image_folder" if spec.label_pattern is None else "filename_pattern"
    if spec.source in _FOLDER_SOURCES:
        raise RequestError(f"{_shown(path)} is a file; --source={spec.source} reads a folder or a glob of images")
    if spec.source != "auto":
        return spec.source
    name = _by_extension(path)
    if name is None:
        raise RequestError(
            f"{_shown(path)} is a file, but its name ends as no manifest's does ({', '.join(MANIFEST_EXTENSIONS)}); "
            "give the folder that holds the images, or name the manifest's format with --source"
        )
    _refuse_planned(name, _shown(path))
    return name


def _is_file(path: str, spec: SourceSpec) -> bool:
    """Whether the path is one file or a glob of manifests; False for a folder or a glob of images."""
    if has_wildcards(path):
        return spec.source in MANIFEST_SOURCES or (spec.source == "auto" and _by_extension(path) is not None)
    if storage.is_folder(path):
        return False
    if not storage.is_file(path):
        raise RequestError(f"{_shown(path)} does not exist")
    return True


def _by_extension(path: str) -> str | None:
    path = path.lower()
    return next((name for extension, name in _EXTENSIONS.items() if path.endswith(extension)), None)


def _refuse_planned(name: str, shown: str) -> None:
    if name in _PLANNED:
        raise RequestError(
            f"{shown}: this version cannot read {name} yet; it can read {', '.join(_FOLDER_SOURCES)}, "
            f"{', '.join(MANIFEST_SOURCES)}"
        )


def _label_pattern(name: str, spec: SourceSpec) -> re.Pattern[str] | None:
    if name == "image_folder":
        if spec.label_pattern is not None:
            raise RequestError(
                f"--label_pattern={spec.label_pattern} and --source=image_folder exclude each other: the folders "
                "give the labels there; drop one of the two"
            )
        return None
    if spec.label_pattern is None:
        raise RequestError("--source=filename_pattern needs --label_pattern, as in '(?P<label>cat|dog)'")
    try:
        pattern = re.compile(spec.label_pattern)
    except (re.error, OverflowError) as error:
        raise RequestError(f"--label_pattern={spec.label_pattern} is not a regular expression: {error}") from error
    if "label" not in pattern.groupindex:
        raise RequestError(
            f"--label_pattern={spec.label_pattern} has no group named label; write it as in '(?P<label>cat|dog)'"
        )
    return pattern


def _path(path: str) -> str:
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://").removeprefix("localhost"))
    path = storage.absolute(path)
    return path.rstrip("/") if storage.has_scheme(path) else path


def _prefixes(paths: Sequence[str], *, always: bool = False) -> dict[str, str]:
    """Path -> what keys from there begin with: nothing for a single input, else its last component."""
    if len(paths) == 1 and not always:
        return {paths[0]: ""}
    taken: dict[str, str] = {}
    for path in paths:
        prefix = storage.basename(path) + "/"
        if prefix in taken:
            raise RequestError(
                f"{_shown(taken[prefix])} and {_shown(path)} have the same last component, which keys begin with; "
                "rename one, or convert them one by one"
            )
        taken[prefix] = path
    return {path: prefix for prefix, path in taken.items()}


def _shown(path: str) -> str:
    return f"--input={printable(path)}"
