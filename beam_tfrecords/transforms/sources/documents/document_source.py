"""The source for documents: files that annotate one or several images, read by a mapping."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.class_list import list_classes
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, Value
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.annotations.annotated import reference, refuse_folders_as_splits, rejected
from beam_tfrecords.transforms.sources.documents.image_finder import ImageFinder
from beam_tfrecords.transforms.sources.documents.mapped_objects import ObjectReader, name_class
from beam_tfrecords.transforms.sources.documents.mapping import (
    STEM,
    DocumentMapping,
    Expression,
    Unit,
    number_names,
    read_mapping,
)
from beam_tfrecords.transforms.sources.documents.trees import LINES, ROWS, read_samples
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    find_entries,
    key_prefixes,
    names_several,
    quote_input,
    split_of_word,
)
from beam_tfrecords.transforms.sources.names import has_extension, is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_rule import key_of_path, shorten
from beam_tfrecords.transforms.sources.reading import unchanged
from beam_tfrecords.transforms.sources.source import MakeSource, Source, Unmatched
from beam_tfrecords.transforms.sources.tables.cells import read_text, read_value

_THREADS = 16
# Samples that show whether a mapping fits.
_FIRST = 50
_MOST_SHOWN = 400
# Larger coordinates are no shares of an image, even of boxes that reach beyond it.
_MOST_SHARE = 1.5


@dataclasses.dataclass(frozen=True)
class _Document:
    """A document: its path relative to the input, the part of it that `*` of the glob matches, and its file."""

    below: str
    stem: str
    file: storage.FileEntry
    split: str | None


def open_input(inputs: Inputs, mapping: str | None, paths: PathSettings, needs: Needs) -> MakeSource:
    """Opens documents.

    Raises:
      RequestError: there is no such mapping, or there are no documents.
    """
    if not mapping:
        raise RequestError("`source=documents` needs `mapping`, which says where things are", code="missing_setting")
    refuse_folders_as_splits(inputs, "documents", needs)
    found = read_mapping(mapping)
    documents = list(_list_documents(inputs, found))
    return functools.partial(DocumentSource, found, documents, inputs, paths)


def _list_documents(inputs: Inputs, mapping: DocumentMapping) -> Iterator[_Document]:
    for path, prefix in zip(inputs.paths, key_prefixes(inputs.paths), strict=True):
        split = inputs.splits.get(path)
        if names_several(path) or not storage.is_folder(path):
            for file in find_entries(path):
                name = storage.basename(file.path)
                yield _Document(prefix + name, _stem(name, mapping.documents), file, split)
            continue
        glob = mapping.documents or _refuse_folder(path, mapping)
        start = len(path.rstrip("/")) + 1
        found = False
        for file in sorted(storage.list_files(path, literal=True), key=lambda one: one.path):
            below = file.path[start:]
            if is_utf8(below) and _fits(below, glob) and skipped_kind(below) != "hidden":
                found = True
                yield _Document(prefix + below, _stem(below, glob), file, split)
        if not found:
            raise RequestError(
                f"{quote_input(path)} has no document {glob}, as the mapping {mapping.name} says", code="not_found"
            )


def _refuse_folder(path: str, mapping: DocumentMapping) -> str:
    raise RequestError(
        f"{quote_input(path)} is a folder, and the mapping {mapping.name} has no `documents`, the glob of those in it",
        code="invalid_mapping",
    )


def _fits(below: str, glob: str) -> bool:
    name = below if "/" in glob else posixpath.basename(below)
    return fnmatch.fnmatchcase(name.lower(), glob.lower()) or fnmatch.fnmatchcase(name.lower(), f"*/{glob.lower()}")


def _stem(below: str, glob: str) -> str:
    """Returns the part of a document's name that the last `*` of the glob matches; without its extension otherwise."""
    name = posixpath.basename(below)
    before, star, after = posixpath.basename(glob).rpartition("*")
    if star and "*" not in before and "?" not in before + after and "[" not in before + after:
        pattern = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.IGNORECASE)
        if match := pattern.fullmatch(name):
            return match[1]
    return posixpath.splitext(name)[0]


