"""From a reference and its image's bytes to an example: where the pure pieces of one sample meet."""

from __future__ import annotations

import dataclasses
from typing import Any

from transforms.errors import FailureReason, SampleError, Stage
from transforms.examples.layouts import COLUMN, Layout
from transforms.examples.serialize import serialize_example
from transforms.hashing import content_hash
from transforms.images.convert import convert_image
from transforms.images.spec import ImageSpec
from transforms.labels import ClassNames
from transforms.values import ConvertedSample, SampleRef


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
          data: its image's bytes; None for a row without an image.

        Raises:
          SampleError: if the sample is refused.
        """
        values: dict[str, Any] = {"key": ref.key, "filename": ref.key.rsplit("/", 1)[-1]}
        values.update((COLUMN + name, value) for name, value in ref.columns.items())
        # Labels first: they cost nothing, and decoding an image that is refused anyway does.
        labels = self._resolve_labels(ref)
        values["labels.index"] = [index for index, _ in labels]
        values["labels.name"] = [name for _, name in labels]
        if labels:
            values["label.index"], values["label.name"] = values["labels.index"], values["labels.name"]
        height = width = None
        if data is not None and self.layout.needs_image:
            image = convert_image(data, self.image)
            height, width = image.height, image.width
            values["image.encoded"] = values["image.pixels"] = image.data
            values["image.format"] = image.format
            values["image.height"] = height
            values["image.width"] = width
            values["image.channels"] = image.channels
            values["image.colorspace"] = image.colorspace
        return ConvertedSample(
            example=serialize_example(self.layout, values),
            class_names=tuple(name for _, name in labels),
            content_hash=content_hash(data) if data is not None else "",
            height=height,
            width=width,
        )

    def _resolve_labels(self, ref: SampleRef) -> list[tuple[int, str]]:
        if not self.layout.needs_label:
            return []
        found = ref.label if isinstance(ref.label, list) else [ref.label]
        labels = [self.class_names.resolve(label) for label in found]
        if len(labels) != 1 and any(field.startswith("label.") for field in self.layout.fields):
            raise SampleError(Stage.LABEL, FailureReason.WRONG_TYPE, f"{len(labels)} labels where one is expected")
        return labels
