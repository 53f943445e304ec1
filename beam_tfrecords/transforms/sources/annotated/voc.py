"""The source for Pascal VOC: an XML file or a mask per image, and lists of the images of each split.

Also reads XML files in other folder layouts, as written by Roboflow, LabelImg and Kaggle.
"""

from __future__ import annotations

import dataclasses
import functools
import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import CLASSES, OUTLINES, Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import MASK, SampleRef
from beam_tfrecords.transforms.sources.annotated.shell import (
    describe_bare,
    reference,
    refuse_folders_as_splits,
    rejected,
)
from beam_tfrecords.transforms.sources.annotated.voc_xml import read_annotation
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.names import plain_path
from beam_tfrecords.transforms.sources.image_files import with_masks
from beam_tfrecords.transforms.sources.inputs import Inputs, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.meaning.ledger import BOX, CLASS, OUTLINE, STRUCTURE, Uses
from beam_tfrecords.transforms.sources.names import is_utf8, printable, skipped_kind, unpaired_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import split_of_folder

_XML = ".xml"
_ENTRIES = dict[str, list[storage.FileEntry]]
_IMAGES, _ANNOTATIONS, _LISTS = "JPEGImages", "Annotations", "ImageSets/Main"
_MASKS, _MASK_LISTS = "SegmentationClass", "ImageSets/Segmentation"
# The lists of all images; the other lists contain the images of one class each.
_SPLITS = ("train", "val", "test")
_BOTH = "trainval"
_THREADS = 16
_OUTLINES = "outlines of objects"
_USES: Uses = {
    "size": STRUCTURE,
    "filename": STRUCTURE,
    "object.name": CLASS,
    **dict.fromkeys(("object.bndbox", "object.robndbox", "object.polygon"), BOX),
    **{f"object.{name}": (f"objects.{name}",) for name in ("pose", "difficult", "truncated")},
    _OUTLINES: OUTLINE,
}


