"""What the sources of annotated objects share."""

from __future__ import annotations

import math
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, Scalar, Value, one_image
from beam_tfrecords.transforms.sources.image_files import look
from beam_tfrecords.transforms.sources.inputs import Inputs, quote_input
from beam_tfrecords.transforms.sources.needs import Needs


def refuse_folders_as_splits(inputs: Inputs, source: str, needs: Needs) -> None:
    """Refuses `splits=train=FOLDER`, which annotations have no use for.

    Raises:
      RequestError: the request says so.
    """
    if needs.splits.folders is not None:
        raise RequestError(
            f"`splits` names folders, and {quote_input(inputs.paths[0])} is read as {source}, which says the splits "
            "itself; leave `splits` out, or give fractions"
        )


def reference(
    key: str, uri: str, objects: Objects, needs: Needs, *, split: str | None, found: storage.FileEntry | None = None
) -> SampleRef:
    """The reference to an annotated image.

    Args:
      uri: of the image.
      split: its split, or None.
      found: the file, if it is listed; else a local one is looked up.
    """
    try:
        size, fingerprint, version = (found.size, found.fingerprint, found.version) if found is not None else look(uri)
    except SampleError as error:
        failure = (error.reason.value, error.detail)
        return SampleRef(key, one_image(File(uri)), split=split, failure=failure)
    # For layouts that take an image's classes as its labels.
    label: Value = list[Scalar](sorted(set(map(str, objects.labels)))) if needs.label else None
    image = one_image(File(uri, version))
    return SampleRef(key, image, size, fingerprint, label, split, objects=objects if needs.objects else None)


def rejected(key: str, error: SampleError, *, split: str | None, uri: str | None = None) -> SampleRef:
    """The reference of a sample that the source rejects."""
    image = one_image(File(uri) if uri else None)
    return SampleRef(key, image, split=split, failure=(error.reason.value, error.detail))


def as_number(value: Any) -> float:
    """A number of an annotation; NaN for anything else."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
