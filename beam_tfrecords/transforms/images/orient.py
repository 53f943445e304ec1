"""Reads and applies the EXIF orientation of an image, and plans its geometry."""

from __future__ import annotations

from PIL import ExifTags, Image

from beam_tfrecords.geometry.geometry import Geometry, plan
from beam_tfrecords.transforms.images.decode_errors import DECODER_ERRORS, check_pixels
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Metadata, Resample

_TRANSPOSE = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def orientation_of(image: Image.Image, *, may_decode: bool = True) -> int:
    """Returns the orientation in EXIF or XMP, 1 to 8; 1 if there is none or it cannot be read.

    Args:
      image: an opened or decoded image.
      may_decode: whether to decode the pixels of a PNG if needed, to find metadata after them.
    """
    if type(image) is Image.Image and not image.info:  # an image without metadata
        return 1
    try:
        exif = image.getexif() if may_decode else Image.Image.getexif(image)
        value = exif.get(ExifTags.Base.Orientation)
    except DECODER_ERRORS:  # a malformed block; viewers ignore it too
        return 1
    return value if value in _TRANSPOSE else 1


def orient(image: Image.Image, orientation: int) -> Image.Image:
    """Turns an image upright, as `PIL.ImageOps.exif_transpose` does."""
    method = _TRANSPOSE.get(orientation)
    return image if method is None else image.transpose(method)


def orientation_for(image: Image.Image, spec: ImageSpec, *, may_decode: bool = True) -> int:
    """Returns the EXIF orientation that a request applies; 1 if it ignores orientations."""
    return orientation_of(image, may_decode=may_decode) if spec.orientation is Metadata.APPLY else 1


def plan_geometry(height: int, width: int, *, orientation: int, spec: ImageSpec) -> Geometry:
    """Plans the sizes of one image, as `geometry.plan` does.

    Raises:
      SampleError: reason `too_many_pixels` if the resized image or the canvas would exceed `max_pixels`.
    """
    geometry = plan(
        height,
        width,
        spec.image_size,
        spec.resize_mode.value,
        orientation=orientation,
        upscale=spec.upscale,
        is_nearest=spec.resample is Resample.NEAREST,
    )
    check_pixels(*geometry.resized, spec.max_pixels)
    check_pixels(*geometry.final, spec.max_pixels)
    return geometry