class DocumentSource(Source):
    """Lists the samples of documents, with their objects, labels and columns.

    Args:
      mapping: where things are in a document.
      documents: the documents.
      inputs: inputs of the request.
      paths: settings of the image paths.
      needs: requested contents.
    """

    def __init__(
        self,
        mapping: DocumentMapping,
        documents: Sequence[_Document],
        inputs: Inputs,
        paths: PathSettings,
        needs: Needs,
    ) -> None:
        super().__init__()
        self._mapping, self._documents, self._inputs = mapping, documents, inputs
        self._roots = [split_of_word(word)[1] for word in paths.image_root]
        self._needs = needs
        self.columns = tuple(mapping.values)
        self.split_column = "split" if mapping.split else None
        has_label = mapping.label is not None or mapping.objects
        self.provides = frozenset({Content.IMAGE, *([Content.LABEL] if has_label else [])})
        if mapping.objects:
            self.provides |= {Content.OBJECTS}
            self.provides |= {Content.POLYGONS} if any(kind.polygon for kind in mapping.objects) else frozenset()
            self.provides |= {Content.KEYPOINTS} if any(kind.points for kind in mapping.objects) else frozenset()
        self.provides |= {Content.COLUMNS} if mapping.values else frozenset()
        # Rows of one image, one for each object, are one sample.
        are_rows = all(one.below.lower().endswith(ROWS) for one in documents) or bool(mapping.columns)
        self.groups_rows = are_rows and mapping.samples is not None and bool(mapping.objects)

    def samples(self) -> Iterator[SampleRef]:
        """Yields the samples of all documents in turn.

        Raises:
          RequestError: a document of several samples is damaged, or the mapping does not fit.
        """
        self.notes, self.unmatched, self.unread = [], [], Counter()
        self._reader = ObjectReader(self._mapping.objects, self._needs)
        self._finder = ImageFinder(self._list_images())
        self._without, self._total, self._seen = 0, 0, set[str]()
        first: list[SampleRef] = []
        samples = self._samples()
        for ref in samples:
            first.append(ref)
            if len(first) == _FIRST:
                break
        self._check_first(first)
        yield from itertools.chain(first, samples)
        self.unread = self._reader.unread
        self._add_notes()

    def _samples(self) -> Iterator[SampleRef]:
        are_remote = any(storage.has_scheme(one.file.path) for one in self._documents)
        if are_remote and self._mapping.samples is None:
            read = functools.partial(_read_all, self._mapping)
            for document, found in map_in_threads(read, self._documents, threads=_THREADS):
                yield from self._references(document, found)
        else:
            for document in self._documents:
                yield from self._references(document, _read(self._mapping, document))

    def _references(self, document: _Document, nodes: Iterator[Any] | Sequence[Any]) -> Iterator[SampleRef]:
        for count, node in enumerate(nodes, 1):
            if isinstance(node, SampleError):
                if self._mapping.samples is not None and not document.below.lower().endswith(LINES):
                    raise RequestError(
                        f"{quote_input(document.file.path)} cannot be read: {node.detail}", code="invalid_file"
                    )
                detail = f"{printable(storage.basename(document.below))}: {node.detail}"
                key = f"{document.below} {count:09d}" if document.below.lower().endswith(LINES) else document.below
                yield rejected(key, SampleError(node.stage, node.reason, detail), split=document.split)
            else:
                yield self._reference(document, node, count)

    def _reference(self, document: _Document, node: Any, number: int) -> SampleRef:
        key, uri, split = f"{document.below} {number:09d}", None, document.split
        self._total += 1
        try:
            name = document.stem if self._mapping.image.text == STEM else _find_text(self._mapping.image, node)
            key = key_of_path(name)
            split = split or (_find_text(self._mapping.split, node) if self._mapping.split else None)
            found = self._finder.find(name, document.below)
            if found is None:
                self._without += 1
                raise SampleError(Stage.LIST, FailureReason.UNREADABLE, f"no image of the name {shorten(name)}")
            key, entry = found
            uri = entry.path
            self._seen.add(key)
            names = self._find_names(node)
            objects = self._reader.read(node, names) if self._mapping.objects else Objects()
            needs = self._needs if self._mapping.objects else dataclasses.replace(self._needs, objects=False)
            ref = reference(key, uri, objects, needs, split=split, found=entry)
            label: Value = ref.label
            if self._mapping.label and self._needs.label:
                label = name_class(self._mapping.label.find(node), names, "label")
            columns = {
                column: read_value({column: expression.find(node)}, column)
                for column, expression in self._mapping.values.items()
                if self._needs.takes_all or column in (self._needs.columns or ())
            }
            return dataclasses.replace(ref, label=label, columns=columns)
        except SampleError as error:
            return rejected(key, error, split=split, uri=uri)

    def _find_names(self, node: Any) -> Mapping[str, str]:
        names = self._mapping.class_names
        if not isinstance(names, Expression):
            return names
        value = names.find(node)
        try:
            return number_names(list_classes(value)) if value else {}
        except ValueError as error:
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, f"`class_names`: {error}") from None

    def _list_images(self) -> Iterator[tuple[str, storage.FileEntry]]:
        """Yields the images below `image_root`, or else below the folders of the documents."""
        prefixes = key_prefixes(self._inputs.paths)
        are_folders = [not names_several(path) and storage.is_folder(path) for path in self._inputs.paths]
        folders = {
            path if is_folder else storage.dirname(path): prefix if is_folder else ""
            for path, prefix, is_folder in zip(self._inputs.paths, prefixes, are_folders, strict=True)
        }
        if self._roots:
            folders = dict(zip(self._roots, key_prefixes(self._roots), strict=True))
        documents = {one.file.path for one in self._documents}
        for folder, prefix in folders.items():
            start = len(folder.rstrip("/")) + 1
            for entry in storage.list_files(folder, literal=True):
                below = entry.path[start:]
                kind = skipped_kind(below) or ("" if has_extension(below) else "not an image")
                if entry.path in documents:
                    continue
                if kind or not is_utf8(below):
                    self.skipped.add(kind or "name that is not UTF-8", printable(prefix + below))
                else:
                    yield prefix + below, entry

    def _check_first(self, refs: Sequence[SampleRef]) -> None:
        """Refuses a mapping that fits none of the first samples.

        Raises:
          RequestError: it does not; the message says what each expression finds in the first document.
        """
        problem = ""
        failures = [ref.failure for ref in refs if ref.failure]
        if not refs:
            problem = "finds no sample"
        elif len(failures) == len(refs):
            problem = f"fits none of the first {len(refs):,} samples: {failures[0][1] if failures[0] else ''}"
        sides = [side for ref in refs for side in (ref.objects.boxes if ref.objects else ())]
        are_pixels = any(kind.unit is Unit.PIXELS for kind in self._mapping.objects)
        if sides and are_pixels and max(map(abs, sides)) <= _MOST_SHARE:
            problem = "says pixels, and all boxes are within 0 to 1; write `unit: share`"
        if problem:
            shown = quote_input(self._documents[0].file.path)
            found = "; ".join(describe_first(self._mapping, self._documents[0].file))
            raise RequestError(
                f"{shown}: the mapping {self._mapping.name} {problem}. In the first document, {found}",
                code="unfit_mapping",
            )

    def _add_notes(self) -> None:
        shown = f"mapping {self._mapping.name}"
        if self._without:
            note = f"{self._without:,} of {self._total:,} annotated images are not there"
            self.unmatched.append(Unmatched(note, self._without, self._total))
        if len(self._seen) < self._finder.count:
            beside = self._finder.count - len(self._seen)
            self.notes.append(f"{beside:,} of {self._finder.count:,} images have no annotation, and are left out")
        reader = self._reader
        if reader.ignored:
            self.notes.append(f"{reader.ignored:,} objects are ignored, as the {shown} says")
        if reader.other:
            self.notes.append(
                f"{reader.other:,} of {reader.total:,} elements are of no kind that the {shown} reads, and are left out"
            )


