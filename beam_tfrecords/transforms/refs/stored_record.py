"""Reads records of a beam-tfrecords dataset as input, to reuse their images or convert them. All functions are pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from beam_tfrecords.features.fields import IMAGE_FIELDS
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.features.serialize import read_fields
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.convert_image import read_header
from beam_tfrecords.transforms.images.converted_image import describe_raw
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.raw_pixels import as_file
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, RecordRange, SampleRef


@dataclasses.dataclass(frozen=True)
class StoredRecord:
    """A record of a beam-tfrecords dataset.

    Attributes:
      place: its byte range, with the columns of its index row.
      layout: layout of its example.
      fields: field that comes from images, or `source_id` -> values.
    """

    place: RecordRange
    layout: Layout
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, example: bytes, place: RecordRange, layout: Layout) -> StoredRecord:
        """Reads the fields of a serialized example."""
        return cls(place, layout, read_fields(layout, example))

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the image that the index describes, in pixels."""
        return self.place.index_columns["height"], self.place.index_columns["width"]

    @property
    def images(self) -> dict[str, bytes]:
        """Image name, as in `SampleRef.images` -> bytes of the file."""
        found: dict[str, bytes] = {}
        for feature in self.layout.features:
            values = self.fields.get(feature.field, ())
            if feature.image is None:
                found |= {IMAGE: values[0]} if feature.is_image else {}
            elif feature.several:
                found |= {f"{feature.image}[{number}]": data for number, data in enumerate(values)}
            else:
                found[feature.image] = values[0]
        if dtype := self.place.raw_type:
            found = {
                name: as_file(data, shape=self._shape(data), axes="HWC", dtype=dtype) for name, data in found.items()
            }
        beside = {one.field: one.kind.beside for one in self.layout.features if one.kind.beside}
        return found | {name: self.fields[field][0] for field, name in beside.items() if field in self.fields}

    def image_fields(self, layout: Layout, spec: ImageSpec) -> dict[str, Any]:
        """Returns the fields of a layout that come from images, without decoding any.

        Reads fields that the example lacks from the header of the image.

        Args:
          spec: how images are stored.

        Raises:
          SampleError: the header of the image cannot be read.
        """
        wanted = {one.field for one in layout.features if one.kind.of_image}
        fields = dict(self.fields)
        data = next((fields[field] for field in IMAGE_FIELDS if field in fields), None)
        if data is not None:
            fields |= dict.fromkeys(IMAGE_FIELDS, data)
            if not wanted <= fields.keys():
                fields = {**self._describe(data[0], spec), **fields}
        return fields

    def _describe(self, data: bytes, spec: ImageSpec) -> Mapping[str, Any]:
        """Returns the fields that describe a stored image, such as its height and format."""
        if self.place.raw_type:
            dtype, geometry = np.dtype(self.place.raw_type), Geometry.unchanged(*self.size)
            return describe_raw(data, self._shape(data), dtype, geometry).fields
        return read_header(data, spec).fields

    def _shape(self, data: bytes) -> tuple[int, int, int]:
        height, width = self.size
        return height, width, len(data) // max(1, height * width * np.dtype(self.place.raw_type).itemsize)


def files_in(ref: SampleRef, images: Mapping[str, bytes], records: Layout | None) -> Mapping[str, bytes]:
    """Returns the files that the record of a sample contains, or its images if it is not a record of a dataset.

    Args:
      images: image name, as in the reference -> bytes.
      records: layout of the input's examples if samples are records of a beam-tfrecords dataset, or None.
    """
    if records is None or not isinstance(ref.locator, RecordRange) or not images:
        return images
    return StoredRecord.read(images[IMAGE], ref.locator, records).images
