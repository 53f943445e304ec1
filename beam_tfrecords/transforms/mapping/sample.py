"""The sample that users' functions and pipelines receive."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import PIL.Image

from beam_tfrecords.transforms.images.fast_resize import fast_resize
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Resample
from beam_tfrecords.transforms.images.masks import place_mask
from beam_tfrecords.transforms.images.resize import FILTERS
from beam_tfrecords.transforms.images.sixteen_bit import resize_16_bit
from beam_tfrecords.transforms.mapping.image_file import ImageFile, MaskFile, is_file
from beam_tfrecords.transforms.mapping.later import Later, read_only, value_of
from beam_tfrecords.transforms.mapping.sample_objects import SampleObjects
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, Value

# Attributes that `replace` accepts.
_CHANGED = ("image", "images", "mask", "label", "columns", "objects")


# The pixels of an image, maybe computed later.
Pixels: TypeAlias = "np.ndarray | Later"
# An image as a user may give it.
Image: TypeAlias = "Pixels | str | bytes | os.PathLike[str]"


class Sample:
    """One input item: an image with its labels, or a row without an image.

    Samples are read-only; `replace` returns a new one. Arrays are read-only too: copy an image before changing its
    pixels in place.

    Attributes:
      key: stable name of the sample, which determines its order and its split.
      images: name -> image, each as `image`; the name of a single image is "image".
      image: first image, [H, W, C] uint8, or uint16 with `bit_depth=16`; C is 1, 3 or 4. Decoded at the first access:
        upright, in sRGB, with the channels of the request, before any resize. None for a row without an image.
      mask: [H, W] uint8 or uint16, upright like its image: the number of a class or an object for each pixel; None if
        there is no mask.
      label: label in the source: a class name, a class index, a number, a list of these, or None.
      split: split of the sample, or None.
      columns: column -> value, from the sample's row or from the named groups of `label_pattern`.
      objects: annotated objects of the image; None if the source has none, or the layout does not need them.

    Args:
      key: a text, or a number, which becomes a text.
      label, split, columns, objects: as the attributes.
      image: [H, W] or [H, W, C] uint8 or uint16, or a file given as its path, its URL or its bytes; for several images,
        use `images` instead.
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
    columns: Mapping[str, Any]
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
        label: Any = None,
        split: str | None = None,
        columns: Mapping[str, Any] | None = None,
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

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a sample is read-only; use `sample.replace({name}=…)`")

    def __reduce__(self) -> tuple[Any, ...]:
        images, mask, objects = self._images, self._mask, self._objects
        return _restore, (self.key, images, mask, self.label, self.split, dict(self.columns), objects)

    def __repr__(self) -> str:
        return f"Sample({self.key!r}, label={self.label!r}, split={self.split!r}, columns={self.columns!r})"

    @property
    def image(self) -> Any:
        """First image; see the class."""
        return next((value_of(pixels) for pixels in self._images.values()), None)

    @property
    def images(self) -> Mapping[str, np.ndarray]:
        """Name -> image; see the class."""
        return {name: value_of(pixels) for name, pixels in self._images.items()}

    @property
    def mask(self) -> Any:
        """Mask; see the class."""
        return value_of(self._mask)

    @property
    def objects(self) -> Any:
        """Annotated objects; see the class."""
        return value_of(self._objects)

    @property
    def parts(self) -> Mapping[str, Any]:
        """Images by name, mask and objects, without computing values: each is a `Later` until it is replaced."""
        return {"images": self._images, "mask": self._mask, "objects": self._objects}

    def replace(self, **changes: Any) -> Sample:
        """Returns the sample with other values. A new image does not move the mask and the objects.

        Args:
          changes: `image`, `images`, `mask`, `label`, `columns` or `objects`.

        Raises:
          TypeError: another attribute was given; key and split cannot change.
        """
        wrong = next((name for name in changes if name not in _CHANGED), None)
        if wrong is not None:
            raise TypeError(f"`{wrong}` cannot be replaced; expected {', '.join(_CHANGED)}")
        images = self._images
        if "image" in changes:
            images = {**images, next(iter(images), IMAGE): changes.pop("image")}
        values = {
            "images": images,
            "mask": self._mask,
            "label": self.label,
            "columns": self.columns,
            "objects": self._objects,
        }
        return Sample(self.key, split=self.split, **{**values, **changes})

    def crop(self, box: Sequence[float]) -> Sample:
        """Returns the sample with its image cropped, and with the mask and the objects moved accordingly.

        Objects outside the crop are left out, and boxes that reach beyond it are cut. Other images stay.

        Args:
          box: xmin, ymin, xmax and ymax in pixels from the top left corner of the image, (0, 0); the crop contains
            every pixel that the box touches.

        Raises:
          ValueError: the box has no size, or contains no pixel of the image.
        """
        height, width = self.image.shape[:2]
        left, top, right, bottom = (float(side) for side in box)
        if not all(map(math.isfinite, (left, top, right, bottom))) or not (left < right and top < bottom):
            raise ValueError(f"crop: the box {tuple(box)} has no size; expected xmin, ymin, xmax and ymax in pixels")
        first, low = max(0, math.floor(left)), max(0, math.floor(top))
        last, high = min(width, math.ceil(right)), min(height, math.ceil(bottom))
        if first >= last or low >= high:
            raise ValueError(f"crop: the box {tuple(box)} lies outside the image of {width} x {height} pixels")
        geometry = Geometry.unchanged(high - low, last - first)
        pixels = self.image[low:high, first:last]
        mask = None if self._mask is None else self.mask[low:high, first:last]
        objects = self.objects.move(geometry, left=first, top=low) if self._objects is not None else None
        return self.replace(image=pixels, mask=mask, objects=objects)

    def resize(self, height: int, width: int, *, resample: str = "bicubic") -> Sample:
        """Returns the sample with its image resized, and with the mask and the objects scaled accordingly.

        Each pixel of the new mask has the number of the nearest old pixel. Other images stay.

        Args:
          height, width: new size in pixels.
          resample: as the setting.

        Raises:
          ValueError: a side is below 1, the image would have more pixels than `max_pixels` allows by default, or the
            filter does not exist.
        """
        if height < 1 or width < 1 or height * width > ImageSpec.max_pixels:
            expected = f"a height and a width of 1 pixel or more, and at most {ImageSpec.max_pixels:,} pixels"
            raise ValueError(f"resize: {height} x {width}: expected {expected}")
        old_height, old_width = self.image.shape[:2]
        geometry = Geometry(old_height, old_width, 1, height, width, height, width)
        pixels = _resize(self.image, geometry, Resample(resample))
        mask = None if self._mask is None else place_mask(self.mask, geometry)
        objects = self.objects.move(geometry) if self._objects is not None else None
        return self.replace(image=pixels, mask=mask, objects=objects)


