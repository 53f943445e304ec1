"""Pillow's antialiased resize in integer arithmetic, by the Rust crate fast_image_resize.

The crate rounds the weights of Pillow's filters to 16 bits (32 for 16-bit images) and sums integers, so SSE4.1, AVX2,
NEON and its portable code give the same pixels. It takes a sixth of Pillow's time.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
from cykooz_resizer import CropBox, FilterType, ImageData, PixelType, ResizeAlg, ResizeOptions, Resizer
from PIL import Image

from beam_tfrecords.transforms.images.image_spec import Resample
from beam_tfrecords.transforms.images.resize import FILTERS

# Pixels. Larger images are not copied for the crate, since a copy would double their memory.
_LARGEST_COPY = 1 << 24
# Pixels. A resizer keeps the memory of its largest image, so each larger image gets a new resizer.
_LARGEST_KEPT = 1 << 21
_ALGORITHMS: Mapping[Resample, ResizeAlg] = {
    Resample.BICUBIC: ResizeAlg.convolution(FilterType.catmull_rom),
    Resample.BILINEAR: ResizeAlg.convolution(FilterType.bilinear),
    Resample.LANCZOS: ResizeAlg.convolution(FilterType.lanczos3),
    Resample.BOX: ResizeAlg.convolution(FilterType.box),
}
_PIXEL_TYPES: Mapping[tuple[type, int], PixelType] = {
    (np.uint8, 1): PixelType.U8,
    (np.uint8, 3): PixelType.U8x3,
    (np.uint16, 1): PixelType.U16,
    (np.uint16, 3): PixelType.U16x3,
    (np.uint16, 4): PixelType.U16x4,
}


class _Resizers(threading.local):
    """One resizer per thread, because a resizer is locked while it works."""

    def __init__(self) -> None:
        self.kept = Resizer()


_RESIZERS = _Resizers()


def fast_resize(image: Image.Image, height: int, width: int, resample: Resample) -> Image.Image:
    """Resizes an L or RGB image; the pixels nearly equal those of `image.resize((width, height), filter)`."""
    if image.height * image.width > _LARGEST_COPY or not _is_filtered(resample):
        gap = 2.0 if _is_filtered(resample) else None
        return image.resize((width, height), FILTERS[resample], reducing_gap=gap)
    shape = (image.height, image.width) if image.mode == "L" else (image.height, image.width, 3)
    resized = _resize(image.tobytes(), np.uint8, shape, (height, width), resample)
    return Image.frombytes(image.mode, (width, height), resized)


def fast_resize_array(
    pixels: np.ndarray, height: int, width: int, *, scale: tuple[float, float], resample: Resample
) -> np.ndarray:
    """Resizes nearly as Pillow does, without a shift if the source is a fraction of a pixel too large.

    Args:
      pixels: [H, W] or [H, W, 3] uint8.
      scale: source pixels per result pixel, (vertical, horizontal). Usually H / height and W / width; less if the last
        row or column reaches beyond the edge, as in a JPEG decoded at a fraction that does not divide its size.

    Returns:
      [height, width] or [height, width, 3] uint8, read-only.
    """
    box = (0, 0, min(width * scale[1], pixels.shape[1]), min(height * scale[0], pixels.shape[0]))
    if not _is_filtered(resample):
        return np.asarray(Image.fromarray(pixels).resize((width, height), FILTERS[resample], box=box))
    resized = _resize(pixels.tobytes(), np.uint8, pixels.shape, (height, width), resample, CropBox(*box))
    return np.frombuffer(resized, np.uint8).reshape(height, width, *pixels.shape[2:])


def resize_wide_array(pixels: np.ndarray, height: int, width: int, resample: Resample) -> np.ndarray:
    """Resizes an image of 16 bits per channel.

    Args:
      pixels: [H, W], [H, W, 3] or [H, W, 4] uint16. No channel is treated as transparency.
      resample: any filter except NEAREST.

    Returns:
      [height, width], [height, width, 3] or [height, width, 4] uint16, read-only.
    """
    resized = _resize(pixels.tobytes(), np.uint16, pixels.shape, (height, width), resample)
    return np.frombuffer(resized, np.uint16).reshape(height, width, *pixels.shape[2:])


def _is_filtered(resample: Resample) -> bool:
    """Whether to use the crate. Pillow's own filters NEAREST and BOX are exact and as fast."""
    return resample not in (Resample.NEAREST, Resample.BOX)


def _resize(
    pixels: bytes,
    kind: type,
    shape: tuple[int, ...],
    size: tuple[int, int],
    resample: Resample,
    box: CropBox | None = None,
) -> bytes:
    """Resizes an image to `size`, its new height and width."""
    rows, columns, *channels = shape
    pixel_type = _PIXEL_TYPES[kind, channels[0] if channels else 1]
    resized = ImageData(size[1], size[0], pixel_type)
    resizer = _RESIZERS.kept if rows * columns <= _LARGEST_KEPT else Resizer()
    options = ResizeOptions(_ALGORITHMS[resample], use_alpha=False, crop_box=box)
    resizer.resize(ImageData(columns, rows, pixel_type, pixels), resized, options)
    return resized.get_buffer()
