"""Which size an image ends with, and Pillow's own way there."""

from __future__ import annotations

import dataclasses

from PIL import Image

from transforms.images.spec import ImageSpec, Resample, ResizeMode

FILTERS = {
    Resample.BICUBIC: Image.Resampling.BICUBIC,
    Resample.BILINEAR: Image.Resampling.BILINEAR,
    Resample.LANCZOS: Image.Resampling.LANCZOS,
    Resample.BOX: Image.Resampling.BOX,
    Resample.NEAREST: Image.Resampling.NEAREST,
}


@dataclasses.dataclass(frozen=True)
class SizePlan:
    """The way from one size to another, all in pixels.

    Attributes:
      height, width: what the whole image is resized to.
      final_height, final_width: what is then cut out of its middle, or the black canvas that it is
        laid on the middle of. An odd pixel goes to the bottom and the right.
    """

    height: int
    width: int
    final_height: int
    final_width: int


def plan_size(height: int, width: int, spec: ImageSpec) -> SizePlan:
    """What becomes of an image of height x width.

    The side that decides fits exactly, the other one is rounded to the nearest pixel (halves up), at
    least 1. Without upscaling no side of the picture grows: SHORTER, LONGER, PAD and CROP then leave a
    smaller picture's scale at 1, EXACT limits each side by itself, CROP cuts no more than there is, and
    PAD's canvas keeps its size.
    """
    if spec.size is None:
        return SizePlan(height, width, height, width)
    target_height, target_width = spec.size
    if spec.resize_mode is ResizeMode.EXACT:
        if not spec.upscale:
            target_height, target_width = min(target_height, height), min(target_width, width)
        return SizePlan(target_height, target_width, target_height, target_width)

    cover = spec.resize_mode in (ResizeMode.SHORTER, ResizeMode.CROP)
    # Compares target_height / height with target_width / width, in whole numbers.
    height_needs_more = target_height * width > target_width * height
    if cover == height_needs_more:
        new_height, new_width = target_height, _scale(width, target_height, height)
    else:
        new_height, new_width = _scale(height, target_width, width), target_width
    if not spec.upscale and (new_height > height or new_width > width):
        new_height, new_width = height, width

    if spec.resize_mode is ResizeMode.CROP:
        return SizePlan(new_height, new_width, min(target_height, new_height), min(target_width, new_width))
    if spec.resize_mode is ResizeMode.PAD:
        return SizePlan(new_height, new_width, target_height, target_width)
    return SizePlan(new_height, new_width, new_height, new_width)


def resize(image: Image.Image, plan: SizePlan, resample: Resample) -> Image.Image:
    """An L, RGB or RGBA picture by the plan, with Pillow's filter."""
    if image.size != (plan.width, plan.height):
        image = image.resize((plan.width, plan.height), FILTERS[resample])
    if plan.final_height < plan.height or plan.final_width < plan.width:
        top, left = (plan.height - plan.final_height) // 2, (plan.width - plan.final_width) // 2
        return image.crop((left, top, left + plan.final_width, top + plan.final_height))
    if plan.final_height > plan.height or plan.final_width > plan.width:
        top, left = (plan.final_height - plan.height) // 2, (plan.final_width - plan.width) // 2
        canvas = Image.new(image.mode, (plan.final_width, plan.final_height))
        canvas.paste(image, (left, top))
        return canvas
    return image


def _scale(length: int, numerator: int, denominator: int) -> int:
    return max(1, (2 * length * numerator + denominator) // (2 * denominator))
