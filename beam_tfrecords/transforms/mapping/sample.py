"""The sample that users' functions and pipelines receive."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

import numpy as np
import PIL.Image

from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import Codec, ImageSpec, Resample
from beam_tfrecords.transforms.images.masks import place_mask
from beam_tfrecords.transforms.images.resize import resize_array, resize_image
from beam_tfrecords.transforms.mapping.image_file import ImageFile, Later, MaskFile, is_file, read_only, value_of
from beam_tfrecords.transforms.mapping.sample_objects import SampleObjects
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Scalar, Value

if TYPE_CHECKING:
    from typing_extensions import Unpack

# The pixels of an image, maybe computed later.
Pixels: TypeAlias = "np.ndarray | Later"
# An image as a user may give it.
Image: TypeAlias = "Pixels | str | bytes | os.PathLike[str]"
# A label, or the value of a column, as a user may give it.
GivenValue: TypeAlias = "Scalar | np.generic | np.ndarray | Sequence[Scalar | np.generic]"


class SampleChanges(TypedDict, total=False):
    """Attributes that `Sample.replace` changes."""

    image: Image | None
    images: Mapping[str, Image]
    mask: Image | None
    label: GivenValue
    columns: Mapping[str, GivenValue]
    objects: SampleObjects | Later | None


class SampleParts(TypedDict):
    """Images by name, mask and objects of a sample; each is a `Later` until it is computed or replaced."""

    images: Mapping[str, Pixels]
    mask: Pixels | None
    objects: SampleObjects | Later | None


class Sample:
    """One input item: an image with its labels, or a row without an image.

    Samples are read-only; `replace` returns a new one. Arrays are read-only too: copy an image before changing its
    pixels in place.

    Attributes:
      key: stable name of the sample, which determines its order and its split.
      images: name -> image, each as `image`; the name of a single image is "image".
      image: first image, [H, W, C] uint8, or uint16 with `bit_depth=16`; C is 1, 3 or 4. With a layout of arrays,
        any C, and uint8, uint16 or float32. Decoded at the first access: upright, in sRGB, with the channels of the
        request, before any resize. None for a row without an image.
      mask: [H, W] uint8 or uint16, upright like its image: the number of a class or an object for each pixel; None if
        there is no mask.
      label: label in the source: a class name, a class index, a number, a list of these, or None.
      split: split of the sample, or None.
      columns: column -> value, from the sample's row or from the named groups of `label_pattern`.
      objects: annotated objects of the image; None if the source has none, or the layout does not need them.

    Args:
      key: a text, or a number, which becomes a text.
      label, split, columns, objects: as the attributes.
      image: [H, W] or [H, W, C] uint8, uint16 or float32, or a file given as its path, its URL or its bytes; for
        several images, use `images` instead. Only layouts of arrays store floats and other C than 1, 3 and 4.
      images: name -> image.
      mask: [H, W] uint8 or uint16 with the size of the image, or a file.

    Raises:
      ValueError: an image or a mask has another shape, or the key is empty.
      TypeError: an image, a mask or the key has another type.

    Example:
      >>> import numpy as np
      >>> from beam_tfrecords import Sample
      >>> sample = Sample("cat/1.jpg", image=np.zeros((4, 6, 3), np.uint8), label="cat")
      >>> sample.crop((0, 0, 3, 2)).image.shape
      (2, 3, 3)
      >>> sample.replace(label="dog")
      Sample('cat/1.jpg', label='dog', split=None, columns={})
    """

    __slots__ = ("_images", "_mask", "_objects", "columns", "key", "label", "split")

    key: str
    label: Value
    split: str | None
    columns: Mapping[str, Value]
    _images: Mapping[str, Pixels]
    _mask: Pixels | None
    _objects: SampleObjects | Later | None

    def __init__(
        self,
        key: str | int,
        *,
        image: Image | None = None,
        images: Mapping[str, Image] | None = None,
        mask: Image | None = None,
        label: GivenValue = None,
        split: str | None = None,
        columns: Mapping[str, GivenValue] | None = None,
        objects: SampleObjects | Later | None = None,
    ) -> None:
        if image is not None and images is not None:
            raise ValueError("expected `image` or `images`, not both")
        if isinstance(key, bool) or not isinstance(key, str | int | np.integer):
            raise TypeError(f"found a key of type {type(key).__name__}; expected a text or a whole number")
        if key == "":
            raise ValueError("found an empty key; expected a name of the sample that no other has")
        named = images if images is not None else {} if image is None else {IMAGE: image}
        pixels = {name: _check_pixels(one, name) for name, one in named.items()}
        values = {
            "key": str(key),
            "label": label,
            "split": split,
            "columns": dict(columns or {}),
            "_images": pixels,
            "_mask": mask if mask is None else _check_mask(mask, next(iter(pixels.values()), None)),
            "_objects": objects,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a sample is read-only; use `sample.replace({name}=…)`")

    def __reduce__(self) -> tuple[object, ...]:
        columns = dict(self.columns)
        make = functools.partial(Sample, self.key, label=self.label, split=self.split, columns=columns, **self.parts)
        return make, ()

    def __repr__(self) -> str:
        return f"Sample({self.key!r}, label={self.label!r}, split={self.split!r}, columns={self.columns!r})"

    @property
    def image(self) -> np.ndarray | None:
        """First image; see the class."""
        return next((value_of(pixels) for pixels in self._images.values()), None)

    @property
    def images(self) -> Mapping[str, np.ndarray]:
        """Name -> image; see the class."""
        return {name: value_of(pixels) for name, pixels in self._images.items()}

    @property
    def mask(self) -> np.ndarray | None:
        """Mask; see the class."""
        mask: np.ndarray | None = value_of(self._mask)
        return mask

    @property
    def objects(self) -> SampleObjects | None:
        """Annotated objects; see the class."""
        objects: SampleObjects | None = value_of(self._objects)
        return objects

    @property
    def parts(self) -> SampleParts:
        """Images, mask and objects without computing their values."""
        return {"images": self._images, "mask": self._mask, "objects": self._objects}

    def replace(self, **changes: Unpack[SampleChanges]) -> Sample:
        """Returns the sample with other values. A new image does not move the mask and the objects.

        Args:
          changes: `image`, `images`, `mask`, `label`, `columns` or `objects`.

        Raises:
          TypeError: another attribute was given; key and split cannot change.
        """
        known = SampleChanges.__annotations__
        wrong = next((name for name in changes if name not in known), None)
        if wrong is not None:
            raise TypeError(f"`{wrong}` cannot be replaced; expected {', '.join(known)}")
        if "image" in changes and "images" in changes:
            raise TypeError("expected `image` or `images`, not both")
        images: Mapping[str, Image] = changes.get("images", self._images)
        if "image" in changes:
            image, name = changes["image"], next(iter(images), IMAGE)
            others = {one: pixels for one, pixels in images.items() if one != name}
            images = others if image is None else {name: image, **others}
        return Sample(
            self.key,
            images=images,
            mask=changes.get("mask", self._mask),
            label=changes.get("label", self.label),
            split=self.split,
            columns=changes.get("columns", self.columns),
            objects=changes.get("objects", self._objects),
        )

    def crop(self, box: Sequence[float]) -> Sample:
        """Returns the sample with its image cropped, and with the mask and the objects moved accordingly.

        Objects outside the crop are left out, and boxes that reach beyond it are cut. Other images stay.

        Args:
          box: xmin, ymin, xmax and ymax in pixels from the top left corner of the image, (0, 0); the crop contains
            every pixel that the box touches.

        Raises:
          ValueError: the box has no size or contains no pixel of the image, or there is no image.
        """
        image, mask, objects = self._image(), self.mask, self.objects
        height, width = image.shape[:2]
        left, top, right, bottom = (float(side) for side in box)
        if not all(map(math.isfinite, (left, top, right, bottom))) or not (left < right and top < bottom):
            raise ValueError(f"crop: the box {tuple(box)} has no size; expected xmin, ymin, xmax and ymax in pixels")
        first, low = max(0, math.floor(left)), max(0, math.floor(top))
        last, high = min(width, math.ceil(right)), min(height, math.ceil(bottom))
        if first >= last or low >= high:
            raise ValueError(f"crop: the box {tuple(box)} lies outside the image of {width} x {height} pixels")
        geometry = Geometry.unchanged(high - low, last - first)
        return self.replace(
            image=image[low:high, first:last],
            mask=None if mask is None else mask[low:high, first:last],
            objects=None if objects is None else objects.move(geometry, left=first, top=low),
        )

    def resize(self, height: int, width: int, *, resample: str = "bicubic") -> Sample:
        """Returns the sample with its image resized, and with the mask and the objects scaled accordingly.

        Each pixel of the new mask has the number of the nearest old pixel. Other images stay.

        Args:
          height, width: new size in pixels.
          resample: as the setting.

        Raises:
          ValueError: a side is below 1, the image would have more pixels than `max_pixels` allows by default, the
            filter does not exist, or there is no image.
        """
        if height < 1 or width < 1 or height * width > ImageSpec.max_pixels:
            expected = f"a height and a width of 1 pixel or more, and at most {ImageSpec.max_pixels:,} pixels"
            raise ValueError(f"resize: {height} x {width}: expected {expected}")
        image, mask, objects = self._image(), self.mask, self.objects
        geometry = Geometry(image.shape[0], image.shape[1], 1, (height, width), (height, width))
        return self.replace(
            image=_resize(image, height, width, Resample(resample)),
            mask=None if mask is None else place_mask(mask, geometry),
            objects=None if objects is None else objects.move(geometry),
        )

    def _image(self) -> np.ndarray:
        image = self.image
        if image is None:
            raise ValueError(f"{self.key}: found no image; expected a sample with one")
        return image


def _resize(pixels: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    channels = pixels.shape[2]
    if pixels.dtype != np.uint8 or channels not in (1, 3, 4):
        return resize_array(pixels, height, width, resample, has_alpha=True)
    image = PIL.Image.fromarray(np.ascontiguousarray(pixels[..., 0] if channels == 1 else pixels))
    return np.asarray(resize_image(image, height, width, resample, codec=Codec.FAST))


def _check_pixels(pixels: Image, name: str) -> Pixels:
    if is_file(pixels):
        return ImageFile(pixels)
    if isinstance(pixels, Later):
        return pixels
    found = _check_array(pixels, name, np.uint8, np.uint16, np.float32)
    if found.ndim == 2:
        found = found[..., np.newaxis]
    if found.ndim != 3 or not found.size:
        raise ValueError(f"{name}: found the shape {found.shape}; expected [H, W, C]")
    return found


def _check_mask(mask: Image, image: Pixels | None) -> Pixels:
    if is_file(mask):
        return MaskFile(mask, image=image if isinstance(image, ImageFile) else None)
    if isinstance(mask, Later):
        return mask
    found = _check_array(mask, "mask", np.uint8, np.uint16)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"mask: found the shape {found.shape}; expected [H, W]")
    return found


def _check_array(pixels: object, name: str, *kinds: type) -> np.ndarray:
    if not isinstance(pixels, np.ndarray):
        raise TypeError(f"{name}: found {type(pixels).__name__}; expected a NumPy array, a path, a URL or bytes")
    if pixels.dtype not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name}: found an array of {pixels.dtype}; expected {expected}")
    return read_only(pixels)
