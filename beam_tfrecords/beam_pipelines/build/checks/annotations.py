"""Refuses annotations that do not belong to the images: they match no image, or their boxes do not fit."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError, Suggestion
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing
    from beam_tfrecords.transforms.listing.object_totals import ObjectTotals

# Fewer boxes than this prove nothing about their format.
_FEW = 8
# With fewer objects, each may have a class of its own.
_MANY = 24
# Maximum number of images to open for their sizes, if nothing else records the sizes.
_MOST_MEASURED = 32


def check_annotations(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> None:
    """Checks that annotations belong to the listed images, for any source.

    Raises:
      RequestError: no image has an object, most annotations belong to no image, or most boxes do not fit their images.
    """
    if spec.trust_annotations:
        return
    fault = _find_lost(spec, source, listing, tally)
    if fault is None:
        totals = listing.objects
        measured = _measure(spec, listing) if totals.in_pixels and not totals.placed else totals
        fault = next(itertools.chain(_find_odd(totals), _find_odd(measured), _find_single(spec, source, listing)), None)
    if fault is None:
        return
    where = f"`input={', '.join(spec.input)}`"
    suggestions = [Suggestion("the annotations as they are", {"trust_annotations": True})]
    if source.name != "tfrecord":
        suggestions.append(Suggestion("the images without annotations", {"layout": "image"}))
    raise RequestError(f"{where}: {fault.found}", suggestions, code=fault.code)


class _Fault(NamedTuple):
    """A fault of annotations.

    Attributes:
      code: code of the refusal.
      found: what was found, for the message.
    """

    code: str
    found: str


def _find_lost(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> _Fault | None:
    """Describes annotations that belong to no image; returns None if most belong to one."""
    totals = listing.objects
    most = next((one for one in tally.unmatched if 2 * one.count > one.total), None)
    if most is not None:
        return _Fault(code="unmatched_annotations", found=most.note)
    if totals.samples and not totals.annotated:
        return _Fault(code="no_objects", found=f"none of the {totals.samples:,} images has an object")
    # In this case, the classes of the objects become labels.
    by_labels = Content.OBJECTS in source.description.provides and Content.LABEL in spec.required
    if by_labels and not totals.samples and not any(label is not None for label in listing.labels):
        return _Fault(code="no_objects", found=f"none of the {listing.total:,} images has an object")
    return None


def _find_single(spec: BuildSpec, source: Source, listing: Listing) -> Iterator[_Fault]:
    """Yields a fault if nearly every object has a class of its own, like ids or free text."""
    seen = source.description
    are_said = spec.class_names is not None or seen.class_names or seen.found_classes or seen.records
    if Content.OBJECTS not in spec.required or are_said:
        return
    counts = {str(label): count for label, count in listing.labels.items() if label not in (None, "")}
    total = sum(counts.values())
    if len(counts) >= _MANY and len(counts) * 2 > total:
        shown = ", ".join(printable(repr(name)) for name in sorted(counts)[:3])
        found = f"there are {len(counts):,} classes for {total:,} objects, such as {shown}, like ids or free text"
        yield _Fault(code="class_of_each_object", found=f"{found}; expected classes that several objects share")


def _measure(spec: BuildSpec, listing: Listing) -> ObjectTotals:
    """Returns the totals of a few images whose sizes only their files contain."""
    from beam_tfrecords.geometry.geometry import swaps_sides
    from beam_tfrecords.transforms.blocks.fetching import read_image
    from beam_tfrecords.transforms.images.decode import open_image
    from beam_tfrecords.transforms.images.orient import orientation_of
    from beam_tfrecords.transforms.listing.listing import read_refs
    from beam_tfrecords.transforms.listing.object_totals import ObjectTotals

    totals = ObjectTotals()
    annotated = (ref for ref in read_refs(listing) if ref.failure is None and ref.objects and ref.objects.labels)
    for ref in itertools.islice(annotated, _MOST_MEASURED):
        if ref.locator is None or ref.objects is None or storage.is_web(ref.locator.uri):
            continue
        data = read_image(ref.locator, size=ref.size, max_file_size=spec.max_file_size)
        with contextlib.suppress(SampleError):
            if isinstance(data, bytes):
                file = open_image(data, spec.image)
                height, width = file.size
                # Boxes refer to the image as it is displayed.
                size = (height, width) if swaps_sides(orientation_of(file.image)) else (width, height)
                totals.add([dataclasses.replace(ref.objects, size=size).pack()])
    return totals


def _find_odd(totals: ObjectTotals) -> Iterator[_Fault]:
    """Yields properties of most boxes that correct boxes, in pixels or in relative coordinates, do not have."""
    remedy = "correct the boxes, if the images are right"
    if totals.in_pixels and totals.small == totals.in_pixels:
        yield _Fault(
            code="boxes_not_in_pixels",
            found=f"all {totals.in_pixels:,} boxes end within 1.5 pixels of the top left corner of their image, like "
            f"fractions of its size; expected pixels; {remedy}",
        )
    all_are_corners = totals.placed >= _FEW and totals.as_corners == totals.placed
    if 2 * totals.beyond > totals.placed or (all_are_corners and _FEW * totals.beyond > totals.placed):
        as_if = ""
        if totals.as_corners == totals.placed:
            as_if = ", and none would if the numbers that are read as width and height were the right and lower side"
        yield _Fault(
            code="boxes_beyond_image",
            found=f"{totals.beyond:,} of {totals.placed:,} boxes reach beyond their image{as_if}; {remedy}",
        )
