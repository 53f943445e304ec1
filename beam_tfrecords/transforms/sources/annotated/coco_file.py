"""Reads a COCO annotation file: images with their objects, captions or classes."""

from __future__ import annotations

import array
import contextlib
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import OUTLINES, Content
from beam_tfrecords.storage.reading import unchanged
from beam_tfrecords.transforms.objects.objects import Objects, check_count
from beam_tfrecords.transforms.objects.polygons import (
    as_number,
    bounds_of,
    pack_keypoints,
    pack_pixels,
    pack_segmentation,
)
from beam_tfrecords.transforms.refs.sample_refs import Scalar, object_mask
from beam_tfrecords.transforms.sources.annotated.json_stream import JsonError, read_arrays
from beam_tfrecords.transforms.sources.annotated.shell import describe_bare, describe_namesakes
from beam_tfrecords.transforms.sources.description import STRUCTURE
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import is_utf8, printable
from beam_tfrecords.transforms.sources.needs import ONLY_CLASS, Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.tally import Tally

_ARRAYS = ("images", "annotations", "categories")
# What COCO has beside these.
_BESIDE = frozenset({"info", "licenses", "type"})
# Name of the mask with all objects of an image.
PANOPTIC = "panoptic"
_MOST_NAMES = 3
_MOST_ANNOTATIONS = 100

# Fields that only annotations of objects have, not captions.
_BOXED = frozenset({"bbox", "segmentation", "category_id"})


@dataclasses.dataclass
class CocoImage:
    """An image with the number of its id, its name, id and size, and the problem of an invalid entry."""

    number: int
    name: str
    image_id: str
    size: tuple[int, int] | None
    problem: str = ""


