"""Opens references as samples for users' functions and pipelines, and converts samples back.

Values that a function does not change stay as in the source.
"""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.mapping.image_file import (
    FileSource,
    ImageFile,
    Later,
    MaskFile,
    has_pixels,
    hash_file,
    is_same,
    merge_masks,
    pixel_file,
    value_of,
)
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import from_source, to_source
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.objects.objects import Objects
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


# Prefix of the fingerprint of a sample whose image the function has changed; the new pixels determine the rest.
_TOUCHED = "map:"


@dataclasses.dataclass(frozen=True)
class MapSample:
    """Applies a user's function to samples.

    Attributes:
      image: how images are decoded.
      layout: layout of the examples; of the columns that the function returns, only its columns are used.
      records: as in `ConvertSample`.
    """

    function: UserFunction
    image: ImageSpec
    layout: Layout
    records: Layout | None = None

    def apply(self, ref: SampleRef, images: Mapping[str, bytes]) -> tuple[SampleRef, dict[str, bytes]] | None:
        """Applies the function; returns reference and images of the new sample, or None if the sample is left out.

        Args:
          ref: the sample.
          images: image name -> bytes.

        Raises:
          SampleError: reason `map_error` if the function raises an error or returns an invalid sample; or the reason
            why an image that it uses cannot be decoded.
        """
        files = files_in(ref, images, self.records)
        sample = open_files(ref, files, self.image)
        try:
            made = self.function.load()(sample)
        except (SampleError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and storage.is_service_fault(error):
                raise
            raise _reject(self.function.describe(error), "".join(traceback.format_exception(error))) from error
        if made is None:
            return None
        if made is sample and sample.columns == ref.columns and ref.columns.keys() == self.layout.columns:
            return ref, dict(images)
        try:
            changed, made_files = self._close(ref, files, sample, made)
        except (TypeError, ValueError) as error:
            raise _reject(str(error)) from error
        return changed, made_files if has_pixels(made_files) else dict(images)

    def keep_columns(self, ref: SampleRef) -> SampleRef:
        """Returns a rejected sample with the columns that samples from the function have, all None."""
        return dataclasses.replace(ref, columns=dict.fromkeys(sorted(self.layout.columns)))

    def _close(
        self, ref: SampleRef, images: Mapping[str, bytes], sample: Sample, made: Any
    ) -> tuple[SampleRef, dict[str, bytes]]:
        """Returns reference and images of the sample that the function has returned."""
        if not isinstance(made, Sample):
            raise TypeError(f"the function returned {type(made).__name__}; expected a Sample, or None to leave it out")
        if (made.key, made.split) != (sample.key, sample.split):
            raise ValueError("the function returned another key or split; use `sample.replace(…)`, which keeps both")
        files = _take_images(images, sample, made)
        changed = dataclasses.replace(
            ref,
            label=plain_value(made.label),
            columns={name: plain_value(made.columns.get(name)) for name in sorted(self.layout.columns)},
            objects=_take_objects(ref.objects, sample, made),
        )
        if has_pixels(files):
            content = "+".join(f"{name}={hash_file(data)}" for name, data in files.items())
            changed = dataclasses.replace(changed, fingerprint=_TOUCHED + content_hash(content.encode()))
        return changed, files


def _reject(detail: str, trace: str | None = None) -> SampleError:
    return SampleError(Stage.MAP, FailureReason.MAP_ERROR, detail, trace)


def _take_images(images: Mapping[str, bytes], sample: Sample, made: Sample) -> dict[str, bytes]:
    """Returns the files of the images and the mask; unchanged ones are the files of the source."""
    before, after = sample.parts["images"], made.parts["images"]
    if before.keys() != after.keys():
        raise ValueError(f"the function returned the images {[*after]}; expected {[*before]}")
    files: dict[str, bytes] = {
        name: images[name] if is_same(before[name], after[name]) else pixel_file(made.images[name], images[name])
        for name in after
    }
    files |= {name: data for name, data in images.items() if is_object_mask(name)}
    if made.parts["mask"] is not None:
        is_kept = is_same(sample.parts["mask"], made.parts["mask"]) and not _is_moved(sample, made)
        kept = {name: data for name, data in images.items() if is_mask(name)}
        files |= kept if is_kept else {MASK: pixel_file(value_of(made.parts["mask"]))}
    return files


def _take_objects(objects: Objects | None, sample: Sample, made: Sample) -> Objects | None:
    is_kept = is_same(sample.parts["objects"], made.parts["objects"]) and not _is_moved(sample, made)
    return objects if is_kept else to_source(made.objects, objects)


def _is_moved(sample: Sample, made: Sample) -> bool:
    """Whether the function has replaced the first image, so that mask and objects must fit the new one."""
    images = [next(iter(one.parts["images"].values()), None) for one in (sample, made)]
    if is_same(*images):
        return False
    new, old = map(value_of, images[::-1])
    if new.shape[:2] != old.shape[:2]:
        before, after = sample.parts, made.parts
        pairs = {"mask": (before["mask"], after["mask"]), "objects": (before["objects"], after["objects"])}
        for what, (given, kept) in pairs.items():
            if kept is not None and is_same(given, kept):
                raise ValueError(
                    f"the image has another size, and its {what} stayed; crop() and resize() move them, or replace "
                    f"the {what} too"
                )
    return True
