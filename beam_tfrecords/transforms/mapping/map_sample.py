"""Applies a user's function to a sample. Values that the function does not change stay as in the source."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.mapping.image_file import has_pixels, hash_file, is_same, pixel_file, value_of
from beam_tfrecords.transforms.mapping.open_sample import open_files, plain_value
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.sample_objects import to_source
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.sample_refs import MASK, SampleRef, is_mask, is_object_mask
from beam_tfrecords.transforms.refs.stored_record import files_in

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
