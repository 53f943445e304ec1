"""Finds the masks of the objects of an image: a file for each object, by folders and file names."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import posixpath
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_pixels
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, object_mask
from beam_tfrecords.transforms.sources.detect.mask_names import NUMBERED_MASK, mask_end
from beam_tfrecords.transforms.sources.detect.names import plain_path
from beam_tfrecords.transforms.sources.folders.mask_files import MaskFiles, find_mask_files, plain_file
from beam_tfrecords.transforms.sources.folders.roots import Root
from beam_tfrecords.transforms.sources.image_files import with_masks
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.names import is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs

# Number of the first files, in which images are looked for that say how masks belong to them.
_MOST_FILES = 2000


class ObjectMaskFiles(MaskFiles):
    """The masks of the objects of the images below a root; see `MaskFiles`.

    The masks of `images/a.jpg` are in a folder with its name (`masks/a/*.png`), or have its name and a number
    (`masks/a_0.png`). If it is alone in its folder, they may be in the folder beside (`a/images/a.png`,
    `a/masks/*.png`).
    """

    def find_each(self, relative: str) -> list[storage.FileEntry]:
        """Finds the masks of the objects of an image, sorted by their names; [] if there are none.

        Raises:
          RequestError: a mask may belong to another image, too.
        """
        name = self.name_of(relative)
        folder = posixpath.dirname(relative)
        found = self._names.get(plain_file(name), [])
        if not found and folder and self._is_alone(folder):
            found = self._names.get(f"{plain_path(self._prefix + folder)}/", [])
        for entry in found:
            if (other := self._owners.setdefault(entry.path, relative)) != relative:
                first, second = sorted(map(printable, (other, relative)))
                raise RequestError(
                    f"the mask {printable(entry.path)} may belong to an object of {first} or of {second}; expected a "
                    "folder of masks with the name of each image, or masks with its name and a number",
                    code="unclear_masks",
                )
        self.used.update(entry.path for entry in found)
        return sorted(found, key=lambda entry: entry.path)

    @functools.cached_property
    def masks(self) -> dict[str, tuple[storage.FileEntry, ...]]:
        """Path -> mask."""
        masks: dict[str, tuple[storage.FileEntry, ...]] = {}
        for entry in storage.list_files(self.folder, literal=True):
            relative = entry.path[len(self.folder) + 1 :]
            is_wanted = not (self._is_shared or self._suffix) or self._looks_like_a_mask(relative)
            if is_wanted and skipped_kind(relative) is None and is_utf8(relative):
                masks[entry.path] = (entry,)
        return masks

    @functools.cached_property
    def _names(self) -> dict[str, list[storage.FileEntry]]:
        """Name of an image, or of a folder with one image and a slash -> masks."""
        names: dict[str, list[storage.FileEntry]] = defaultdict(list)
        end = mask_end(self._suffix) if self._suffix else NUMBERED_MASK
        for path, (entry,) in self.masks.items():
            stem = posixpath.splitext(path[len(self.folder) + 1 :])[0]
            folder = posixpath.dirname(stem)
            own = [plain_file(end.sub("", stem)), *([] if self._suffix else [plain_file(stem)])]
            for name in {*own, plain_file(folder), f"{plain_path(folder)}/"} - {""}:
                names[name].append(entry)
        return names

    @functools.cached_property
    def _owners(self) -> dict[str, str]:
        return {}

    @functools.cached_property
    def _is_alone(self) -> Callable[[str], bool]:
        """Tells whether a folder below the root has one image; images of a folder are consecutive in a listing."""

        def is_alone(folder: str) -> bool:
            files = storage.list_files(storage.join(self._root.folder, folder), literal=True, limit=_MOST_FILES)
            names = (file.path for file in files if not self.is_mask(file.path))
            return sum(skipped_kind(storage.basename(name)) is None for name in names) == 1

        return functools.lru_cache(maxsize=1)(is_alone)

    def _looks_like_a_mask(self, relative: str) -> bool:
        if not self._suffix:
            return super()._looks_like_a_mask(relative)
        return mask_end(self._suffix).search(posixpath.splitext(relative)[0]) is not None


def add_masks(ref: SampleRef, masks: ObjectMaskFiles, relative: str, label: str) -> SampleRef:
    """Returns the sample with its objects, all of one class, and the files of their masks.

    Raises:
      SampleError: there are no masks, or too many.
      RequestError: as `ObjectMaskFiles.find_each`.
    """
    files = {object_mask(entry.path[len(masks.folder) + 1 :]): entry for entry in masks.find_each(relative)}
    if not files:
        detail = f"no mask of an object with the name {printable(masks.name_of(relative))} in {printable(masks.folder)}"
        raise SampleError(Stage.LIST, FailureReason.MASK_MISSING, detail)
    check_count(len(files))
    boxes, labels = (math.nan,) * 4 * len(files), (label,) * len(files)
    objects = Objects(boxes, labels, polygons=tuple(map(pack_pixels, files)))
    return dataclasses.replace(with_masks(ref, files), objects=objects)


def choose_masks(
    roots: Sequence[Root], settings: PathSettings, needs: Needs
) -> tuple[Mapping[str, Sequence[MaskFiles]], bool]:
    """Returns key prefix of a root -> masks of its images, and whether these are masks of objects.

    The layout decides if it has masks of objects. Otherwise, masks are those of objects if none of the first images has
    a mask of its own name, and one has several.

    Raises:
      RequestError: as `find_mask_files`.
    """
    whole: dict[str, tuple[Any, ...]] = find_mask_files(roots, settings) if Content.MASK in needs.contents else {}
    if settings.class_masks or not ({*OUTLINES, Content.MASK} & needs.contents):
        return whole, False
    each: dict[str, tuple[Any, ...]] = find_mask_files(roots, settings, ObjectMaskFiles)
    is_each = bool(OUTLINES & needs.contents) and bool(each)
    for root in roots if each and not is_each else ():
        (masks,), (own,) = each[root.key_prefix], whole[root.key_prefix]
        files = storage.list_files(root.listing, special=True, literal=root.is_folder)
        images = [file.path[root.start :] for file in itertools.islice(files, _MOST_FILES)]
        images = [
            one for one in images if skipped_kind(one) is None and not masks.is_mask(storage.join(root.folder, one))
        ]
        if any(map(own.has, images)):
            return whole, False
        is_each = is_each or any(len(masks.find_each(one)) > 1 for one in images)
    return (find_mask_files(roots, settings, ObjectMaskFiles), True) if is_each else (whole, False)
