"""The source for documents: files that annotate one or several images, read by a mapping."""

from __future__ import annotations

import contextlib
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
from beam_tfrecords.features.contents import CLASSES, OUTLINES, Content, contents_in
from beam_tfrecords.features.fields import CAPTIONS
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.transforms.class_list import list_classes
from beam_tfrecords.transforms.refs.sample_refs import MASK, Scalar
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.annotated.document_fields import DocumentFields
from beam_tfrecords.transforms.sources.annotated.image_finder import ImageFinder
from beam_tfrecords.transforms.sources.annotated.mapped_objects import ObjectReader, as_list, name_classes
from beam_tfrecords.transforms.sources.annotated.mapping import (
    FOLDERS,
    STEM,
    DocumentMapping,
    Expression,
    mapping_names,
    number_names,
    read_mapping,
)
from beam_tfrecords.transforms.sources.annotated.recognition import MOST_FIRST, find_problem, fits, refuse_unfit
from beam_tfrecords.transforms.sources.annotated.shell import (
    Annotated,
    AnnotatedSource,
    read_each,
    refuse_folders_as_splits,
)
from beam_tfrecords.transforms.sources.annotated.trees import LINES, ROWS, holds_one, read_class_names, read_samples
from beam_tfrecords.transforms.sources.class_files import is_class_file
from beam_tfrecords.transforms.sources.description import Labels
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.image_roots import own_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings
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
from beam_tfrecords.transforms.sources.path_rule import key_of_path, shorten
from beam_tfrecords.transforms.sources.registry import VOC
from beam_tfrecords.transforms.sources.source import Finish, MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tables.cells import read_text, read_value
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import split_of_folder, split_words

# Number of documents whose class names are kept.
_MOST_KEPT = 16
_XML = ".xml"
# Lists of the images of each split; other lists have the images of one class each.
_SPLITS = ("train", "val", "test")
_BOTH = "trainval"


@dataclasses.dataclass(frozen=True)
class _Document:
    """A document.

    Attributes:
      below: path relative to its input, with the key prefix of that input.
      stem: the part of its name that `*` of the glob matches.
      file: its file; None for an image of a list that has no document.
      split: split of its samples, if the request or a list says it.
      roots: folders that may hold its images.
      is_given: whether the request names it, and not only its folder.
      named: split that its name says, as those of all other documents do.
      mask: mask of its image.
    """

    below: str
    stem: str
    file: storage.FileEntry | None
    split: str | None
    roots: tuple[str, ...]
    is_given: bool = False
    named: str | None = None
    mask: storage.FileEntry | None = None


def open_input(request: OpenRequest) -> MakeSource:
    """Opens documents.

    Raises:
      RequestError: there is no such mapping, or there are no documents.
    """
    inputs, spec, needs = request.inputs, request.spec, request.needs
    refuse_folders_as_splits(inputs, spec.source, needs)
    mapping = _open_voc(inputs, needs) if spec.source == VOC else _read_mapping(spec)
    notes = []
    documents, others = _choose_fitting([*_list_documents(inputs, spec, mapping, needs)], mapping)
    if others:
        notes.append(f"not read: {', '.join(map(printable, others))}, which the mapping {mapping.name} does not fit")
    if needs.splits.are_auto and not inputs.splits and not any(holds_one(one.below, mapping) for one in documents):
        files = [one.file.path for one in documents if one.file]
        splits = splits_of_names(files)
        notes += describe_splits(dict(zip(files, splits, strict=True)), inputs)
        documents = [dataclasses.replace(one, named=split) for one, split in zip(documents, splits, strict=True)]
    return functools.partial(DocumentSource, mapping, documents, inputs, notes, spec.source == VOC)


def _read_mapping(spec: SourceSpec) -> DocumentMapping:
    """Returns the mapping of the request."""
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
    return read_mapping(mapping or save_mapping or "")


def _open_voc(inputs: Inputs, needs: Needs) -> DocumentMapping:
    """Returns the mapping of Pascal VOC: for its folders, or for XML files anywhere without lists of splits."""
    mapping = read_mapping(VOC)

    def is_tree(root: str) -> bool:
        return all(
            storage.is_folder(storage.join(root, one)) for one in (mapping.image_folder, mapping.document_folder)
        )

    def has_files(root: str) -> bool:
        paths = [entry.path for entry in storage.list_files(root, literal=True)]
        return not any("/ImageSets/" in path for path in paths) and any(path.lower().endswith(_XML) for path in paths)

    if Content.MASK in needs.contents or any(map(is_tree, inputs.paths)) or not all(map(has_files, inputs.paths)):
        return mapping
    split = Expression("split", FOLDERS, None)
    return dataclasses.replace(mapping, documents=f"*{_XML}", image_folder="", lists="", masks="", split=split)


