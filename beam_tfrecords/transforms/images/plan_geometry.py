"""Plans the geometry of an image as a request asks."""

from __future__ import annotations

from beam_tfrecords.geometry.geometry import Geometry, plan
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Resample


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