class CocoAnnotations:
    """The contents of a file: images, and objects as columns (60 bytes per object, plus polygons).

    Attributes:
      images: images in file order.
      categories: id -> name.
      named_by_url: whether image names come from their COCO URLs, as folder and file.
      panoptic: number of an image -> name of the PNG with the ids of its objects.
      others: name beside the three arrays -> 1.
    """

    def __init__(self, needs: Needs, *, needs_captions: bool, needs_boxes: bool) -> None:
        self._needs_boxes = needs_boxes
        self.images: list[CocoImage] = []
        self.categories: dict[str, str] = {}
        # Category id -> sort key; numbers come before strings.
        self._order_of_category: dict[str, tuple[bool, Any]] = {}
        # Id -> number in this object.
        self._image_ids: dict[Any, int] = {}
        self._category_ids: dict[Any, int] = {}
        self._merged = 0
        self.named_by_url = False
        self.panoptic: dict[int, str] = {}
        self._of_image, self._of_category = array.array("q"), array.array("q")
        self._boxes, self._areas, self._crowds = array.array("d"), array.array("d"), array.array("b")
        self._contents = needs.contents
        self._needs_corners = Content.POLYGONS in needs.contents
        self._polygons: list[bytes] | None = [] if OUTLINES & needs.contents else None
        self._keypoints: list[bytes] | None = [] if Content.KEYPOINTS in needs.contents else None
        self._captions: list[str] | None = [] if needs_captions else None
        self._with_box = self._unplaced = self._bare = 0
        self.others: Counter[str] = Counter()
        # (array, names of an element) -> number of such elements.
        self._forms: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self._outlines = self._points = self._texts = 0

    @property
    def names_files(self) -> bool:
        """Whether the images have names of files; true without images."""
        forms = [names for kind, names in self._forms if kind == "images"]
        return not forms or any("file_name" in names or "coco_url" in names for names in forms)

    @property
    def has_objects(self) -> bool:
        """Whether an annotation belongs to an image."""
        return len(self._of_image) > 0

    def add(self, kind: str, value: Any) -> None:
        """Adds an element of one of the three arrays."""
        if not isinstance(value, dict):
            raise JsonError(f"an element of {kind} is {str(value)[:50]!r}; expected an object")
        self._forms[kind, tuple(value)] += 1
        getattr(self, f"_add_{kind}")(value)

    def _add_images(self, value: dict[str, Any]) -> None:
        image_id, name = _as_id(value.get("id")), value.get("file_name")
        if not name:
            name = _name_in_url(value.get("coco_url"))
            self.named_by_url = self.named_by_url or name is not None
        number = self._number(self._image_ids, image_id)
        sides = [value.get(side) for side in ("width", "height")]
        width, height = (side if type(side) is int and side > 0 else 0 for side in sides)
        image = CocoImage(number, str(name), str(image_id), (width, height) if width and height else None)
        if not isinstance(name, str) or not name or image_id is None or not is_utf8(f"{name}{image_id}"):
            image.problem = f"entry {len(self.images):,} of 'images' has no 'file_name' or no 'id', or not as Unicode"
            image.name = f"entry {len(self.images):09d}"
        self.images.append(image)

    def _add_categories(self, value: dict[str, Any]) -> None:
        category, name = _as_id(value.get("id")), value.get("name")
        if category is None or not isinstance(name, str) or not name or not is_utf8(name):
            raise JsonError(f"a category has no 'id' or no 'name': {str(value)[:100]}")
        self._order_of_category.setdefault(category, (isinstance(value["id"], str), value["id"]))
        if self.categories.setdefault(category, name) != name:
            raise JsonError(f"category {category} is {self.categories[category]!r} and {name!r}")

    def _add_annotations(self, value: dict[str, Any]) -> None:
        if self._captions is not None:
            self._add_caption(value)
            return
        if "caption" in value and _BOXED.isdisjoint(value):
            self._texts += 1
            return
        if "segments_info" in value:
            self._add_segments(value)
            return
        self._add_object(value, pack_segmentation)

    def _add_segments(self, value: dict[str, Any]) -> None:
        """Adds the objects of a panoptic annotation: each has the pixels with its id in one PNG of the image."""
        number, name = self._number(self._image_ids, _as_id(value.get("image_id"))), value.get("file_name")
        segments = value["segments_info"]
        if not isinstance(name, str) or not isinstance(segments, list):
            raise JsonError(f"an annotation with 'segments_info' has no 'file_name', or no list: {str(value)[:100]}")
        self.panoptic[number] = name
        for segment in segments:
            if not isinstance(segment, dict) or type(segment.get("id")) is not int:
                raise JsonError(f"an element of 'segments_info' has no 'id': {str(segment)[:100]}")
            self._forms["annotations[].segments_info", tuple(segment)] += 1
            segment = {**segment, "image_id": value.get("image_id"), "segmentation": segment["id"]}
            self._add_object(segment, functools.partial(pack_pixels, object_mask(PANOPTIC)))

    def _add_object(self, value: dict[str, Any], pack: Callable[[Any], bytes]) -> None:
        """Adds an object; `pack` packs its `segmentation`."""
        image_id, category = _as_id(value.get("image_id")), _as_id(value.get("category_id"))
        if category is None and value.get("category_id") is not None:
            category = str(value["category_id"])
        box = value.get("bbox") or bounds_of(value.get("segmentation"))
        self._with_box += box is not None or bool(self.panoptic)
        if image_id is None:
            self._unplaced += 1
            return
        if not isinstance(box, list) or len(box) != 4:
            if isinstance(box, list) and len(box) == 5:
                raise JsonError(f"a 'bbox' has 5 numbers, like a turned box: {box}; expected x, y, width and height")
            box = [math.nan] * 4
        x, y, width, height = map(as_number, box)
        self._boxes.extend((x, y, x + width, y + height))
        self._areas.append(as_number(value.get("area")))
        self._crowds.append(value.get("iscrowd") in (1, True))
        outline = value.get("segmentation")
        self._outlines += bool(outline) and not self.panoptic
        self._points += bool(value.get("keypoints"))
        if self._polygons is not None:
            self._polygons.append(pack(outline))
            # Run lengths have no corners.
            self._bare += not self._polygons[-1] or (self._needs_corners and not isinstance(outline, list))
        if self._keypoints is not None:
            self._keypoints.append(pack_keypoints(value.get("keypoints")))
        self._of_image.append(self._number(self._image_ids, image_id))
        self._of_category.append(self._number(self._category_ids, category))

    def _add_caption(self, value: dict[str, Any]) -> None:
        image_id, caption = _as_id(value.get("image_id")), value.get("caption")
        if not isinstance(caption, str) or not is_utf8(caption):
            raise JsonError(
                f"an annotation has no 'caption' in Unicode: {ascii(value)[:100]}; if these are boxes, use "
                "`layout=detection`"
            )
        if image_id is None:
            self._unplaced += 1
            return
        cast(list[str], self._captions).append(caption)
        self._of_image.append(self._number(self._image_ids, image_id))

    def _number(self, ids: dict[Any, int], one: Any) -> int:
        return ids.setdefault(one, len(ids))

    @property
    def fields(self) -> Counter[str]:
        """Field of the file -> number of its values; outlines and keypoints count where they are not empty."""
        found = Counter(self.others)
        for (kind, names), count in self._forms.items():
            found.update({f"{kind}[].{name}": count for name in names})
        exact = {"segmentation": self._outlines, "keypoints": self._points}
        for name, count in exact.items():
            found[f"annotations[].{name}"] = count
        return +found

    @property
    def class_numbers(self) -> dict[str, int]:
        """Class -> its number, if all ids of categories are numbers and no two classes share a name."""
        names = self.categories
        is_plain = all(map(str.isdecimal, names)) and len({*names.values()}) == len(names)
        return {name: int(one) for one, name in names.items()} if is_plain else {}

    @property
    def class_names(self) -> list[str]:
        """Names of the categories in id order; categories with the same name form one class."""
        ordered = sorted(self.categories, key=self._order_of_category.__getitem__)
        return list(dict.fromkeys(self.categories[one] for one in ordered))

    def close(self) -> None:
        """Groups the objects by image, after all elements are added.

        Raises:
          JsonError: no annotation has a box, or the needed polygons or keypoints.
        """
        has_any = len(self._of_image) or self._texts
        if has_any and not self._with_box and self._needs_boxes:
            raise JsonError("none of its annotations has a 'bbox'; if they are captions, use `layout=captions`")
        if self._polygons and self._bare == len(self._polygons):
            what = "polygons in its 'segmentation'" if self._needs_corners else "a 'segmentation' to draw its mask from"
            raise JsonError(f"none of its {self._bare:,} objects has {what}; use `layout=detection`")
        if self._keypoints is not None and not any(self._keypoints):
            raise JsonError(f"none of its {len(self._keypoints):,} objects has 'keypoints'; use `layout=detection`")
        # All objects get the same number of keypoints; missing keypoints count as not labeled.
        self._keypoint_bytes = max(map(len, self._keypoints or [b""]))
        # Otherwise an image that is listed twice would yield its objects twice.
        seen: dict[int, CocoImage] = {}
        for image in self.images:
            first = seen.setdefault(image.number, image)
            if first is not image and not image.problem:
                image.problem = f"has the id of {first.name!r}, {image.image_id}"
        of_image = self._merge_images()[np.array(self._of_image, np.int64)]
        self._order = np.argsort(of_image, kind="stable")
        self._sorted = of_image[self._order]
        self._starts = np.searchsorted(self._sorted, np.arange(len(self._image_ids) + 1))
        self._labels = [
            ONLY_CLASS if one is None else self.categories.get(one, f"category {one}") for one in self._category_ids
        ]

    def _merge_images(self) -> np.ndarray:
        """Merges entries with different ids for the same file; returns id number -> number of the merged image."""
        numbers = np.arange(len(self._image_ids))
        first: dict[str, CocoImage] = {}
        kept = []
        for image in self.images:
            known = image if image.problem else first.setdefault(image.name, image)
            if known.number == image.number:
                kept.append(image)
            elif known.size != image.size:
                image.problem = f"{image.name!r} is listed twice, with {known.size} and {image.size} pixels"
                image.name = f"{image.name} with id {image.image_id}"
                kept.append(image)
            else:
                numbers[image.number] = known.number
        self._merged = len(self.images) - len(kept)
        self.images = kept
        return numbers

    def _places_of(self, image: CocoImage) -> list[int]:
        """Returns the indices of an image's annotations, in file order.

        Raises:
          SampleError: there are too many annotations.
        """
        begin, end = self._starts[image.number : image.number + 2].tolist()
        check_count(end - begin)
        places: list[int] = self._order[begin:end].tolist()
        return places

    def captions_of(self, image: CocoImage) -> list[Scalar]:
        """Returns the captions of an image, in file order."""
        captions = cast(list[str], self._captions)
        return [captions[place] for place in self._places_of(image)]

    def classes_of(self, image: CocoImage) -> list[str]:
        """Returns the distinct classes of an image whose annotations have no boxes."""
        return list(dict.fromkeys(self._labels[self._of_category[place]] for place in self._places_of(image)))

    def objects_of(self, image: CocoImage) -> Objects:
        """Returns the objects of an image, in file order."""
        boxes: list[float] = []
        labels, areas, crowds, polygons, keypoints = [], [], [], [], []
        for place in self._places_of(image):
            boxes += self._boxes[4 * place : 4 * place + 4]
            labels.append(self._labels[self._of_category[place]])
            areas.append(self._areas[place])
            crowds.append(self._crowds[place])
            if self._polygons is not None:
                polygons.append(self._polygons[place])
            if self._keypoints is not None:
                keypoints.append(self._keypoints[place].ljust(self._keypoint_bytes, b"\0"))
        values = {"area": tuple(areas), "is_crowd": tuple(crowds)}
        return Objects(
            tuple(boxes),
            tuple(labels),
            values,
            image.image_id,
            image.size,
            polygons=tuple(polygons),
            keypoints=tuple(keypoints),
        )

    def count(self, path: str, tally: Tally) -> None:
        """Counts classes, fields, and annotations of images that the file does not list, and adds notes."""
        shown = printable(storage.basename(path))
        numbers = self.class_numbers
        for name in self.class_names:
            tally.see_class(name, (numbers.get(name), path))
        if self.named_by_url:
            tally.uses["images[].coco_url"] = STRUCTURE
        for field, count in self.fields.items():
            tally.see_field(shown, field, count)
        listed = self._order[np.isin(self._sorted, [image.number for image in self.images])]
        beside = len(self._of_image) - len(listed) + self._unplaced
        total = len(self._of_image) + self._unplaced
        if beside:
            note = f"{shown}: {beside:,} of {total:,} annotations belong to no image in it, and are left out"
            tally.add_unmatched(note, beside, total)
            tally.notes.append(note)
        tally.notes += self._notes(shown)

    def _notes(self, shown: str) -> Iterator[str]:
        """Yields notes on valid but unusual contents."""
        if self._merged:
            yield f"{shown}: {self._merged:,} entries of 'images' name the file of another, and are one image with it"
        if self._bare:
            yield f"{shown}: {describe_bare(self._bare, len(self._of_image), self._contents)}"
        yield from (f"{shown}: {one}" for one in describe_namesakes(self.categories, "categories"))


