"""The source for documents: files that annotate one or several images, read by a mapping."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import itertools
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content, contents_in
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.class_list import list_classes
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.annotated.document_fields import DocumentFields
from beam_tfrecords.transforms.sources.annotated.first_samples import MOST_FIRST, find_problem, refuse_unfit
from beam_tfrecords.transforms.sources.annotated.image_finder import ImageFinder
from beam_tfrecords.transforms.sources.annotated.mapped_objects import ObjectReader, as_list, name_classes
from beam_tfrecords.transforms.sources.annotated.mapping import (
    STEM,
    DocumentMapping,
    Expression,
    number_names,
    parse_mapping,
    read_mapping,
)
from beam_tfrecords.transforms.sources.annotated.shell import (
    describe_bare,
    reference,
    refuse_folders_as_splits,
    rejected,
)
from beam_tfrecords.transforms.sources.annotated.trees import LINES, ROWS, holds_one, read_class_names, read_samples
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.image_roots import own_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings, names_mapping_file
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    describe_splits,
    find_entries,
    key_prefixes,
    names_several,
    quote_input,
    split_of_word,
    splits_of_names,
)
from beam_tfrecords.transforms.sources.names import is_utf8, printable, skipped_kind, unpaired_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.path_rule import key_of_path, shorten
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tables.cells import read_text, read_value
from beam_tfrecords.transforms.sources.tally import Tally

_THREADS = 16
# Number of documents whose class names are kept.
_MOST_KEPT = 16


@dataclasses.dataclass(frozen=True)
class _Document:
    """A document.

    Attributes:
      below: path relative to its input, with the key prefix of that input.
      stem: the part of its name that `*` of the glob matches.
      file: its file.
      split: split of its samples, if the request says it.
      named: split that its name says, as those of all other documents do.
      roots: folders that may hold its images.
      is_given: whether the request names it, and not only its folder.
    """

    below: str
    stem: str
    file: storage.FileEntry
    split: str | None
    roots: tuple[str, ...]
    is_given: bool
    named: str | None = None


def open_input(request: OpenRequest) -> MakeSource:
    """Opens documents.

    Raises:
      RequestError: there is no such mapping, or there are no documents.
    """
    inputs, spec, needs = request.inputs, request.spec, request.needs
    mapping, save_mapping = spec.mapping, spec.save_mapping
    if mapping and save_mapping:
        raise RequestError(
            "`mapping` and `save_mapping` both say where things are; leave one of them out", code="conflicting_settings"
        )
    if not (mapping or save_mapping):
        raise RequestError(
            "`source=documents` needs `mapping`, which says where things are, or `save_mapping` to draft it",
            code="missing_setting",
        )
    refuse_folders_as_splits(inputs, "documents", needs)
    text = ""
    if save_mapping and not storage.exists(save_mapping):
        # Only new formats need it.
        from beam_tfrecords.transforms.sources.annotated.drafting import describe_draft, draft

        text = draft(inputs)
    found = parse_mapping(save_mapping or "", text.encode()) if text else read_mapping(mapping or save_mapping or "")
    documents = list(_list_documents(inputs, spec, found))
    notes = [f"mapping drafted from the documents: {describe_draft(text)}"] if text else []
    if needs.splits.are_auto and not inputs.splits and not any(holds_one(one.below, found) for one in documents):
        files = [one.file.path for one in documents]
        splits = splits_of_names(files)
        notes += describe_splits(files, splits, inputs)
        documents = [dataclasses.replace(one, named=split) for one, split in zip(documents, splits, strict=True)]
    return functools.partial(DocumentSource, found, documents, notes, text)


def _list_documents(inputs: Inputs, paths: PathSettings, mapping: DocumentMapping) -> Iterator[_Document]:
    words, splits = paths.image_root, [inputs.splits.get(path) for path in inputs.paths]
    every = tuple(dict.fromkeys(split_of_word(word)[1] for word in words))
    own = own_roots([*zip(inputs.paths, splits, strict=True)], words, "image_root") if words else [()] * len(splits)
    for path, prefix, split, roots in zip(inputs.paths, key_prefixes(inputs.paths), splits, own, strict=True):
        root = path.rstrip("/") if not names_several(path) and storage.is_folder(path) else None
        make = functools.partial(_Document, split=split, is_given=root is None)
        if root is None:
            for file in find_entries(path):
                name = storage.basename(file.path)
                beside = (storage.dirname(file.path),)
                yield make(prefix + name, _stem(name, mapping.documents), file, roots=roots or every or beside)
            continue
        if not mapping.documents:
            raise RequestError(
                f"{quote_input(path)} is a folder, and the mapping {mapping.name} has no `documents`, the glob of "
                "those in it",
                code="invalid_mapping",
            )
        is_empty = True
        for file in sorted(storage.list_files(path, literal=True), key=lambda one: one.path):
            below = file.path[len(root) + 1 :]
            if is_utf8(below) and _fits(below, mapping.documents) and skipped_kind(below) != "hidden":
                is_empty = False
                yield make(prefix + below, _stem(below, mapping.documents), file, roots=roots or every or (root,))
        if is_empty:
            raise RequestError(
                f"{quote_input(path)} has no document {mapping.documents}, as the mapping {mapping.name} says",
                code="not_found",
            )


def _fits(below: str, glob: str) -> bool:
    name = (below if "/" in glob else posixpath.basename(below)).lower()
    return fnmatch.fnmatchcase(name, glob.lower()) or fnmatch.fnmatchcase(name, f"*/{glob.lower()}")


def _stem(below: str, glob: str) -> str:
    """Returns the part of a document's name that the only `*` of the glob matches, or the name without extension."""
    name = posixpath.basename(below)
    before, star, after = posixpath.basename(glob).rpartition("*")
    if star and not set("*?[") & {*before, *after}:
        pattern = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.IGNORECASE)
        if match := pattern.fullmatch(name):
            return match[1]
    return posixpath.splitext(name)[0]


