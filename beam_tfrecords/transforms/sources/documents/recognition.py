"""Recognizes documents by their contents: finds the mappings of ours that fit an input."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError, Suggestion
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.sources.documents.mapped_objects import ObjectReader
from beam_tfrecords.transforms.sources.documents.mapping import (
    STEM,
    DocumentMapping,
    mapping_names,
    read_mapping,
)
from beam_tfrecords.transforms.sources.documents.trees import LINES, ROWS, read_samples
from beam_tfrecords.transforms.sources.inputs import name_inputs, names_several
from beam_tfrecords.transforms.sources.names import has_extension, is_image_name
from beam_tfrecords.transforms.sources.needs import Needs

_EXTENSIONS = (".json", ".xml", *LINES, *ROWS)
# Documents of each extension to read, samples of each, and files to list.
_MOST_DOCUMENTS, _MOST_SAMPLES, _MOST_LISTED = 3, 20, 5000
_MOST_BYTES = 64 << 20


def suggest_mappings(inputs: Sequence[str]) -> Iterator[Suggestion]:
    """Yields a suggestion for each mapping of ours that fits the documents of an input.

    Args:
      inputs: values of the setting `input`.

    Raises:
      OSError: the input cannot be read.
    """
    path = name_inputs(inputs).paths[0]
    if names_several(path) or storage.is_folder(path):
        files = _choose_documents(path)
        folder = path
    else:
        files, folder = [storage.stat(path)], storage.dirname(path)
    # Exports often are in a folder of their own beside that of the images.
    root = {} if _has_images(folder) else {"image_root": storage.dirname(folder)}
    for name in dict.fromkeys(name for file in files for name in fitting_mappings(file)):
        mapping = read_mapping(name)
        layout = {"layout": "detection"} if mapping.objects else {}
        what = "objects" if mapping.objects else "labels"
        yield Suggestion(f"the images with the {what} of {name}", {"mapping": name, **layout, **root})


def _has_images(folder: str) -> bool:
    files = itertools.islice(storage.list_files(folder, literal=True), _MOST_LISTED)
    return any(is_image_name(file.path) for file in files)


def _choose_documents(path: str) -> list[storage.FileEntry]:
    """Returns some documents of each extension."""
    chosen: dict[str, list[storage.FileEntry]] = {}
    for file in itertools.islice(storage.list_files(path, literal=True), _MOST_LISTED):
        extension = posixpath.splitext(file.path)[1].lower()
        if extension in _EXTENSIONS and 0 < file.size <= _MOST_BYTES:
            some = chosen.setdefault(extension, [])
            if len(some) < _MOST_DOCUMENTS:
                some.append(file)
    return [file for some in chosen.values() for file in some]


def fitting_mappings(file: storage.FileEntry) -> list[str]:
    """Returns the names of the mappings of ours that fit a document."""
    return [name for name in mapping_names() if _fits(read_mapping(name), file)]


def _fits(mapping: DocumentMapping, file: storage.FileEntry) -> bool:
    """Whether the first samples name images, and have objects or a label."""
    extension = posixpath.splitext(file.path)[1].lower()
    if (extension in ROWS) != bool(mapping.columns or extension in (".csv", ".tsv")):
        return False
    try:
        nodes = list(itertools.islice(read_samples(file, mapping), _MOST_SAMPLES))
        return _are_samples(mapping, nodes)
    except (SampleError, RequestError, RecursionError):
        return False


def _are_samples(mapping: DocumentMapping, nodes: Sequence[Any]) -> bool:
    names = mapping.class_names if isinstance(mapping.class_names, Mapping) else {}
    reader = ObjectReader(mapping, Needs(polygons=True, keypoints=True)) if mapping.objects else None
    found = 0
    for node in nodes:
        if isinstance(node, SampleError) or not _names_image(mapping, node):
            return False
        rows = node if isinstance(node, list) else [node]
        if mapping.columns and not all(len(row) in (1, 2, len(mapping.columns)) for row in rows):
            return False
        objects = reader.read(node, names) if reader else Objects()
        if not all(
            left < right and top < bottom
            for left, top, right, bottom in zip(*(objects.boxes[n::4] for n in range(4)), strict=True)
        ):
            return False
        found += len(objects.labels) + bool(mapping.label and mapping.label.find(node) is not None)
    return bool(found)


def _names_image(mapping: DocumentMapping, node: Any) -> bool:
    if mapping.image.text == STEM:
        return True
    value = mapping.image.find(node)
    name = value.partition("?")[0] if isinstance(value, str) else ""
    # Any word of a line may be a name without an extension.
    return bool(name) and (is_image_name(name) or not (mapping.columns or has_extension(name)))
