"""Checks a mapping on the first samples of an input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.sources.annotated.mapped_objects import as_list
from beam_tfrecords.transforms.sources.annotated.mapping import HEADING, STEM, DocumentMapping, Expression, Unit
from beam_tfrecords.transforms.sources.annotated.shell import Annotated
from beam_tfrecords.transforms.sources.annotated.trees import read_samples
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.path_rule import shorten

# Number of samples that show whether a mapping fits.
MOST_FIRST = 50
_MOST_SHOWN = 400
# Expressions of an object's numbers: x and y of each point may be one.
_MOST_NUMBERS = 8
# Larger coordinates are no shares of an image, even of boxes that reach beyond it.
_MOST_SHARE = 1.5


def refuse_unfit(mapping: DocumentMapping, file: storage.FileEntry, problem: str) -> None:
    """Raises `RequestError` if there is a problem, with what each expression finds in the first document."""
    if problem:
        found = "; ".join(describe_first(mapping, file))
        raise RequestError(
            f"{quote_input(file.path)}: the mapping {mapping.name} {problem}. In the first document, {found}",
            code="unfit_mapping",
        )


def find_problem(mapping: DocumentMapping, samples: Sequence[Annotated], missing: Sequence[str]) -> str:
    """Returns how a mapping does not fit any of the first samples; "" if it does.

    Args:
      mapping: the mapping.
      samples: the first samples.
      missing: names of their images that are not there.
    """
    failures = [one.failure.detail for one in samples if one.failure]
    if not samples:
        return "finds no sample"
    if len(missing) == len(samples):
        return (
            f"names the image {shorten(missing[0])}, and none of the first {len(samples):,} images is below the folder "
            "of the documents; `image_root` names the folder of the images"
        )
    if len(failures) == len(samples):
        which = "the first sample" if len(samples) == 1 else f"any of the first {len(samples):,} samples"
        return f"does not fit {which}: {failures[0].replace(chr(96), chr(39))}"
    # A share beyond the image is one box, or all.
    sides = sorted(abs(side) for one in samples for side in (one.objects.boxes if one.objects else ()))
    if not sides:
        return ""
    are_pixels = mapping.objects[0].unit is Unit.PIXELS
    if are_pixels and sides[-1] <= _MOST_SHARE:
        return "says pixels, and all boxes are within 0 to 1; write `unit: share`"
    if not are_pixels and sides[len(sides) // 2] > _MOST_SHARE:
        unit = mapping.objects[0].unit.value
        return f"says `unit: {unit}`, and its boxes reach beyond their images; write the unit of the documents"
    return ""


def describe_first(mapping: DocumentMapping, file: storage.FileEntry) -> Iterator[str]:
    """Yields what each expression finds in the first sample of a document."""
    try:
        node = next(iter(read_samples(file, mapping)), None)
    except SampleError as error:
        node = error
    if node is None or isinstance(node, SampleError):
        yield node.detail if node else f"`samples: {mapping.samples.text if mapping.samples else '@'}` finds nothing"
        return
    for one in (mapping.image, *mapping.size, mapping.split, mapping.label):
        if one is not None and one.text not in (STEM, HEADING):
            yield _describe(one, node)
    for kind in mapping.objects:
        yield _describe(kind.objects, node)
        try:
            objects = as_list(kind.objects.find(node))
        except SampleError:
            continue
        for element in objects[:1]:
            for one in (kind.label, *[*kind.box, *kind.polygon, *kind.points][:_MOST_NUMBERS]):
                yield _describe(one, element)


def _describe(expression: Expression, node: Any) -> str:
    try:
        value = expression.find(node)
        shown = "nothing" if value is None else shorten(str(value)[:_MOST_SHOWN])
    except SampleError as error:
        return error.detail
    except RecursionError:
        shown = "values that are nested too deeply"
    return f"`{expression.key}: {expression.text}` finds {shown}"
