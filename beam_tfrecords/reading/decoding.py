"""Reads features and pixels from serialized examples, without TensorFlow. Codecs are imported on first use."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.errors import BuildError
from beam_tfrecords.features import example_pb2
from beam_tfrecords.features.fields import (
    BOX_SIDES,
    BOXES,
    IMAGE_FIELDS,
    MASK_FIELD,
    OBJECT_MASKS,
    POLYGON,
    SHAPE_FIELD,
    ClassValue,
)
from beam_tfrecords.features.layouts import Feature
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.reading.resizing import Resize, decoded_size, move_objects, resize_mask, resize_pixels

_DTYPES = {"int64": np.int64, "float": np.float32}
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MASKS = (MASK_FIELD, OBJECT_MASKS)
# Field -> length of its rows: sides of a box, and coordinates of a point.
_ROWS = {BOXES: 4, POLYGON: 2}
_COLORS = {1: "GRAY", 3: "RGB", 4: "RGBA"}


@dataclasses.dataclass(frozen=True)
class ReadExample:
    """Reads a serialized example as a dict: feature name -> value.

    A feature with one value is a NumPy scalar, `str` or `bytes`; one with several is an array, or a list of strings. An
    image is a [H, W, C] uint8 array, or uint16 if it is stored with 16 bits, and several images are a list of them. A
    stored array has its own type. A mask is [H, W, 1]. Boxes of objects in one feature are [n, 4], their masks
    [n, H, W] uint8 of zeros and ones, and the points of their polygons [points, 2].

    Attributes:
      features: features of the layout.
      images: how images are stored.
      pixels: whether to decode images and masks; otherwise they are the stored bytes.
      has_text: whether text is `str`; otherwise it is `bytes`. A column's value that is not UTF-8 or contains a zero
        byte does not count as text.
      resize: size of decoded images; masks, boxes and keypoints follow. None for the stored size.
      classes: the new index of each class; None keeps the stored ones.
      planes: names of the features whose images `read_batch` returns as [C, H, W].
    """

    features: tuple[Feature, ...]
    images: StoredImages
    pixels: bool
    has_text: bool = False
    resize: Resize | None = None
    classes: tuple[int, ...] | None = None
    planes: tuple[str, ...] = ()

    def read_batch(self, batch: Sequence[bytes]) -> list[dict[str, Any]]:
        """Reads examples that are used together: JPEGs of one size are decoded into the rows of one array.

        Page faults then take an eighth of the time, because separate arrays are returned to the system after every
        batch. A reference to one of these images keeps the memory of all.
        """
        size = self.resize.fixed_size if self.resize else self.images.size
        are_jpegs = self.pixels and self.images.encoding == "jpeg"
        channels = self.images.channels or 3
        if self.planes:
            row = np.empty((*size, channels), np.uint8) if are_jpegs and size and not self.resize else None
            return self._read_planes(batch, row, is_one_size=size is not None)
        if not (are_jpegs and size):
            return list(map(self, batch))
        rows = np.empty((len(batch), *size, channels), np.uint8)
        return list(map(self, batch, rows))

    def _read_planes(
        self, batch: Sequence[bytes], row: np.ndarray | None, *, is_one_size: bool
    ) -> list[dict[str, Any]]:
        """Reads examples with images as [C, H, W]; decodes all of them into the same memory, and copies from there."""
        examples, rows = [], np.empty((0, 0, 0, 0), np.uint8)
        for number, data in enumerate(batch):
            example = self(data, row)
            for name in self.planes[1:]:
                images = example[name]
                example[name] = list(map(_as_planes, images)) if isinstance(images, list) else _as_planes(images)
            image = example[self.planes[0]]
            if isinstance(image, list):
                example[self.planes[0]] = list(map(_as_planes, image))
            else:
                if is_one_size and not number:
                    rows = np.empty((len(batch), image.shape[2], *image.shape[:2]), image.dtype)
                fits = rows.shape[1:] == (image.shape[2], *image.shape[:2])
                example[self.planes[0]] = _as_planes(image, rows[number] if fits else None)
            examples.append(example)
        return examples

    def __call__(self, data: bytes, row: np.ndarray | None = None) -> dict[str, Any]:
        """Reads an example.

        Args:
          data: the serialized example.
          row: an array that a JPEG may be decoded into.

        Raises:
          BuildError: the example does not have the features of the layout.
        """
        example = self._parse(data)
        if self.pixels:
            self._decode_images(example, row)
        if self.classes is not None:
            for feature in self.features:
                if feature.class_value is not None:
                    example[feature.name] = _renumber(example[feature.name], feature.class_value, self.classes)
        if self.has_text:
            for feature in self.features:
                if feature.type == "bytes" and not (feature.holds_image or feature.field in _MASKS):
                    value = example[feature.name]
                    text = _column_text if feature.column else _text
                    example[feature.name] = list(map(text, value)) if feature.several else text(value)
        return example

    def _parse(self, data: bytes) -> dict[str, Any]:
        found = example_pb2.Example.FromString(data).features.feature
        example: dict[str, Any] = {}
        for feature in self.features:
            kind = "int64_list" if feature.type == "int64" else f"{feature.type}_list"
            values = getattr(found[feature.name], kind).value
            if feature.several:
                example[feature.name] = (
                    list(values) if feature.type == "bytes" else np.array(values, _DTYPES[feature.type])
                )
            elif len(values) != (feature.length or 1):
                raise BuildError(
                    f"feature {feature.name!r} has {len(values)} values of type {feature.type}; expected "
                    f"{feature.length or 1}"
                )
            elif feature.length:
                example[feature.name] = np.array(values, _DTYPES[feature.type])
            else:
                example[feature.name] = values[0] if feature.type == "bytes" else _DTYPES[feature.type](values[0])
            if feature.field in _ROWS:
                example[feature.name] = example[feature.name].reshape(-1, _ROWS[feature.field])
        return example

    def _decode_images(self, example: dict[str, Any], row: np.ndarray | None) -> None:
        """Replaces the bytes of images and masks with pixels."""
        placed: Geometry | None = None
        for feature in self.features:
            value = example[feature.name]
            if feature.holds_image and feature.several:
                example[feature.name] = [self._decode(one, example)[0] for one in value]
            elif feature.field in IMAGE_FIELDS:
                # Objects belong to this image; a layout with objects has no other image field.
                example[feature.name], placed = self._decode(value, example, row)
            elif feature.holds_image:
                example[feature.name], _ = self._decode(value, example)
            elif feature.field == MASK_FIELD:
                mask = decode_mask(value)
                example[feature.name] = resize_mask(mask, self.resize.place(*mask.shape[:2])) if self.resize else mask
        if placed is None:
            return
        for feature in self.features:
            if feature.field == OBJECT_MASKS:
                masks = [resize_mask(decode_mask(data), placed) for data in example[feature.name]]
                example[feature.name] = np.array(masks, np.uint8).reshape(-1, *placed.final)
        if self.resize:
            move_objects(example, self.features, placed)

    def _decode(
        self, data: bytes, example: dict[str, Any], row: np.ndarray | None = None
    ) -> tuple[np.ndarray, Geometry]:
        """Returns an image in the requested size, and the geometry of the stored image.

        Args:
          data: the stored image.
          example: its example.
          row: an array of the requested size to write to.
        """
        if not self.resize:
            pixels = self._decode_stored(data, example, row)
            return pixels, Geometry.unchanged(pixels.shape[0], pixels.shape[1])
        if self._is_jpeg(data):
            import simplejpeg

            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
            placed = self.resize.place(height, width)
            least_height, least_width = decoded_size(placed)
            pixels = simplejpeg.decode_jpeg(
                data, _COLORS[self.images.channels or 3], min_height=least_height, min_width=least_width, min_factor=2
            )
        else:
            pixels = self._decode_stored(data, example)
            placed = self.resize.place(*pixels.shape[:2])
        resized = resize_pixels(pixels, placed)
        if row is None:
            return resized, placed
        row[...] = resized
        return row, placed

    def _is_jpeg(self, data: bytes) -> bool:
        """Whether the fast decoder can decode the image."""
        return self.images.encoding != "raw" and data.startswith(b"\xff\xd8\xff") and self.images.channels != 4

    def _decode_stored(self, data: bytes, example: dict[str, Any], row: np.ndarray | None = None) -> np.ndarray:
        if self.images.encoding == "raw":
            return np.frombuffer(bytearray(data), self.images.dtype).reshape(self._raw_shape(example))
        channels = self.images.channels or 3
        if self.images.bit_depth == 16:
            return _decode_16_bits(data, channels)
        if self._is_jpeg(data):
            import simplejpeg

            decoded: np.ndarray = simplejpeg.decode_jpeg(data, colorspace=_COLORS[channels], buffer=row)
            return decoded
        from PIL import Image

        with Image.open(io.BytesIO(data)) as opened:
            image: Image.Image = opened
            if image.format == "PNG" and image.mode.startswith("I"):
                # A 16-bit file that was kept as it is: take the high bytes, as TensorFlow does. `convert` would
                # turn most values into white.
                image = Image.fromarray((np.array(image) >> 8).astype(np.uint8))
            pixels = np.array(image if image.mode == _MODES[channels] else image.convert(_MODES[channels]))
        return pixels.reshape(*pixels.shape[:2], channels)

    def _raw_shape(self, example: dict[str, Any]) -> tuple[int, ...]:
        if self.images.size and self.images.channels:
            return (*self.images.size, self.images.channels)
        names = {feature.field: feature.name for feature in self.features}
        if SHAPE_FIELD in names:
            return tuple(example[names[SHAPE_FIELD]])
        missing = [field for field in ("image.height", "image.width") if field not in names]
        if missing:
            raise BuildError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
        return int(example[names["image.height"]]), int(example[names["image.width"]]), self.images.channels or -1


def stack_boxes(values: Mapping[str, Any]) -> np.ndarray | None:
    """Returns the boxes of an example, [n, 4] xmin, ymin, xmax and ymax as fractions of the image; None without boxes.

    Args:
      values: field -> value from `ReadExample`.
    """
    if BOXES in values:
        boxes: np.ndarray = values[BOXES][:, [1, 0, 3, 2]]
        return boxes
    return np.stack([values[side] for side in BOX_SIDES], axis=1) if values.keys() >= {*BOX_SIDES} else None


def _renumber(values: Any, kind: ClassValue, classes: Sequence[int]) -> Any:
    """Replaces class indices with new ones; names, and values that are not classes, stay."""
    if kind is ClassValue.NAME or not isinstance(values, np.ndarray | np.generic):
        return values
    first = 1 if kind is ClassValue.ID else 0
    numbers = np.asarray(values)
    is_class = (numbers >= first) & (numbers < first + len(classes))
    own = np.where(is_class, numbers - first, 0).astype(np.int64)
    return np.where(is_class, np.array(classes)[own] + first, numbers).astype(numbers.dtype)[()]


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _column_text(value: bytes) -> str | bytes:
    try:
        return value if b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return value


def _as_planes(image: np.ndarray, planes: np.ndarray | None = None) -> np.ndarray:
    """Returns a [H, W, C] image as [C, H, W], in an array of this shape if there is one."""
    import cv2

    if planes is None:
        planes = np.empty((image.shape[2], *image.shape[:2]), image.dtype)
    # Five times as fast as copying a transposed image with NumPy or PyTorch.
    cv2.split(image, list(planes))
    return planes


def decode_mask(data: bytes) -> np.ndarray:
    """Decodes a stored mask to [H, W, 1] uint8 or uint16."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        mask = np.array(image)
    # Older versions of Pillow return 16-bit images as 32-bit ones.
    return mask.astype(np.uint16 if mask.dtype != np.uint8 else np.uint8, copy=False)[..., np.newaxis]


def _decode_16_bits(data: bytes, channels: int) -> np.ndarray:
    """Decodes a PNG to [H, W, C] uint16; Pillow supports 16 bits only for gray images."""
    import cv2

    flags = {1: cv2.IMREAD_GRAYSCALE, 3: cv2.IMREAD_COLOR, 4: cv2.IMREAD_UNCHANGED}[channels]
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags | cv2.IMREAD_ANYDEPTH)
    if pixels is None:
        raise BuildError("a stored image does not decode; `beam-tfrecords verify` names it")
    if channels > 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if channels == 3 else cv2.COLOR_BGRA2RGBA)
    return pixels.reshape(*pixels.shape[:2], channels)
