"""The source for COCO annotations: a JSON object with `images`, `annotations` and `categories`, in any order.

Format: https://cocodataset.org/#format-data. Boxes are x, y, width and height in pixels; the image's corner is (0, 0).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.features.fields import CAPTIONS
from beam_tfrecords.transforms.refs.sample_refs import Scalar, object_mask
from beam_tfrecords.transforms.sources.annotated.coco_file import (
    PANOPTIC,
    CocoAnnotations,
    CocoImage,
    may_have_boxes,
    read_coco,
)
from beam_tfrecords.transforms.sources.annotated.shell import Annotated, AnnotatedSource, refuse_folders_as_splits
from beam_tfrecords.transforms.sources.description import BOX, CLASS, KEYPOINTS, OUTLINE, STRUCTURE, Uses
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation
from beam_tfrecords.transforms.sources.detect.missing_images import refuse_missing_names
from beam_tfrecords.transforms.sources.detect.names import split_in_name
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.image_files import find_image
from beam_tfrecords.transforms.sources.image_roots import FileRoots, pair_roots
from beam_tfrecords.transforms.sources.input_settings import PathSettings
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    describe_splits,
    has_wildcards,
    quote_input,
)
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, find_files
from beam_tfrecords.transforms.sources.path_rule import key_of_path
from beam_tfrecords.transforms.sources.source import Finish, MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.sources.unsupported_formats import refuse_json

# The start of a COCO file; COCO's own files start with `info` and `licenses`.
_START = re.compile(rb'\s*\{.*"(?:info|licenses|images|annotations|categories)"\s*:\s*[\[{]', re.DOTALL)
_START_BYTES = 64 << 10
# Number of image names for choosing the folders, and for searching similar paths.
_MOST_NAMES, _MOST_MISSING = 20, 5
_USES: Uses = {
    **{f"images[].{name}": STRUCTURE for name in ("id", "file_name", "width", "height")},
    **{f"categories[].{name}": STRUCTURE for name in ("id", "name")},
    **{f"annotations[].{name}": STRUCTURE for name in ("id", "image_id", "file_name")},
    "annotations[].category_id": CLASS,
    "annotations[].bbox": BOX,
    "annotations[].segmentation": OUTLINE,
    "annotations[].segments_info": OUTLINE,
    "annotations[].keypoints": KEYPOINTS,
    "annotations[].num_keypoints": KEYPOINTS,
    "annotations[].area": ("objects.area",),
    "annotations[].iscrowd": ("objects.is_crowd",),
    "annotations[].caption": (f"column.{CAPTIONS}",),
    **{f"annotations[].segments_info[].{name}": OUTLINE for name in ("id", "bbox", "area", "iscrowd")},
    "annotations[].segments_info[].category_id": CLASS,
}
# A field of annotations with objects or captions. Most files have one near the start; other files are searched.
_BOX = re.compile(rb'"(?:bbox|segmentation|caption)"\s*:')


def open_input(request: OpenRequest) -> MakeSource:
    """Opens annotation files.

    Raises:
      RequestError: a file is not in COCO's format, or does not fit the request.
    """
    inputs, paths, needs = request.inputs, request.spec, request.needs
    refuse_folders_as_splits(inputs, "coco", needs)
    splits = _expand(inputs)
    named = splits if inputs.splits else _splits_by_name(splits)
    # Roboflow's files share one name, so their splits become the key prefixes.
    said = {path: split for path, split in named.items() if split}
    files = find_files(Inputs(tuple(splits), said), by_name=needs.splits.are_auto)
    are_classes = bool(files)
    for file in files:
        start = storage.read_range(file.uri, 0, _START_BYTES, version=file.version).removeprefix(b"\xef\xbb\xbf")
        if not _START.match(start):
            raise refuse_json(file.uri, start) or RequestError(
                f"{quote_input(file.uri)} is not a file of COCO annotations: expected a JSON object with 'images', "
                "'annotations' and 'categories'; a table as JSON has an object per line, and the extension .jsonl",
                code="invalid_file",
            )
        are_classes = are_classes and not (_BOX.search(start) or may_have_boxes(file.uri, file.version))
    if not needs.splits.are_auto:
        files = [dataclasses.replace(file, split=None) for file in files]
    return functools.partial(CocoSource, files, are_classes, inputs, paths)


class CocoSource(AnnotatedSource):
    """Lists the images of annotation files, with their objects.

    Args:
      files: the files.
      are_classes: whether the annotations are classes of whole images, as in iNaturalist.
      inputs: inputs of the request.
      paths: settings of the image paths.
      needs: requested contents.
    """

    # Of each file, and run lengths have no corners.
    _counts_outlines = True

    def __init__(
        self, files: Sequence[Partition], are_classes: bool, inputs: Inputs, paths: PathSettings, needs: Needs
    ) -> None:
        super().__init__(inputs, needs)
        self._files, self._roots = files, paths
        # Without a layout, COCO's own file names decide.
        named = (storage.basename(file.uri).startswith(CAPTIONS) for file in files)
        self._has_captions = all(named) if needs.columns is None else CAPTIONS in needs.columns
        self.notes += describe_splits({file.uri: file.split for file in files}, inputs)
        self._are_classes = are_classes and not self._has_captions
        self._has_objects = not (self._has_captions or are_classes)
        provides = self.description.provides | (
            {Content.OBJECTS, *OUTLINES, Content.KEYPOINTS} if self._has_objects else set()
        )
        if self._has_captions:
            provides = frozenset({Content.IMAGE, Content.CAPTIONS})
        self._describe(uses=_USES, provides=provides)

    def annotated(self, tally: Tally) -> Iterator[Annotated]:
        """Yields the images in the order of the files.

        Raises:
          RequestError: a file is damaged, or has no boxes or captions.
          BuildError: a file was replaced in the meantime.
        """
        of_images = pair_roots(self._files, self._roots.image_root)
        of_masks = pair_roots(self._files, self._roots.mask_root, "mask_root")
        for file, roots, masks in zip(self._files, of_images, of_masks, strict=True):
            annotations = read_coco(file, self._needs, needs_captions=self._has_captions, needs_boxes=self._has_objects)
            if not annotations.names_files:
                raise RequestError(
                    f"{quote_input(file.uri)} is not a file of COCO annotations: no image in it has a 'file_name'",
                    code="unknown_format",
                )
            annotations.count(file.uri, tally)
            if len(self._files) > 1 and self._has_objects and not annotations.has_objects:
                shown, count = printable(storage.basename(file.uri)), len(annotations.images)
                tally.notes.append(f"{shown}: no annotations; its images ({count:,}) are stored without objects")
            chosen = self._choose_roots(annotations, file.uri, roots, tally)
            mask_roots = self._choose_mask_roots(annotations, file.uri, masks, chosen)
            for image in annotations.images:
                key = file.key_prefix + key_of_path(image.name)
                try:
                    yield self._annotate(key, file.split, image, annotations, chosen, mask_roots)
                except SampleError as error:
                    yield Annotated(key, split=file.split, failure=error)

    def finish(self, folders: FolderSummary, tally: Tally, found: Mapping[str, Interpretation]) -> Finish:
        """See `Source.finish`."""
        uses = {**_USES, **tally.uses}
        names = tuple(tally.classes)
        labels = dataclasses.replace(self.description.labels, names=names, numbers=tally.class_numbers())
        return Finish(dataclasses.replace(self.description, labels=labels, uses=uses))

    def _annotate(
        self,
        key: str,
        split: str | None,
        image: CocoImage,
        annotations: CocoAnnotations,
        roots: Sequence[str],
        mask_roots: Sequence[str],
    ) -> Annotated:
        """Returns an image with its annotations.

        Raises:
          SampleError: the image or its annotations cannot be read.
        """
        if image.problem:
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, image.problem)
        outside = self._roots.allow_outside_root
        uri = find_image(image.name, roots=roots, allow_outside_root=outside)
        if self._has_captions:
            return Annotated(key, uri, split=split, columns={CAPTIONS: annotations.captions_of(image)})
        if self._are_classes:
            classes = annotations.classes_of(image)
            label = list[Scalar](classes) if len(classes) > 1 else next(iter(classes), None)
            return Annotated(key, uri, split=split, label=label)
        objects = annotations.objects_of(image)
        one = Annotated(key, uri, None, split, objects, self._classes(objects))
        name = annotations.panoptic.get(image.number) if OUTLINES & self._needs.contents else None
        if name is None:
            return one
        try:
            mask = find_image(name, roots=mask_roots, allow_outside_root=outside)
        except SampleError as error:
            return one._replace(failure=error.about("mask"))
        return one._replace(masks={object_mask(PANOPTIC): mask})

    def _choose_roots(self, annotations: CocoAnnotations, path: str, roots: FileRoots, tally: Tally) -> Sequence[str]:
        """Returns the folders to search, based on the first images; raises an error if these exist at similar paths."""
        outside = self._roots.allow_outside_root

        def first() -> list[str]:
            names = (image.name for image in annotations.images if not image.problem)
            return list(itertools.islice(names, _MOST_NAMES))

        named = first()
        _drop_folders(annotations, lambda name: roots.have([name], allow_outside_root=outside))
        if changed := [pair for pair in zip(named, first(), strict=True) if pair[0].replace("\\", "/") != pair[1]]:
            shown, (name, taken) = printable(storage.basename(path)), map(printable, changed[0])
            tally.notes.append(f"{shown}: {name} is taken for {taken}")
        chosen = roots.choose(first(), allow_outside_root=outside)
        refuse_missing_names(path, first()[:_MOST_MISSING], chosen)
        return chosen

    def _choose_mask_roots(
        self, annotations: CocoAnnotations, path: str, roots: FileRoots, images: Sequence[str]
    ) -> Sequence[str]:
        """Returns the folders of panoptic images: from the request, or the folder with the name of the file.

        Raises:
          RequestError: the request names folders, and no annotation has a panoptic image.
        """
        if self._roots.mask_root and not annotations.panoptic:
            raise RequestError(
                f"`mask_root`: {quote_input(path)} has no panoptic annotations, which name masks; leave it out",
                code="setting_not_applicable",
            )
        beside = path.removesuffix(".json")
        chosen = (beside,) if not self._roots.mask_root and storage.is_folder(beside) else roots.every
        first = [*annotations.panoptic.values()][:_MOST_MISSING] if OUTLINES & self._needs.contents else []
        refuse_missing_names(path, first, chosen, images=images)
        return chosen


def _drop_folders(annotations: CocoAnnotations, is_there: Callable[[str], bool]) -> None:
    """Drops leading folders, such as those of another machine, from the names of images that are found without them."""
    images = [image for image in annotations.images if not image.problem]
    if all(is_there(image.name) for image in images[:_MOST_MISSING]):
        return
    names = [image.name.replace("\\", "/") for image in images]
    for dropped in range(1 + max(name.count("/") for name in names[:_MOST_NAMES])):
        changed = [name.split("/", dropped)[-1] for name in names]
        if len({*changed}) == len(images) and all(map(is_there, changed[:_MOST_MISSING])):
            for image, name in zip(images, changed, strict=True):
                image.name = name
            return


def _expand(inputs: Inputs) -> dict[str, str | None]:
    """Returns path of a file -> split in the request, or None."""
    found: dict[str, str | None] = {}
    for path in inputs.paths:
        files = sorted(file.path for file in storage.list_files(path)) if has_wildcards(path) else [path]
        if not files:
            raise RequestError(f"{quote_input(path)} matches no file", code="not_found")
        found.update(dict.fromkeys(files, inputs.splits.get(path)))
    return found


def _splits_by_name(paths: Iterable[str]) -> dict[str, str | None]:
    """Returns path -> split in its name; None for each unless all names have a split and these differ."""
    # Handles `instances_train2017.json`, and `train/_annotations.coco.json` of Roboflow.
    found = {
        path: split_in_name(storage.basename(path).partition(".")[0])
        or split_in_name(storage.basename(storage.dirname(path)))
        for path in paths
    }
    return found if None not in found.values() and len(set(found.values())) > 1 else dict.fromkeys(found)
