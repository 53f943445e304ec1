"""Masks: the number of a class or an object for each pixel of an image. Resizing never averages these numbers."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageChops

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.images.arrays import fit, pick_nearest, turn
from beam_tfrecords.transforms.images.bit_depth import is_16_bit
from beam_tfrecords.transforms.images.decode import load_pixels, open_image
from beam_tfrecords.transforms.images.formats import png_depth
from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.memory import check_memory, mask_memory
from beam_tfrecords.transforms.images.tiff import spare_channels

# EXIF orientation -> its inverse; all others are their own inverse.
_BACK = {6: 8, 8: 6}
_LARGEST = 65535


def place_mask(mask: np.ndarray, geometry: Geometry, *, padding: int = 0) -> np.ndarray:
    """Turns, resizes, crops and pads a mask like its image. Each stored pixel gets the number of the nearest pixel.

    With `resample=nearest`, mask and image pick the same pixels.

    Args:
      mask: [H, W] uint8 or uint16, of the size of the upright image or of the image in the file. If both have this
        size, the mask belongs to the upright image.
      geometry: geometry of the image.
      padding: number for padded pixels.

    Returns:
      [final_height, final_width] of the same type.

    Raises:
      SampleError: the sizes of mask and image differ.
    """
    if mask.shape == geometry.upright_size and not geometry.drawn_in_file:
        # A kept file is stored unturned, so the mask is turned back.
        mask = turn(mask, _BACK.get(geometry.kept_orientation, geometry.kept_orientation))
    elif mask.shape == (geometry.height, geometry.width):
        # The annotation program ignored the EXIF orientation.
        mask = turn(mask, geometry.orientation)
    else:
        height, width = geometry.upright_size
        raise _invalid(
            f"the mask has {mask.shape[1]} x {mask.shape[0]} pixels (width x height), and its image {width} x {height}"
        )
    if geometry.is_nearest:
        return fit(pick_nearest(mask, geometry), geometry, padding=padding)
    rows, columns = (
        # The source pixel that contains the centre of a resized pixel, in integers to avoid rounding errors.
        (2 * np.arange(resized) + 1) * size // (2 * resized)
        for size, resized in zip(mask.shape, (geometry.resized_height, geometry.resized_width), strict=True)
    )
    return fit(mask[rows][:, columns], geometry, padding=padding)


def convert_mask(data: bytes | None, geometry: Geometry, spec: ImageSpec) -> bytes:
    """Converts a mask to the PNG that is stored.

    Args:
      data: the file of the mask; None if there is none.
      geometry: geometry of its image.
      spec: the request.

    Raises:
      SampleError: reason `mask_missing`, `invalid_mask`, or a reason why the file cannot be decoded.
    """
    if data is None:
        raise SampleError(Stage.LABEL, FailureReason.MASK_MISSING, "the image has no mask")
    mask = read_mask(data, spec)
    largest = int(mask.max())
    if largest >= 1 << spec.mask_bit_depth:
        raise _invalid(f"the mask has the number {largest}, and 8 bits hold up to 255; use `mask_bit_depth=16`")
    file = io.BytesIO()
    placed = place_mask(mask, geometry, padding=spec.mask_padding)
    Image.fromarray(placed.astype(f"uint{spec.mask_bit_depth}")).save(file, "PNG")
    return file.getvalue()


def read_mask(data: bytes, spec: ImageSpec) -> np.ndarray:
    """Reads the numbers in the file of a mask: unchanged values of 1 to 16 bits, or indices of a palette.

    Ignores metadata about orientation and color.

    Returns:
      [H, W] uint8 or uint16.

    Raises:
      SampleError: the file cannot be decoded, has colors, or its format changes numbers.
    """
    try:
        name, opened = open_image(data, spec)
        image = load_pixels(data, name, opened, spec)
    except SampleError as error:
        raise error.about("mask") from error
    if name == "jpeg":
        raise _invalid("the mask is a JPEG file, which does not keep numbers; save it as PNG, from what it was made of")
    if spare_channels(image):
        raise _invalid("the mask has several channels, and which of them has the numbers is not known")
    needed = len(data) + mask_memory(image)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    if len(image.getbands()) > 1:
        number, *others = image.split()
        is_opaque = image.mode not in ("LA", "PA", "RGBA") or others.pop().getextrema() == (255, 255)
        is_grey = all(ImageChops.difference(number, other).getbbox() is None for other in others)
        if is_16_bit(data, name, image) or not is_opaque or not is_grey:
            raise _invalid(
                f"the mask has colors ({image.mode}), and which number each stands for is not known; expected one "
                "channel, or a palette"
            )
        return np.asarray(number)
    values = np.asarray(image)
    if values.dtype == bool:
        return values.astype(np.uint8)
    if name == "png" and image.mode == "L" and png_depth(data) < 8:
        # Pillow stretches 2 and 4 bits to 8.
        return values // np.uint8(255 // ((1 << png_depth(data)) - 1))
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > _LARGEST:
        raise _invalid(f"the mask has numbers other than 0 to {_LARGEST} (mode {image.mode})")
    return values.astype(np.uint16)


def _invalid(detail: str) -> SampleError:
    return SampleError(Stage.LABEL, FailureReason.INVALID_MASK, detail)
