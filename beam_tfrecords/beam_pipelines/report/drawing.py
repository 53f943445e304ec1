"""Draws stored images for people, with the boxes and masks of objects."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageColor, ImageDraw, ImageFont

from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.fields import Stored
from beam_tfrecords.features.stored_objects import StoredObjects
from beam_tfrecords.reading.decoding import decode_mask

# Bright colors that stand out from photos: red, green, blue, yellow, violet, turquoise, orange, pink.
COLORS = ("#ff453a", "#32d74b", "#3d8bff", "#ffd60a", "#bf5af2", "#40c8e0", "#ff9f0a", "#ff6eb4")
# Smaller pictures with boxes are enlarged until their longer side has about this many pixels.
_LEAST_SIDE = 640
_MOST_TEXT = 40
# Opacity of a mask over its object, of 255.
_COVERAGE = 110
# Pillow's own font has only English letters.
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf", "arial.ttf")


@dataclasses.dataclass(frozen=True)
class Box:
    """The box of an object in a stored image.

    Attributes:
      sides: xmin, ymin, xmax and ymax, relative to the image's width and height.
      name: name of its class; "" if the record has none.
      color: color of its class, in the syntax of CSS and Pillow.
      mask: a PNG; b"" if the record has none.
    """

    sides: tuple[float, float, float, float]
    name: str
    color: str
    mask: bytes = b""

    @property
    def area(self) -> float:
        xmin, ymin, xmax, ymax = self.sides
        return (xmax - xmin) * (ymax - ymin)


def find_boxes(dataset: StoredDataset, example: Mapping[str, Any]) -> list[Box]:
    """Returns the boxes of a record, the largest first, so that no box covers a smaller one.

    Args:
      dataset: the dataset.
      example: the record, from `Dataset.records` with `form="features"`.
    """
    of_objects = StoredObjects.of(dataset.layout.features)
    if not of_objects.has_boxes:
        return []
    sides = of_objects.boxes(example)
    classes = of_objects.classes(example, dataset.class_names)
    names = ["?" if name is None else name for name in classes] or [""] * len(sides)
    numbers = {name: number for number, name in enumerate(dataset.class_names)}
    masks = of_objects.masks(example) or [b""] * len(sides)
    boxes = [
        Box(tuple(box), name, COLORS[numbers.get(name, 0) % len(COLORS)], mask)
        for box, name, mask in zip(sides.tolist(), names, masks, strict=True)
    ]
    return sorted(boxes, key=lambda box: -box.area)


def from_pixels(pixels: np.ndarray) -> Image.Image:
    """Converts [H, W, C] uint8 or uint16 pixels to an image with 8 bits per channel.

    Shows the first three channels of floats and of any other number of channels, from their smallest to their largest
    number.
    """
    if pixels.dtype == np.float32 or pixels.shape[2] not in (1, 3, 4):
        shown = pixels[..., : 3 if pixels.shape[2] >= 3 else 1].astype(np.float64)
        numbers = shown[np.isfinite(shown)]
        low, high = (numbers.min(), numbers.max()) if numbers.size else (0.0, 1.0)
        pixels = (np.nan_to_num(shown - low, posinf=0, neginf=0).clip(0) / max(high - low, 1e-9) * 255).astype(np.uint8)
    pixels = pixels if pixels.dtype == np.uint8 else (pixels >> 8).astype(np.uint8)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def put_side_by_side(images: Sequence[Image.Image]) -> Image.Image:
    """Joins several images to one picture, from left to right."""
    if len(images) == 1:
        return images[0]
    whole = Image.new("RGB", (sum(image.width for image in images), max(image.height for image in images)), "white")
    for number, image in enumerate(images):
        whole.paste(image, (sum(before.width for before in images[:number]), 0))
    return whole


def flatten(image: Image.Image) -> Image.Image:
    """Converts an image to a mode that JPEG supports; transparent areas become white."""
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image if image.mode == "L" else image.convert("RGB")


def draw_mask(image: Image.Image, dataset: StoredDataset, example: Mapping[str, Any]) -> Image.Image:
    """Colors an image where its mask is not 0, with one color per index.

    Args:
      image: the image.
      dataset: the dataset.
      example: the record, from `Dataset.records` with `form="features"`.
    """
    for feature in dataset.layout.features:
        if feature.kind.stored is Stored.MASK:
            numbers = decode_mask(example[feature.name])[..., 0]
            rows, columns = (
                np.arange(size) * whole // size for size, whole in zip(image.size[::-1], numbers.shape, strict=True)
            )
            numbers = numbers[rows][:, columns]
            palette = np.array([ImageColor.getrgb(color) for color in COLORS], np.uint8)
            colors = Image.fromarray(palette[(numbers - 1) % len(COLORS)])
            image = image.convert("RGB")
            image.paste(colors, mask=Image.fromarray(np.where(numbers, _COVERAGE, 0).astype(np.uint8)))
    return image


def draw_masks(image: Image.Image, boxes: Sequence[Box]) -> Image.Image:
    """Colors an image inside the masks of its objects."""
    for box in boxes:
        if box.mask:
            image = image.convert("RGB")
            with Image.open(io.BytesIO(box.mask)) as mask:
                covered = mask.resize(image.size, Image.Resampling.NEAREST).point([0] + [_COVERAGE] * 255)
            image.paste(box.color, mask=covered)
    return image


def draw_boxes(image: Image.Image, boxes: Sequence[Box]) -> Image.Image:
    """Draws masks, boxes and class names on an image; enlarges a small image without interpolation."""
    if not boxes:
        return image
    image = draw_masks(image, boxes)
    times = max(1, round(_LEAST_SIDE / max(image.size)))
    drawn = image.convert("RGB").resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(drawn)
    line = max(2, round(max(drawn.size) / 320))
    font = _find_font(max(12, max(drawn.size) // 45))
    for box in boxes:
        left, top, right, bottom = (
            round(share * (size - 1)) for share, size in zip(box.sides, drawn.size * 2, strict=True)
        )
        # The dark edge is visible on bright pictures, the color on dark ones.
        draw.rectangle([left - 1, top - 1, right + 1, bottom + 1], outline="black", width=line + 2)
        draw.rectangle([left, top, right, bottom], outline=box.color, width=line)
    for box in boxes:
        _write_name(draw, box, font, line)
    return drawn


def _find_font(size: int) -> Any:
    for name in _FONTS:
        try:
            return ImageFont.truetype(name, size)
        except OSError:
            pass
    return ImageFont.load_default(size)


def _write_name(draw: ImageDraw.ImageDraw, box: Box, font: Any, line: int) -> None:
    """Writes a name above its box, or inside if the box is at the top of the image."""
    name = escape(box.name)[:_MOST_TEXT]
    if not name:
        return
    width, height = draw.im.size
    left, top = box.sides[0] * width, box.sides[1] * height
    x1, y1, x2, y2 = draw.textbbox((0, 0), name, font=font, anchor="lt")
    text_width, text_height = x2 - x1 + 2 * line, y2 - y1 + 2 * line
    left = max(0, min(left, width - text_width))
    top = top - text_height if top >= text_height else top
    draw.rectangle([left, top, left + text_width, top + text_height], fill=box.color)
    draw.text((left + line, top + line), name, fill="black", font=font, anchor="lt")
