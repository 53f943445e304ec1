"""Small pictures by their description, and descriptions of pictures: `red 8x6`."""

from __future__ import annotations

import io
from pathlib import PurePath

import numpy as np
from PIL import Image

COLORS = {
    "red": (230, 30, 30), "green": (30, 160, 30), "blue": (30, 30, 230), "yellow": (240, 230, 20),
    "cyan": (20, 220, 230), "magenta": (230, 20, 220), "orange": (240, 140, 10), "purple": (110, 20, 130),
    "brown": (120, 70, 30), "white": (255, 255, 255), "gray": (128, 128, 128), "black": (0, 0, 0),
}  # fmt: skip
_FORMATS = {".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF"}


def picture(text: str, name: str = "x.png") -> bytes:
    """Returns the file of a picture.

    Args:
      text: `red 8x6` or `#e61e1e 8x6` (width x height); `red 8x6 turned` is stored as 6x8 pixels with an orientation of
        EXIF; `mask 8x6 1=0,0,4,3` has the value 1 in a box and 0 elsewhere, in 16 bits if values need them; `mask 8x6
        blue=0,0,4,3 #ff0000=4,3,8,6` has colors in boxes, and red elsewhere; `palette` instead of `mask` has a palette;
        no two pixels of `photo 8x6` are alike; `scene 16x16 3` has many colors, which the number decides, `scene 16x16
        3 dark` the same ones darkened; `numbers 4x4 -9 2000` has int32 in a TIFF file, from -9 to 2000; `frames 8x6 3`
        has three frames; `broken` is no picture, `empty` has no bytes.
      name: of the file; its extension says the format.
    """
    if text in ("broken", "empty"):
        return b"no picture" if text == "broken" else b""
    color, size, *rest = text.split()
    width, height = map(int, size.split("x"))
    more: list[Image.Image] = []
    if color in ("mask", "palette"):
        image, exif = _mask(width, height, rest, is_palette=color == "palette"), None
    elif color == "photo":
        image, exif = Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)), None
    elif color == "scene":
        blocks = np.random.default_rng(int(rest[0])).integers(0, 256, (4, 4, 3), np.uint8) // (1 + 2 * ("dark" in rest))
        image, exif = Image.fromarray(blocks).resize((width, height)), None
    elif color == "frames":
        image, exif = Image.new("RGB", (width, height), color_of("red")), None
        more = [Image.new("RGB", (width, height), (number, 0, 0)) for number in range(1, int(rest[0]))]
    elif color == "numbers":
        values = np.linspace(*map(float, rest), width * height).astype(np.int32)
        image, exif = Image.fromarray(values.reshape(height, width)), None
    else:
        exif = Image.Exif()
        if "turned" in rest:
            exif[0x0112], width, height = 6, height, width
        image = Image.new("RGB", (width, height), color_of(color))
    suffix = PurePath(name).suffix.lower()
    content = io.BytesIO()
    # Without compression, pictures of one size have files of one size.
    options = {"compress_level": 0} if suffix == ".png" else {}
    frames = {"save_all": True, "append_images": more} if more else {}
    image.save(content, _FORMATS.get(suffix, suffix[1:]), **({"exif": exif} if exif else {}), **frames, **options)
    return content.getvalue()


def color_of(name: str) -> tuple[int, ...]:
    """Returns red, green and blue of a color: a name, or `#ff0000`."""
    return COLORS.get(name) or tuple(bytes.fromhex(name[1:]))


def _mask(width: int, height: int, boxes: list[str], *, is_palette: bool) -> Image.Image:
    colors, numbers = [*COLORS.values()], np.zeros((height, width), int)
    for value, _, box in (word.partition("=") for word in boxes):
        left, top, right, bottom = map(int, box.split(","))
        if not value.isdecimal():
            color = color_of(value)
            colors += [] if color in colors else [color]
            value = colors.index(color)
        numbers[top:bottom, left:right] = int(value)
    if is_palette:
        image = Image.fromarray(numbers.astype(np.uint8))
        image.putpalette(bytes(np.array(colors, np.uint8)))
        return image
    if not all(word[0].isdecimal() for word in boxes):
        return Image.fromarray(np.array(colors, np.uint8)[numbers])
    return Image.fromarray(numbers.astype(np.uint16 if numbers.max() > 255 else np.uint8))


def describe_picture(data: bytes) -> str:
    """Returns the description of a picture in a record: `red 8x6`, or `mixed 8x6` for one of several colors."""
    with Image.open(io.BytesIO(data)) as image:
        return describe_pixels(np.asarray(image.convert("RGB")))


def describe_pixels(pixels: np.ndarray) -> str:
    """Returns the description of pixels, [H, W, 3] uint8 or [H, W]."""
    pixels = np.broadcast_to(pixels.reshape(*pixels.shape[:2], -1), (*pixels.shape[:2], 3)).astype(int)
    color = pixels.mean(axis=(0, 1))
    # JPEG changes a color by a few steps.
    is_even = abs(pixels - color).max() < 12
    nearest = min(COLORS, key=lambda name: float(np.abs(np.subtract(COLORS[name], color)).sum()))
    return f"{nearest if is_even else 'mixed'} {pixels.shape[1]}x{pixels.shape[0]}"


def describe_mask(data: bytes) -> str:
    """Returns the description of a mask: `1=0,0,4,3` for each value but 0, with the box around its pixels.

    A number of pixels follows if they do not fill the box; `empty` stands for a mask without any.
    """
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image)
    words = []
    for value in np.unique(pixels[pixels > 0]):
        rows, columns = np.nonzero(pixels == value)
        box = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
        is_full = len(rows) == (box[2] - box[0]) * (box[3] - box[1])
        words.append(f"{value}={','.join(map(str, box))}" + ("" if is_full else f" ({len(rows)} pixels)"))
    return " ".join(words) or "empty"
