"""Converts the pixels that Pillow decodes to the pixels that are stored."""

from __future__ import annotations

from PIL import Image

from beam_tfrecords.transforms.images.color import to_channels, to_srgb
from beam_tfrecords.transforms.images.fast_resize import fast_resize
from beam_tfrecords.transforms.images.geometry import Geometry, plan_geometry
from beam_tfrecords.transforms.images.image_spec import Codec, ImageSpec, Metadata, Resample
from beam_tfrecords.transforms.images.memory import check_memory, converting_memory
from beam_tfrecords.transforms.images.orient import orient, orientation_for
from beam_tfrecords.transforms.images.resize import FILTERS, resize
from beam_tfrecords.transforms.images.shrink import shrink_large, strip_factor


def convert_pixels(
    image: Image.Image, spec: ImageSpec, *, channels: int, file_size: int
) -> tuple[Image.Image, Geometry]:
    """Turns a decoded image upright, converts it to sRGB and resizes it; returns the image and its geometry.

    Args:
      channels: number of channels of the result, whose mode is L, RGB or RGBA.
      file_size: size of the file in bytes.

    Raises:
      SampleError: converting it takes more memory than allowed.
    """

    def convert(part: Image.Image) -> Image.Image:
        return to_channels(to_srgb(part, use_profile=spec.color_profile is Metadata.APPLY), channels)

    # Pillow has already applied the orientation tag of a TIFF.
    orientation = orientation_for(image, spec)
    geometry = plan_geometry(image.height, image.width, orientation=orientation, spec=spec)
    filtered = spec.resample not in (Resample.NEAREST, Resample.BOX)
    size = geometry.resized_unturned[::-1]
    factor = strip_factor(image, size) if spec.codec is Codec.FAST and filtered else 0
    needed = file_size + converting_memory(image, spec, geometry, in_strips=factor > 0)
    check_memory(needed, spec.max_image_memory, height=image.height, width=image.width)
    if factor:
        small = shrink_large(image, factor=factor, convert=convert, size=size, resample=FILTERS[spec.resample])
        return resize(orient(small, orientation), geometry, spec.resample), geometry
    image = orient(convert(image), orientation)
    resized = geometry.resized_height, geometry.resized_width
    if spec.codec is Codec.FAST and image.mode in ("L", "RGB") and image.size != resized[::-1]:
        image = fast_resize(image, *resized, spec.resample)
    return resize(image, geometry, spec.resample), geometry
