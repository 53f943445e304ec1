"""Drafts a mapping from the documents of an input that no mapping of ours reads."""

from __future__ import annotations

import contextlib
import functools
import itertools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.transforms.images.decode import open_image
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.sources.annotated.recognition import choose_documents, extension_of, list_some
from beam_tfrecords.transforms.sources.annotated.trees import LINES, parse_xml, read_lines, to_tree
from beam_tfrecords.transforms.sources.inputs import Inputs, find_entries, names_several, quote_input
from beam_tfrecords.transforms.sources.json_text import read_json
from beam_tfrecords.transforms.sources.meaning.drafts import Document, draft_mappings, names_images
from beam_tfrecords.transforms.sources.names import is_image_name

# Documents of each extension to read.
_MOST_DOCUMENTS, _MOST_BYTES, _MOST_LINES = 20, 16 << 20, 500
# Images to measure, because boxes must fit them, and drafts to suggest.
_MOST_MEASURED, _MOST_DRAFTS = 20, 4


def draft_mapping(inputs: Inputs) -> str:
    """Returns a mapping for the documents of an input, as YAML.

    Raises:
      RequestError: the documents lack an image, or objects or classes.
    """
    texts, _ = find_drafts(inputs.paths[0])
    if len(texts) > 1:
        raise RequestError(
            f"`save_mapping`: the documents of {quote_input(inputs.paths[0])} may mean several things, such as "
            f"{describe_draft(texts[0])}; name the right mapping in `mapping`, or write it to the file",
            suggest_drafts(texts, "the documents", save_mapping=None),
            code="unclear_draft",
        )
    if not texts:
        raise RequestError(
            f"`save_mapping`: no mapping can be drafted from {quote_input(inputs.paths[0])}: expected documents "
            "(.json, .jsonl, .xml) that name their images and classes, with or without a box or polygon of each "
            "object; docs/mappings.md shows how to write one",
            code="no_draft",
        )
    return texts[0]


def suggest_drafts(texts: Sequence[str], document: str, **settings: Any) -> list[Reading]:
    """Suggests reading documents by each of several drafted mappings, with further settings."""
    drafts = [yaml.safe_load(text) for text in texts]
    found = []
    for text, draft in zip(texts[:_MOST_DRAFTS], drafts, strict=False):
        own = {key: value for key, value in draft.items() if any(other.get(key) != value for other in drafts)}
        meaning = f"the annotations of {document} by a drafted mapping with {describe_draft(yaml.safe_dump(own))}"
        found.append(Reading(meaning, {"mapping": describe_draft(text), **layout_of(text), **settings}))
    return found


def find_drafts(path: str) -> tuple[list[str], str]:
    """Drafts mappings for the documents of an input.

    Returns:
      The mappings as YAML, the likeliest first; and the name of a document that names images, or "".

    Raises:
      OSError: the input cannot be read.
    """
    root = path.rstrip("/")
    if not names_several(path) and storage.is_folder(path):
        files = listed = list_some(path)
    else:
        files = find_entries(path)
        root = storage.dirname(files[0].path)
        listed = list_some(root)
    images = [file for file in listed if is_image_name(file.path)]
    documents: dict[str, list[Document]] = {}
    names: dict[str, str] = {}
    for file in choose_documents(files, most=_MOST_DOCUMENTS):
        extension = extension_of(file.path)
        for tree in _read(file, extension):
            stem = posixpath.splitext(posixpath.basename(file.path))[0]
            documents.setdefault(extension, []).append(Document(stem, tree))
            names.setdefault(extension, posixpath.basename(file.path))
    most = _MOST_MEASURED if documents else 0
    sizes = {file.path: _measure(file) if number < most else None for number, file in enumerate(images)}
    for extension, several in documents.items():
        found = draft_mappings(several, sizes, extension=extension)
        if found:
            dump = functools.partial(yaml.safe_dump, sort_keys=False, default_flow_style=None, width=1000)
            return [str(dump(one)) for one in found], names[extension]
    # Lines are the rows of a table, too, which has its own questions.
    trees = {one: several for one, several in documents.items() if one not in LINES}
    annotated = (names[one] for one, several in trees.items() if names_images(several, sizes, extension=one))
    if document := next(annotated, ""):
        return [], document
    stems = {posixpath.splitext(one.path)[0].rpartition("/")[2] for one in images}
    texts = [one.path for one in listed if extension_of(one.path) == ".txt"]
    of_images = [one for one in texts if posixpath.splitext(one)[0].rpartition("/")[2] in stems]
    folder = posixpath.dirname(of_images[0])[len(root) + 1 :] if len(of_images) > 1 else ""
    return [], posixpath.join(folder, "*.txt") if len(of_images) > 1 else ""


def _measure(file: storage.FileEntry) -> tuple[int, int] | None:
    """Returns the width and height of an image; None if it cannot be read."""
    with contextlib.suppress(SampleError, OSError):
        if file.size <= _MOST_BYTES:
            height, width = open_image(storage.read_bytes(file.path), ImageSpec()).size
            return width, height
    return None


def layout_of(text: str) -> dict[str, str]:
    """Returns the layout that a mapping needs, as a setting; an empty one if it needs none."""
    return {"layout": "detection"} if "class" in yaml.safe_load(text) else {}


def describe_draft(text: str) -> str:
    """Returns a mapping in one line."""
    shown: str = yaml.safe_dump(yaml.safe_load(text), sort_keys=False, default_flow_style=True, width=10_000)
    return shown.strip()


def _read(file: storage.FileEntry, extension: str) -> Iterator[Any]:
    if file.size > _MOST_BYTES:
        return
    damaged = contextlib.suppress(SampleError, ValueError, RecursionError)
    with damaged, storage.open_read(file.path, version=file.version) as opened:
        if extension in LINES:
            lines = itertools.islice(read_lines(opened), _MOST_LINES)
            yield from (line for line in lines if not isinstance(line, SampleError))
        elif extension == ".json":
            yield read_json(opened.read().removeprefix(b"\xef\xbb\xbf"))
        elif extension == ".xml":
            yield to_tree(parse_xml(opened.read()), frozenset())