def read_coco(file: Partition, needs: Needs, *, needs_captions: bool, needs_boxes: bool) -> CocoAnnotations:
    """Reads a COCO file in one pass.

    Raises:
      RequestError: the file is damaged, or has no boxes or captions.
      BuildError: the file was replaced in the meantime.
    """
    annotations = CocoAnnotations(needs, needs_captions=needs_captions, needs_boxes=needs_boxes)
    try:
        with unchanged(file.uri, file.version), storage.open_read(file.uri, version=file.version) as opened:
            for kind, value in read_arrays(opened, _ARRAYS, annotations.others):
                annotations.add(kind, value)
        annotations.close()
        other = [name for name in annotations.others if name not in _BESIDE]
        if not annotations.images and other:
            raise JsonError(f"expected 'images', found {', '.join(map(printable, other[:_MOST_NAMES]))}")
    except JsonError as error:
        raise RequestError(
            f"{quote_input(file.uri)} cannot be read as COCO annotations: {error}", code="invalid_file"
        ) from error
    return annotations


def may_have_boxes(path: str, version: str) -> bool:
    """Whether the first annotations have boxes or polygons; also True without annotations or for a damaged file."""
    with storage.open_read(path, version=version) as opened, contextlib.suppress(JsonError):
        found = (value for _, value in read_arrays(opened, ["annotations"]) if isinstance(value, dict))
        first = list(itertools.islice(found, _MOST_ANNOTATIONS))
        # Annotations of captions and questions have no category.
        return not first or any(
            not {"bbox", "segmentation", "segments_info"}.isdisjoint(value) or "category_id" not in value
            for value in first
        )
    return True


def _name_in_url(url: Any) -> str | None:
    """Returns the name of an LVIS image: folder and file of its COCO URL; None for another URL."""
    parts = url.split("/") if isinstance(url, str) else []
    return "/".join(parts[-2:]) if len(parts) > 2 else None


def _as_id(value: Any) -> str | None:
    """Converts an id to a string, because some programs mix numbers and strings; returns None for an invalid id."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if type(value) in (int, str) else None