def _read(mapping: DocumentMapping, document: _Document) -> Iterator[Any]:
    """Yields the samples of a document; a `SampleError` at last if it is damaged."""
    try:
        with unchanged(document.file.path, document.file.version):
            yield from read_samples(document.file, mapping)
    except SampleError as error:
        yield error


def _read_all(mapping: DocumentMapping, document: _Document) -> tuple[_Document, list[Any]]:
    return document, retry_faults(document.file.path, lambda: list(_read(mapping, document)))


def _find_text(expression: Expression, node: Any) -> str:
    return read_text({expression.key: expression.find(node)}, expression.key)


def describe_first(mapping: DocumentMapping, file: storage.FileEntry) -> Iterator[str]:
    """Yields what each expression finds in the first sample of a document."""
    try:
        node = next(iter(read_samples(file, mapping)), None)
    except SampleError as error:
        node = error
    if node is None and mapping.samples is not None:
        yield f"`samples: {mapping.samples.text}` finds nothing"
    if node is None or isinstance(node, SampleError):
        yield str(node.detail) if node else "there is no sample"
        return
    for one in (mapping.image, mapping.split, mapping.label):
        if one is not None and one.text != STEM:
            yield _describe(one, node)
    for kind in mapping.objects:
        yield _describe(kind.objects, node)
        objects = kind.objects.find(node)
        for element in objects[:1] if isinstance(objects, list) else [objects] if objects else []:
            for one in (kind.label, *kind.box, *kind.polygon, *kind.points):
                yield _describe(one, element)


def _describe(expression: Expression, node: Any) -> str:
    try:
        value = expression.find(node)
    except SampleError as error:
        return error.detail
    shown = "nothing" if value is None else shorten(str(value)[:_MOST_SHOWN])
    return f"`{expression.key}: {expression.text}` finds {shown}"
