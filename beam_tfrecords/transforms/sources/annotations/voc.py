"""The source for Pascal VOC: an XML file or a mask per image, and lists of the images of each split.

The module `voc_files` reads XML files in other folder layouts.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import MASK, SampleRef
from beam_tfrecords.transforms.sources.annotations.annotated import (
    reference,
    refuse_folders_as_splits,
    rejected,
)
from beam_tfrecords.transforms.sources.annotations.voc_files import XML, AnnotatedFolders, VocFilesSource
from beam_tfrecords.transforms.sources.annotations.voc_xml import read_annotation
from beam_tfrecords.transforms.sources.image_files import with_masks
from beam_tfrecords.transforms.sources.inputs import Inputs, key_prefixes, quote_input
from beam_tfrecords.transforms.sources.names import is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource, Unmatched
from beam_tfrecords.transforms.splits import split_of_folder

_IMAGES, _ANNOTATIONS, _LISTS = "JPEGImages", "Annotations", "ImageSets/Main"
_MASKS, _MASK_LISTS = "SegmentationClass", "ImageSets/Segmentation"
# The lists of all images; the other lists contain the images of one class each.
_SPLITS = ("train", "val", "test")
_BOTH = "trainval"
_THREADS = 16


def open_input(inputs: Inputs, needs: Needs) -> MakeSource:
    """Opens Pascal VOC folders.

    Raises:
      RequestError: an input lacks a required folder.
    """
    refuse_folders_as_splits(inputs, "voc", needs)
    roots = dict(zip(key_prefixes(inputs.paths), inputs.paths, strict=True))
    if not needs.mask and not any(map(_is_voc, inputs.paths)) and all(map(_has_xml, inputs.paths)):
        return functools.partial(VocFilesSource, roots, inputs)
    needed = (_MASKS, _MASK_LISTS) if needs.mask else (_ANNOTATIONS, _LISTS)
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
    return not any("/ImageSets/" in path for path in paths) and any(path.lower().endswith(XML) for path in paths)


class VocSource(AnnotatedFolders):
    """Lists Pascal VOC images with their objects, their masks, or both.

    Lists the images named in the split lists; without lists, all images with annotations or masks.
    """

    def __init__(self, roots: Mapping[str, str], inputs: Inputs, needs: Needs) -> None:
        super().__init__(roots, inputs, needs)
        self._has_masks = needs.mask
        self._describe(provides=self.description.provides | ({Content.MASK} if needs.mask else frozenset()))
        self._lists = _MASK_LISTS if needs.mask else _LISTS

    def _samples_of(self, root: str, prefix: str, split_of_root: str | None) -> Iterator[SampleRef]:
        images = self._list_images(storage.join(root, _IMAGES), prefix)
        masks = self._list_images(storage.join(root, _MASKS), prefix) if self._has_masks else None
        reads_objects = self._needs.objects or self._needs.label
        folder = storage.join(root, _ANNOTATIONS)
        start = len(folder.rstrip("/")) + 1
        annotated = {
            path[start:].removesuffix(".xml")
            for path in (entry.path for entry in (storage.list_files(folder, literal=True) if reads_objects else ()))
            if path.endswith(".xml")
        }
        listed = self._read_lists(root)
        names = listed if listed else dict.fromkeys(sorted(annotated if masks is None else masks))

        def read(name: str) -> tuple[str, Objects | SampleError]:
            if masks is not None and name not in masks:
                return name, _error(FailureReason.MASK_MISSING, f"no mask: {_MASKS}/{name}.png")
            if not reads_objects:
                return name, Objects()
            if name not in annotated:
                return name, _error(FailureReason.LABEL_MISSING, f"no annotation: {_ANNOTATIONS}/{name}.xml")
            return name, read_annotation(storage.join(folder, f"{name}.xml"))

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
                ref = reference(key, entry.path, objects, self._needs, split=split, found=entry)
                yield ref if masks is None else with_masks(ref, {MASK: masks[name]})
        described = annotated if reads_objects else (masks or {}).keys()
        without_image = len(described - images.keys())
        if without_image:
            note = f"{without_image:,} of {len(described):,} files in {_ANNOTATIONS if reads_objects else _MASKS} of "
            note += f"{printable(storage.basename(root))} belong to no image in {_IMAGES}"
            self.unmatched.append(Unmatched(note, without_image, len(described)))
        beside = len(images.keys() - names)
        if beside:
            without = "have no annotation" if masks is None else "have no mask"
            why = f"are in no list of {self._lists}" if listed else without
            of = f"{len(images):,} images of {printable(storage.basename(root))}"
            self.notes.append(f"{beside:,} of {of} {why}, and are left out")

    def _list_images(self, folder: str, prefix: str) -> dict[str, storage.FileEntry]:
        """Returns name without extension -> image."""
        start = len(folder.rstrip("/")) + 1
        images = {}
        for entry in storage.list_files(folder, literal=True):
            relative = entry.path[start:]
            kind = skipped_kind(relative) or (None if is_utf8(relative) else "name that is not UTF-8")
            if kind:
                self.skipped.add(kind, printable(prefix + relative))
            else:
                images[posixpath.splitext(relative)[0]] = entry
        return images

    def _read_lists(self, root: str) -> dict[str, str | None]:
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
            self.notes.append(
                f"{repeated:,} images are in several lists of {self._lists}, and in the first of these splits"
            )
        return names


def _error(reason: FailureReason, detail: str) -> SampleError:
    return SampleError(Stage.LIST, reason, detail)
