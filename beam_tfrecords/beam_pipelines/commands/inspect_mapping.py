"""Shows what a mapping finds in the documents of an input, and draws the objects of an image."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageOps

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.report.drawing import COLORS, Box, draw_boxes, flatten
from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, SampleRef
from beam_tfrecords.transforms.sources.annotated.documents import DocumentSource
from beam_tfrecords.transforms.sources.annotated.recognition import describe_first
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

# Samples among which one with objects is sought.
_MOST_SAMPLES = 100


def inspect_mapping(path: str, mapping: str, image_root: Sequence[str]) -> SampleRef:
    """Prints what each expression of a mapping finds in the first document, and the first sample with objects.

    Args:
      path: value of the setting `input`.
      mapping: value of the setting `mapping`.
      image_root: values of the setting `image_root`.

    Returns:
      The sample.

    Raises:
      RequestError: the mapping does not fit the input.
    """
    raw = {"input": path, "mapping": mapping, "image_root": list(image_root) or None}
    values = {name: SETTINGS[name].value_of(raw, {}) for name in raw}
    needs = Needs(contents=Needs.contents | {Content.OBJECT_MASKS, Content.KEYPOINTS})
    source = open_input(SourceSpec(**values), needs).read(needs)
    assert isinstance(source, DocumentSource)
    file = source.documents[0].file
    assert file is not None
    show(f"first document: {storage.shown(file.path)}, of {len(source.documents):,}")
    show(*(f"  {line}" for line in describe_first(source.mapping, file)))
    refs = [ref for ref in itertools.islice(source.samples(), _MOST_SAMPLES) if ref.failure is None]
    if not refs:
        raise RequestError(f"`mapping={mapping}`: none of the first samples is valid", code="unfit_mapping")
    ref = next((one for one in refs if one.objects and one.objects.labels), refs[0])
    show("", f"sample {ref.key}")
    for label, sides in _objects_of(ref):
        show(f"  {label}: {', '.join(f'{side:g}' for side in sides)}")
    return ref


def draw_sample(ref: SampleRef) -> Image.Image:
    """Returns the upright image of a sample with the boxes of its objects."""
    locator = ref.images[IMAGE]
    assert isinstance(locator, File)
    with storage.open_read(locator.uri) as file, Image.open(file) as opened:
        image = flatten(ImageOps.exif_transpose(opened))
    size = np.array(image.size * 2)
    scale = 1 if ref.objects and ref.objects.is_normalized else 1 / size
    names = list(dict.fromkeys(label for label, _ in _objects_of(ref)))
    boxes = [
        Box(tuple(np.array(sides) * scale), label, COLORS[names.index(label) % len(COLORS)])
        for label, sides in _objects_of(ref)
    ]
    return draw_boxes(image, boxes)


def _objects_of(ref: SampleRef) -> list[tuple[str, Sequence[float]]]:
    """Returns class and xmin, ymin, xmax and ymax of each object."""
    objects = ref.objects
    if objects is None:
        return []
    return [(str(label), objects.boxes[4 * n : 4 * n + 4]) for n, label in enumerate(objects.labels)]