def _restore(key: str, images: Any, mask: Any, label: Any, split: str | None, columns: Any, objects: Any) -> Sample:
    return Sample(key, images=images, mask=mask, label=label, split=split, columns=columns, objects=objects)


def _resize(pixels: np.ndarray, geometry: Geometry, resample: Resample) -> np.ndarray:
    plain = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    if pixels.dtype == np.uint16:
        return resize_16_bit(plain, geometry, resample, has_alpha=True)
    image, size = PIL.Image.fromarray(np.ascontiguousarray(plain)), (geometry.final_width, geometry.final_height)
    if image.size == size:
        return pixels
    if image.mode in ("L", "RGB"):
        return np.asarray(fast_resize(image, geometry.final_height, geometry.final_width, resample))
    return np.asarray(image.resize(size, FILTERS[resample]))


def _check_pixels(pixels: Any, name: str) -> Pixels:
    if is_file(pixels):
        return ImageFile(pixels)
    if isinstance(pixels, Later):
        return pixels
    found = _check_array(pixels, name)
    if found.ndim == 2:
        found = found[..., np.newaxis]
    if found.ndim != 3 or found.shape[2] not in (1, 3, 4) or not found.size:
        raise ValueError(f"{name}: found the shape {found.shape}; expected [H, W, C] with 1, 3 or 4 channels")
    return found


def _check_mask(mask: Any, image: Pixels | None) -> Pixels:
    if is_file(mask):
        return MaskFile(mask, image=image if isinstance(image, ImageFile) else None)
    if isinstance(mask, Later):
        return mask
    found = _check_array(mask, "mask")
    if found.ndim != 2 or not found.size:
        raise ValueError(f"mask: found the shape {found.shape}; expected [H, W]")
    return found


def _check_array(pixels: Any, name: str) -> np.ndarray:
    if not isinstance(pixels, np.ndarray):
        raise TypeError(f"{name}: found {type(pixels).__name__}; expected a NumPy array, a path, a URL or bytes")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise TypeError(f"{name}: found an array of {pixels.dtype}; expected uint8 or uint16")
    return read_only(pixels)
