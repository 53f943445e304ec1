"""Opens references as samples for users' pipelines."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.blocks.fetching import read_image, read_images
from beam_tfrecords.transforms.blocks.stored_record import StoredRecord
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.mapping.class_masks import merge_masks
from beam_tfrecords.transforms.mapping.image_file import ImageFile, MaskFile
from beam_tfrecords.transforms.mapping.later import Later
from beam_tfrecords.transforms.mapping.sample import Sample
from beam_tfrecords.transforms.mapping.source_objects import from_source
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, RecordRange, SampleRef, is_mask


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
        files: dict[str, Any]
        if self.records is not None and isinstance(ref.locator, RecordRange):
            read = read_images(ref, max_file_size=self.max_file_size)
            if isinstance(read, SampleError):
                raise read
            files = dict(StoredRecord.read(read[IMAGE], ref.locator, self.records).images)
        else:
            files = {name: functools.partial(_read, ref, name, self.max_file_size) for name in ref.images}
        images = {name: ImageFile(file, self.image) for name, file in files.items() if not is_mask(name)}
        first = next(iter(images.values()), None)
        masks = {name: file for name, file in files.items() if is_mask(name)}
        mask = None
        if masks:
            file = masks.get(MASK) or functools.partial(_merge, masks, self.image)
            mask = MaskFile(file, self.image, first)
        objects = None
        if ref.objects is not None and first is not None:
            objects = Later(functools.partial(_place, ref, first))
        return Sample(
            ref.key,
            images=images,
            mask=mask,
            label=ref.label,
            split=ref.split,
            columns=ref.columns,
            objects=objects,
        )


def _read(ref: SampleRef, name: str, max_file_size: int) -> bytes:
    size = ref.size if name == ref.first_image else 0
    data = read_image(ref.images[name], size=size, max_file_size=max_file_size)
    if isinstance(data, SampleError):
        raise ref.attribute_error(data, name)
    return data


def _merge(masks: Mapping[str, Callable[[], bytes]], spec: ImageSpec) -> bytes:
    return merge_masks({name: read() for name, read in masks.items()}, spec) or b""


def _place(ref: SampleRef, image: ImageFile) -> Any:
    assert ref.objects is not None
    return from_source(ref.objects, image.upright)
