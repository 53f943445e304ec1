"""Opens references as samples for users' pipelines, and converts samples back to files and plain values."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.mapping.image_file import FileSource, ImageFile, Later, MaskFile, merge_masks, pixel_file
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import from_source
from beam_tfrecords.transforms.refs.fetching import read_image, read_images
from beam_tfrecords.transforms.refs.sample_refs import (
    IMAGE,
    MASK,
    RecordRange,
    SampleRef,
    Value,
    is_mask,
    is_object_mask,
)
from beam_tfrecords.transforms.refs.stored_record import files_in


@dataclasses.dataclass(frozen=True)
class OpenSample:
    """Opens samples. An image is read at the first access; until then, a sample contains only its location.

    Attributes:
      image: how images are decoded.
      max_file_size: as the setting.
      records: as in `ConvertSample`.
    """

    image: ImageSpec
    max_file_size: int
    records: Layout | None = None

    def open(self, ref: SampleRef) -> Sample:
        """Returns the sample of a reference.

        Raises:
          SampleError: the source rejects the sample.
          BuildError: a service fault.
        """
        if ref.failure is not None:
            reason, detail = ref.failure
            raise SampleError(Stage.LIST, FailureReason(reason), detail)
        files: Mapping[str, FileSource]
        if self.records is not None and isinstance(ref.locator, RecordRange):
            read = read_images(ref, max_file_size=self.max_file_size)
            if isinstance(read, SampleError):
                raise read
            files = files_in(ref, read, self.records)
        else:
            files = {name: ListedFile(ref, name, self.max_file_size) for name in ref.images}
        return open_files(ref, files, self.image)


def open_files(ref: SampleRef, files: Mapping[str, FileSource], spec: ImageSpec) -> Sample:
    """Returns the sample of a reference, whose images are decoded at the first access.

    Args:
      files: image name, as in the reference -> file.
      spec: how images are decoded.
    """
    names = [name for name in files if not is_mask(name)]
    images = {name: ImageFile(files[name], spec, "" if names == [IMAGE] else name) for name in names}
    first = next(iter(images.values()), None)
    masks = {name: file for name, file in files.items() if is_mask(name)}
    of_objects = {name: masks.pop(name) for name in [*masks] if is_object_mask(name)}
    mask = objects = None
    if masks:
        mask = MaskFile(masks.get(MASK) or ListedMasks(ref, masks, spec), spec, first)
    if ref.objects is not None and first is not None:
        objects = ListedObjects(ref, first, of_objects, spec)
    return Sample(
        ref.key, images=images, mask=mask, label=ref.label, split=ref.split, columns=ref.columns, objects=objects
    )


@dataclasses.dataclass(frozen=True)
class ListedFile:
    """Reads a file of a listed sample."""

    ref: SampleRef
    name: str
    max_file_size: int

    def __call__(self) -> bytes:
        size = self.ref.size if self.name == self.ref.first_image else 0
        data = read_image(self.ref.images[self.name], size=size, max_file_size=self.max_file_size)
        if isinstance(data, SampleError):
            raise self.ref.attribute_error(data, self.name)
        return data


@dataclasses.dataclass(frozen=True)
class ListedMasks:
    """Reads the masks of the classes of a listed sample, and merges them."""

    ref: SampleRef
    masks: Mapping[str, FileSource]
    spec: ImageSpec

    def __call__(self) -> bytes:
        return merge_masks(_read(self.masks), self.spec) or b""


class ListedObjects(Later):
    """The objects of a listed sample, placed on its image.

    Args:
      ref: the listed sample.
      image: its image.
      masks: name -> mask of an object.
      spec: how the masks are decoded.
    """

    def __init__(self, ref: SampleRef, image: ImageFile, masks: Mapping[str, FileSource], spec: ImageSpec) -> None:
        super().__init__(functools.partial(_place, ref, image, masks, spec))
        self.ref = ref


def _place(ref: SampleRef, image: ImageFile, masks: Mapping[str, FileSource], spec: ImageSpec) -> Any:
    assert ref.objects is not None
    return from_source(ref.objects, image.upright, _read(masks), spec)


def _read(files: Mapping[str, FileSource]) -> dict[str, bytes]:
    return {name: ImageFile(file).read() for name, file in files.items()}


def find_listed(sample: Sample) -> SampleRef | None:
    """Returns the listed sample whose images, masks and objects a sample has unchanged; None if it has others."""
    of = sample.parts
    others = [part for part in (of["mask"], of["objects"]) if part is not None]
    found = [getattr(getattr(part, "file", part), "ref", None) for part in (*of["images"].values(), *others)]
    ref: SampleRef | None = found[0] if found else None
    if ref is None or any(one != ref for one in found):
        return None
    images = [name for name in ref.images if not is_mask(name)]
    has_mask = any(is_mask(name) and not is_object_mask(name) for name in ref.images)
    is_whole = images == list(of["images"]) and len(others) == has_mask + (ref.objects is not None)
    return ref if is_whole else None


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