class AnnotatedFolders(Source):
    """Folders with images and Pascal VOC annotations.

    Args:
      roots: key prefix -> folder.
      inputs: the inputs of the request.
      needs: requested contents.
    """

    description = Description(provides=frozenset({Content.IMAGE, *CLASSES, *OUTLINES}), uses=_USES)

    def __init__(self, roots: Mapping[str, str], inputs: Inputs, needs: Needs) -> None:
        super().__init__()
        self._roots = roots
        self._inputs = inputs
        self._needs = needs

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields the images of all folders in turn.

        Raises:
          RequestError: polygons are needed, and no object has one.
        """
        self._forms: Counter[tuple[str, ...]] = Counter()
        self._outlines = 0
        total = bare = 0
        for prefix, root in self._roots.items():
            for ref in self._samples_of(root.rstrip("/"), prefix, self._inputs.splits.get(root), tally):
                found = ref.objects or Objects()
                total, bare = total + len(found.labels), bare + (found.polygons or [b""] * len(found.labels)).count(b"")
                yield ref
        for fields, count in self._forms.items():
            for field in fields:
                tally.see_field(f"*{_XML}", field, count)
        if self._outlines:
            tally.see_field(f"*{_XML}", _OUTLINES, self._outlines)
        if OUTLINES & self._needs.contents and total and bare == total:
            raise RequestError(
                f"{quote_input(next(iter(self._roots.values())))}: none of its {total:,} objects has a polygon or a "
                "turned box; use `layout=detection`",
                code="no_polygons",
            )
        if OUTLINES & self._needs.contents and bare:
            tally.notes.append(describe_bare(bare, total, self._needs.contents))

    def _keep_needed(self, objects: Objects | SampleError) -> Objects | SampleError:
        """Returns objects without the polygons that the layout does not store, and counts these."""
        if isinstance(objects, SampleError) or OUTLINES & self._needs.contents or not objects.polygons:
            return objects
        self._outlines += sum(map(bool, objects.polygons))
        return dataclasses.replace(objects, polygons=())

    def _samples_of(self, root: str, prefix: str, split_of_root: str | None, tally: Tally) -> Iterator[SampleRef]:
        """Yields the images of one folder.

        Args:
          root: path of the folder.
          prefix: key prefix.
          split_of_root: split of all images, if the input states it.
          tally: counts the files that are not samples.
        """
        raise NotImplementedError


class VocFilesSource(AnnotatedFolders):
    """Lists the images with an XML file of the same name, in name order."""

    def _samples_of(self, root: str, prefix: str, split_of_root: str | None, tally: Tally) -> Iterator[SampleRef]:
        images, annotations, count = self._list(root, prefix, tally)
        finder = _XmlImageFinder(images)
        pairs = [(name, entry, finder.find(name)) for name, entry in sorted(annotations.items())]
        paths = [found[0].path for _, _, found in pairs if len(found) == 1]
        has_splits = self._needs.splits.are_auto and any(_split_of(path[len(root) :]) for path in paths)

        def read(
            pair: tuple[str, storage.FileEntry, list[storage.FileEntry]],
        ) -> tuple[str, list[storage.FileEntry], Objects | SampleError]:
            name, entry, found = pair
            if len(found) == 1:
                return name, found, read_annotation(entry.path, self._forms)
            several = f"several images may be meant: {', '.join(sorted(printable(one.path) for one in found[:3]))}"
            reason = FailureReason.INVALID_ROW if found else FailureReason.UNREADABLE
            detail = several if found else "no image of this name"
            return name, found, SampleError(Stage.LIST, reason, f"{printable(name)}{_XML}: {detail}")

        read_all = map_in_threads(read, pairs, threads=_THREADS) if storage.has_scheme(root) else map(read, pairs)
        for name, found, objects in read_all:
            path = found[0].path if len(found) == 1 else None
            split = split_of_root or (_split_of(path[len(root) :]) if path and has_splits else None)
            if has_splits and split is None and not isinstance(objects, SampleError):
                detail = "beside the split folders, not in one of them"
                objects = SampleError(Stage.LIST, FailureReason.UNKNOWN_SPLIT, detail)
            key = prefix + (path[len(root) + 1 :] if path else name + _XML)
            objects = self._keep_needed(objects)
            if isinstance(objects, SampleError):
                yield rejected(key, objects, split=split, uri=path)
            elif path:
                yield reference(key, path, objects, self._needs.contents, split=split, found=found[0])
        shown = printable(storage.basename(root))
        without = sum(not found for _, _, found in pairs)
        if without:
            note = f"{without:,} of {len(pairs):,} XML files of {shown} belong to no image"
            tally.add_unmatched(note, without, len(pairs))
        if len(paths) < count:
            beside = count - len(set(paths))
            tally.notes.append(f"{beside:,} of {count:,} images of {shown} have no annotation, and are left out")

    def _list(self, root: str, prefix: str, tally: Tally) -> tuple[_ENTRIES, dict[str, storage.FileEntry], int]:
        """Returns path without extension -> images; path without extension -> XML file; and the number of images."""
        images: _ENTRIES = defaultdict(list)
        annotations = {}
        for entry in storage.list_files(root, literal=True):
            relative = entry.path[len(root) + 1 :]
            stem = posixpath.splitext(relative)[0]
            kind = unpaired_kind(relative)
            if kind == _XML and is_utf8(relative):
                annotations[stem] = entry
            elif kind:
                tally.add(kind, printable(prefix + relative))
            else:
                images[stem].append(entry)
        return images, annotations, sum(map(len, images.values()))


class _XmlImageFinder:
    """Finds the image of an XML file.

    Looks in the same folder, then in the folder whose path differs only in words such as images and annotations, then
    for the only image of that name.
    """

    def __init__(self, images: _ENTRIES) -> None:
        self._images = images
        self._by_plain_path: _ENTRIES = defaultdict(list)
        self._by_name: _ENTRIES = defaultdict(list)
        for stem, entries in images.items():
            self._by_plain_path[_plain(stem)] += entries
            self._by_name[posixpath.basename(stem)] += entries

    def find(self, stem: str) -> list[storage.FileEntry]:
        """Returns the candidate images from the most likely place; more than one if ambiguous."""
        places = ((self._images, stem), (self._by_plain_path, _plain(stem)), (self._by_name, posixpath.basename(stem)))
        return next((found for entries, key in places if (found := entries.get(key))), [])


def _plain(stem: str) -> str:
    folders, slash, name = stem.rpartition("/")
    return f"{plain_path(folders)}/{name}" if slash else f"/{name}"


def _split_of(path: str) -> str | None:
    return next(filter(None, map(split_of_folder, path.split("/")[:-1])), None)


def open_input(request: OpenRequest) -> MakeSource:
    """Opens Pascal VOC folders.

    Raises:
      RequestError: an input lacks a required folder.
    """
    inputs, needs = request.inputs, request.needs
    refuse_folders_as_splits(inputs, "voc", needs)
    roots = dict(zip(key_prefixes(inputs.paths), inputs.paths, strict=True))
    if Content.MASK not in needs.contents and not any(map(_is_voc, inputs.paths)) and all(map(_has_xml, inputs.paths)):
        return functools.partial(VocFilesSource, roots, inputs)
    needed = (_MASKS, _MASK_LISTS) if Content.MASK in needs.contents else (_ANNOTATIONS, _LISTS)
    for root in inputs.paths:
        for folder in (_IMAGES, needed[0]):
            if not storage.is_folder(storage.join(root, folder)):
                raise RequestError(
                    f"{quote_input(root)} has no folder {folder}; expected one such as VOCdevkit/VOC2012, with "
                    f"{_IMAGES}, {needed[0]} and, for splits, {needed[1]}, or XML files of the names of images",
                    code="not_found",
                )
    return functools.partial(VocSource, roots, inputs)


def _is_voc(root: str) -> bool:
    return all(storage.is_folder(storage.join(root, folder)) for folder in (_IMAGES, _ANNOTATIONS))


def _has_xml(root: str) -> bool:
    """Whether there are XML files and no split lists; split lists require the layout of VOC2012."""
    paths = [entry.path for entry in storage.list_files(root, literal=True)]
    return not any("/ImageSets/" in path for path in paths) and any(path.lower().endswith(_XML) for path in paths)


class VocSource(AnnotatedFolders):
    """Lists Pascal VOC images with their objects, their masks, or both.

    Lists the images named in the split lists; without lists, all images with annotations or masks.
    """

    def __init__(self, roots: Mapping[str, str], inputs: Inputs, needs: Needs) -> None:
        super().__init__(roots, inputs, needs)
        self._has_masks = Content.MASK in needs.contents
        self._describe(provides=self.description.provides | (needs.contents & {Content.MASK}))
        self._lists = _MASK_LISTS if self._has_masks else _LISTS

    def _samples_of(self, root: str, prefix: str, split_of_root: str | None, tally: Tally) -> Iterator[SampleRef]:
        images = self._list_images(storage.join(root, _IMAGES), prefix, tally)
        masks = self._list_images(storage.join(root, _MASKS), prefix, tally) if self._has_masks else None
        reads_objects = CLASSES & self._needs.contents
        folder = storage.join(root, _ANNOTATIONS)
        start = len(folder.rstrip("/")) + 1
        annotated = {
            path[start:].removesuffix(".xml")
            for path in (entry.path for entry in (storage.list_files(folder, literal=True) if reads_objects else ()))
            if path.endswith(".xml")
        }
        listed = self._read_lists(root, tally)
        names = listed if listed else dict.fromkeys(sorted(annotated if masks is None else masks))

        def read(name: str) -> tuple[str, Objects | SampleError]:
            if masks is not None and name not in masks:
                return name, _error(FailureReason.MASK_MISSING, f"no mask: {_MASKS}/{name}.png")
            if not reads_objects:
                return name, Objects()
            if name not in annotated:
                return name, _error(FailureReason.LABEL_MISSING, f"no annotation: {_ANNOTATIONS}/{name}.xml")
            return name, read_annotation(storage.join(folder, f"{name}.xml"), self._forms)

        found = map_in_threads(read, names, threads=_THREADS) if storage.has_scheme(root) else map(read, names)
        for name, objects in found:
            split, entry = split_of_root or names[name], images.get(name)
            key = f"{prefix}{storage.basename(entry.path) if entry else name}"
            if entry is None:
                objects = _error(FailureReason.UNREADABLE, f"no such image: {_IMAGES}/{name}")
            objects = self._keep_needed(objects)
            if isinstance(objects, SampleError):
                yield rejected(key, objects, split=split, uri=entry.path if entry else None)
            elif entry:
                ref = reference(key, entry.path, objects, self._needs.contents, split=split, found=entry)
                yield ref if masks is None else with_masks(ref, {MASK: masks[name]})
        described = annotated if reads_objects else (masks or {}).keys()
        without_image = len(described - images.keys())
        if without_image:
            note = f"{without_image:,} of {len(described):,} files in {_ANNOTATIONS if reads_objects else _MASKS} of "
            note += f"{printable(storage.basename(root))} belong to no image in {_IMAGES}"
            tally.add_unmatched(note, without_image, len(described))
        beside = len(images.keys() - names)
        if beside:
            without = "have no annotation" if masks is None else "have no mask"
            why = f"are in no list of {self._lists}" if listed else without
            of = f"{len(images):,} images of {printable(storage.basename(root))}"
            tally.notes.append(f"{beside:,} of {of} {why}, and are left out")

    def _list_images(self, folder: str, prefix: str, tally: Tally) -> dict[str, storage.FileEntry]:
        """Returns name without extension -> image."""
        start = len(folder.rstrip("/")) + 1
        images = {}
        for entry in storage.list_files(folder, literal=True):
            relative = entry.path[start:]
            kind = skipped_kind(relative) or (None if is_utf8(relative) else "name that is not UTF-8")
            if kind:
                tally.add(kind, printable(prefix + relative))
            else:
                images[posixpath.splitext(relative)[0]] = entry
        return images

    def _read_lists(self, root: str, tally: Tally) -> dict[str, str | None]:
        """Returns image name -> split from the lists; {} without lists."""
        paths = {split: storage.join(root, f"{self._lists}/{split}.txt") for split in (*_SPLITS, _BOTH)}
        there = {split: path for split, path in paths.items() if storage.is_file(path)}
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
            tally.notes.append(
                f"{repeated:,} images are in several lists of {self._lists}, and in the first of these splits"
            )
        return names


def _error(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, detail)
