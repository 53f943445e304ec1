"""Writes `croissant.json`, a description in MLCommons' Croissant 1.1 format for catalogs and search engines.

Specification: docs.mlcommons.org/croissant. Its reader does not support TFRecord, so the record set describes the
index, which has the location of each record.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from beam_tfrecords.dataset.dataset import Dataset
from beam_tfrecords.dataset.label_files import label_files
from beam_tfrecords.escaping import json_file
from beam_tfrecords.features.fields import ARRAY_FIELD
from beam_tfrecords.transforms.publishing.tfds_metadata import VERSION

# Maximum number of classes whose names are in the file itself.
_MOST_CLASSES = 10_000
# Parts of the file, with names such as `$license` in place of values: the dataset with the context that the
# specification prescribes, columns of the index, what their file names say, and classes.
_TERMS = json.loads((importlib.resources.files(__package__) / "croissant_terms.json").read_bytes())


def write_croissant(dataset: Dataset, files: Mapping[str, bytes]) -> bytes:
    """Returns the content of the file, from the manifest. Very many class names are referenced as a separate file.

    Args:
      dataset: dataset whose manifest is described.
      files: name -> content of the metadata files.
    """
    name, spec, class_names = dataset.manifest["name"], dataset.manifest["spec"], dataset.class_names
    lists = label_files(dataset.layout, class_names) if len(class_names) > _MOST_CLASSES else {}
    own = next((file for file, names in lists.items() if file in files and names == class_names), None)
    known: dict[str, Any] = {
        "name": name,
        "prefix": re.escape(name),
        "description": spec["description"] or f"{dataset.manifest['records']:,} records as TFRecord files.",
        # The constant version of the TFDS metadata, because builds are reproducible and contain no times.
        "version": VERSION,
        **{setting: spec[setting] or None for setting in ("license", "homepage", "citation")},
        "contents": _describe_shards(dataset),
        "splits": _rows("splits", "records", dataset.splits.items()),
        "class_file": None,
        "classes": None,
    }
    columns = ({"column": column, "type": kind, "what": what} for column, (kind, what) in _TERMS["columns"].items())
    known["fields"] = [*(_fill(_TERMS["column"], one) for one in columns), *_fill(_TERMS["places"], known)]
    if own:
        known["class_file"] = _fill(
            _TERMS["class_file"], {"file": own, "sha256": hashlib.sha256(files[own]).hexdigest()}
        )
        found = {"name": "lines", "index": "lineNumbers"}
        lines = {
            one: {"fileObject": {"@id": "class-names"}, "extract": {"fileProperty": of}} for one, of in found.items()
        }
        known["classes"] = _fill(_TERMS["classes"], {**lines, "rows": None})
    elif class_names:
        rows = _rows("classes", "index", ((one, index) for index, one in enumerate(class_names)))
        known["classes"] = _fill(_TERMS["classes"], {"name": None, "index": None, "rows": rows})
    return json_file(_fill(_TERMS["dataset"], known))


def _describe_shards(dataset: Dataset) -> str:
    """Says what the shards hold, and the shape and type of arrays, which the index does not have."""
    images, what = dataset.images, "TFRecord files of tf.train.Example."
    arrays = [feature.name for feature in dataset.layout.features if feature.field == ARRAY_FIELD]
    height, width = images.size or ("height", "width")
    shape = f"[{height}, {width}, {images.channels}] of {images.array_type}, row by row in little-endian order"
    return f"{what} The feature {arrays[0]} is an array, {shape}." if arrays else what


def _rows(table: str, number: str, rows: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Returns the inline rows of a table with names and numbers."""
    return [{f"{table}/name": name, f"{table}/{number}": value} for name, value in rows]


def _fill(part: Any, known: Mapping[str, Any]) -> Any:
    """Replaces names such as `$license` by their values; leaves out what has the value None."""
    if isinstance(part, dict):
        return {key: found for key, value in part.items() if (found := _fill(value, known)) is not None}
    if isinstance(part, list):
        return [found for value in part if (found := _fill(value, known)) is not None]
    if part[:1] == "$" and part[1:] in known:
        return known[part[1:]]
    return re.sub(r"\$(\w+)", lambda found: known[found[1]], part)
