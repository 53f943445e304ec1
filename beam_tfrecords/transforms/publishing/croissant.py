"""Writes `croissant.json`, a description in MLCommons' Croissant 1.1 format for catalogs and search engines.

Specification: docs.mlcommons.org/croissant. Its reader does not support TFRecord, so the record set describes the
index, which has the location of each record.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.files import INDEX_FOLDER
from beam_tfrecords.dataset.label_files import label_files
from beam_tfrecords.escaping import json_file
from beam_tfrecords.features.fields import ARRAY_FIELD
from beam_tfrecords.transforms.publishing.tfds_metadata import VERSION

_CROISSANT = "http://mlcommons.org/croissant/"
# Property -> the setting with the same value.
_SETTINGS = {"license": "license", "url": "homepage", "citeAs": "citation"}
# Maximum number of classes whose names are in the file itself.
_MOST_CLASSES = 10_000
# The context that the specification prescribes, and the described columns of the index.
_FIXED = json.loads((importlib.resources.files(__package__) / "croissant_terms.json").read_bytes())


def write_croissant(dataset: Dataset, files: Mapping[str, bytes]) -> bytes:
    """Returns the content of the file, from the manifest. Very many class names are referenced as a separate file.

    Args:
      dataset: dataset whose manifest is described.
      files: name -> content of the metadata files.
    """
    name, spec = dataset.manifest["name"], dataset.manifest["spec"]
    lists = label_files(dataset.layout, dataset.class_names)
    own = [file for file, found in lists.items() if file in files and found == dataset.class_names]
    names = own[0] if own and len(dataset.class_names) > _MOST_CLASSES else None
    described = {
        "@context": _FIXED["context"],
        "@type": "sc:Dataset",
        "conformsTo": f"{_CROISSANT}1.1",
        "name": name,
        "description": spec["description"] or f"{dataset.manifest['records']:,} records as TFRecord files.",
        # The constant version of the TFDS metadata, because builds are reproducible and contain no times.
        "version": VERSION,
        **{key: spec[setting] for key, setting in _SETTINGS.items() if spec[setting]},
        "distribution": [
            _file_set("shards", _describe_shards(dataset), f"{name}-*.tfrecord-*", "application/x-tfrecord"),
            _file_set(
                "index",
                "A row for each record of a shard, in its order.",
                f"{INDEX_FOLDER}/{name}-*.parquet",
                "application/x-parquet",
            ),
            *([_names_file(names, files[names])] if names else []),
        ],
        "recordSet": [_splits(dataset), *_classes(dataset, names), _records(name)],
    }
    return json_file(described)


def _describe_shards(dataset: Dataset) -> str:
    """Says what the shards hold, and the shape and type of arrays, which the index does not have."""
    images, what = dataset.images, "TFRecord files of tf.train.Example."
    arrays = [feature.name for feature in dataset.layout.features if feature.field == ARRAY_FIELD]
    height, width = images.size or ("height", "width")
    shape = f"[{height}, {width}, {images.channels}] of {images.array_type}, row by row in little-endian order"
    return f"{what} The feature {arrays[0]} is an array, {shape}." if arrays else what


def _file_set(uuid: str, description: str, pattern: str, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": uuid,
        "name": uuid,
        "description": description,
        "encodingFormat": kind,
        "includes": pattern,
    }


def _splits(dataset: Dataset) -> dict[str, Any]:
    return _table("splits", "cr:Split", "records", dataset.splits.items())


def _classes(dataset: Dataset, file: str | None) -> Iterator[dict[str, Any]]:
    """Yields the record set of the classes, if there are any. Their names are inline, or in `file` if it is given."""
    numbered = ((name, index) for index, name in enumerate(dataset.class_names))
    if dataset.class_names:
        described = _table("classes", "sc:Enumeration", "index", () if file else numbered)
        if file:
            del described["data"]
            for field, what in zip(described["field"], ("lines", "lineNumbers"), strict=True):
                field["source"] = {"fileObject": {"@id": "class-names"}, "extract": {"fileProperty": what}}
        yield described


def _names_file(file: str, content: bytes) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": "class-names",
        "name": "class-names",
        "description": "A class on each line, in the order of their indices.",
        "contentUrl": file,
        "encodingFormat": "text/plain",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _table(name: str, kind: str, number: str, rows: Iterable[tuple[str, int]]) -> dict[str, Any]:
    """Returns a record set with inline rows of a name and a number."""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "dataType": kind,
        "key": {"@id": f"{name}/name"},
        "field": [_field(name, "name", "sc:Text"), _field(name, number, "cr:Int64")],
        "data": [{f"{name}/name": one, f"{name}/{number}": value} for one, value in rows],
    }


def _records(name: str) -> dict[str, Any]:
    prefix = re.escape(name)
    numbers = r"[0-9]{5,}-of-[0-9]{5,}"
    columns = [
        _field("records", column, about["dataType"], about["description"], {"column": column})
        for column, about in _FIXED["columns"].items()
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": "records",
        "name": "records",
        "description": f"The record of a row is in the file {name}-SPLIT.tfrecord-SHARD.",
        "key": {"@id": "records/key"},
        "field": [
            *columns,
            _from_file_name("split", "name of the split", rf"{prefix}-(.+)-{numbers}\.parquet"),
            _from_file_name("shard", "number of the shard, and of how many", rf"{prefix}-.+-({numbers})\.parquet"),
        ],
    }


def _from_file_name(name: str, description: str, regex: str) -> dict[str, Any]:
    field = _field("records", name, "sc:Text", description, {"fileProperty": "filename"})
    field["source"]["transform"] = {"regex": regex}
    return field


def _field(
    record_set: str, name: str, kind: str, description: str = "", extract: dict[str, str] | None = None
) -> dict[str, Any]:
    field: dict[str, Any] = {"@type": "cr:Field", "@id": f"{record_set}/{name}", "name": name, "dataType": kind}
    if description:
        field["description"] = description
    if extract:
        field["source"] = {"fileSet": {"@id": "index"}, "extract": extract}
    return field
