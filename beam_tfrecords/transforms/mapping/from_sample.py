"""Converts a sample that a user has made to files and plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.mapping.image_file import ImageFile
from beam_tfrecords.transforms.mapping.pixel_file import pixel_file
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.refs.sample_refs import MASK, Value


def parts_of(sample: Sample) -> Mapping[str, Any]:
    """Returns the images and the mask of a sample by name, each unchanged: an `ImageFile` or an array."""
    of = sample.parts
    return {**of["images"], **({} if of["mask"] is None else {MASK: of["mask"]})}


def files_of(sample: Sample) -> dict[str, bytes]:
    """Returns the files of a sample's images and mask by name.

    Raises:
      SampleError: a file cannot be read.
      BuildError: a service fault.
    """
    return {
        name: part.read() if isinstance(part, ImageFile) else pixel_file(getattr(part, "value", part))
        for name, part in parts_of(sample).items()
    }


def values_of(sample: Sample, wanted: Collection[str] | None) -> tuple[Value, Mapping[str, Value]]:
    """Returns label and columns of a sample.

    Args:
      wanted: names of the columns; None for all.

    Raises:
      SampleError: a value cannot be stored.
    """
    try:
        label = plain_value(sample.label)
        # A layout with a numeric or text label refers to the label as a column.
        values = {"label": label, **sample.columns}
        names = sample.columns if wanted is None else wanted
        return label, {name: plain_value(values.get(name)) for name in sorted(names)}
    except TypeError as error:
        raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, str(error)) from error


def plain_value(value: Any) -> Any:
    """Converts a label or a column value to plain values: NumPy's numbers to Python's, arrays to lists.

    Raises:
      TypeError: the value is neither text, number nor bytes, nor a list of these.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_value(one) for one in value]
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    raise TypeError(f"the function returned a value of type {type(value).__name__}; expected texts, numbers or bytes")