def _list_documents(inputs: Inputs, paths: PathSettings, mapping: DocumentMapping, needs: Needs) -> Iterator[_Document]:
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
        beside, folder = (root,), path
        if mapping.image_folder:
            _check_folders(path, mapping, needs)
            beside, folder = (storage.join(root, mapping.image_folder),), storage.join(root, mapping.document_folder)
        is_empty = not mapping.image_folder
        listed = storage.list_files(folder, literal=True) if storage.is_folder(folder) else ()
        for file in sorted(listed, key=lambda one: one.path):
            below = file.path[len(root) + 1 :]
            # RetinaNet has a table of classes beside that of objects.
            if mapping.columns and mapping.image.text != STEM and is_class_file(storage.basename(below)):
                continue
            if is_utf8(below) and _fits(below, mapping.documents) and skipped_kind(below) != "hidden":
                is_empty = False
                yield make(prefix + below, _stem(below, mapping.documents), file, roots=roots or every or beside)
        if is_empty:
            raise RequestError(
                f"{quote_input(path)} has no document {mapping.documents}, as the mapping {mapping.name} says",
                code="not_found",
            )


def _choose_fitting(documents: list[_Document], mapping: DocumentMapping) -> tuple[list[_Document], list[str]]:
    """Leaves out documents that the mapping does not fit, such as calibrations beside the labels of the same images.

    Returns:
      The documents in the folders whose name is that of one which the mapping fits, and globs of the others.
    """
    kinds: dict[str, list[_Document]] = {}
    for one in documents if mapping.image.text == STEM and mapping.columns else ():
        kinds.setdefault(_folder_of(one), []).append(one)
    stems = [{one.stem for one in some} for some in kinds.values()]
    if len({*itertools.chain(*stems)}) == sum(map(len, stems)):
        return documents, []
    # Of an image without objects, the document may be empty.
    filled = {
        name: [one.file for one in some if one.file and one.file.size][:_MOST_KEPT] for name, some in kinds.items()
    }
    unfit = {name for name, files in filled.items() if files and not any(fits(mapping, file) for file in files)}
    if len(unfit) == len(kinds):
        return documents, []
    others = {posixpath.join(posixpath.dirname(one.below), mapping.documents) for name in unfit for one in kinds[name]}
    return [one for one in documents if _folder_of(one) not in unfit], sorted(others)


def _folder_of(document: _Document) -> str:
    """Returns the name of the folder of a document."""
    return posixpath.basename(posixpath.dirname(document.below))


def _check_folders(path: str, mapping: DocumentMapping, needs: Needs) -> None:
    has_masks = Content.MASK in needs.contents
    needed = (mapping.masks, mapping.mask_lists) if has_masks else (mapping.document_folder, mapping.lists)
    for folder in (mapping.image_folder, needed[0]):
        if not storage.is_folder(storage.join(path, folder)):
            raise RequestError(
                f"{quote_input(path)} has no folder {folder}; expected {mapping.image_folder}, {needed[0]} and, for "
                f"splits, {needed[1]}, as in VOCdevkit/VOC2012, or XML files of the names of images",
                code="not_found",
            )


def _fits(below: str, glob: str) -> bool:
    name = (below if "/" in glob else posixpath.basename(below)).lower()
    return fnmatch.fnmatchcase(name, glob.lower()) or fnmatch.fnmatchcase(name, f"*/{glob.lower()}")


def _stem(below: str, glob: str) -> str:
    """Returns the part of a document's name that the only `*` of the glob matches, or the name without extension."""
    name = posixpath.basename(below)
    pattern = _pattern_of(posixpath.basename(glob))
    match = pattern and pattern.fullmatch(name)
    return match[1] if match else posixpath.splitext(name)[0]


@functools.lru_cache
def _pattern_of(glob: str) -> re.Pattern[str] | None:
    before, star, after = glob.rpartition("*")
    if not star or set("*?[") & {*before, *after}:
        return None
    return re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.IGNORECASE)


