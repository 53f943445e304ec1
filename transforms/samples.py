"""From a reference and the bytes of its image to an example: where the pure steps of one sample meet."""

from __future__ import annotations

import dataclasses
from typing import Any

from transforms.errors import FailureReason, SampleError, Stage
from transforms.examples.layouts import COLUMN, Layout
from transforms.examples.serialize import serialize_example
from transforms.hashing import content_hash
from transforms.images.convert_image import convert_image
from transforms.images.image_spec import ImageSpec
from transforms.labels import ClassNames
from transforms.refs import SampleRef


@dataclasses.dataclass(frozen=True)
class ConvertedSample:
    """One sample, ready to be written.

    Attributes:
      example: the serialized example.
      class_names: names of its classes; empty if it has no label.
      content_hash: hex BLAKE3 of the image file; "" for a row without an image.
      height: pixels of the stored image, or None.
      width: pixels of the stored image, or None.
      replaced_format: format of an image file that was to be kept and is stored as PNG, or None.
    """

    example: bytes
    class_names: tuple[str, ...] = ()
    content_hash: str = ""
    height: int | None = None
    width: int | None = None
    replaced_format: str | None = None


@dataclasses.dataclass(frozen=True)
class ConvertSample:
    """Converts one sample; pure.

    Attributes:
      image: how images are converted.
      layout: features of the example.
      class_names: the classes.
    """

    image: ImageSpec
    layout: Layout
    class_names: ClassNames

    def __call__(self, ref: SampleRef, data: bytes | None) -> ConvertedSample:
        """Makes the example of one sample.

        Args:
          ref: the sample.
          data: the bytes of its image; None for a row without an image.

        Raises:
          SampleError: the sample is rejected.
        """
        values: dict[str, Any] = {"key": ref.key, "filename": ref.key.rsplit("/", 1)[-1]}
        values.update((COLUMN + name, value) for name, value in ref.columns.items())
        # Labels first: they cost nothing, and decoding an image that is rejected anyway does.
        labels = self._resolve_labels(ref)
        values["labels.index"] = [index for index, _ in labels]
        values["labels.name"] = [name for _, name in labels]
        if labels:
            values["label.index"], values["label.name"] = values["labels.index"], values["labels.name"]
        image = convert_image(data, self.image) if data is not None and self.layout.needs_image else None
        if image is not None:
            values["image.encoded"] = values["image.pixels"] = image.data
            values["image.format"] = image.format
            values["image.height"] = image.height
            values["image.width"] = image.width
            values["image.channels"] = image.channels
            values["image.colorspace"] = image.colorspace
        return ConvertedSample(
            example=serialize_example(self.layout, values),
            class_names=tuple(name for _, name in labels),
            content_hash=content_hash(data) if data is not None else "",
            height=image.height if image else None,
            width=image.width if image else None,
            replaced_format=image.replaced_format if image else None,
        )

    def _resolve_labels(self, ref: SampleRef) -> list[tuple[int, str]]:
        if not self.layout.needs_label:
            return []
        found = ref.label if isinstance(ref.label, list) else [ref.label]
        labels = [self.class_names.resolve(label) for label in found]
        if len(labels) != 1 and any(field.startswith("label.") for field in self.layout.fields):
            raise SampleError(Stage.LABEL, FailureReason.WRONG_TYPE, f"{len(labels)} labels where one is expected")
        return labels