class DocumentSource(Source):
    """Lists the samples of documents, with their objects, labels and columns.

    Args:
      mapping: where things are in a document.
      documents: the documents.
      notes: notes on their splits.
      draft: the mapping as YAML, if it was drafted from the documents.
      needs: requested contents.
    """

    def __init__(
        self, mapping: DocumentMapping, documents: Sequence[_Document], notes: Sequence[str], draft: str, needs: Needs
    ) -> None:
        super().__init__()
        self.mapping, self.documents, self._needs = mapping, documents, needs
        self.notes += notes
        found = {
            Content.IMAGE: True,
            Content.LABEL: mapping.label or mapping.objects,
            Content.OBJECTS: mapping.objects,
            **dict.fromkeys(OUTLINES, any(kind.polygon or kind.angle for kind in mapping.objects)),
            Content.KEYPOINTS: any(kind.points for kind in mapping.objects),
            Content.COLUMNS: mapping.values,
        }
        names = {} if isinstance(mapping.class_names, Expression) else mapping.class_names
        are_objects = all(kind.objects.text.startswith(("@", "[@]")) for kind in mapping.objects)
        self._describe(
            provides=contents_in(found),
            columns=tuple(mapping.values),
            draft=draft,
            class_names=tuple(dict.fromkeys(names.values())),
            labels_may_be_indices=not mapping.class_names,
            # Parts of a document about one image, each of which is an object, are one sample.
            groups_rows=mapping.samples is not None and bool(mapping.objects) and are_objects,
        )

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields the samples of all documents in turn.

        Raises:
          RequestError: a document of several samples is damaged, or the mapping does not fit.
        """
        self._tally, self._reader = tally, ObjectReader(self.mapping, self._needs.contents)
        self._fields = DocumentFields(self.mapping)
        self._names_of = functools.lru_cache(_MOST_KEPT)(functools.partial(_read_names, self.mapping))
        self._finders = {
            roots: ImageFinder(self._list_images(roots)) for roots in {one.roots for one in self.documents}
        }
        self._total, self._alternatives, self._missing, self._seen = 0, 0, list[str](), set[str]()
        # What finds nothing may be misspelt; documents need not have all that our mappings look for.
        optional = [self.mapping.split, self.mapping.class_names, *self.mapping.values.values()]
        is_own = names_mapping_file(self.mapping.name)
        self._silent = [one for one in optional if is_own and isinstance(one, Expression)]
        samples = self._samples()
        first = list(itertools.islice(samples, MOST_FIRST))
        refuse_unfit(self.mapping, self.documents[0].file, find_problem(self.mapping, first, self._missing))
        yield from itertools.chain(first, samples)
        reader, problem = self._reader, ""
        if self.mapping.objects and not reader.found_any:
            problem = f"finds no list of objects in {self._total:,} samples"
        elif reader.other and reader.other == reader.total:
            problem = f"reads none of {reader.total:,} elements, which are of other kinds, such as {reader.first_other}"
        refuse_unfit(self.mapping, self.documents[0].file, problem)
        names = {posixpath.basename(one.below) for one in self.documents}
        shown = printable(names.pop()) if len(names) == 1 else self.mapping.documents or "documents"
        for field, count in self._fields.counts.items():
            self._tally.see_field(shown, field, count)
        self._tally.uses |= self._fields.uses
        self._add_notes()
        if OUTLINES & self._needs.contents and reader.without and Content.POLYGONS in self.description.provides:
            if reader.without == reader.read_count:
                raise RequestError(
                    f"{quote_input(self.documents[0].file.path)}: none of its {reader.without:,} objects has a "
                    "polygon; use `layout=detection`",
                    code="no_polygons",
                )
            self._tally.notes.append(describe_bare(reader.without, reader.read_count, self._needs.contents))

    def complete(self, tally: Tally) -> Description:
        """See `Source.complete`."""
        column = "split" if tally.has_splits else None
        return dataclasses.replace(self.description, uses=tally.uses, split_column=column)

    def _samples(self) -> Iterator[SampleRef]:
        are_remote = any(storage.has_scheme(one.file.path) for one in self.documents)
        if are_remote and all(holds_one(one.below, self.mapping) for one in self.documents):
            read = functools.partial(_read_all, self.mapping, self._fields)
            for document, found in map_in_threads(read, self.documents, threads=_THREADS):
                yield from self._references(document, found)
        else:
            for document in self.documents:
                yield from self._references(document, _read(self.mapping, self._fields, document))

    def _references(self, document: _Document, nodes: Iterator[Any] | Sequence[Any]) -> Iterator[SampleRef]:
        for number, node in enumerate(nodes, 1):
            key = document.below if holds_one(document.below, self.mapping) else f"{document.below} {number:09d}"
            try:
                if isinstance(node, SampleError):
                    raise SampleError(node.stage, node.reason, f"{printable(document.below)}: {node.detail}")
                ref = self._reference(document, node, key)
            except (SampleError, RecursionError) as error:
                deep = SampleError(Stage.LIST, FailureReason.INVALID_ROW, "nested too deeply")
                split = document.split or document.named
                ref = rejected(key, error if isinstance(error, SampleError) else deep, split=split)
            if ref is not None:
                yield ref

    def _reference(self, document: _Document, node: Any, key: str) -> SampleRef | None:
        """Returns the reference to the sample in a part of a document; None if the document has no annotations."""
        image, split = self.mapping.image, document.split or document.named
        self._total += 1
        name = document.stem if image.text == STEM else _find_text(image, node)
        key = key_of_path(name) if name else key
        try:
            found = self._finders[document.roots].find(name, document.below)
        except SampleError as error:
            return rejected(key, error, split=split)
        if found is None:
            if holds_one(document.below, self.mapping) and not (
                document.is_given or self._is_annotated(node, document)
            ):
                # A README.txt, a file of class names, or of another tool.
                self._tally.add("without annotations", printable(document.below))
                return None
            self._missing += [name] if name else []
            detail = f"no image of the name {shorten(name)}" if name else f"`image: {image.text}` finds nothing"
            return rejected(key, SampleError(Stage.LIST, FailureReason.UNREADABLE, detail), split=split)
        key, entry = found
        self._seen.add(key)
        try:
            return self._read_sample(node, key, entry, document)
        except SampleError as error:
            return rejected(key, error, split=split, uri=entry.path)

    def _read_sample(self, node: Any, key: str, entry: storage.FileEntry, document: _Document) -> SampleRef:
        mapping, needs, split = self.mapping, self._needs, document.split
        self._silent = [one for one in self._silent if one.find(node) in (None, "", [])]
        if mapping.alternatives:
            self._alternatives += len(as_list(mapping.alternatives.find(node))) > 1
        if mapping.split and split is None and needs.splits.are_auto:
            split = _find_text(mapping.split, node) or None
            self._tally.has_splits |= bool(split)
        split = split or document.named
        names = self._find_names(node, document)
        if names:
            self._silent = [one for one in self._silent if one is not mapping.class_names]
        objects = self._reader.read(node, names) if mapping.objects else Objects()
        contents = needs.contents if mapping.objects else needs.contents - {Content.OBJECTS}
        ref = reference(key, entry.path, objects, contents, split=split, found=entry)
        if mapping.label and Content.LABEL in needs.contents:
            labels = name_classes(mapping.label.find(node), names, "label")
            ref = dataclasses.replace(ref, label=labels if len(labels) > 1 else next(iter(labels), None))
        columns = {
            column: read_value({column: expression.find(node)}, column)
            for column, expression in mapping.values.items()
            if needs.takes_all or column in (needs.columns or ())
        }
        return dataclasses.replace(ref, columns=columns)

    def _is_annotated(self, node: Any, document: _Document) -> bool:
        label = self.mapping.label
        try:
            if not self.mapping.objects:
                return label is not None and bool(as_list(label.find(node)))
            reader = ObjectReader(self.mapping, self._needs.contents)
            return bool(reader.read(node, self._find_names(node, document)).labels)
        except SampleError:
            return False

    def _find_names(self, node: Any, document: _Document) -> Mapping[str, str]:
        names = self.mapping.class_names
        if not isinstance(names, Expression):
            return names
        return _parse_names(names.find(node)) or self._names_of(document.file)

    def _list_images(self, roots: Sequence[str]) -> Iterator[tuple[str, storage.FileEntry]]:
        """Yields the images below some folders, with the paths that are their keys."""
        every = list(dict.fromkeys(root for one in self.documents for root in one.roots))
        prefixes = dict(zip(every, key_prefixes(every), strict=True))
        documents = {one.file.path for one in self.documents}
        for root in roots:
            for entry in storage.list_files(root, literal=True):
                below = entry.path[len(root.rstrip("/")) + 1 :]
                if entry.path in documents:
                    continue
                if kind := unpaired_kind(below):
                    self._tally.add(kind, printable(prefixes[root] + below))
                else:
                    yield prefixes[root] + below, entry

    def _add_notes(self) -> None:
        shown = f"mapping {self.mapping.name}"
        if self._missing:
            note = f"{len(self._missing):,} of {self._total:,} annotated images are not there"
            self._tally.add_unmatched(note, len(self._missing), self._total)
        images = sum(finder.count for finder in self._finders.values())
        if len(self._seen) < images:
            beside = images - len(self._seen)
            self._tally.notes.append(f"{beside:,} of {images:,} images have no annotation, and are left out")
        if self.mapping.split and not self._needs.splits.are_auto:
            self._tally.notes.append(f"the splits that the {shown} finds are not used: `splits` decides")
        if self._alternatives:
            note = f"{self._alternatives:,} of {self._total:,} samples have several annotations; the {shown} reads one"
            self._tally.notes.append(note)
        for one in self._silent:
            self._tally.notes.append(f"`{one.key}: {one.text}` of the {shown} finds nothing in {self._total:,} samples")
        reader = self._reader
        if reader.several:
            self._tally.notes.append(f"{reader.several:,} objects have several classes, and are an object for each")
        if reader.ignored:
            self._tally.notes.append(f"{reader.ignored:,} objects are ignored, as the {shown} says")
        if reader.other:
            self._tally.notes.append(
                f"{reader.other:,} of {reader.total:,} elements are of no kind that the {shown} reads, and are left "
                f"out, such as {reader.first_other}"
            )


def _read(mapping: DocumentMapping, fields: DocumentFields, document: _Document) -> Iterator[Any]:
    """Yields the samples of a document; a `SampleError` if it is damaged and one sample.

    Raises:
      RequestError: the document is damaged, and has several samples.
    """
    try:
        with unchanged(document.file.path, document.file.version):
            yield from read_samples(document.file, mapping, fields=fields)
    except SampleError as error:
        if not holds_one(document.below, mapping):
            shown = quote_input(document.file.path)
            raise RequestError(f"{shown} cannot be read: {error.detail}", code="invalid_file") from None
        yield error


def _read_all(mapping: DocumentMapping, fields: DocumentFields, document: _Document) -> tuple[_Document, list[Any]]:
    return document, retry_faults(document.file.path, lambda: list(_read(mapping, fields, document)))


def _read_names(mapping: DocumentMapping, file: storage.FileEntry) -> Mapping[str, str]:
    """Returns number -> name of the class, which a document of several samples says once."""
    if mapping.samples is None or mapping.columns or file.path.lower().endswith((*LINES, *ROWS)):
        return {}
    return _parse_names(read_class_names(file, mapping))


def _parse_names(value: Any) -> Mapping[str, str]:
    try:
        return number_names(list_classes(value)) if value else {}
    except ValueError as error:
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, f"`class_names`: {error}") from None


def _find_text(expression: Expression, node: Any) -> str:
    return read_text({expression.key: expression.find(node)}, expression.key, required=False)
