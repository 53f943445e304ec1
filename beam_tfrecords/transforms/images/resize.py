"""Resizes images with Pillow."""

from __future__ import annotations

from PIL import Image

from beam_tfrecords.transforms.images.geometry import Geometry
from beam_tfrecords.transforms.images.image_spec import Resample

FILTERS = {resample: Image.Resampling[resample.name] for resample in Resample}


def resize(image: Image.Image, geometry: Geometry, resample: Resample) -> Image.Image:
    """Resizes an upright L, RGB or RGBA image with Pillow's filter if its size differs, then crops or pads it."""
    size = geometry.resized_width, geometry.resized_height
    if image.size != size:
        image = image.resize(size, FILTERS[resample])
    final = geometry.final_width, geometry.final_height
    if final == size:
        return image
    top, left = geometry.offset
    if final[0] > size[0] or final[1] > size[1]:
        canvas = Image.new(image.mode, final)
        canvas.paste(image, (-left, -top))
        return canvas
    return image.crop((left, top, left + final[0], top + final[1]))