class DocumentSource(AnnotatedSource):
    """Lists the samples of documents, with their objects, labels and columns.

    Args:
      mapping: where things are in a document.
      documents: the documents.
      inputs: inputs of the request.
      notes: notes on their splits.
      is_known: whether the mapping is known to fit; otherwise the first samples show it.
      needs: requested contents.
    """

    def __init__(
        self,
        mapping: DocumentMapping,
        documents: Sequence[_Document],
        inputs: Inputs,
        notes: Sequence[str],
        is_known: bool,
        needs: Needs,
    ) -> None:
        super().__init__(inputs, needs)
        self.mapping, self.documents, self._inputs, self._is_known = mapping, documents, inputs, is_known
        self._has_masks = bool(mapping.masks) and Content.MASK in needs.contents
        # Of a tree of images, documents and masks, only what the layout needs is read.
        self._reads_documents = not mapping.image_folder or bool(CLASSES & needs.contents)
        self.notes += notes
        found = {
            Content.IMAGE: True,
            Content.MASK: self._has_masks,
            Content.LABEL: mapping.label or mapping.objects,
            Content.OBJECTS: mapping.objects,
            **dict.fromkeys(OUTLINES, any(kind.polygon or kind.angle for kind in mapping.objects)),
            Content.KEYPOINTS: any(kind.points for kind in mapping.objects),
            Content.COLUMNS: mapping.values,
            Content.CAPTIONS: CAPTIONS in mapping.values,
        }
        names = {} if isinstance(mapping.class_names, Expression) else mapping.class_names
        numbers: dict[Scalar, int] = {name: int(number) for number, name in names.items() if number.isdecimal()}
        are_objects = all(kind.objects.text.startswith(("@", "[@]")) for kind in mapping.objects)
        self._describe(
            provides=contents_in(found),
            columns=tuple(mapping.values),
            labels=Labels(
                tuple(dict.fromkeys(names.values())),
                {"": numbers},
                may_be_indices=not (mapping.class_names or mapping.has_names),
            ),
            # Parts of a document about one image, each of which is an object, are one sample.
            groups_rows=mapping.samples is not None and bool(mapping.objects) and are_objects,
        )

    def annotated(self, tally: Tally) -> Iterator[Annotated]:
        """Yields the samples of all documents in turn.

        Raises:
          RequestError: a document of several samples is damaged, or the mapping does not fit.
        """
        mapping = self.mapping
        self._tally, self._reader = tally, ObjectReader(mapping, self._needs.contents)
        self._fields = DocumentFields(mapping)
        self._names_of = functools.lru_cache(_MOST_KEPT)(functools.partial(_read_names, mapping))
        self._total, self._alternatives, self._missing = 0, 0, list[str]()
        self._seen_names: Mapping[str, str] = {}
        # What finds nothing may be misspelt; documents need not have all that our mappings look for.
        optional = [mapping.split, mapping.class_names, *mapping.values.values()]
        is_own = mapping.name not in mapping_names()
        self._silent = [one for one in optional if is_own and isinstance(one, Expression)]
        images: dict[str, list[tuple[str, storage.FileEntry]]] = {}
        documents, self._known = self.documents, set[str]()
        if mapping.image_folder:
            documents = self._read_trees(images)
        else:
            roots = list(dict.fromkeys(root for one in documents for root in one.roots))
            images |= {
                root: list(self._list(root, prefix)) for root, prefix in zip(roots, key_prefixes(roots), strict=True)
            }
        self.folders = [*self._inputs.paths, *images]
        self._known |= {one.file.path for one in documents if one.file and self._reads_documents}
        self._finders = {
            roots: ImageFinder(itertools.chain.from_iterable(map(images.__getitem__, roots)))
            for roots in {one.roots for one in documents}
        }
        self._has_split_folders = self._finds_split_folders(documents)
        samples = self._samples(documents)
        if not self._is_known:
            first = list(itertools.islice(samples, MOST_FIRST))
            self._refuse_unfit(find_problem(mapping, first, self._missing))
            samples = itertools.chain(first, samples)
        yield from samples
        reader, problem = self._reader, ""
        if mapping.objects and not reader.found_any:
            problem = f"finds no list of objects in {self._total:,} samples"
        elif reader.other and reader.other == reader.total:
            problem = f"reads none of {reader.total:,} elements, which are of other kinds, such as {reader.first_other}"
        self._refuse_unfit(problem if not self._is_known else "")
        names = {posixpath.basename(one.below) for one in documents}
        shown = printable(names.pop()) if len(names) == 1 else mapping.documents or "documents"
        for field, count, role in self._fields.counted():
            tally.see_field(shown, field, count)
            tally.uses |= {} if role is None else {field: role}
        self._add_notes()

    def has_read(self, path: str) -> bool:
        """See `Source.has_read`."""
        return super().has_read(path) or path in self._known

    def finish(self, folders: FolderSummary, tally: Tally, found: Mapping[str, Interpretation]) -> Finish:
        """See `Source.finish`."""
        column, labels = "split" if tally.has_splits else None, self.description.labels
        if tally.classes:
            labels = dataclasses.replace(labels, numbers=tally.class_numbers())
            numbers = labels.by_file.get("", {})
            # Some documents may not number their classes, or not alike.
            if len({*numbers.values()}) == len(tally.classes):
                labels = dataclasses.replace(labels, names=sorted(tally.classes, key=lambda name: numbers[name]))
        return Finish(dataclasses.replace(self.description, labels=labels, uses=tally.uses, split_column=column))

    def _refuse_unfit(self, problem: str) -> None:
        if problem and (file := self.documents[0].file):
            refuse_unfit(self.mapping, file, problem)

    def _list(self, root: str, prefix: str) -> Iterator[tuple[str, storage.FileEntry]]:
        """Yields the images below a folder, with the paths that are their keys."""
        for entry in storage.list_files(root, literal=True):
            below = entry.path[len(root.rstrip("/")) + 1 :]
            if unpaired_kind(below) is None:
                yield prefix + below, entry

    def _read_trees(self, images: dict[str, list[tuple[str, storage.FileEntry]]]) -> list[_Document]:
        """Returns a document for each image that lists name, or for all with a document or mask.

        Args:
          images: receives folder -> its images.
        """
        mapping, found = self.mapping, list[_Document]()
        for path, prefix in zip(self._inputs.paths, key_prefixes(self._inputs.paths), strict=True):
            root, split = path.rstrip("/"), self._inputs.splits.get(path)
            folder = storage.join(root, mapping.image_folder)
            images[folder] = list(self._list(folder, prefix))
            masks = dict(self._list(storage.join(root, mapping.masks), "")) if self._has_masks else {}
            masks = {posixpath.splitext(below)[0]: entry for below, entry in masks.items()}
            start = len(prefix) + len(mapping.document_folder) + 1
            own = [one for one in self.documents if one.roots == (folder,)]
            documents = {posixpath.splitext(one.below[start:])[0]: one for one in own}
            described = documents if self._reads_documents else masks
            listed = self._read_lists(root)
            for name, named in (listed or dict.fromkeys(sorted(masks if self._has_masks else documents))).items():
                file = documents[name].file if name in documents else None
                found.append(_Document(prefix + name, name, file, split or named, (folder,), mask=masks.get(name)))
            without = len(described.keys() - {posixpath.splitext(key[len(prefix) :])[0] for key, _ in images[folder]})
            if without:
                what = mapping.masks if described is masks else mapping.document_folder
                note = f"{without:,} of {len(described):,} files in {what} of {printable(storage.basename(root))}"
                self._tally.add_unmatched(
                    f"{note} belong to no image in {mapping.image_folder}", without, len(described)
                )
        return found

    def _read_lists(self, root: str) -> dict[str, str | None]:
        """Returns image name -> split from the lists of a tree; {} without lists."""
        folder = self.mapping.mask_lists if self._has_masks else self.mapping.lists
        paths = {split: storage.join(root, f"{folder}/{split}.txt") for split in (*_SPLITS, _BOTH)}
        there = {split: path for split, path in paths.items() if storage.is_file(path)}
        self._known |= {*there.values()}
        if set(_SPLITS[:2]) & there.keys():
            there.pop(_BOTH, None)
        names: dict[str, str | None] = {}
        repeated = 0
        for split, path in there.items():
            for line in storage.read_bytes(path).decode("utf-8", "replace").splitlines():
                words = line.split()
                if words:
                    repeated += words[0] in names
                    names.setdefault(words[0], split_of_folder(split))
        if repeated:
            self._tally.notes.append(
                f"{repeated:,} images are in several lists of {folder}, and in the first of these splits"
            )
        return names

    def _finds_split_folders(self, documents: Sequence[_Document]) -> bool:
        """Whether the folders of images are their splits: whether one of them is, if the mapping says so."""
        if self.mapping.split is None or self.mapping.split.text != FOLDERS or not self._needs.splits.are_auto:
            return False
        for one in documents:
            with contextlib.suppress(SampleError):
                found = self._finders[one.roots].find(one.stem, one.below)
                if found and _split_of(found[1].path, one.roots):
                    return True
        return False

    def _samples(self, documents: Sequence[_Document]) -> Iterator[Annotated]:
        are_remote = any(storage.has_scheme(one.file.path) for one in documents if one.file)
        if are_remote and all(holds_one(one.below, self.mapping) for one in documents):
            for document, nodes in read_each(self._read_all, documents, are_remote=True):
                yield from self._of_document(document, nodes)
        else:
            for document in documents:
                yield from self._of_document(document, self._read(document))

    def _read(self, document: _Document) -> Iterator[Any]:
        """Yields the samples of a document; a `SampleError` if it is damaged and one sample; None if it is not needed.

        Raises:
          RequestError: the document is damaged, and has several samples.
        """
        file = document.file
        if not self._reads_documents:
            yield None
            return
        if file is None:
            missing = f"no annotation: {self.mapping.document_folder}/{document.stem}"
            yield SampleError(Stage.LIST, FailureReason.LABEL_MISSING, missing)
            return
        try:
            # What is read in one go is of one version.
            version = "" if holds_one(document.below, self.mapping) else file.version
            with unchanged(file.path, version):
                yield from read_samples(file, self.mapping, fields=self._fields)
        except SampleError as error:
            if not holds_one(document.below, self.mapping):
                shown = quote_input(file.path)
                raise RequestError(f"{shown} cannot be read: {error.detail}", code="invalid_file") from None
            yield error

    def _read_all(self, document: _Document) -> tuple[_Document, list[Any]]:
        path = document.file.path if document.file else ""
        return document, retry_faults(path, lambda: list(self._read(document)))

    def _of_document(self, document: _Document, nodes: Iterator[Any] | Sequence[Any]) -> Iterator[Annotated]:
        is_one, has_stem = holds_one(document.below, self.mapping), self.mapping.image.text == STEM
        for number, node in enumerate(nodes, 1):
            key = document.below if is_one else f"{document.below} {number:09d}"
            one = Annotated(key, split=document.split or document.named)
            if isinstance(node, SampleError) and document.file:
                name = printable(storage.basename(document.file.path))
                node = SampleError(node.stage, node.reason, f"{name}: {node.detail}")
            try:
                if isinstance(node, SampleError) and not has_stem:
                    raise node
                self._total += 1
                name = document.stem if has_stem else _find_text(self.mapping.image, node)
                if name and not has_stem:
                    one = one._replace(key=key_of_path(name))
                found = self._finders[document.roots].find(name, document.below)
                if found is None:
                    is_meant = not is_one or document.is_given or self._is_known or self._is_annotated(node, document)
                    if not is_meant:
                        # A README.txt, a file of class names, or of another tool.
                        self._tally.add("without annotations", printable(document.below))
                        continue
                    self._missing += [name] if name else []
                    detail = f"no image of the name {shorten(name)}"
                    if not name:
                        detail = f"`image: {self.mapping.image.text}` finds nothing"
                    raise SampleError(Stage.LIST, FailureReason.UNREADABLE, detail)
                one = one._replace(key=found[0], image=found[1].path, found=found[1])
                one = self._annotate(one, node, document)
            except SampleError as error:
                one = one._replace(failure=error)
            except RecursionError:
                deep = SampleError(Stage.LIST, FailureReason.INVALID_ROW, "nested too deeply")
                one = one._replace(failure=deep)
            yield one

    def _annotate(self, one: Annotated, node: Any, document: _Document) -> Annotated:
        """Adds what a document says about an image.

        Raises:
          SampleError: the document lacks it, or has something else in its place.
        """
        mapping, needs = self.mapping, self._needs
        if self._has_split_folders and one.split is None:
            one = one._replace(split=_split_of(one.image, document.roots))
        if document.mask is not None:
            one = one._replace(masks={MASK: document.mask})
        elif self._has_masks:
            missing = f"no mask: {mapping.masks}/{document.stem}"
            raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, missing)
        if node is None:
            return one
        if isinstance(node, SampleError):
            raise node
        if self._has_split_folders and one.split is None:
            beside = "beside the split folders, not in one of them"
            raise SampleError(Stage.LIST, FailureReason.UNKNOWN_SPLIT, beside)
        self._silent = [one for one in self._silent if one.find(node) in (None, "", [])]
        if mapping.alternatives:
            self._alternatives += len(as_list(mapping.alternatives.find(node))) > 1
        if mapping.split and mapping.split.text != FOLDERS and document.split is None and needs.splits.are_auto:
            split = _find_text(mapping.split, node)
            self._tally.has_splits |= bool(split)
            one = one._replace(split=split or one.split)
        names = self._find_names(node, document)
        if names:
            self._silent = [one for one in self._silent if one is not mapping.class_names]
        objects = self._reader.read(node, names) if mapping.objects else None
        label = None if objects is None else self._classes(objects)
        if mapping.label and Content.LABEL in needs.contents:
            labels = name_classes(mapping.label.find(node), names, "label")
            label = labels if len(labels) > 1 else next(iter(labels), None)
        if isinstance(mapping.class_names, Expression) and document.file:
            self._see_classes(document.file.path, names, objects.labels if objects else as_list(label))
        columns = {
            column: read_value({column: expression.find(node)}, column)
            for column, expression in mapping.values.items()
            if needs.takes_all or column in (needs.columns or ())
        }
        return one._replace(objects=objects, label=label, columns=columns)

    def _see_classes(self, path: str, names: Mapping[str, str], labels: Sequence[Any]) -> None:
        """Counts the classes that a document numbers, or those of a sample without numbers."""
        if names is not self._seen_names:
            for number, name in names.items():
                self._tally.see_class(name, (int(number) if number.isdecimal() else None, path))
        self._seen_names = names
        for label in labels if not names else ():
            self._tally.see_class(str(label), (None, path))

    def _is_annotated(self, node: Any, document: _Document) -> bool:
        label = self.mapping.label
        if isinstance(node, SampleError):
            return True
        try:
            if not self.mapping.objects:
                return label is not None and bool(as_list(label.find(node)))
            reader = ObjectReader(self.mapping, self._needs.contents)
            return bool(reader.read(node, self._find_names(node, document)).labels)
        except SampleError:
            return False

    def _find_names(self, node: Any, document: _Document) -> Mapping[str, str]:
        names = self.mapping.class_names
        if not isinstance(names, Expression) or document.file is None:
            return {} if isinstance(names, Expression) else names
        return _parse_names(names.find(node)) or self._names_of(document.file)

    def _add_notes(self) -> None:
        """Adds notes on what is left out."""
        mapping, reader, notes = self.mapping, self._reader, self._tally.notes
        shown = f"mapping {mapping.name}"
        if self._missing and not mapping.image_folder:
            note = f"{len(self._missing):,} of {self._total:,} annotated images are not there"
            self._tally.add_unmatched(note, len(self._missing), self._total)
        if mapping.split and mapping.split.text != FOLDERS and not self._needs.splits.are_auto:
            notes.append(f"the splits that the {shown} finds are not used: `splits` decides")
        if self._alternatives:
            note = f"{self._alternatives:,} of {self._total:,} samples have several annotations; the {shown} reads one"
            notes.append(note)
        for one in self._silent:
            notes.append(f"`{one.key}: {one.text}` of the {shown} finds nothing in {self._total:,} samples")
        if reader.several:
            notes.append(f"{reader.several:,} objects have several classes, and are an object for each")
        if reader.ignored:
            notes.append(f"{reader.ignored:,} objects are ignored, as the {shown} says")
        if reader.other:
            notes.append(
                f"{reader.other:,} of {reader.total:,} elements are of no kind that the {shown} reads, and are left "
                f"out, such as {reader.first_other}"
            )


def _split_of(path: str, roots: Sequence[str]) -> str | None:
    """Returns the split that a folder of an image is named after; None without one."""
    root = next((one for one in roots if path.startswith(f"{one}/")), "")
    return next(iter(split_words(posixpath.dirname(path[len(root) :])).values()), None)


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
