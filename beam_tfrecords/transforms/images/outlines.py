"""Finds the outlines of objects that depend on their image: run lengths without a size, and masks in other files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.masks import place_mask, read_mask, read_numbers
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import RunLengths, run_lengths, unpack_later, unpack_runs

# Limit for the run lengths of all objects of an image, in bytes as they are packed.
_MOST_BYTES = 64 << 20


def find_outlines(objects: Objects, geometry: Geometry, images: Mapping[str, bytes], spec: ImageSpec) -> Objects:
    """Returns the objects with run lengths in place of outlines that only the image's size or other files complete.

    An object without a box gets the box around its pixels.

    Args:
      objects: objects of the source.
      geometry: geometry of the image.
      images: image name, as in the reference -> bytes.
      spec: how masks are decoded.

    Raises:
      SampleError: a mask cannot be decoded, or has another size than the image, or a run ends beyond the image.
    """
    later = {number: found for number, packed in enumerate(objects.polygons) if (found := unpack_later(packed))}
    if not later:
        return objects
    boxes, polygons = [*objects.boxes], [*objects.polygons]
    shared: dict[str, np.ndarray] = {}
    total = 0
    for number, found in later.items():
        runs = _find(found, str(objects.labels[number]), geometry, images, spec, shared)
        polygons[number] = runs.pack()
        total += len(polygons[number])
        if total > _MOST_BYTES:
            raise _invalid(f"the masks of its objects take more than {_MOST_BYTES >> 20} MiB as run lengths")
        if np.isnan(boxes[4 * number]) and (bounds := runs.bounds()) is not None:
            x, y, width, height = bounds
            boxes[4 * number : 4 * number + 4] = x, y, x + width, y + height
    return dataclasses.replace(objects, boxes=tuple(boxes), polygons=tuple(polygons))


def _find(
    found: Mapping[str, Any],
    label: str,
    geometry: Geometry,
    images: Mapping[str, bytes],
    spec: ImageSpec,
    shared: dict[str, np.ndarray],
) -> RunLengths:
    """Returns the run lengths of one object; `shared` keeps images that hold several objects."""
    if "runs" in found:
        try:
            return unpack_runs(found["runs"], geometry.upright_size)
        except ValueError as error:
            raise _invalid(f"the run lengths of {label!r}: {error}") from error
    name, value = found["image"], found["value"]
    if value is None:
        mask = _turn_upright(read_mask(images[name], spec), geometry)
        if (inside := mask[mask > 0]).size and inside.min() < inside.max():
            raise _invalid(
                f"the mask of {label!r} has several numbers besides 0, up to {inside.max()}; expected one object"
            )
        return run_lengths(mask)
    if name not in shared:
        shared[name] = _turn_upright(read_numbers(images[name], spec), geometry)
    if not (mask := shared[name] == value).any():
        raise _invalid(f"the panoptic image has no pixel with the id {value} of {label!r}")
    return run_lengths(mask)


def _turn_upright(mask: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Returns a mask as that of the upright image, in its own size."""
    height, width = geometry.upright_size
    orientation = max(geometry.orientation, geometry.kept_orientation)
    return place_mask(mask, Geometry(geometry.height, geometry.width, orientation, height, width, height, width))


def _invalid(detail: str) -> SampleError:
    return SampleError(Stage.LABEL, FailureReason.INVALID_MASK, detail)
