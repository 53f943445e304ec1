"""Functions that all sources of annotated objects share."""

from __future__ import annotations

import math
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, Scalar, Value, one_image
from beam_tfrecords.transforms.sources.image_files import look
from beam_tfrecords.transforms.sources.inputs import Inputs, quote_input
from beam_tfrecords.transforms.sources.needs import Needs


def refuse_folders_as_splits(inputs: Inputs, source: str, needs: Needs) -> None:
    """Checks that the request has no `splits=train=FOLDER`, which annotations cannot use.

    Raises:
      RequestError: `splits` names folders.
    """
    if needs.splits.folders is not None:
        raise RequestError(
            f"`splits` names folders, and {quote_input(inputs.paths[0])} is read as {source}, which says the splits "
            "itself; leave `splits` out, or give fractions",
            code="input_has_splits",
        )


def reference(
    key: str,
    uri: str,
    objects: Objects,
    contents: frozenset[Content],
    *,
    split: str | None,
    found: storage.FileEntry | None = None,
) -> SampleRef:
    """Returns the reference to an annotated image.

    Args:
      key: key of the sample.
      uri: path or URI of the image.
      objects: objects of the image.
      contents: contents that the sample gets.
      split: split of the image, or None.
      found: the listed file; None to stat the file if it is local.
    """
    try:
        size, fingerprint, version = (found.size, found.fingerprint, found.version) if found is not None else look(uri)
    except SampleError as error:
        failure = (error.reason.value, error.detail)
        return SampleRef(key, one_image(File(uri)), split=split, failure=failure)
    # For layouts that use the classes in an image as its labels.
    label: Value = list[Scalar](sorted(set(map(str, objects.labels)))) if Content.LABEL in contents else None
    image = one_image(File(uri, version))
    kept = objects if Content.OBJECTS in contents else None
    return SampleRef(key, image, size, fingerprint, label, split, objects=kept)


def describe_bare(count: int, total: int, contents: frozenset[Content]) -> str:
    """Returns a note on objects without a polygon, where polygons or masks are needed."""
    get = "get the corners of their boxes" if Content.POLYGONS in contents else "their masks are empty"
    return f"{count:,} of {total:,} objects have no polygon, and {get}"


def rejected(key: str, error: SampleError, *, split: str | None, uri: str | None = None) -> SampleRef:
    """Returns the reference of a rejected sample."""
    image = one_image(File(uri) if uri else None)
    return SampleRef(key, image, split=split, failure=(error.reason.value, error.detail))


def as_number(value: Any) -> float:
    """Converts a value of an annotation to a number; NaN if it is not a number."""
    if type(value) is float:
        return value
    if type(value) is not int:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def pack_keypoints(value: Any, *, shift: float = 0.5) -> bytes:
    """Packs keypoints in the format of `Objects`; invalid numbers become NaN.

    Args:
      value: x, y and visibility of each point in turn, as COCO has them.
      shift: added to x and y. COCO gives pixel indices; the center of the first pixel is (0.5, 0.5).
    """
    import numpy as np

    if not isinstance(value, list) or not value:
        return b""
    numbers = [as_number(one) for one in value]
    points = np.array(numbers if len(numbers) % 3 == 0 else [np.nan] * 3, "<f4").reshape(-1, 3)
    points[:, :2] += shift
    return points.tobytes()
