"""Reads features and pixels from serialized examples, without TensorFlow. Codecs are imported on first use."""

from __future__ import annotations

import abc
import dataclasses
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from beam_tfrecords.dataset.manifest import StoredImages
from beam_tfrecords.errors import BuildError
from beam_tfrecords.features import example_pb2
from beam_tfrecords.features.fields import HEIGHT, SHAPE_FIELD, WIDTH, ClassValue, Stored
from beam_tfrecords.features.layouts import Feature, decoded_names
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.reading.resizing import Resize, decoded_size, move_objects, resize_mask, resize_pixels

_DTYPES: dict[str, Any] = {"int64": np.int64, "float": np.float32}
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_COLORS = {1: "GRAY", 3: "RGB", 4: "RGBA"}
Placement = TypeVar("Placement")


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
        size = self._pixels.size
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
            self._pixels.decode(example, row)
        if self.classes is not None:
            for feature in self.features:
                if feature.class_value is not None:
                    example[feature.name] = _renumber(example[feature.name], feature.class_value, self.classes)
        if self.has_text:
            for name, several, text in self._texts:
                example[name] = list(map(text, example[name])) if several else text(example[name])
        return example

    @functools.cached_property
    def _pixels(self) -> NumpyDecoder:
        return NumpyDecoder(self.features, self.images, self.resize)

    @functools.cached_property
    def _texts(self) -> list[tuple[str, bool, Callable[[bytes], str | bytes]]]:
        """Name of each feature with text, whether it has several values, and what makes text of one."""
        texts = (one for one in self.features if one.type == "bytes" and one.kind.stored is Stored.VALUES)
        return [(one.name, one.several, _column_text if one.column else _text) for one in texts]

    @functools.cached_property
    def _kinds(self) -> list[tuple[Feature, str, str, Any, int]]:
        """Feature, its name, its list in an example, the type of its numbers, and the length of a row."""
        return [(one, one.name, f"{one.type}_list", _DTYPES.get(one.type), one.kind.row) for one in self.features]

    def _parse(self, data: bytes) -> dict[str, Any]:
        found = example_pb2.Example.FromString(data).features.feature
        example: dict[str, Any] = {}
        for feature, name, kind, dtype, row in self._kinds:
            values = getattr(found[name], kind).value
            if feature.several:
                value: Any = list(values) if dtype is None else np.array(values, dtype)
                example[name] = value if row == 1 else value.reshape(-1, row)
            elif len(values) != (feature.length or 1):
                raise BuildError(
                    f"feature {name!r} has {len(values)} values of type {feature.type}; expected {feature.length or 1}"
                )
            elif feature.length:
                example[name] = np.array(values, dtype)
            else:
                example[name] = values[0] if dtype is None else dtype(values[0])
        return example


@dataclasses.dataclass(frozen=True)
class PixelDecoder(abc.ABC, Generic[Placement]):
    """Decodes the images and masks of examples to the arrays of a library.

    A placement says where the stored image is in the decoded one.

    Attributes:
      features: features of the examples.
      stored: how images are stored.
      resize: size of decoded images; None for the stored size.
    """

    features: tuple[Feature, ...]
    stored: StoredImages
    resize: Resize | None

    def decode(self, example: dict[str, Any], row: Any = None) -> None:
        """Replaces the bytes of images and masks with pixels, under `decoded_names`; moves objects with their image.

        Args:
          example: name of a feature -> value.
          row: an array that the image may be written to.
        """
        images, lists, masks, object_masks = self._stored_in
        for name in lists:
            example[name] = self.images(example[name], example)
        placed = None
        for name, has_objects in images:
            example[name], found = self.image(example[name], example, row if has_objects else None)
            placed = found if has_objects else placed
        for name in masks:
            example[name] = self.mask(example[name])
        if placed is not None:
            for name in object_masks:
                example[name] = self.object_masks(example[name], placed)
            if self.resize:
                self.move(example, placed)
        for name, short in self._renamed.items():
            example[short] = example.pop(name)

    @abc.abstractmethod
    def image(self, data: Any, example: Mapping[str, Any], row: Any = None) -> tuple[Any, Placement]:
        """Returns an image in the requested size, and its placement; `example` says the shape of raw pixels."""

    @abc.abstractmethod
    def images(self, data: Any, example: Mapping[str, Any]) -> Any:
        """Returns a list of images."""

    @abc.abstractmethod
    def mask(self, data: Any) -> Any:
        """Returns the mask of an image, [H, W, 1]."""

    @abc.abstractmethod
    def object_masks(self, data: Any, placed: Placement) -> Any:
        """Returns the masks of the objects in an image, [n, H, W]."""

    @abc.abstractmethod
    def move(self, example: dict[str, Any], placed: Placement) -> None:
        """Moves objects and points with their resized image."""

    @property
    def size(self) -> tuple[int, int] | None:
        """(height, width) of every decoded image; None if they differ."""
        stored = self.stored.size
        if self.resize is None:
            return stored
        return self.resize.place(*stored).final if stored else self.resize.fixed_size

    @functools.cached_property
    def objects(self) -> StoredObjects:
        """The features of objects."""
        return StoredObjects.of(self.features)

    def raw_shape(self, example: Mapping[str, Any]) -> Any:
        """Returns height, width and channels of raw pixels, of which one is -1 if it is unknown.

        Raises:
          ValueError: the layout does not say the size.
        """
        if self.stored.size and self.stored.channels:
            return (*self.stored.size, self.stored.channels)
        names = {feature.field: feature.name for feature in self.features}
        if SHAPE_FIELD in names:
            return example[names[SHAPE_FIELD]]
        missing = [field for field in (HEIGHT, WIDTH) if field not in names]
        if missing:
            raise ValueError(f"raw images of different sizes need {' and '.join(missing)} in the layout to be decoded")
        return example[names[HEIGHT]], example[names[WIDTH]], self.stored.channels or -1

    @functools.cached_property
    def _renamed(self) -> Mapping[str, str]:
        return decoded_names(self.features)

    @functools.cached_property
    def _stored_in(self) -> tuple[list[tuple[str, bool]], list[str], list[str], list[str]]:
        """Features of images, each with whether objects belong to it; of lists of images; of masks; of objects' masks.

        A layout with objects has one such image.
        """
        stored = {kind: [one for one in self.features if one.kind.stored is kind] for kind in Stored}
        images = [(one.name, one.is_image) for one in stored[Stored.IMAGE] if not one.several]
        lists = [one.name for one in stored[Stored.IMAGE] if one.several]
        masks, object_masks = ([one.name for one in stored[kind]] for kind in (Stored.MASK, Stored.OBJECT_MASKS))
        return images, lists, masks, object_masks


