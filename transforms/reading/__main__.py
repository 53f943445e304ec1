"""Reads a batch of every split and shows it: `python -m transforms.reading OUT` prints shapes and writes pictures."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw

from transforms import storage
from transforms.dataset import open_dataset
from transforms.reading.tf_data import load

CONTACT_SHEET = "first_batch.png"
_BATCH, _SIDE = 8, 224
_COLUMNS, _MARGIN, _CAPTION = 4, 12, 20


def main(path: str) -> None:
    """Prints a line per split, and writes the first batch of the first split as one picture into the dataset's folder.

    Args:
      path: the folder of a local dataset with images and labels.
    """
    dataset = open_dataset(path)
    names = dataset.manifest["class_names"]
    for number, split in enumerate(sorted({shard.split for shard in dataset.shards})):
        batch = next(load(path, split, batch_size=_BATCH, image_size=_SIDE).as_numpy_iterator())
        shapes = ", ".join(f"{name} {value.dtype.name}{list(value.shape)}" for name, value in sorted(batch.items()))
        print(f"a batch of {split}: {shapes}")
        if number == 0:
            file = storage.join(dataset.path, CONTACT_SHEET)
            draw_contact_sheet(batch["image"], [names[label] for label in batch["label"]]).save(file)
            print(f"its images: {file}")


def draw_contact_sheet(images: Any, labels: Sequence[str]) -> Image.Image:
    """Draws images in rows of four, each with its label below it.

    Args:
      images: [N, H, W, 3] uint8.
      labels: N texts.
    """
    _, height, width, _ = images.shape
    step_x, step_y = width + _MARGIN, height + _CAPTION + _MARGIN
    rows = -(-len(labels) // _COLUMNS)
    sheet = Image.new("RGB", (_COLUMNS * step_x + _MARGIN, rows * step_y + _MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (pixels, label) in enumerate(zip(images, labels, strict=True)):
        row, column = divmod(number, _COLUMNS)
        left, top = _MARGIN + column * step_x, _MARGIN + row * step_y
        sheet.paste(Image.fromarray(pixels), (left, top))
        draw.text((left + width // 2, top + height + _CAPTION // 2), label, fill="black", anchor="mm", font_size=16)
    return sheet


if __name__ == "__main__":
    main(sys.argv[1])
