"""Masks: the number of a class or an object for each pixel of an image. Resizing never averages these numbers."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image, ImageChops

from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.geometry.geometry import Geometry
from beam_tfrecords.transforms.images.decode import OpenedImage, decode_image, open_image
from beam_tfrecords.transforms.images.formats import png_depth
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.images.memory import check_memory, mask_memory
from beam_tfrecords.transforms.images.resize import fit, pick_nearest, turn
from beam_tfrecords.transforms.mask_colors import MaskColors, show_color

# EXIF orientation -> its inverse; all others are their own inverse.
_BACK = {6: 8, 8: 6}
_LARGEST = 65535
# Modes of images that have a color for each pixel.
_COLORED = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
# Number of colors that a message names.
_MOST = 3


def place_mask(mask: np.ndarray, geometry: Geometry, *, padding: int = 0) -> np.ndarray:
    """Turns, resizes, crops and pads a mask like its image. Each stored pixel gets the number of the nearest pixel.

    With `resample=nearest`, mask and image pick the same pixels.

    Args:
      mask: [H, W] uint8 or uint16, of the size of the upright image or of the image in the file. If both have this
        size, the mask belongs to the upright image.
      geometry: geometry of the image.
      padding: number for padded pixels.

    Returns:
      [H, W] of the same type.

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
        raise invalid_mask(
            f"the mask has {mask.shape[1]} x {mask.shape[0]} pixels (width x height), and its image {width} x {height}"
        )
    if geometry.is_nearest:
        return fit(pick_nearest(mask, *geometry.resized), geometry, padding=padding)
    rows, columns = (
        # The source pixel that contains the center of a resized pixel, in integers to avoid rounding errors.
        (2 * np.arange(resized) + 1) * size // (2 * resized)
        for size, resized in zip(mask.shape, geometry.resized, strict=True)
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
    return _store(mask, place_mask(mask, geometry, padding=spec.mask_padding), spec)


def store_drawn(drawn: np.ndarray, geometry: Geometry, spec: ImageSpec) -> bytes:
    """Returns the PNG of a mask that was drawn in the stored image.

    Args:
      drawn: [H, W] its numbers, 0 for padded pixels.
      geometry: geometry of its image.
      spec: the request.

    Raises:
      SampleError: a number needs more bits.
    """
    blank = np.zeros(geometry.resized, np.uint16)
    return _store(drawn, np.maximum(drawn, fit(blank, geometry, padding=spec.mask_padding)), spec)


def _store(mask: np.ndarray, placed: np.ndarray, spec: ImageSpec) -> bytes:
    largest = int(mask.max())
    if largest >= 1 << spec.mask_bit_depth:
        raise invalid_mask(f"the mask has the number {largest}, and 8 bits hold up to 255; use `mask_bit_depth=16`")
    file = io.BytesIO()
    Image.fromarray(placed.astype(f"uint{spec.mask_bit_depth}")).save(file, "PNG")
    return file.getvalue()


def read_mask(data: bytes, spec: ImageSpec) -> np.ndarray:
    """Reads the numbers in the file of a mask: unchanged values of 1 to 16 bits, or indices of a palette.

    `mask_colors` and `mask_values` replace colors or these numbers by others. Ignores metadata about orientation and
    color.

    Returns:
      [H, W] uint8 or uint16.

    Raises:
      SampleError: the file cannot be decoded, its format changes numbers, or it has colors or numbers that the request
        does not name.
    """
    file = _decode(data, spec)
    if spec.mask_colors:
        return _look_up(_pack_colors(file), spec.mask_numbers, show_color, "color", "mask_colors")
    values = _read_values(file)
    if not spec.mask_values:
        return values
    return _look_up(values, spec.mask_values, str, "value", "mask_values")


def count_numbers(data: bytes, spec: ImageSpec) -> tuple[dict[int, int], dict[int, int]]:
    """Returns number -> pixels of a mask, and the color in its palette -> number.

    Raises:
      SampleError: as `read_mask`.
    """
    numbers, pixels = np.unique(read_mask(data, spec), return_counts=True)
    found = dict(zip(numbers.tolist(), pixels.tolist(), strict=True))
    image = open_image(data, spec).image
    palette = bytes(image.getpalette("RGB") or ()) if image.mode == "P" and not spec.mask_numbers else b""
    colors = {number: palette[3 * number : 3 * number + 3] for number in found}
    return found, {int.from_bytes(color, "little"): number for number, color in colors.items() if color}


def read_numbers(data: bytes, spec: ImageSpec) -> np.ndarray:
    """Reads the ids in a panoptic image of COCO, [H, W] int32: red + 256 * green + 65536 * blue, or the only channel.

    Raises:
      SampleError: the file cannot be decoded, or its format changes numbers.
    """
    file = _decode(data, spec, is_mapped=True)
    is_grey = len(file.image.getbands()) == 1
    return (_read_values if is_grey else _pack_colors)(file).astype(np.int32)


def may_have_colors(data: bytes, spec: ImageSpec) -> bool:
    """Whether the file of a mask has several channels, as its header says."""
    try:
        return len(open_image(data, spec).image.getbands()) > 1
    except SampleError:
        return False


def find_tables(data: bytes, spec: ImageSpec, tables: Mapping[str, MaskColors]) -> tuple[int, list[str]] | None:
    """Returns the number of a mask's colors, and the tables that have them all; None for a mask of numbers.

    Raises:
      SampleError: the mask cannot be read, or no table could give its pixels numbers.
    """
    file = _decode(data, spec)
    if len(file.image.getbands()) == 1 or _is_grey(file.image):
        return None
    colors = _pack_colors(file)
    return len(np.unique(colors)), [name for name, table in tables.items() if _table(table.numbers).take(colors).all()]


def _decode(data: bytes, spec: ImageSpec, *, is_mapped: bool = False) -> OpenedImage:
    """Decodes the file of a mask."""
    try:
        file = decode_image(data, spec)
    except SampleError as error:
        raise error.about("mask") from error
    if file.format == "jpeg":
        raise invalid_mask(
            "the mask is a JPEG file, which does not keep numbers; save it as PNG, from what it was made of"
        )
    needed = mask_memory(file.image, is_mapped=is_mapped or bool(spec.mask_numbers))
    check_memory(len(data) + needed, spec, height=file.image.height, width=file.image.width)
    return file


def _is_grey(image: Image.Image) -> bool:
    """Whether the channels of a mask are equal, and none of its pixels is transparent."""
    number, *others = image.split()
    is_opaque = image.mode not in ("LA", "PA", "RGBA") or others.pop().getextrema() == (255, 255)
    return is_opaque and all(ImageChops.difference(number, other).getbbox() is None for other in others)


def _read_values(file: OpenedImage) -> np.ndarray:
    """Returns the numbers of a decoded mask, [H, W] uint8 or uint16."""
    image = file.image
    if len(image.getbands()) > 1:
        if file.is_16_bit or not _is_grey(image):
            raise invalid_mask(
                f"the mask has colors ({image.mode}), and which number each stands for is not known; expected one "
                "channel, or a palette, or a file with the classes of the colors in `mask_colors`"
            )
        return np.asarray(image.getchannel(0))
    values = np.asarray(image)
    if values.dtype == bool:
        return values.astype(np.uint8)
    if file.format == "png" and image.mode == "L" and png_depth(file.data) < 8:
        # Pillow stretches 2 and 4 bits to 8.
        return values // np.uint8(255 // ((1 << png_depth(file.data)) - 1))
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > _LARGEST:
        raise invalid_mask(f"the mask has numbers other than 0 to {_LARGEST} (mode {image.mode})")
    return values.astype(np.uint16)


def _pack_colors(file: OpenedImage) -> np.ndarray:
    """Returns the colors of a decoded mask as in `MaskColors`, [H, W] uint32."""
    image: Image.Image = file.image
    if file.is_16_bit or image.mode not in _COLORED:
        raise invalid_mask(f"the mask has no colors of 8 bits (mode {image.mode}), for `mask_colors` to name")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() != (255, 255):
            raise invalid_mask(
                "the mask has transparent pixels, whose class is not known; save it without transparency"
            )
    packed = np.frombuffer(image.convert("RGB").tobytes("raw", "RGBX"), "<u4") & np.uint32(0xFFFFFF)
    return packed.reshape(image.height, image.width)


def _look_up(
    values: np.ndarray, numbers: tuple[tuple[int, int], ...], show: Callable[[int], str], what: str, setting: str
) -> np.ndarray:
    """Returns the number in the record for each value of a mask.

    Raises:
      SampleError: a value has no number.
    """
    found = _table(numbers).take(values)
    if found.min() == 0:
        unknown, counts = np.unique(values[found == 0], return_counts=True)
        first = np.argsort(-counts, kind="stable")[:_MOST]
        shown = " and ".join(f"{show(int(unknown[one]))} in {counts[one]:,}" for one in first)
        more = f" and {len(unknown) - _MOST:,} others" if len(unknown) > _MOST else ""
        raise invalid_mask(f"{what} {shown}{more} of {values.size:,} pixels; `{setting}` has none like it")
    found -= 1
    return found.astype(np.uint8) if max(number for _, number in numbers) < 256 else found.astype(np.uint16)


@functools.lru_cache(maxsize=4)
def _table(numbers: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Returns a table of number + 1 by value; 0 for values without a number.

    The system gives memory only to the pages of colors that are set, so the table takes far less than its 32 or 64 MiB.
    """
    values, targets = np.array(numbers).T
    table = np.zeros(1 << 24, np.uint16 if targets.max() < _LARGEST else np.uint32)
    table[values] = targets + 1
    return table


def invalid_mask(detail: str) -> SampleError:
    """Returns the error for a sample with an invalid mask."""
    return SampleError(Stage.LABEL, FailureReason.INVALID_MASK, detail)
