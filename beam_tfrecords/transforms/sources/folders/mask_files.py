"""Pairs masks with images by file name: one for an image, one for each class, or one for each object."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import pack_pixels
from beam_tfrecords.transforms.refs.sample_refs import MASK, SampleRef, object_mask
from beam_tfrecords.transforms.sources.detect.mask_names import (
    NUMBERED_MASK,
    find_all_suffixes,
    mask_end,
    mask_stem,
    names_classes,
)
from beam_tfrecords.transforms.sources.detect.names import ends_in_mask, is_annotation, plain_path, plain_stem
from beam_tfrecords.transforms.sources.folders.roots import Root
from beam_tfrecords.transforms.sources.image_files import with_masks
from beam_tfrecords.transforms.sources.image_roots import own_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import quote_input, split_of_word
from beam_tfrecords.transforms.sources.names import is_image_name, is_utf8, printable, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.tally import Unmatched

_MOST_NAMES = 64
# Number of the first files, in which images are looked for that say how masks belong to them.
_MOST_FILES = 2000


class MaskFiles:
    """The masks of the images below a root. Keeps their names in memory.

    A mask has the same path as its image, except for the extension and the suffixes of the request. If no mask has this
    path, folders such as `images` and `masks` and these words before a number are removed from both paths, and
    `trainannot` counts as `train`.

    Args:
      root: root of the images.
      folder: folder of the masks.
      settings: settings with the name suffixes.
      with_prefix: whether the masks of each input are in a folder with the input's name.
      name: name of the masks in the references of the samples.
      part: folder, ending with a slash, or suffix of the masks of one class; "" for masks with all classes.

    Attributes:
      name: see above.
      folder: folder of the masks.
      used: masks with an image, as names in `masks`.
    """

    def __init__(
        self,
        root: Root,
        folder: str,
        settings: PathSettings,
        *,
        with_prefix: bool = False,
        name: str = MASK,
        part: str = "",
    ) -> None:
        self.folder, self.name = folder.rstrip("/"), name
        self._part = part if part.endswith("/") else ""
        self._root = root
        self._prefix = root.key_prefix if with_prefix else ""
        self._suffix = (settings.mask_suffix or "") if self._part else part or settings.mask_suffix or ""
        self._image_suffix = settings.image_suffix or ""
        # Images and masks share one tree: the suffix or the folder distinguishes them.
        self._is_shared = f"{root.folder.rstrip('/')}/".startswith(f"{self.folder}/")
        self.used: set[str] = set()
        self._examples: list[str] = []
        self._several: Sequence[storage.FileEntry] = ()

    def is_mask(self, path: str) -> bool:
        """Whether a listed file is a mask."""
        if not path.startswith(f"{self.folder}/"):
            return False
        return not self._is_shared or self._looks_like_a_mask(path[len(self.folder) + 1 :])

    def find(self, relative: str) -> storage.FileEntry:
        """Finds the mask of an image.

        Args:
          relative: path of the image below its root.

        Raises:
          SampleError: the image has no mask, or several masks.
        """
        name = self.name_of(relative)
        if len(self._examples) < _MOST_NAMES:
            self._examples.append(posixpath.splitext(self._prefix + relative)[0])
        if name not in self.masks:
            name = self._by_plain_path.get(plain_file(name)) or name
        found = self.masks.get(name, ())
        if len(found) != 1:
            self._several = self._several or found
            what = (
                f"several masks: {', '.join(sorted(printable(one.path) for one in found))}"
                if found
                else (
                    f"no mask of the name {printable(self._part + name + self._suffix)}"
                    f"{'' if is_image_name(self._suffix) else '.*'} in {printable(self.folder)}"
                )
            )
            raise SampleError(Stage.LIST, FailureReason.INVALID_MASK if found else FailureReason.MASK_MISSING, what)
        self.used.add(name)
        return found[0]

    def name_of(self, relative: str) -> str:
        """Returns the path of an image below its root without extension and suffix, to compare with its mask."""
        return posixpath.splitext(self._prefix + relative)[0].removesuffix(self._image_suffix)

    def has(self, relative: str) -> bool:
        """Whether an image has a mask, by its path below the root."""
        name = self.name_of(relative)
        return name in self.masks or plain_file(name) in self._by_plain_path

    def check(self) -> None:
        """Checks that some image has a mask.

        Raises:
          RequestError: there are images, and none has a mask.
        """
        if self._examples and not self.used:
            raise self._refusal()

    @functools.cached_property
    def masks(self) -> dict[str, tuple[storage.FileEntry, ...]]:
        """Path below the folder without suffix and extension -> masks."""
        masks: dict[str, tuple[storage.FileEntry, ...]] = {}
        for entry in self._listed[1]:
            relative = entry.path[len(self.folder) + 1 :]
            stem = mask_stem(relative, self._suffix)
            is_wanted = is_utf8(relative) and stem.endswith(self._suffix)
            # The folder of a class may be above or below others, such as those of splits.
            before, part, after = f"/{stem}".rpartition(f"/{self._part}" if self._part else "/")
            if is_wanted and part and (not self._is_shared or self._looks_like_a_mask(relative)):
                name = f"{before}/{after}"[1:].removesuffix(self._suffix)
                masks[name] = (*masks.get(name, ()), entry)
        return masks

    @functools.cached_property
    def _by_plain_path(self) -> dict[str, str | None]:
        """Path without mask folders -> name in `masks`; None if ambiguous."""
        plain: dict[str, str | None] = {}
        for name in self.masks:
            path = plain_file(name)
            plain[path] = None if path in plain else name
        return plain

    @functools.cached_property
    def _listed(self) -> tuple[str, list[storage.FileEntry]]:
        """The innermost folder that contains all images, and the images that may be masks.

        The name of that folder, such as `Semantic segmentation dataset`, says nothing about a single image.
        """
        above: str | None = None
        found: list[storage.FileEntry] = []
        needs_folder = self._is_shared and not (self._part or self._suffix)
        for entry in storage.list_files(self.folder, literal=True):
            relative = entry.path[len(self.folder) + 1 :]
            if skipped_kind(relative) is not None:
                continue
            folder = posixpath.dirname(relative)
            if above is None:
                above = folder
            elif above and not f"{folder}/".startswith(f"{above}/"):
                above = posixpath.commonpath([above, folder])
            if not needs_folder or _names_masks(folder):
                found.append(entry)
        return above or "", found

    def _looks_like_a_mask(self, relative: str) -> bool:
        if self._part:
            return f"/{self._part}" in f"/{relative}"
        if self._suffix:
            return mask_stem(relative, self._suffix).endswith(self._suffix)
        return _names_masks(posixpath.dirname(relative)[len(self._listed[0]) :])

    def _refusal(self) -> RequestError:
        where = quote_input(self._root.listing)
        if not self.masks:
            what = "no folder such as masks with images" if self._is_shared else "no image"
            what = f"no image whose name ends in {self._suffix}" if self._suffix else what
            what = f"no folder {self._part} with images" if self._part else what
            return RequestError(
                f"{where}: no image has a mask, because there is {what} in {self.folder}", code="missing_masks"
            )
        if self._several:
            shown = ", ".join(sorted(printable(one.path) for one in self._several))
            extensions = sorted({posixpath.splitext(one.path)[1] for one in self._several})
            return RequestError(
                f"{where}: no image has exactly one mask; one image has {shown}",
                [Reading(f"the images with the masks {one}", {"mask_suffix": one}) for one in extensions],
                code="missing_masks",
            )
        names = [posixpath.basename(name) + self._suffix for name in self.masks]
        is_whole = self.name == MASK
        kinds = find_all_suffixes(map(posixpath.basename, self._examples), names) if is_whole else []
        image, mask = min(self._examples), min(entry.path for several in self.masks.values() for entry in several)
        return RequestError(
            f"{where}: no image has a mask; expected one of the same name in {self.folder}, and found "
            f"{printable(image)} and {printable(mask)}; `mask_suffix` and `image_suffix` say what their names have at "
            "their ends",
            [*_offer_kinds(kinds)],
            code="missing_masks",
        )


def _names_masks(folder: str) -> bool:
    """Whether one of the names in the path of a folder means masks."""
    return any(is_annotation(name) or ends_in_mask(name) for name in folder.split("/"))


def _offer_kinds(kinds: Sequence[Mapping[str, str]]) -> Iterator[Reading]:
    """Offers each kind of masks; if there are several, first offers all of them, with each kind as a class."""
    ends = [kind.get("mask_suffix", "") for kind in kinds]
    shared = posixpath.commonprefix(ends)
    names = [end[shared.rfind("_") + 1 :].strip("_-. ") for end in ends]
    if len(kinds) > 1 and all(names) and not names_classes(ends):
        classes = ",".join(f"{name}={end}" for name, end in zip(names, ends, strict=True))
        settings = {**kinds[0], "mask_suffix": None, "mask_classes": classes}
        yield Reading("the images with these masks, a class of each ending", settings)
    for kind, end in zip(kinds, ends, strict=True):
        if kind:
            yield Reading(f"the images with the masks {end}" if len(kinds) > 1 else "the images with these masks", kind)


def find_mask_files(
    roots: Sequence[Root], settings: PathSettings, of: type[Any] = MaskFiles
) -> dict[str, tuple[Any, ...]]:
    """Returns key prefix of a root -> masks of its images, for each class if a mask has one class.

    Returns {} if the request does not set mask settings. The values are of the class `of`.

    Raises:
      RequestError: a mask folder does not exist, or cannot be assigned to an input.
    """
    classes = [(f"{MASK}/{number}/{name}", part) for number, (name, part) in enumerate(settings.class_masks.items(), 1)]

    def make(root: Root, folder: str, *, with_prefix: bool = False) -> tuple[Any, ...]:
        return tuple(
            of(root, folder, settings, with_prefix=with_prefix, name=name, part=part)
            for name, part in classes or [(MASK, "")]
        )

    if not settings.mask_root:
        return {root.key_prefix: make(root, root.folder) for root in roots if settings.mask_suffix or classes}
    every = list(dict.fromkeys(folder for _, folder in map(split_of_word, settings.mask_root)))
    for folder in every:
        if not storage.is_folder(folder):
            raise RequestError(f"`mask_root={printable(folder)}` {does_not_exist(folder)}", code="not_found")
    own = own_roots([(root.folder, root.split) for root in roots], settings.mask_root, "mask_root")
    found: dict[str, tuple[Any, ...]] = {}
    for number, root in enumerate(roots):
        # Assigns the folders of a split to the inputs of that split, or all folders to all inputs.
        folders = own[number] or tuple(every)
        alike = [one for one, others in enumerate(own) if others == own[number]]
        if len(folders) not in (1, len(alike)):
            raise RequestError(
                f"`mask_root`: {len(folders)} folders for {len(alike)} inputs; expected one for each input or split, "
                "or one for all",
                code="unmatched_roots",
            )
        folder = folders[alike.index(number) if len(folders) > 1 else 0]
        is_shared = len(alike) > 1 and len(settings.mask_root) < len(roots) and len(folders) == 1
        found[root.key_prefix] = make(root, folder, with_prefix=is_shared)
    return found


def find_masks(every: Sequence[MaskFiles], relative: str) -> dict[str, storage.FileEntry]:
    """Returns name in the reference -> mask of an image; without a mask, a class is not in the image.

    Raises:
      SampleError: the image has no mask, or several masks of a class.
    """
    found: dict[str, storage.FileEntry] = {}
    missing: SampleError | None = None
    for one in every:
        try:
            found[one.name] = one.find(relative)
        except SampleError as error:
            if error.reason is not FailureReason.MASK_MISSING:
                raise
            missing = error
    if missing and not found:
        raise missing
    return found


def find_unmatched(every: Iterable[MaskFiles]) -> Iterator[Unmatched]:
    """Yields the masks without an image; inputs may share a mask folder.

    Raises:
      RequestError: no image of an input has a mask.
    """
    folders: dict[tuple[str, str], tuple[dict[str, str], set[str]]] = {}
    for one in every:
        one.check()
        masks, used = folders.setdefault((one.folder, one.name), ({}, set()))
        # The order in which a disk lists its files decides nothing.
        masks.update((name, min(entry.path for entry in entries)) for name, entries in one.masks.items())
        used |= one.used
    for (folder, _), (masks, used) in folders.items():
        if unused := sorted(masks.keys() - used):
            first = printable(masks[unused[0]])
            note = f"{len(unused):,} of {len(masks):,} masks in {folder} belong to no image, such as {first}"
            yield Unmatched(note, len(unused), len(masks))


def plain_file(path: str) -> str:
    """Returns a path in which no folder, nor the first word of a name, only distinguishes images from masks."""
    folders, slash, name = path.rpartition("/")
    plain = plain_path(folders) if slash else ""
    return f"{plain}/{plain_stem(name)}" if plain else plain_stem(name)


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
        for entry in self._listed[1]:
            relative = entry.path[len(self.folder) + 1 :]
            is_wanted = not (self._is_shared or self._suffix) or self._looks_like_a_mask(relative)
            if is_wanted and is_utf8(relative):
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