class NumpyDecoder(PixelDecoder[Geometry]):
    """Decodes stored images and masks to NumPy arrays; the placement is the geometry of the stored image."""

    def image(
        self, data: bytes, example: Mapping[str, Any], row: np.ndarray | None = None
    ) -> tuple[np.ndarray, Geometry]:
        if not self.resize:
            pixels = self._decode_stored(data, example, row)
            return pixels, Geometry.unchanged(pixels.shape[0], pixels.shape[1])
        if self._is_jpeg(data):
            import simplejpeg

            height, width, _, _ = simplejpeg.decode_jpeg_header(data)
            placed = self.resize.place(height, width)
            least_height, least_width = decoded_size(placed)
            pixels = simplejpeg.decode_jpeg(
                data, _COLORS[self.stored.channels or 3], min_height=least_height, min_width=least_width, min_factor=2
            )
        else:
            pixels = self._decode_stored(data, example)
            placed = self.resize.place(*pixels.shape[:2])
        resized = resize_pixels(pixels, placed)
        if row is None:
            return resized, placed
        row[...] = resized
        return row, placed

    def images(self, data: Sequence[bytes], example: Mapping[str, Any]) -> list[np.ndarray]:
        return [self.image(one, example)[0] for one in data]

    def mask(self, data: bytes) -> np.ndarray:
        mask = decode_mask(data)
        return resize_mask(mask, self.resize.place(*mask.shape[:2])) if self.resize else mask

    def object_masks(self, data: Sequence[bytes], placed: Geometry) -> np.ndarray:
        masks = [resize_mask(decode_mask(one), placed) for one in data]
        return np.array(masks, np.uint8).reshape(-1, *placed.final)

    def move(self, example: dict[str, Any], placed: Geometry) -> None:
        move_objects(example, self._vectors, self.objects, placed)

    @functools.cached_property
    def _vectors(self) -> list[Feature]:
        """The vectors of points that move with the image."""
        return [one for one in self.features if one.moves]

    def _is_jpeg(self, data: bytes) -> bool:
        """Whether the fast decoder can decode the image."""
        return self.stored.encoding != "raw" and data.startswith(b"\xff\xd8\xff") and self.stored.channels != 4

    def _decode_stored(self, data: bytes, example: Mapping[str, Any], row: np.ndarray | None = None) -> np.ndarray:
        if self.stored.encoding == "raw":
            return np.frombuffer(bytearray(data), self.stored.dtype).reshape(self.raw_shape(example))
        channels = self.stored.channels or 3
        if self.stored.bit_depth == 16:
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
        raise BuildError("a stored image cannot be decoded; `beam-tfrecords verify` names it")
    if channels > 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB if channels == 3 else cv2.COLOR_BGRA2RGBA)
    return pixels.reshape(*pixels.shape[:2], channels)
