"""From a sample that a user has made to what is converted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.mapping.image_file import ImageFile
from beam_tfrecords.transforms.mapping.pixel_file import pixel_file
from beam_tfrecords.transforms.mapping.plain_values import plain_value
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.source_objects import to_source
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import MASK, Value


def parts_of(sample: Sample) -> Mapping[str, Any]:
    """Its images by their names, and its mask, each as it is: an `ImageFile`, or an array."""
    of = sample.parts
    return {**of["images"], **({} if of["mask"] is None else {MASK: of["mask"]})}


def files_of(sample: Sample) -> dict[str, bytes]:
    """The files of its images and its mask.

    Raises:
      SampleError: one cannot be read.
      BuildError: a service fault.
    """
    return {
        name: part.read() if isinstance(part, ImageFile) else pixel_file(getattr(part, "value", part))
        for name, part in parts_of(sample).items()
    }


def objects_of(sample: Sample) -> Objects | None:
    """Its annotated objects.

    Raises:
      SampleError: they cannot be placed on the image.
    """
    return None if sample.parts["objects"] is None else to_source(sample.objects, None)


def values_of(sample: Sample, wanted: Collection[str] | None) -> tuple[Value, Mapping[str, Value]]:
    """Its label, and its columns.

    Args:
      wanted: columns; None for all.

    Raises:
      SampleError: a value cannot be stored.
    """
    try:
        label = plain_value(sample.label)
        # A layout of numbers or texts names the label as a column.
        values = {"label": label, **sample.columns}
        names = sample.columns if wanted is None else wanted
        return label, {name: plain_value(values.get(name)) for name in sorted(names)}
    except TypeError as error:
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, str(error)) from error
