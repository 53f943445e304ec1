"""Writes the files that describe a dataset to people and programs.

`croissant.json` is a description in MLCommons' Croissant 1.1 format for catalogs and search engines. Specification:
docs.mlcommons.org/croissant. Its reader does not support TFRecord, so the record set describes the index, which has the
location of each record.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.files import CARD, CROISSANT, MANIFEST
from beam_tfrecords.dataset.manifest import Shard
from beam_tfrecords.escaping import escape, json_file
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import ARRAY_FIELD
from beam_tfrecords.reading.reading_code import reading_code
from beam_tfrecords.transforms.publishing.publication import Publication, WrittenFile
from beam_tfrecords.transforms.publishing.tfds_metadata import VERSION, write_metadata

# Maximum number of classes that the card lists.
_MOST_CLASSES = 100
# Markdown's markup, anywhere and at the start of a line.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>()#|~&!$]|^[-+=]|(?<=^[0-9])[.)])")


def write_files(
    publication: Publication, described: Mapping[str, Any], shards: Sequence[Shard], *, check: storage.Check
) -> dict[str, WrittenFile]:
    """Writes the files that describe a dataset; returns name -> written file.

    Args:
      publication: settings for publishing.
      described: the manifest without `files`.
      shards: shards of the dataset.
      check: as in `storage.open_new`.
    """
    dataset = StoredDataset(publication.output, described, tuple(shards), "", "")
    metadata = write_metadata(dataset)
    metadata |= {CARD: "\n".join([*_card_lines(dataset), ""]).encode(), CROISSANT: write_croissant(dataset)}
    contents = sorted(metadata.items())
    written = storage.run_concurrently(
        publication.output, *(functools.partial(publication.write, *one, check=check) for one in contents)
    )
    return dict(zip((name for name, _ in contents), written, strict=True))


def _card_lines(dataset: StoredDataset) -> Iterator[str]:
    """Yields the lines of the dataset card `README.md`: what it is and how to read it, from the manifest alone."""
    manifest, spec = dataset.manifest, dataset.manifest["spec"]
    yield f"# {_text(manifest['name'])}\n"
    if spec["description"]:
        yield f"{_text(spec['description'])}\n"
    known = {
        "License": spec["license"] and _text(spec["license"]),
        "Source": spec["homepage"] and f"<{escape(spec['homepage'])}>",
    }
    if lines := [f"- {title}: {value}" for title, value in known.items() if value]:
        yield "\n".join(lines) + "\n"
    yield from _table(
        ("split", "records", "shards", "bytes"),
        (
            (split, f"{entry['records']:,}", f"{entry['shards']:,}", f"{entry['bytes']:,}")
            for split, entry in manifest["splits"].items()
        ),
    )
    yield from _table(
        ("feature", "type", "holds"),
        ((feature.name, feature.shown_type, feature.field) for feature in dataset.layout.features),
    )
    if Content.IMAGE in dataset.layout.required:
        images = dataset.images
        size = f" of {images.size[0]} x {images.size[1]} pixels (height x width)" if images.size else ""
        kept = images.encoding == "keep"
        yield f"Images are {'kept as their files are' if kept else f'stored as {images.encoding}'}{size}.\n"
    lists = {"Classes": dataset.class_names}
    lists |= {f"Classes of {_text(name)}": head.class_names for name, head in dataset.layout.heads.items()}
    for title, names in lists.items():
        more = f", and {len(names) - _MOST_CLASSES:,} more" if len(names) > _MOST_CLASSES else ""
        listed = ", ".join(f"{index} {_text(name)}" for index, name in enumerate(names[:_MOST_CLASSES]))
        if names:
            yield f"{title}: {listed}{more}.\n"
    yield "## Reading\n"
    for title, code in reading_code(dataset).items():
        yield f"{title}:\n\n```python\n{code}```\n"
    if spec["citation"]:
        # Only an unindented line ends an indented block.
        quoted = "\n".join(f"    {escape(line)}" for line in spec["citation"].split("\n"))
        yield f"## Citation\n\n{quoted}\n"
    yield f"Made by beam-tfrecords; `{MANIFEST}` says how."


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(map(_text, row))} |"
    yield ""


def _text(text: str) -> str:
    """Escapes a text of the input, so that Markdown shows it literally."""
    return _MARKUP.sub(r"\\\1", escape(text))


# Maximum number of classes whose names are in `croissant.json`.
_MOST_INLINE = 10_000
# Parts of `croissant.json`, with names such as `$license` in place of values: the dataset with the context that the
# specification prescribes, columns of the index, what their file names say, and classes.
_TERMS = json.loads((importlib.resources.files(__package__) / "croissant_terms.json").read_bytes())


def write_croissant(dataset: StoredDataset) -> bytes:
    """Returns `croissant.json`, from the manifest. It has no class names if there are very many."""
    name, spec, class_names = dataset.name, dataset.manifest["spec"], dataset.class_names
    known: dict[str, Any] = {
        "name": name,
        "prefix": re.escape(name),
        "description": spec["description"] or f"{dataset.manifest['records']:,} records as TFRecord files.",
        # The constant version of the TFDS metadata, because builds are reproducible and contain no times.
        "version": VERSION,
        **{setting: spec[setting] or None for setting in ("license", "homepage", "citation")},
        "contents": _describe_shards(dataset),
        "splits": _rows("splits", "records", dataset.splits.items()),
        "classes": None,
    }
    columns = ({"column": column, "type": kind, "what": what} for column, (kind, what) in _TERMS["columns"].items())
    known["fields"] = [*(_fill(_TERMS["column"], one) for one in columns), *_fill(_TERMS["places"], known)]
    if 0 < len(class_names) <= _MOST_INLINE:
        rows = _rows("classes", "index", ((one, index) for index, one in enumerate(class_names)))
        known["classes"] = _fill(_TERMS["classes"], {"rows": rows})
    return json_file(_fill(_TERMS["dataset"], known))


def _describe_shards(dataset: StoredDataset) -> str:
    """Describes the shards, and the shape and type of arrays, which the index lacks."""
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
