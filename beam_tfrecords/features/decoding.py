"""Decodes the features of an example that store images and masks, with the decoder of a library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.layouts import Feature, decoded_names

Placement = TypeVar("Placement")


class Decoder(Protocol[Placement]):
    """Decodes stored values in the arrays of a library; a placement says where the stored image is in the new one."""

    def image(self, data: Any, example: dict[str, Any], row: Any = None) -> tuple[Any, Placement]:
        """Returns an image, and its placement.

        Args:
          data: the stored image.
          example: its example, with the fields that say its shape.
          row: an array that the image may be written to.
        """

    def images(self, data: Any, example: dict[str, Any]) -> Any:
        """Returns a list of images."""

    def mask(self, data: Any) -> Any:
        """Returns the mask of an image, [H, W, 1]."""

    def object_masks(self, data: Any, placed: Placement) -> Any:
        """Returns the masks of the objects in an image, [n, H, W]."""

    def placed(self, example: dict[str, Any], features: Sequence[Feature], placed: Placement) -> None:
        """Moves objects and points with their image."""


class PixelFeatures:
    """The features that store images and masks, and the decoder of their library.

    Args:
      features: features of the examples.
      decoder: decodes their values.
    """

    def __init__(self, features: Sequence[Feature], decoder: Decoder[Any]) -> None:
        self._features, self._decoder = features, decoder
        stored = {kind: [one for one in features if one.kind.stored is kind] for kind in Stored}
        self._lists = [one.name for one in stored[Stored.IMAGE] if one.several]
        # Objects belong to this image; a layout with objects has no other.
        self._images = [(one.name, one.is_image) for one in stored[Stored.IMAGE] if not one.several]
        self._masks = [one.name for one in stored[Stored.MASK]]
        self._object_masks = [one.name for one in stored[Stored.OBJECT_MASKS]]
        self._renamed = decoded_names(features)

    def decode(self, example: dict[str, Any], row: Any = None) -> None:
        """Replaces the bytes of images and masks with pixels, under `decoded_names`; moves objects with their image.

        Args:
          example: name of a feature -> value.
          row: as in `Decoder.image`.
        """
        decoder, placed = self._decoder, None
        for name in self._lists:
            example[name] = decoder.images(example[name], example)
        for name, has_objects in self._images:
            example[name], found = decoder.image(example[name], example, row if has_objects else None)
            placed = found if has_objects else placed
        for name in self._masks:
            example[name] = decoder.mask(example[name])
        if placed is not None:
            for name in self._object_masks:
                example[name] = decoder.object_masks(example[name], placed)
            decoder.placed(example, self._features, placed)
        for name, short in self._renamed.items():
            example[short] = example.pop(name)
